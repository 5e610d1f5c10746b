"""What N bases sense on a course, by the names of signals; people as tracked in their scans, or as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces.signals import FAR_M, SENSED
from rlstack.interfaces.topics import PEOPLE, SCAN
from rlstack.kinds.wheeled_base.simulation_vector import PeopledVector, goal_signals, people_signals, planar_signals
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.perception.people import PeopleTracker
from rlstack.verification.courses import Course


class Senses:
    """The signals of robots at the starts of a course, from then on.

    Args:
        robots: Driven together.
        course: Says whether people are tracked.
        robot: What they are.
        names: The signals that are wanted.
        rate_hz: Control rate.

    Raises:
        UserError: A signal is none that bases sense on a course, or people are to be tracked without a lidar.
    """

    def __init__(
        self, robots: PeopledVector, course: Course, robot: WheeledBase, names: Sequence[str], rate_hz: float
    ) -> None:
        self._robots, self._names, self._period_s = robots, tuple(names), 1.0 / rate_hz
        self._people = any(name in SENSED and SENSED[name].topic == PEOPLE for name in names)
        self._tracker: PeopleTracker | None = None
        if self._people and course.tracked:
            if SCAN not in robot.lidars:
                raise UserError(f"{robot.name} has no lidar called '{SCAN}' in which people could be tracked.")
            lidar = robot.lidars[SCAN]
            mount = lidar.position_m[0], lidar.position_m[1], lidar.rpy_rad[2]
            self._tracker = PeopleTracker(lidar.angles_rad, lidar.range_max_m, len(course), mount)

    def signals(self, pose: Array, twist: Array, goal: Array) -> dict[str, Array]:
        """Return what is sensed now, (N, ...) each; call it once a period.

        Args:
            pose: (N, 3) x and y in m, yaw in rad.
            twist: (N, 3) m/s, m/s, rad/s.
            goal: (N, 3) as ``pose``.
        """
        given = {**planar_signals(pose, twist), **goal_signals(goal)}
        seen: dict[str, Array] = {}
        if SCAN in self._names or self._tracker is not None:
            seen[SCAN] = self._robots.scan()
        if self._people:
            seen |= self._seen_people(pose, seen)
        missing = [name for name in self._names if name not in given and name not in seen]
        if missing:
            raise UserError(f"Whoever drives wants the signal '{missing[0]}', which bases do not sense on a course.")
        return {name: seen[name] if name in seen else given[name] for name in self._names}

    def _seen_people(self, pose: Array, seen: dict[str, Array]) -> dict[str, Array]:
        if self._tracker is not None:
            self._tracker.update(seen[SCAN], pose, self._period_s)
            return self._tracker.signals()
        people = self._robots.people()
        if people is None:
            people = np.tile([FAR_M, 0.0, 0.01, 0.0, 0.0], (len(pose), 1, 1))
        return people_signals(people)
