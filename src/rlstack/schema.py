"""Strict loading of plain data (YAML, JSON) into frozen dataclasses; errors name key, value and what is allowed.

Robot files, recipes and policy metadata are all loaded with it, so a misspelt key or a value out of
range gives the same error everywhere.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from rlstack.errors import UserError, unknown_name

T = TypeVar("T")


def value(
    default: Any = dataclasses.MISSING,
    *,
    unit: str = "",
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    one_of: tuple[Any, ...] | None = None,
    text: str = "",
) -> Any:
    """Declare a dataclass field with its unit and allowed values, which apply to each number of a tuple.

    ``text`` describes it where a user can set it by name.
    """
    allowed = {"unit": unit, "above": above, "at_least": at_least, "at_most": at_most, "one_of": one_of, "text": text}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=allowed)
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=allowed)
    return dataclasses.field(default=default, metadata=allowed)


@dataclasses.dataclass(frozen=True)
class Removed:
    """A former key of a dataclass, which lists such keys in its ``removed_keys``.

    Args:
        usual: Its former default, which files may still give: it means nothing.
        instead: What to do in place of any other value, as the end of a sentence.
    """

    usual: Any
    instead: str


def load(cls: type[T], data: Any, where: str) -> T:
    """Build the dataclass ``cls`` from a mapping; refuse unknown keys, missing keys, wrong types and ranges.

    What a nested mapping omits is as in its field's default, which may differ from the nested class's own. A key that
    was removed is left out if it has its former default, and else refused; see :class:`Removed`.

    Args:
        cls: A dataclass whose annotations are numbers, strings, booleans, tuples, dictionaries, literals,
            optionals or other dataclasses.
        data: The parsed mapping.
        where: The source's name in errors, such as a file's path.
    """
    return typing.cast(T, _load_dataclass(cls, data, where, ""))


def in_order(ranges: Any, *names: str) -> None:
    """Raise ``ValueError`` if a dataclass's range, in these fields or any pair, begins above its end."""
    for name in names or [name for name, entry in vars(ranges).items() if isinstance(entry, tuple)]:
        low, high = getattr(ranges, name)
        if low > high:
            raise ValueError(f"{name}: {[low, high]} is not allowed: the lower end must come first.")


def check_boxes(limits: Any) -> None:
    """Raise ``ValueError`` if a dataclass's box, in fields ``..._min_m`` and ``..._max_m``, is empty."""
    for name, low in vars(limits).items():
        if name.endswith("_min_m"):
            top = name.replace("_min_m", "_max_m")
            high = getattr(limits, top)
            if any(a >= b for a, b in zip(low, high)):
                raise ValueError(
                    f"{top}: {list(high)} is not allowed: every number must be above {name} ({list(low)})."
                )


def check(instance: Any, where: str) -> None:
    """Refuse an instance with values that its fields do not allow (after changes on the command line)."""
    load(type(instance), to_data(instance), where)


def to_data(instance: Any) -> Any:
    """Return plain dictionaries, lists and scalars for a dataclass instance, ready for YAML or JSON."""
    if dataclasses.is_dataclass(instance) and not isinstance(instance, type):
        return {f.name: to_data(getattr(instance, f.name)) for f in dataclasses.fields(instance)}
    if isinstance(instance, (list, tuple)):
        return [to_data(item) for item in instance]
    if isinstance(instance, dict):
        return {key: to_data(item) for key, item in instance.items()}
    return instance


def leaves(data: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what nested mappings hold that is none itself, by its path, such as ``reward.ahead_s``."""
    for name, item in data.items():
        at = _join(path, name)
        if isinstance(item, Mapping):
            yield from leaves(item, at)
        else:
            yield at, item


def _load_dataclass(cls: type, data: Any, where: str, path: str) -> Any:
    if not isinstance(data, dict):
        raise UserError(f"{where}: {path or 'the file'} must be a mapping of keys to values, not {_show(data)}.")
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
    removed: Mapping[str, Removed] = getattr(cls, "removed_keys", {})
    for key in data:
        if key in removed:
            if data[key] != removed[key].usual:
                raise UserError(
                    f"{where}: {_join(path, key)}: {_show(data[key])} is not allowed any more: {removed[key].instead}."
                )
        elif key not in fields:
            raise UserError(f"{where}: {unknown_name('key', _join(path, str(key)), [_join(path, n) for n in fields])}")
    arguments = {}
    for name, field in fields.items():
        at = _join(path, name)
        if name in data:
            usual = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
            given = _completed(usual, data[name]) if type(usual) is hints[name] else data[name]
            arguments[name] = _load_value(hints[name], given, where, at)
            _check_allowed(arguments[name], field.metadata, where, at)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            unit = field.metadata.get("unit")
            raise UserError(f"{where}: the key '{at}' is missing{f' (unit: {unit})' if unit else ''}.")
    try:
        return cls(**arguments)
    except ValueError as error:
        raise UserError(f"{where}: {path + ': ' if path else ''}{error}") from error


def _completed(usual: Any, data: Any) -> Any:
    """Return ``data`` with what it omits as in the dataclass instance ``usual``, the default of its field."""
    if not dataclasses.is_dataclass(usual) or not isinstance(data, dict):
        return data
    known = {field.name: getattr(usual, field.name) for field in dataclasses.fields(usual)}
    if not data.keys() <= known.keys():  # another class of a union, or a key that is refused
        return data
    return {**to_data(usual), **{name: _completed(known[name], item) for name, item in data.items()}}


def _load_value(hint: Any, data: Any, where: str, at: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):  # a type variable's own dataclass is loaded by the caller
        return data
    if origin in (typing.Union, types.UnionType):
        if data is None and type(None) in arguments:
            return None
        options = [a for a in arguments if a is not type(None)]
        if isinstance(data, dict) and all(map(dataclasses.is_dataclass, options)):
            # Choose the intended alternative, so that the error refers to it.
            options = [max(options, key=lambda o: len(data.keys() & {f.name for f in dataclasses.fields(o)}))]
        for option in options[:-1]:
            try:
                return _load_value(option, data, where, at)
            except UserError:
                continue
        return _load_value(options[-1], data, where, at)
    if origin is typing.Literal:
        if data not in arguments:
            raise UserError(f"{where}: {at}: {_show(data)} is not allowed: one of {', '.join(map(str, arguments))}.")
        return data
    if origin is tuple:
        if not isinstance(data, (list, tuple)):
            raise UserError(f"{where}: {at}: {_show(data)} is not allowed: must be a list.")
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_load_value(arguments[0], item, where, f"{at}[{i}]") for i, item in enumerate(data))
        if len(data) != len(arguments):
            raise UserError(f"{where}: {at}: {_show(data)} is not allowed: must be a list of {len(arguments)}.")
        return tuple(_load_value(a, item, where, f"{at}[{i}]") for i, (a, item) in enumerate(zip(arguments, data)))
    if origin is dict:
        if not isinstance(data, dict):
            raise UserError(f"{where}: {at}: {_show(data)} is not allowed: must be a mapping.")
        return {str(k): _load_value(arguments[1], v, where, _join(at, str(k))) for k, v in data.items()}
    if dataclasses.is_dataclass(hint):
        return _load_dataclass(typing.cast(type, hint), data, where, at)
    return _load_scalar(hint, data, where, at)


def _load_scalar(hint: Any, data: Any, where: str, at: str) -> Any:
    names = {float: "a number", int: "a whole number", bool: "true or false", str: "text"}
    is_number = isinstance(data, (int, float)) and not isinstance(data, bool)
    if hint in (float, int) and is_number:
        try:
            number = float(data)
        except OverflowError:  # a whole number beyond what a float holds
            number = math.inf
        if not math.isfinite(number):
            raise UserError(f"{where}: {at}: {_show(data)} is not allowed: must be a finite number.")
        if hint is float:
            return number
        if number.is_integer():
            return int(data)
    if hint in (bool, str) and isinstance(data, hint):
        return data
    if hint is float and isinstance(data, str):
        try:  # YAML 1.1 reads 3e-4 as text
            return _load_scalar(float, float(data), where, at)
        except ValueError:
            pass
    raise UserError(f"{where}: {at}: {_show(data)} is not allowed: must be {names.get(hint, hint)}.")


def _check_allowed(loaded: Any, allowed: Any, where: str, at: str) -> None:
    items = loaded if isinstance(loaded, tuple) else (loaded,)
    for item in items:
        if isinstance(item, tuple):
            _check_allowed(item, allowed, where, at)
            continue
        if allowed.get("one_of") is not None and item not in allowed["one_of"]:
            choices = ", ".join(map(str, allowed["one_of"]))
            raise UserError(f"{where}: {at}: {_show(item)} is not allowed: one of {choices}.")
        if isinstance(item, bool) or not isinstance(item, (int, float)):
            continue
        unit = f" {allowed['unit']}" if allowed.get("unit") else ""
        for key, holds in _BOUNDS.items():
            if (bound := allowed.get(key)) is not None and not holds(item, bound):
                words = f"{key.replace('_', ' ')} {bound}{unit}"
                raise UserError(f"{where}: {at}: {_show(item)} is not allowed: must be {words}.")
        if unit and (most := _LARGEST.get(unit.strip(), _LARGEST_OF_OTHERS)) < abs(item):
            raise UserError(f"{where}: {at}: {_show(item)} is not allowed: must be within {most:g}{unit}.")
        if unit and 0.0 < abs(item) < _SMALLEST:
            raise UserError(f"{where}: {at}: {_show(item)} is not allowed: must be 0 or at least {_SMALLEST:g}{unit}.")


_LARGEST = {
    "kg": 1e5,
    "kg m^2": 1e7,
    "m": 1e6,
    "m/s": 1e4,
    "m/s^2": 1e6,
    "rad": 1e4,
    "rad/s": 1e6,
    "rad/s^2": 1e9,
    "Hz": 1e5,
    "N": 1e8,
    "N m": 1e8,
}
"""Largest magnitude by unit: far beyond any robot, so that squares and products of such numbers stay finite."""

_LARGEST_OF_OTHERS = 1e12
_SMALLEST = 1e-15
"""Smallest magnitude but 0 of a number with a unit, so that quotients stay finite."""

_BOUNDS = {"above": operator.gt, "at_least": operator.ge, "at_most": operator.le}


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _show(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 60 else text[:57] + "..."
