"""Pure pursuit of a path with speeds: the curvature of the arc to a point ahead on it.

R. C. Coulter, "Implementation of the Pure Pursuit Path Tracking Algorithm", Carnegie Mellon University 1992. The point
is farther ahead at higher speed. Speeds come from the path, or from its curvature: a forward and a backward pass
limit them to what grip and acceleration allow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.planner_interface import MOTION, POSE, Status, motion
from rlstack.errors import UserError
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class PursuitSettings:
    """Look-ahead and speeds."""

    rate_hz: float = value(10.0, unit="Hz", above=0.0)
    lookahead_s: float = value(0.35, unit="s", at_least=0.0)
    """Look-ahead time at the current speed."""
    least_m: float | None = value(None, unit="m", above=0.0)
    """Least look-ahead distance; default: 1.2 times the wheelbase or the base's reach."""
    most_m: float = value(5.0, unit="m", above=0.0)
    grip_m_s2: float = value(6.0, unit="m/s^2", above=0.0)
    """Lateral acceleration for computed speeds."""
    braking: float = value(0.8, above=0.0, at_most=1.0)
    """Share of the base's acceleration for braking in computed speeds."""
    speed: float = value(1.0, above=0.0, at_most=1.0)
    """Share of the path's speed that is driven."""
    off_m: float = value(1.0, unit="m", above=0.0)
    """Distance from the path at which a robot counts as stuck."""


@dataclass(frozen=True)
class Line:
    """A path with speeds.

    Args:
        points: (points, 2) m, odom.
        speed: (points,) m/s.
        closed: Whether the last point leads to the first.
    """

    points: Array
    speed: Array
    closed: bool = False


def speed_profile(
    points: Array, closed: bool, *, most_m_s: float, grip_m_s2: float, acceleration_m_s2: float, braking_m_s2: float
) -> Array:
    """Return the greatest speeds (points,) m/s along a path that grip, motors and brakes allow.

    An open path ends at rest. Lateral and longitudinal acceleration share the grip (an ellipse).

    Args:
        points: (points, 2) m.
        closed: Whether the last point leads to the first.
        most_m_s: Largest speed of the base.
        grip_m_s2: Largest lateral acceleration.
        acceleration_m_s2: Largest forward acceleration.
        braking_m_s2: Largest deceleration.
    """
    bend, step = _bends(points, closed)
    speed = np.minimum(most_m_s, np.sqrt(grip_m_s2 / np.maximum(bend, 1e-9)))
    if not closed:
        speed[-1] = 0.0
    count = len(points)
    # a second lap, so that speeds are consistent across the seam
    for _ in range(2 if closed else 1):
        for k in range(count) if closed else range(1, count):
            before = k - 1
            left = math.sqrt(max(1.0 - (speed[before] ** 2 * bend[before] / grip_m_s2) ** 2, 0.0))
            speed[k] = min(speed[k], math.sqrt(speed[before] ** 2 + 2.0 * acceleration_m_s2 * left * step[before]))
        for k in range(count - 1, -1 if closed else 0, -1):
            before = k - 1
            left = math.sqrt(max(1.0 - (speed[k] ** 2 * bend[k] / grip_m_s2) ** 2, 0.0))
            speed[before] = min(speed[before], math.sqrt(speed[k] ** 2 + 2.0 * braking_m_s2 * left * step[before]))
    return speed


def _bends(points: Array, closed: bool) -> tuple[Array, Array]:
    """Return the curvature (points,) 1/m through each point and its neighbours, and the distance to the next one."""
    before, after = np.roll(points, 1, axis=0), np.roll(points, -1, axis=0)
    one, two, across = points - before, after - points, after - before
    lengths = [np.maximum(np.linalg.norm(v, axis=1), 1e-9) for v in (one, two, across)]
    bend = 2.0 * np.abs(one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0]) / (lengths[0] * lengths[1] * lengths[2])
    if not closed:
        bend[[0, -1]] = 0.0
    return bend, lengths[1]


class PurePursuit:
    """Drives N robots along paths: those it was given, or those among the signals.

    Args:
        body: The base.
        settings: Look-ahead and speeds.
        lines: One for all robots, or one for each; None: the signals ``path_position`` and ``path_time``, whose poses
            are due that long from now; their speeds are made by :func:`speed_profile` and are no greater than what
            the times say.
    """

    def __init__(self, body: BaseModel, settings: PursuitSettings, lines: tuple[Line, ...] | None = None) -> None:
        self.body, self.settings, self.lines = body, settings, lines
        path = () if lines is not None else ("path_time", "path_position")
        self.inputs = (*POSE, *MOTION, *path)
        self.outputs = ("planar_twist",) if body.drive == "holonomic" else ("twist",)
        self._least = settings.least_m or 1.2 * (body.wheelbase_m or body.reach_m)
        self.reset(1 if lines is None else len(lines))

    def reset(self, batch: int = 1) -> None:
        """Reset the places on the paths, for ``batch`` robots."""
        if self.lines is not None and len(self.lines) not in (1, batch):
            raise UserError(f"{len(self.lines)} paths were given for {batch} robots: give one, or one for each.")
        self.status = np.full(batch, Status.DRIVING, dtype=np.int8)
        self._at = np.full(batch, -1)

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return commands, and update ``status``: robots too far off their paths are stuck."""
        now = motion(inputs)
        command = np.zeros((len(now.position), 2))
        for n in range(len(command)):
            line = self._line(inputs, n)
            command[n] = self._pursue(n, line, now.position[n], float(now.heading[n]), float(now.speed[n]))
        if self.outputs[0] == "planar_twist":
            command = np.column_stack((command[:, 0], np.zeros(len(command)), command[:, 1]))
        return {self.outputs[0]: command}

    def _line(self, inputs: Mapping[str, Array], n: int) -> Line:
        if self.lines is not None:
            return self.lines[n if len(self.lines) > 1 else 0]
        points = np.asarray(inputs["path_position"][n], dtype=float)[:, :2]
        time = np.asarray(inputs["path_time"][n], dtype=float)
        apart = np.linalg.norm(np.diff(points, axis=0), axis=1)
        keep = np.concatenate(([True], apart > 1e-6))
        points, time = points[keep], time[keep]
        if len(points) < 2:
            return Line(np.repeat(points[:1], 2, axis=0), np.zeros(2))
        speed = speed_profile(
            points,
            False,
            most_m_s=self.body.speed_m_s,
            grip_m_s2=self.settings.grip_m_s2,
            acceleration_m_s2=self.body.acceleration_m_s2,
            braking_m_s2=self.settings.braking * self.body.acceleration_m_s2,
        )
        due = np.linalg.norm(np.diff(points, axis=0), axis=1) / np.maximum(np.diff(time), 1e-3)
        speed[:-1] = np.minimum(speed[:-1], np.maximum(due, 0.05 * self.body.speed_m_s))
        return Line(points, speed)

    def _pursue(self, n: int, line: Line, position: Array, heading: float, speed: float) -> tuple[float, float]:
        s, body, count = self.settings, self.body, len(line.points)
        away = np.linalg.norm(line.points - position, axis=1)
        if self._at[n] < 0 or self.lines is None:
            here = int(away.argmin())
        else:  # only from there on, and a little back: paths may cross themselves
            window = np.arange(self._at[n] - 3, self._at[n] + max(10, count // 10))
            window = window % count if line.closed else np.clip(window, 0, count - 1)
            here = int(window[away[window].argmin()])
        self._at[n] = here
        gone = away[here] > s.off_m
        ends = not line.closed and here >= count - 2 and float(away[-1]) < self._least
        self.status[n] = Status.STUCK if gone else Status.ARRIVED if ends else Status.DRIVING
        if gone or (ends and away[-1] < 0.3 * self._least):
            return 0.0, 0.0
        reach = min(max(self._least, s.lookahead_s * abs(speed)), s.most_m)
        target = _ahead(line, here, position, reach)
        dx, dy = target - position
        x, y = math.cos(heading) * dx + math.sin(heading) * dy, math.cos(heading) * dy - math.sin(heading) * dx
        curvature = 2.0 * y / max(x * x + y * y, 1e-6)
        # the path's speed where the base will be once it has responded
        late = body.delay_s + 1.0 / s.rate_hz
        then = _ahead_index(line, here, abs(speed) * late)
        wanted = s.speed * min(float(line.speed[then]), body.speed_m_s)
        if here == 0 and not line.closed:
            wanted = max(wanted, 0.1 * body.speed_m_s)
        if math.isinf(body.curvature_per_m):
            if x < 0.0:  # behind: turn on the spot first
                return 0.0, math.copysign(0.5 * body.turning_rad_s, y)
            wanted = min(wanted, body.turning_rad_s / max(abs(curvature), 1e-9))
        else:
            curvature = min(max(curvature, -body.curvature_per_m), body.curvature_per_m)
        turning = min(max(wanted * curvature, -body.turning_rad_s), body.turning_rad_s)
        return wanted, turning


def _ahead_index(line: Line, here: int, distance_m: float) -> int:
    count, left, k = len(line.points), distance_m, here
    while left > 0.0:
        following = (k + 1) % count if line.closed else k + 1
        if following >= count or following == here:
            return k
        left -= float(np.linalg.norm(line.points[following] - line.points[k]))
        k = following
    return k


def _ahead(line: Line, here: int, position: Array, reach_m: float) -> Array:
    """Return the first point of a path from ``here`` on that is ``reach_m`` from ``position``, between its points."""
    count, k = len(line.points), here
    for _ in range(count):
        following = (k + 1) % count if line.closed else k + 1
        if following >= count:
            return line.points[-1]
        a, b = line.points[k] - position, line.points[following] - position
        if np.linalg.norm(b) >= reach_m:
            along = b - a
            p, q, r = along @ along, a @ along, a @ a - reach_m * reach_m
            root = q * q - p * r
            share = (-q + math.sqrt(root)) / p if root > 0.0 and p > 0.0 else 1.0
            return np.asarray(line.points[k] + min(max(share, 0.0), 1.0) * along)
        k = following
    return line.points[k]
