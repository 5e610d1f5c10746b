"""Format a policy's measured margins as plain text, for ``rlstack show``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlstack.policies.contract_table import as_table
from rlstack.policies.proven import RECORD_NAME, record_beside

_HEADER = ("departure", "proven up to", "required", "")


def describe_margins(policy: Path) -> str:
    """Return what the verification record beside a policy file proves, or that nothing is proven."""
    record = record_beside(policy)
    if not record or record.get("sha256") != hashlib.sha256(policy.read_bytes()).hexdigest():
        return f"proven margins\n  none: no {RECORD_NAME} of this file is beside it; `rlstack verify` measures them\n"
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
