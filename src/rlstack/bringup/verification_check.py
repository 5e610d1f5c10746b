"""Check before deployment: verify.json beside the policy must be signed, for this policy and robot, and have passed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.policies import find_policy
from rlstack.policies.record import Record, read_record
from rlstack.policies.record_check import lacks, over_topics, simulators
from rlstack.robots import RobotSpec
from rlstack.verification.report import IN_PROCESS_NAME, RECORD_NAME


def record_path(policy: str | Path) -> Path:
    """Return the path of ``policy``'s verification record, in its folder."""
    return find_policy(policy).absolute().parent / RECORD_NAME


def file_sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file's bytes, as ``sha256sum`` prints it."""
    try:
        return hashlib.sha256(find_policy(path).read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error


def require_verification(
    policy: str | Path, robot: RobotSpec, option: str = "", *, sha256: str = "", record: Record | None = None
) -> dict[str, Any]:
    """Return the verification record of ``policy`` on ``robot``.

    Args:
        policy: The policy file.
        robot: The robot to deploy on. A verification on one vehicle of a family does not cover another, nor one of the
            same name with a different robot file.
        option: Option of `rlstack verify` for that robot, such as ``" --robot racer"``.
        sha256: SHA-256 of the policy's bytes that were loaded; empty: of the file as it is now.
        record: The record as it was read; None: it is read now.

    Raises:
        UserError: The record is missing, is for another file or robot, nobody who is trusted signed it, or it says that
            the policy failed.
    """
    read = read_record(find_policy(policy)) if record is None else record
    path, remedy = read.path, f"run `rlstack verify {policy}{option}`, or run it unverified with --force"
    found = sha256 or file_sha256(policy)
    lacking = lacks(read, found, robot)
    if "a record" in lacking:
        missing = f"there is no {path}{_in_process(path, found)}"
        raise UserError(f"The policy {policy} has not been verified ({missing}): {remedy}.")
    if "an entry" in lacking:
        absent = [key for key in ("sha256", "robot", "passed") if key not in read.data]
        why = read.problem or f"it has no '{absent[0]}'"
        raise UserError(f"The verification record {path} cannot be read ({why}): {remedy}.")
    if "the policy" in lacking:
        raise UserError(
            f"The verification record {path} is for another policy file (SHA-256 {str(read.data['sha256'])[:16]}...),"
            f" not for {policy} ({found[:16]}...): {remedy}."
        )
    if "the robot" in lacking:
        raise UserError(
            f"The verification record {path} is for '{read.data['robot']}', not for '{robot.name}': run `rlstack verify"
            f" {policy}{option or f' --robot {robot.name}'}`, or run it unverified with --force."
        )
    if "a robot file" in lacking:
        raise UserError(
            f"The verification record {path} was made by an earlier version of rlstack and does not identify the"
            f" robot file of '{robot.name}': {remedy}."
        )
    if "the robot file" in lacking:
        raise UserError(
            f"The verification record {path} is for another version of '{robot.name}': its robot file, or the model"
            f" that it names, has changed: {remedy}."
        )
    if "trust" in lacking:
        raise UserError(f"The verification record {path} {read.doubt}, so nobody vouches for it: {remedy}.")
    if "a pass" in lacking:
        reasons = read.data.get("reasons")
        why = "; ".join(map(str, reasons)) if isinstance(reasons, list) else ""
        raise UserError(f"The policy {policy} did not pass its verification ({why or _shares(read.data)}): {remedy}.")
    if not over_topics(read):
        raise UserError(
            f"The policy {policy} was verified in process only ({', '.join(simulators(read))}), not over topics through"
            f" the nodes that are deployed: {remedy}."
        )
    return dict(read.data)


def only_simulator(record: Mapping[str, Any]) -> str:
    """Return a record's simulator if it has only one, whose flaws a policy may exploit unnoticed; else nothing."""
    backends = record.get("backends")
    entries = backends.values() if isinstance(backends, dict) else ()
    found = {str(entry.get("flown_in", "")).partition(" (")[0] for entry in entries if isinstance(entry, dict)}
    return found.pop() if len(found) == 1 else ""


def _in_process(path: Path, sha256: str) -> str:
    """Describe an in-process record of the same file, if there is one."""
    try:
        record = json.loads(path.with_name(IN_PROCESS_NAME).read_text())
        same, left_out = record["sha256"] == sha256, record.get("left_out", {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
    if not same:
        return ""
    listed = left_out.items() if isinstance(left_out, dict) else ()
    because = "".join(f"; {name}: {why}" for name, why in listed)
    return f", only {IN_PROCESS_NAME}, which does not cover the deployed nodes{because}"


def _shares(record: Mapping[str, Any]) -> str:
    parts, backends = [], record.get("backends")
    for name, figures in backends.items() if isinstance(backends, dict) else ():
        if isinstance(figures, dict) and isinstance(figures.get("success"), (int, float)):
            parts.append(f"{name}: {100.0 * figures['success']:.1f}% success")
    return ", ".join(parts) or "no figures in its record"
