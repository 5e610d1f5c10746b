"""Format a policy's measured margins as plain text, for ``rlstack show``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlstack.policies.contract_table import as_table
from rlstack.policies.record import RECORD_NAME, read_record

_HEADER = ("departure", "proven up to", "required", "")


def describe_margins(policy: Path, sha256: str) -> str:
    """Return what the verification record beside a policy file proves, or that nothing is proven.

    Args:
        policy: The file.
        sha256: SHA-256 of its bytes.
    """
    read = read_record(policy)
    record = read.data
    if record.get("sha256") != sha256:
        return f"proven margins\n  none: no {RECORD_NAME} of this file is beside it; `rlstack verify` measures them\n"
    if read.doubt:
        return f"proven margins\n  none: its {RECORD_NAME} {read.doubt}; verify it again with `rlstack verify`\n"
    reality = record.get("reality")
    axes = reality.get("axes") if isinstance(reality, Mapping) else None
    if not isinstance(axes, Mapping) or not axes:
        return f"proven margins\n  none: its {RECORD_NAME} has no grid of departures; `rlstack verify` measures them\n"
    rows = [_row(key, axis) for key, axis in axes.items() if isinstance(axis, Mapping)]
    return f"proven margins, on {record.get('robot', '-')}\n{as_table(_HEADER, rows)}\n"


def _row(key: str, axis: Mapping[str, Any]) -> tuple[str, ...]:
    unit = {"share": "", "x": ""}.get(str(axis.get("unit", "")), str(axis.get("unit", "")))

    def text(value: Any) -> str:
        return f"{value:g} {unit}".rstrip() if isinstance(value, (int, float)) else "-"

    verdict = {True: "passed", False: "not passed"}.get(axis.get("passed"), "not judged")  # type: ignore[arg-type]
    proven = text(axis.get("margin")) + (" or more" if axis.get("open_ended") else "")
    return key, proven, text(axis.get("required")), verdict
