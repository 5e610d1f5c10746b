"""What a policy node says of its steps: which messages each was on, so that a recording can be run again exactly."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.path_messages import GoalPath

STEP, RESETS, STAMP, HELD = "step", "resets", "stamp", "held"
"""Columns of every row, besides one for each sensor topic: number of the step since the node began, how often the
recurrent state had been reset, stamp of the observation that it answers, and the version of what is held."""

_PATH_S, _PATH_NS = "path_stamp_s", "path_stamp_ns"
"""Stamps of a held path's poses: whole seconds, and the nanoseconds beyond them, as a float64 cannot hold both."""


@dataclass(frozen=True)
class Held:
    """The inputs whose last value holds: goal, instruction, path.

    Args:
        version: Its number; it grows with every change.
        values: Arrays by signal name.
        path: The path that is followed; None: none.
    """

    version: int
    values: Mapping[str, Array]
    path: GoalPath | None = None


@dataclass(frozen=True)
class PolicyFile:
    """Which file a policy node steps.

    Args:
        policy: Its path.
        sha256: Of its bytes.
        after_step: Number of the last step of the one before it; 0: it is the first.
        refused: Another file that was to take its place, and does not; empty: none.
        why: Why not.
    """

    policy: str
    sha256: str
    after_step: int
    refused: str = ""
    why: str = ""


def file_text(file: PolicyFile) -> str:
    """Return what :data:`rlstack.interfaces.topics.POLICY_FILE` says of a file, JSON."""
    return json.dumps(asdict(file))


def read_file_text(text: str) -> PolicyFile:
    """Return what :data:`rlstack.interfaces.topics.POLICY_FILE` says.

    Raises:
        ValueError: It is something else.
    """
    try:
        return PolicyFile(**json.loads(text))
    except TypeError as error:
        raise ValueError(f"it is no policy's file: {error}") from error


class StepRows:
    """The message of some steps, refilled.

    Args:
        sensors: The policy's sensor topics, in the order of their stamps.
    """

    def __init__(self, sensors: Sequence[str]) -> None:
        from std_msgs.msg import MultiArrayDimension

        columns = (STEP, RESETS, STAMP, *sensors, HELD)
        self.message = topics.type_of(topics.POLICY_STEPS)()
        self._rows = MultiArrayDimension(label="steps")
        self._columns = MultiArrayDimension(label=" ".join(columns), size=len(columns), stride=len(columns))
        self.message.layout.dim = [self._rows, self._columns]

    def fill(self, rows: array[int]) -> Any:
        """Return the message of rows, one after the other."""
        self._rows.size, self._rows.stride = len(rows) // self._columns.size, len(rows)
        self.message.data = rows
        return self.message


def read_rows(message: Any) -> dict[str, NDArray[np.int64]]:
    """Return the columns of a message of :data:`rlstack.interfaces.topics.POLICY_STEPS`, by name.

    Raises:
        ValueError: It is another kind of array.
    """
    dims = message.layout.dim
    names = dims[1].label.split() if len(dims) == 2 else []
    data = np.asarray(message.data, dtype=np.int64)
    if not {STEP, RESETS, STAMP, HELD} <= set(names) or len(data) % len(names):
        raise ValueError("it is not an array of a policy's steps")
    return dict(zip(names, data.reshape(-1, len(names)).T))


def held_message(held: Held) -> Any:
    """Return the message of :data:`rlstack.interfaces.topics.POLICY_HELD` of what is held."""
    from std_msgs.msg import MultiArrayDimension

    parts: dict[str, Array] = {HELD: np.array([float(held.version)]), **held.values}
    if held.path is not None:
        seconds, rest = np.divmod(held.path.stamp_ns, NANOSECONDS)
        parts |= {_PATH_S: seconds.astype(float), _PATH_NS: rest.astype(float)}
        parts |= {"path_position": held.path.position, "path_orientation": held.path.orientation}
    message = topics.type_of(topics.POLICY_HELD)()
    message.layout.dim = [
        MultiArrayDimension(label=name, size=np.size(part), stride=np.shape(part)[-1]) for name, part in parts.items()
    ]
    message.data = array("d", np.concatenate([np.ravel(part) for part in parts.values()]).astype(float).tobytes())
    return message


def read_held(message: Any) -> Held:
    """Return the content of a message of :data:`rlstack.interfaces.topics.POLICY_HELD`.

    Raises:
        ValueError: It is another kind of array.
    """
    data, parts, start = np.asarray(message.data, dtype=float), {}, 0
    for dim in message.layout.dim:
        part = data[start : start + dim.size]
        parts[dim.label] = part if dim.size == dim.stride else part.reshape(-1, dim.stride)
        start += dim.size
    if HELD not in parts or start != len(data):
        raise ValueError("it is not an array of a policy's held inputs")
    version = int(parts.pop(HELD)[0])
    path = None
    if _PATH_S in parts:
        stamp_ns = parts.pop(_PATH_S).astype(np.int64) * NANOSECONDS + parts.pop(_PATH_NS).astype(np.int64)
        path = GoalPath(stamp_ns, parts.pop("path_position"), parts.pop("path_orientation"))
    return Held(version, parts, path)
