"""What the adaptation node and the process that adapts say to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlstack.data.bags.mcap_file import Message
from rlstack.identification.kind_adaptation import Told


@dataclass(frozen=True)
class Origin:
    """The proven policy that is adapted, and the robot that it is for.

    Args:
        policy: Its file, a path.
        sha256: SHA-256 of its bytes.
        robot: The robot's name or file.
        robot_sha256: Of that file; empty: any.
        namespace: Namespace of the robot's topics.
    """

    policy: str
    sha256: str
    robot: str
    robot_sha256: str = ""
    namespace: str = "/"


@dataclass(frozen=True)
class Candidate:
    """A policy that was adapted and judged.

    Args:
        policy: Its file.
        sha256: Of its bytes.
        failures: Why it does not pass its proof, a sentence each; nothing: it passes.
        trials: Flights of the proof at each condition.
        conditions: Number of conditions.
        error_m: Median distance from the goal in the nominal flights, m.
        learned_s: Processor time of learning, s.
        proved_s: Of the proof.
    """

    policy: Path
    sha256: str
    failures: tuple[str, ...]
    trials: int
    conditions: int
    error_m: float
    learned_s: float
    proved_s: float


@dataclass(frozen=True)
class Warm:
    """It is loaded and compiled."""


@dataclass(frozen=True)
class Look:
    """Asks what messages tell of the robot: a :class:`Told`, or :class:`Failed`."""

    messages: Sequence[Message]


@dataclass(frozen=True)
class Adapt:
    """Asks for a policy for what was told: a :class:`Candidate`, or :class:`Failed`."""

    told: Told
    number: int


@dataclass(frozen=True)
class Failed:
    """Why there is no answer, a sentence."""

    why: str


@dataclass(frozen=True)
class Ended:
    """Why the process has ended, a sentence."""

    why: str
