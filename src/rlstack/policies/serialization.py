"""The bytes of a policy file: an ONNX model, then one metadata entry with the contract, sealed by one hash.

The hash is the SHA-256 of every byte of the model outside that entry, in file order, followed by the contract's
canonical JSON with an empty ``sha256``. It covers the bytes of the file, so it does not depend on a protobuf library's
encoding and detects a change of any bit.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from rlstack import schema
from rlstack.errors import UserError
from rlstack.policies.contract import METADATA_KEY, OLDEST_VERSION, SCHEMA_VERSION, Contract

EXPORT_AGAIN = "Export the policy again with `rlstack export RUN`."

_METADATA_FIELD = onnx.ModelProto.DESCRIPTOR.fields_by_name["metadata_props"].number
_SMALL, _MAX_PARTS = 2**21, 500_000
"""Bytes up to which a file is read without counting its parts, and the most parts."""

_FIXED_BYTES = {1: 8, 5: 4}
"""Bytes of the protobuf wire types of fixed size."""

_VARINT, _BYTES = 0, 2  # protobuf wire types; the only ones at the top of an ONNX model
_WIRE_TYPES = {
    number: _VARINT if field.cpp_type == field.CPPTYPE_INT64 else _BYTES
    for number, field in onnx.ModelProto.DESCRIPTOR.fields_by_number.items()
}


@dataclass(frozen=True)
class Package:
    """The parts of a policy file, unchecked.

    Args:
        model: The ONNX model with its metadata.
        data: The contract as parsed JSON.
        intact: Whether the contract's hash matches these bytes.
    """

    model: onnx.ModelProto
    data: dict[str, Any]
    intact: bool


def pack(model: onnx.ModelProto, contract: Contract) -> tuple[bytes, Contract]:
    """Return the bytes of a policy file and the contract with its hash, without checks.

    Raises:
        UserError: The contract holds a value that JSON cannot represent; the message names its key.
    """
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.metadata_props[:]
    bare.metadata_props.extend(p for p in model.metadata_props if p.key != METADATA_KEY)
    body = bare.SerializeToString(deterministic=True)
    data = {**_plain(schema.to_data(contract), ""), "schema_version": SCHEMA_VERSION}
    data["sha256"] = ""
    data["sha256"] = hashlib.sha256(body + _canonical(data)).hexdigest()
    entry = onnx.StringStringEntryProto(key=METADATA_KEY, value=_canonical(data).decode())
    # Protobuf merges concatenated messages, so the entry can simply follow the model.
    tail = onnx.ModelProto(metadata_props=[entry]).SerializeToString(deterministic=True)
    return body + tail, schema.load(Contract, data, "contract")


def unpack(data: bytes, where: str) -> Package:
    """Split the bytes of a policy file into its parts.

    Args:
        data: The whole file.
        where: Its name in errors, such as its path.

    Raises:
        UserError: Not ONNX, cut short, damaged, without rlstack's contract, or with one that is not JSON.
    """
    texts, digest = [], hashlib.sha256()
    for number, start, payload, end in _top_level(data, where):
        if number == _METADATA_FIELD:
            key, value = _entry(data[payload:end], where)
            if key == METADATA_KEY:
                texts.append(value)
                continue
        digest.update(data[start:end])
    if len(data) > _SMALL:
        _check_parts(data, onnx.ModelProto.DESCRIPTOR, where)
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise UserError(f"{where} is damaged: its ONNX model cannot be read. Copy it again. {EXPORT_AGAIN}") from error
    if not texts:
        raise UserError(
            f"{where} is an ONNX file without rlstack's contract, so nothing says what its numbers mean."
            " Export it with `rlstack export RUN`; for a policy from elsewhere see `rlstack.policies.write_policy`."
        )
    if len(texts) > 1:
        raise UserError(f"{where} holds {len(texts)} contracts where one belongs. {EXPORT_AGAIN}")
    contract = _parse(texts[0], where)
    digest.update(_canonical({**contract, "sha256": ""}))
    intact = contract.get("sha256") == digest.hexdigest() and texts[0] == _canonical(contract)
    return Package(model=model, data=contract, intact=intact)


def contract_from(data: dict[str, Any], where: str) -> Contract:
    """Return the contract that parsed JSON holds.

    Raises:
        UserError: Another schema version, or a key is missing, unknown, or of the wrong type.
    """
    version = data.get("schema_version")
    if isinstance(version, int) and not isinstance(version, bool):
        if version > SCHEMA_VERSION:
            raise UserError(
                f"{where} has contract schema version {_short(version)}, newer than this rlstack's {SCHEMA_VERSION}."
                " Install a newer rlstack here, or export the policy with this one."
            )
        if version < OLDEST_VERSION:
            raise UserError(
                f"{where} has contract schema version {_short(version)}, older than the oldest that this rlstack reads,"
                f" {OLDEST_VERSION}. Export the policy again with this rlstack, or run it with the rlstack that wrote"
                " it."
            )
        if version == 1 and "envelope" in data:
            data = {**data, "envelope": {"conditions": data["envelope"]}}
    try:
        return schema.load(Contract, data, where)
    except UserError as error:
        raise UserError(f"{error} The contract is not what rlstack writes. {EXPORT_AGAIN}") from error


def _top_level(data: bytes, where: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield (field number, start of tag, start of payload, end) of each top-level protobuf field."""
    position = 0
    if not data:
        raise UserError(f"{where} is empty. Copy it again. {EXPORT_AGAIN}")
    while position < len(data):
        start = position
        tag, position = _varint(data, position, where)
        number, wire_type = tag >> 3, tag & 7
        if _WIRE_TYPES.get(number) != wire_type:
            if start == 0:
                raise UserError(f"{where} is not an ONNX file. Give the policy.onnx of a run, not another file of it.")
            raise UserError(f"{where} is damaged at byte {start}. Copy it again. {EXPORT_AGAIN}")
        size, payload = _varint(data, position, where)
        if wire_type == _VARINT:
            payload, position = position, payload
        else:
            position = payload + size
        if position > len(data):
            _truncated(where, position - len(data))
        yield number, start, payload, position


def _check_parts(data: bytes, message: Any, where: str) -> None:
    """Refuse a file of so many parts that reading it would take gigabytes: an empty part of 2 bytes takes 100 then."""
    left = _MAX_PARTS
    pending = [(message, 0, len(data))]
    while pending:
        kind, position, end = pending.pop()
        fields = kind.fields_by_number
        while position < end:
            left -= 1
            if left < 0:
                raise UserError(
                    f"{where} has more than {_MAX_PARTS:,} parts: it is no policy of a network. {EXPORT_AGAIN}"
                )
            tag, position = _varint(data, position, where)
            field, wire = fields.get(tag >> 3), tag & 7
            if wire == _VARINT:
                _, position = _varint(data, position, where)
            elif wire == _BYTES:
                size, position = _varint(data, position, where)
                if position + size > end:
                    _truncated(where, position + size - end)
                if field is not None and field.message_type is not None:
                    pending.append((field.message_type, position, position + size))
                position += size
            elif wire in _FIXED_BYTES:
                position += _FIXED_BYTES[wire]
            else:
                raise UserError(f"{where} is damaged at byte {position}. Copy it again. {EXPORT_AGAIN}")


def _varint(data: bytes, position: int, where: str) -> tuple[int, int]:
    """Return the varint's value and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            _truncated(where, 1)
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise UserError(f"{where} is not an ONNX file, or is damaged at byte {position}. Copy it again. {EXPORT_AGAIN}")


def _truncated(where: str, missing: int) -> NoReturn:
    raise UserError(f"{where} is cut short (at least {missing} bytes are missing). Copy it again. {EXPORT_AGAIN}")


def _entry(payload: bytes, where: str) -> tuple[str | bytes, bytes]:
    try:
        entry = onnx.StringStringEntryProto.FromString(payload)
    except DecodeError as error:
        raise UserError(f"{where} is damaged: its metadata cannot be read. Copy it again. {EXPORT_AGAIN}") from error
    # Text that is not UTF-8 comes out of protobuf as bytes.
    value: str | bytes = entry.value
    return entry.key, value if isinstance(value, bytes) else value.encode()


def _parse(text: bytes, where: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("a key comes twice")
        return dict(pairs)

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a number")

    try:
        data = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
        _canonical(data)  # 1e999 parses to infinity and lone surrogates to text that cannot be encoded
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: the contract is not valid JSON ({error}). {EXPORT_AGAIN}") from error
    if not isinstance(data, dict):
        raise UserError(f"{where}: the contract must be a JSON object, not {type(data).__name__}. {EXPORT_AGAIN}")
    return data


def _canonical(data: dict[str, Any]) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _plain(data: Any, at: str) -> Any:
    """Return an exact JSON equivalent; training code passes numpy scalars, arrays and paths."""
    if isinstance(data, np.ndarray):
        data = data.tolist()
    if isinstance(data, np.generic):
        data = data.item()
    if isinstance(data, dict):
        return {str(key): _plain(item, f"{at}.{key}" if at else str(key)) for key, item in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(item, f"{at}[{i}]") for i, item in enumerate(data)]
    if isinstance(data, Path):
        return str(data)
    if isinstance(data, float) and not math.isfinite(data):
        raise UserError(f"contract: {at}: {data} is not allowed: must be a finite number. Leave the key out instead.")
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    raise UserError(f"contract: {at}: a {type(data).__name__} is not allowed: must be text, a number, a list or keys.")


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**9 else f"above {10**9}" if number > 0 else f"below -{10**9}"
