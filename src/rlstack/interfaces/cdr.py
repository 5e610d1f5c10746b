"""Read single fields of a serialized message, ten times as fast as deserializing all of it.

An Odometry has two covariance matrices that a controller never reads. A reader is compiled for each message class and
set of fields; it skips the others. It reads plain little-endian CDR, which ROS 2 writes on x86-64 and ARM; data in
another encoding is encoded again first.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rlstack.errors import MalformedMessage, UserError

_HEADER = 4
"""Bytes before the data (the encapsulation); alignment counts from its end."""
_SIZES = {
    "boolean": ("?", 1),
    "octet": ("B", 1),
    "int8": ("b", 1),
    "uint8": ("B", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "uint64": ("Q", 8),
    "float": ("f", 4),
    "double": ("d", 8),
}

Leaf = tuple[str, str, str, int]
"""Dotted path, kind (``number``, ``numbers``, ``list``, ``text``, ``texts``), struct code, count."""


def readable(data: bytes) -> bool:
    """Return whether serialized data is plain little-endian CDR."""
    return data[:2] == b"\x00\x01"


def plain(data: bytes, message_class: Any) -> bytes:
    """Return serialized data as plain little-endian CDR; the middleware encodes other data again."""
    if readable(data):
        return data
    from rclpy.serialization import serialize_message

    return bytes(serialize_message(deserialize(data, message_class)))


def deserialize(data: bytes, message_class: Any) -> Any:
    """Return the message of serialized data; raise :class:`MalformedMessage` if it has none of this class."""
    from rclpy.impl.implementation_singleton import rclpy_implementation
    from rclpy.serialization import deserialize_message

    try:
        return deserialize_message(data, message_class)
    except rclpy_implementation.RMWError as error:
        raise _malformed(message_class, len(data)) from error


def _malformed(message_class: Any, size: int) -> MalformedMessage:
    return MalformedMessage(f"its {size} bytes are no {message_class.__name__}")


def leaves(message_class: Any, prefix: str = "") -> Iterator[Leaf]:
    """Yield the primitive fields of a message class in the order of serialization."""
    for (name, _), kind in zip(message_class.get_fields_and_field_types().items(), message_class.SLOT_TYPES):
        path = f"{prefix}{name}"
        described = type(kind).__name__
        if described == "NamespacedType":
            module = importlib.import_module(".".join(kind.namespaces))
            yield from leaves(getattr(module, kind.name), f"{path}.")
        elif described == "BasicType":
            yield (path, "number", _SIZES[kind.typename][0], 1)
        elif described == "UnboundedString":
            yield (path, "text", "", 1)
        else:
            item = type(kind.value_type).__name__
            if described == "Array" and item == "BasicType":
                yield (path, "numbers", _SIZES[kind.value_type.typename][0], kind.size)
            elif described == "UnboundedSequence" and item == "BasicType":
                yield (path, "list", _SIZES[kind.value_type.typename][0], 0)
            elif described == "UnboundedSequence" and item == "UnboundedString":
                yield (path, "texts", "", 0)
            else:
                raise UserError(f"{message_class.__name__}.{path}: a {described} of {item} cannot be read serialized.")


def compile_reader(message_class: Any, wanted: Sequence[str]) -> Callable[[bytes], tuple[Any, ...]]:
    """Return a function from serialized data to the values of the ``wanted`` primitive fields, in that order.

    Numbers are int or float, lists of numbers are array views of the data, texts are str, and lists of texts are
    their bytes (equal bytes are equal lists; :func:`texts` decodes them).

    Args:
        message_class: The message's class.
        wanted: Dotted paths of primitive fields, such as ``header.stamp.sec``.

    Raises:
        UserError: A field does not exist or is not primitive.

    The returned function raises :class:`MalformedMessage` if the data ends before these fields do.
    """
    left = set(wanted)
    lines = ["    data = plain(data, kind)", f"    o = {_HEADER}"]
    scope: dict[str, Any] = {"plain": plain, "kind": message_class}
    scope |= {"frombuffer": np.frombuffer, "length": struct.Struct("<I").unpack_from}
    run: list[Leaf] = []

    def flush() -> None:
        """Write the code for consecutive numbers of one size: one alignment, one read."""
        if not run:
            return
        size = struct.calcsize("<" + run[0][2])
        lines.append(f"    o = ((o - {_HEADER} + {size - 1}) // {size}) * {size} + {_HEADER}")
        code = "".join(c if k == "number" and p in wanted else f"{n * size}x" for p, k, c, n in run)
        names = [f"v{wanted.index(p)}" for p, k, c, n in run if k == "number" and p in wanted]
        if names:
            scope[f"s{len(lines)}"] = struct.Struct("<" + code).unpack_from
            lines.append(f"    {', '.join(names)}, = s{len(lines)}(data, o)")
        start = 0
        for path, kind, c, count in run:
            if kind == "numbers" and path in wanted:
                lines.append(f"    v{wanted.index(path)} = frombuffer(data, '<{c}', {count}, o + {start})")
            start += count * size
        lines.append(f"    o += {start}")
        run.clear()

    for path, kind, code, count in leaves(message_class):
        if not left:
            break
        if kind in ("number", "numbers"):
            if run and struct.calcsize("<" + run[0][2]) != struct.calcsize("<" + code):
                flush()
            run.append((path, kind, code, count))
            left.discard(path)
            continue
        flush()
        lines += [f"    o = ((o - {_HEADER} + 3) // 4) * 4 + {_HEADER}", "    n, = length(data, o)", "    o += 4"]
        name = f"v{wanted.index(path)}" if path in wanted else ""
        if kind == "text":
            lines.append("    if n > len(data) - o: raise ValueError")
            lines += [f"    {name} = data[o:o + n - 1].decode()"] if name else []
            lines.append("    o += n")
        elif kind == "texts":
            lines += ["    b = o - 4", "    for _ in range(n):"]
            lines += [f"        o = ((o - {_HEADER} + 3) // 4) * 4 + {_HEADER}", "        o += 4 + length(data, o)[0]"]
            lines += ["    if o > len(data): raise ValueError"]
            lines += [f"    {name} = data[b:o]"] if name else []
        else:
            size = struct.calcsize("<" + code)
            lines.append(f"    if n: o = ((o - {_HEADER} + {size - 1}) // {size}) * {size} + {_HEADER}")
            lines += [f"    {name} = frombuffer(data, '<{code}', n, o)"] if name else []
            lines.append(f"    o += n * {size}")
        left.discard(path)
    flush()
    if left:
        raise UserError(f"{message_class.__name__} has no primitive field '{sorted(left)[0]}'.")
    lines.append(f"    return ({', '.join(f'v{i}' for i in range(len(wanted)))},)")
    scope |= {"failures": (struct.error, ValueError), "malformed": _malformed}
    body = ["def read(data):", "  try:", *lines]
    body += ["  except failures as error:", "    raise malformed(kind, len(data)) from error"]
    exec("\n".join(body), scope)
    reader: Callable[[bytes], tuple[Any, ...]] = scope["read"]
    return reader


def texts(data: bytes) -> list[str]:
    """Return the texts in the bytes that :func:`compile_reader` returns for a list of texts.

    Raises:
        MalformedMessage: They are no texts in UTF-8.
    """
    try:
        return _texts(data)
    except (struct.error, ValueError) as error:
        raise MalformedMessage("its names are no texts in UTF-8") from error


def _texts(data: bytes) -> list[str]:
    (count,) = struct.unpack_from("<I", data, 0)
    found, o = [], 4
    for _ in range(count):
        o = (o + 3) // 4 * 4  # the list's own start is aligned to 4
        (n,) = struct.unpack_from("<I", data, o)
        found.append(data[o + 4 : o + 4 + n - 1].decode())
        o += 4 + n
    return found
