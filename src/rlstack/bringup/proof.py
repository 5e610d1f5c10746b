"""Proof before flight: the record that verification leaves beside a policy, and what deployment makes of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.robots import RobotSpec
from rlstack.verification.report import IN_PROCESS_NAME, OVER_TOPICS, RECORD_NAME


def record_path(policy: str | Path) -> Path:
    """Return where the verification record of ``policy`` lies: in its folder."""
    return Path(policy).expanduser().absolute().parent / RECORD_NAME


def file_sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file's bytes, as ``sha256sum`` prints it."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error


def require_proof(policy: str | Path, robot: RobotSpec, option: str = "") -> dict[str, Any]:
    """Return the verification record of ``policy`` on ``robot``.

    Args:
        policy: The policy file.
        robot: What is to move: what flew well on one vehicle of a family is not proven on another, nor on one of the
            same name whose file says something else.
        option: What `rlstack verify` needs beside the policy to fly that robot, such as ``" --robot racer"``.

    Raises:
        UserError: There is no record beside the policy, it is of another file or robot, or the policy failed.
    """
    path, remedy = record_path(policy), f"run `rlstack verify {policy}{option}`, or fly it unproven with --force"
    try:
        record = json.loads(path.read_text())
        digest, flown, passed = record["sha256"], record["robot"], record["passed"]
    except FileNotFoundError:
        told = f"there is no {path}{_in_process(path, policy)}"
        raise UserError(f"The policy {policy} has not been verified ({told}): {remedy}.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"The verification record {path} cannot be read ({error}): {remedy}.") from error
    if digest != file_sha256(policy):
        raise UserError(f"The verification record {path} is of another policy file, not of {policy}: {remedy}.")
    if flown != robot.name:
        raise UserError(
            f"The verification record {path} is of flights of '{flown}', not of '{robot.name}': run `rlstack verify"
            f" {policy}{option or f' --robot {robot.name}'}`, or fly it unproven with --force."
        )
    if (known := record.get("robot_sha256")) is None:
        raise UserError(
            f"The verification record {path} was made by an earlier version of rlstack and does not say of which"
            f" '{robot.name}' it is, as robot files change: {remedy}."
        )
    if known != robot.sha256:
        raise UserError(
            f"The verification record {path} is of another '{robot.name}' than this one: its robot file, or the model"
            f" that it names, has changed: {remedy}."
        )
    if passed is not True:
        why = "; ".join(map(str, record["reasons"])) if isinstance(record.get("reasons"), list) else ""
        raise UserError(f"The policy {policy} did not pass its verification ({why or _shares(record)}): {remedy}.")
    backends = record.get("backends")
    entries = [entry for entry in backends.values() if isinstance(entry, dict)] if isinstance(backends, dict) else []
    flown_in = [str(entry.get("flown_in", "")) for entry in entries]
    if not any(name.endswith(OVER_TOPICS) for name in flown_in):
        raise UserError(
            f"The policy {policy} was verified in process only ({', '.join(flown_in)}), not over topics through the"
            f" nodes that are deployed: {remedy}."
        )
    return dict(record)


def alone_in(record: Mapping[str, Any]) -> str:
    """Return the simulator that a record is of if it is of one alone, else nothing: what leans on it does not show."""
    backends = record.get("backends")
    entries = backends.values() if isinstance(backends, dict) else ()
    flown = {str(entry.get("flown_in", "")).partition(" (")[0] for entry in entries if isinstance(entry, dict)}
    return flown.pop() if len(flown) == 1 else ""


def _in_process(path: Path, policy: str | Path) -> str:
    """Return what a record of the same file says that is of drives or flights in process alone."""
    try:
        record = json.loads(path.with_name(IN_PROCESS_NAME).read_text())
        same, left_out = record["sha256"] == file_sha256(policy), record.get("left_out", {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, UserError):
        return ""
    if not same:
        return ""
    because = f"; {'; '.join(f'{name}: {why}' for name, why in left_out.items())}" if left_out else ""
    return f", only {IN_PROCESS_NAME}, which proves nothing of the nodes that are deployed{because}"


def _shares(record: dict[str, Any]) -> str:
    parts = []
    for name, figures in record.get("backends", {}).items():
        if isinstance(figures, dict) and isinstance(figures.get("success"), (int, float)):
            parts.append(f"{name}: {100.0 * figures['success']:.1f}% success")
    return ", ".join(parts) or "no figures in its record"
