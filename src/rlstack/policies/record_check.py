"""What a verification record lacks as a proof of a policy on a robot: the one check before a start and in flight."""

from __future__ import annotations

from typing import Literal

from rlstack.policies.record import Record
from rlstack.robots import RobotSpec

OVER_TOPICS = "(topics)"
"""Suffix of the names of trials through the deployed nodes."""

ADAPTED_FROM = "adapted_from"
"""Entry of a record of a policy that was adapted in flight: SHA-256 of the policy file that it was adapted from."""

Lack = Literal["a record", "an entry", "the policy", "the robot", "a robot file", "the robot file", "trust", "a pass"]
"""What is missing, or is of another file; ``trust``: nobody who is trusted vouches for it."""


def lacks(record: Record, sha256: str, robot: RobotSpec | None) -> tuple[Lack, ...]:
    """Return everything that a record lacks as a proof; nothing: it is one, over topics or not.

    Args:
        record: The record as it was read.
        sha256: SHA-256 of the policy's bytes.
        robot: The robot; None: any, as it is not known.
    """
    if not (record.sha256 or record.data or record.problem):
        return ("a record",)
    data, found = record.data, list[Lack]()
    if record.problem or not {"sha256", "robot", "passed"} <= data.keys():
        found.append("an entry")
    if data.get("sha256") != sha256:
        found.append("the policy")
    if robot is not None:
        known = data.get("robot_sha256")
        if data.get("robot") != robot.name:
            found.append("the robot")
        if known is None:
            found.append("a robot file")
        elif known != robot.sha256:
            found.append("the robot file")
    if record.doubt:
        found.append("trust")
    if data.get("passed") is not True:
        found.append("a pass")
    return tuple(found)


def simulators(record: Record) -> list[str]:
    """Return the names of the simulators that a record is of; those over topics end with :data:`OVER_TOPICS`."""
    backends = record.data.get("backends")
    entries = [entry for entry in backends.values() if isinstance(entry, dict)] if isinstance(backends, dict) else []
    return [str(entry.get("flown_in", "")) for entry in entries]


def over_topics(record: Record) -> bool:
    """Return whether it was made over topics, too, through the nodes that are deployed."""
    return any(name.endswith(OVER_TOPICS) for name in simulators(record))
