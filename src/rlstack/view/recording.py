"""Recordings of trials: where a robot and what is around it was, so that films and browsers can show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.robots.visuals import Visual

RATE_HZ = 25.0
"""Samples per second that a picture needs."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Mover:
    """Something that moves beside the robot, such as an object that it grasps, or a person.

    Args:
        shapes: Its shapes, in its own frame.
        position: (T, 3) m, world; NaN where it is not there.
        orientation: (T, 4) xyzw.
    """

    shapes: tuple[Visual, ...]
    position: Array
    orientation: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """One trial of one driver, T samples; it can be pickled.

    Args:
        driver: The policy, planner or controller.
        urdf: The robot.
        time_s: (T,) s since the start.
        position: (T, 3) m, world.
        orientation: (T, 4) xyzw, body to world.
        joints: Names of the joints in ``joint_position``; the others are at 0.
        joint_position: (T, joints) rad or m.
        shapes: What stands still, in the world.
        movers: What moves.
        goal: (T, 3) m, world; None: there is none.
        path: (P, 3) m, world, to be followed; None: there is none.
        instruction: The sentence that the robot was given; empty: none.
        ending: How it ended, in words.
        success: Whether it succeeded.
        floor_m: Height at which a floor is drawn, m.
    """

    driver: str
    urdf: str
    time_s: Array
    position: Array
    orientation: Array
    joints: tuple[str, ...] = ()
    joint_position: Array | None = None
    shapes: tuple[Visual, ...] = ()
    movers: tuple[Mover, ...] = ()
    goal: Array | None = None
    path: Array | None = None
    instruction: str = ""
    ending: str
    success: bool
    floor_m: float = 0.0

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def duration_s(self) -> float:
        """Time of the last sample."""
        return float(self.time_s[-1])

    def at(self, time_s: float) -> int:
        """Return the sample of a time, the last one after the end."""
        return int(np.searchsorted(self.time_s, time_s + 1e-9, side="right")) - 1

    def joints_at(self, k: int) -> dict[str, float]:
        """Return the joints' positions at a sample, by name."""
        return {} if self.joint_position is None else dict(zip(self.joints, self.joint_position[k].tolist()))

    def thinned(self, rate_hz: float = RATE_HZ) -> Self:
        """Return the samples that a rate needs, with the last one."""
        if len(self) < 3:
            return self
        stride = max(1, round(float(np.median(np.diff(self.time_s))) ** -1 / rate_hz))
        kept = np.unique([*range(0, len(self), stride), len(self) - 1])
        return replace(
            self,
            time_s=self.time_s[kept],
            position=self.position[kept],
            orientation=self.orientation[kept],
            joint_position=None if self.joint_position is None else self.joint_position[kept],
            movers=tuple(replace(m, position=m.position[kept], orientation=m.orientation[kept]) for m in self.movers),
            goal=None if self.goal is None else self.goal[kept],
        )


def side_by_side(takes: Sequence[Recording], robot_m: float) -> float:
    """Return the distance at which drivers of the same trial can be drawn beside each other, m.

    Args:
        takes: Their recordings.
        robot_m: Width of the robot.
    """
    wide = max(float(np.ptp(take.position[:, 1])) for take in takes)
    return 1.15 * (wide + robot_m)


@dataclass(frozen=True, eq=False)
class ReplayedTrial:
    """One trial, and what each driver made of it.

    Args:
        title: Which trial it is, such as ``Worst``.
        takes: The policy's recording, then those of classical drivers.
        apart_m: Distance at which the drivers are drawn beside each other, m; 0: in one world.
    """

    title: str
    takes: tuple[Recording, ...]
    apart_m: float = 0.0

    @property
    def duration_s(self) -> float:
        """Time of the longest recording."""
        return max(take.duration_s for take in self.takes)

    @property
    def offsets(self) -> list[Array]:
        """(3,) m by which each driver's world is moved, across the view."""
        middle = 0.5 * (len(self.takes) - 1)
        return [np.array([0.0, (middle - k) * self.apart_m, 0.0]) for k in range(len(self.takes))]


def choose(
    success: NDArray[np.bool_], lost: NDArray[np.bool_], cost: Array, labels: NDArray[np.str_] | None = None
) -> dict[str, int]:
    """Return the numbers of the best, the median and the worst trial and of a lost one, by title, each once.

    Args:
        success: (N,) whether each trial succeeded.
        lost: (N,) whether it was lost.
        cost: (N,) what it cost; the least is the best. Not finite: unknown.
        labels: (N,) group of each trial, of each of which there is a median one; None: no groups.
    """
    price = np.where(np.isfinite(cost), cost, np.inf)
    kept = np.flatnonzero(~lost)
    rank = kept[np.lexsort((price[kept], ~success[kept]))].tolist()
    groups = [("Median", rank)]
    if labels is not None and len(kinds := np.unique(labels)) > 1:
        groups = [(f"Median {one}", [number for number in rank if labels[number] == one]) for one in kinds]
    medians = [(title, group[len(group) // 2]) for title, group in groups if group]
    wanted = [("Best", rank[0]), *medians, ("Worst", rank[-1])] if rank else []
    wanted += [("Lost", number) for number in np.flatnonzero(lost)[:1].tolist()]
    found: dict[str, int] = {}
    for title, number in wanted:
        if number not in found.values():
            found[title] = number
    return found
