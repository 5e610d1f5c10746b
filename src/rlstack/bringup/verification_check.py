"""Check before deployment: verify.json beside the policy must be for this policy and robot, and have passed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.policies import find_policy
from rlstack.robots import RobotSpec
from rlstack.verification.report import IN_PROCESS_NAME, OVER_TOPICS, RECORD_NAME


def record_path(policy: str | Path) -> Path:
    """Return the path of ``policy``'s verification record, in its folder."""
    return find_policy(policy).absolute().parent / RECORD_NAME


def file_sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file's bytes, as ``sha256sum`` prints it."""
    try:
        return hashlib.sha256(find_policy(path).read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error


def require_verification(policy: str | Path, robot: RobotSpec, option: str = "") -> dict[str, Any]:
    """Return the verification record of ``policy`` on ``robot``.

    Args:
        policy: The policy file.
        robot: The robot to deploy on. A verification on one vehicle of a family does not cover another, nor one of the
            same name with a different robot file.
        option: Option of `rlstack verify` for that robot, such as ``" --robot racer"``.

    Raises:
        UserError: The record is missing, is for another file or robot, or says that the policy failed.
    """
    path, remedy = record_path(policy), f"run `rlstack verify {policy}{option}`, or run it unverified with --force"
    try:
        record = json.loads(path.read_text())
        digest, verified_on, passed = record["sha256"], record["robot"], record["passed"]
    except FileNotFoundError:
        missing = f"there is no {path}{_in_process(path, policy)}"
        raise UserError(f"The policy {policy} has not been verified ({missing}): {remedy}.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"The verification record {path} cannot be read ({error}): {remedy}.") from error
    if digest != file_sha256(policy):
        raise UserError(f"The verification record {path} is for another policy file, not for {policy}: {remedy}.")
    if verified_on != robot.name:
        raise UserError(
            f"The verification record {path} is for '{verified_on}', not for '{robot.name}': run `rlstack verify"
            f" {policy}{option or f' --robot {robot.name}'}`, or run it unverified with --force."
        )
    if (known := record.get("robot_sha256")) is None:
        raise UserError(
            f"The verification record {path} was made by an earlier version of rlstack and does not identify the"
            f" robot file of '{robot.name}': {remedy}."
        )
    if known != robot.sha256:
        raise UserError(
            f"The verification record {path} is for another version of '{robot.name}': its robot file, or the model"
            f" that it names, has changed: {remedy}."
        )
    if passed is not True:
        why = "; ".join(map(str, record["reasons"])) if isinstance(record.get("reasons"), list) else ""
        raise UserError(f"The policy {policy} did not pass its verification ({why or _shares(record)}): {remedy}.")
    backends = record.get("backends")
    entries = [entry for entry in backends.values() if isinstance(entry, dict)] if isinstance(backends, dict) else []
    simulators = [str(entry.get("flown_in", "")) for entry in entries]
    if not any(name.endswith(OVER_TOPICS) for name in simulators):
        raise UserError(
            f"The policy {policy} was verified in process only ({', '.join(simulators)}), not over topics through the"
            f" nodes that are deployed: {remedy}."
        )
    return dict(record)


def only_simulator(record: Mapping[str, Any]) -> str:
    """Return a record's simulator if it has only one, whose flaws a policy may exploit unnoticed; else nothing."""
    backends = record.get("backends")
    entries = backends.values() if isinstance(backends, dict) else ()
    found = {str(entry.get("flown_in", "")).partition(" (")[0] for entry in entries if isinstance(entry, dict)}
    return found.pop() if len(found) == 1 else ""


def _in_process(path: Path, policy: str | Path) -> str:
    """Describe an in-process record of the same file, if there is one."""
    try:
        record = json.loads(path.with_name(IN_PROCESS_NAME).read_text())
        same, left_out = record["sha256"] == file_sha256(policy), record.get("left_out", {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, UserError):
        return ""
    if not same:
        return ""
    because = f"; {'; '.join(f'{name}: {why}' for name, why in left_out.items())}" if left_out else ""
    return f", only {IN_PROCESS_NAME}, which does not cover the deployed nodes{because}"


def _shares(record: dict[str, Any]) -> str:
    parts = []
    for name, figures in record.get("backends", {}).items():
        if isinstance(figures, dict) and isinstance(figures.get("success"), (int, float)):
            parts.append(f"{name}: {100.0 * figures['success']:.1f}% success")
    return ", ".join(parts) or "no figures in its record"
