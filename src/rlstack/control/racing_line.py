"""The racing line of a track by nonlinear programming, and a pure-pursuit controller that follows it.

The baseline of the racing task: it knows the track and the car's pose, while a policy sees only the scan. The car is a
bicycle model with limits on speed, acceleration, grip and steering rate, in curvilinear coordinates of the track's
centre line (as in Lot and Biral, IFAC 2014): lateral offset to the left and angle to it. Needs casadi (extra ``dev``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array

NODES = 192
"""Nodes of the line around the track."""


@dataclass(frozen=True, kw_only=True)
class CarLimits:
    """Limits of a car."""

    speed_m_s: float
    acceleration_m_s2: float
    """Largest acceleration forward and in braking."""
    grip_m_s2: float
    """Largest combined longitudinal and lateral acceleration."""
    bend_1_m: float
    """Largest curvature of its path."""
    bend_rate_1_m_s: float
    """Largest rate of the curvature."""
    outline_m: tuple[tuple[float, float], ...]
    """Corners in base_link that must stay on the track."""


@dataclass(frozen=True, eq=False)
class RacingLine:
    """A closed line with its speed, evenly spaced along the track's centre line."""

    points: Array
    """(NODES, 2) m: where base_link passes."""
    speed_m_s: Array
    """(NODES,)"""
    lap_s: float
    """Time of a flying lap that follows it exactly."""


def fastest_line(
    middle: Array,
    tangent: Array,
    curvature: Array,
    length_m: float,
    half_width_m: float,
    limits: CarLimits,
    margin_m: float = 0.0,
) -> RacingLine:
    """Return the fastest closed line between two walls.

    Args:
        middle: (K, 2) points of the track's centre line, evenly spaced, closed, m.
        tangent: (K, 2) unit vectors along it.
        curvature: (K,) 1/m.
        length_m: Length of the centre line.
        half_width_m: Distance from the centre line to either wall.
        limits: Limits of the car.
        margin_m: Distance that the car's outline keeps from the walls.

    Raises:
        RuntimeError: The solver found no line, for example because the track is too narrow.
    """
    import casadi as ca

    pick = (np.arange(NODES) * len(middle)) // NODES
    bend, step = curvature[pick], length_m / NODES
    opti = ca.Opti()
    # lateral offset, angle to the centre line, speed, path curvature; acceleration and curvature rate
    aside, angle, speed, turn = (opti.variable(NODES) for _ in range(4))
    push, steer = opti.variable(NODES), opti.variable(NODES)

    def after(array: ca.MX) -> ca.MX:
        return ca.vertcat(array[1:], array[0])

    slow = (1.0 - aside * bend) / (speed * ca.cos(angle))  # s per m of the centre line
    slopes = {
        "aside": (aside, (1.0 - aside * bend) * ca.tan(angle)),
        "angle": (angle, turn * (1.0 - aside * bend) / ca.cos(angle) - bend),
        "speed": (speed, push * slow),
        "turn": (turn, steer * slow),
    }
    for name, (now, slope) in slopes.items():
        mean = 0.5 * (slope + after(slope)) if name in ("aside", "angle") else slope
        opti.subject_to(after(now) - now == step * mean)
    lap = step * ca.sum1(slow)
    room = half_width_m - margin_m
    for x, y in limits.outline_m:
        ahead, left = x * ca.cos(angle) - y * ca.sin(angle), aside + x * ca.sin(angle) + y * ca.cos(angle)
        out = left - 0.5 * bend * ahead * ahead / (1.0 - bend * left)
        opti.subject_to(out <= room if y > 0.0 else out >= -room)
    opti.subject_to(opti.bounded(0.5, speed, limits.speed_m_s))
    opti.subject_to(opti.bounded(-limits.acceleration_m_s2, push, limits.acceleration_m_s2))
    opti.subject_to(opti.bounded(-limits.bend_1_m, turn, limits.bend_1_m))
    opti.subject_to(opti.bounded(-limits.bend_rate_1_m_s, steer, limits.bend_rate_1_m_s))
    opti.subject_to((speed * speed * turn) ** 2 + push * push <= limits.grip_m_s2**2)
    opti.subject_to(opti.bounded(-1.0, angle, 1.0))
    # a small smoothness cost: where only the top speed limits, many lines are equally fast
    opti.minimize(lap + 1e-5 * ca.sumsqr(steer) / NODES + 1e-4 * ca.sumsqr(push) / NODES)
    opti.set_initial(speed, np.minimum(2.0, limits.speed_m_s))
    opti.set_initial(turn, bend)
    opti.solver("ipopt", {"print_time": False}, {"print_level": 0, "sb": "yes", "max_iter": 500, "tol": 1e-5})
    found = opti.solve()
    offset = np.asarray(found.value(aside))
    normal = np.stack([-tangent[pick, 1], tangent[pick, 0]], axis=1)
    points = middle[pick] + offset[:, None] * normal
    return RacingLine(points, np.asarray(found.value(speed)), float(found.value(lap)))


@dataclass(frozen=True, kw_only=True)
class PursuitGains:
    """Gains of pure pursuit."""

    ahead_m: float = 0.35
    """Minimum look-ahead distance along the line."""
    ahead_s: float = 0.12
    """Look-ahead time: additional distance per m/s."""
    speed_share: float = 1.0
    """Fraction of the line's speed that is driven."""
    preview_s: float = 0.1
    """Preview time of the line's speed."""
    lead_s: float = 0.1
    """Prediction time of the pose that is steered from; compensates the steering lag."""


class RacingLineController:
    """Steers N cars to points ahead on their lines (Coulter, CMU-RI-TR-92-01), at the speeds of the lines.

    Args:
        lines: One for each car.
        gains: Gains shared by all cars.
    """

    inputs = ("position", "orientation", "linear_velocity", "angular_velocity")

    def __init__(self, lines: Sequence[RacingLine], gains: PursuitGains) -> None:
        self._gains = gains
        fine = [_resampled(line) for line in lines]
        most = max(len(points) for points, _, _ in fine)
        count = len(lines)
        self._points, self._speed = np.full((count, most, 2), np.inf), np.zeros((count, most))
        self._size, self._step = np.zeros(count, dtype=int), np.zeros(count)
        for k, (points, speed, step) in enumerate(fine):
            self._points[k, : len(points)], self._speed[k, : len(points)] = points, speed
            self._size[k], self._step[k] = len(points), step

    def reset(self, batch: int = 1) -> None:
        """No-op: each step searches for the nearest point again."""

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return ``twist`` (N, 2), m/s and rad/s."""
        gains, cars = self._gains, np.arange(len(self._size))
        place, speed = inputs["position"][:, :2], np.maximum(inputs["linear_velocity"][:, 0], 0.0)
        z, w = inputs["orientation"][:, 2], inputs["orientation"][:, 3]
        turned = 2.0 * np.arctan2(z, w) + gains.lead_s * inputs["angular_velocity"][:, 2]
        middle = turned - 0.5 * gains.lead_s * inputs["angular_velocity"][:, 2]
        place = place + (gains.lead_s * speed)[:, None] * np.stack([np.cos(middle), np.sin(middle)], axis=1)
        cos, sin = np.cos(turned), np.sin(turned)
        nearest = ((self._points - place[:, None]) ** 2).sum(axis=2).argmin(axis=1)

        def along(distance: Array) -> NDArray[np.intp]:
            return np.asarray((nearest + np.round(distance / self._step).astype(int)) % self._size)

        target = self._points[cars, along(gains.ahead_m + gains.ahead_s * speed)] - place
        left = target[:, 1] * cos - target[:, 0] * sin
        bend = 2.0 * left / (target**2).sum(axis=1)
        wanted = gains.speed_share * self._speed[cars, along(gains.preview_s * speed)]
        return {"twist": np.stack([wanted, wanted * bend], axis=1)}


def _resampled(line: RacingLine, step_m: float = 0.05) -> tuple[Array, Array, float]:
    """Return points, speeds and spacing of a closed line, evenly spaced along itself."""
    closed = np.concatenate([line.points, line.points[:1]])
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))])
    count = round(along[-1] / step_m)
    at = along[-1] * np.arange(count) / count
    points = np.stack([np.interp(at, along, closed[:, k]) for k in (0, 1)], axis=1)
    speed = np.interp(at, along, np.append(line.speed_m_s, line.speed_m_s[0]))
    return points, speed, float(along[-1] / count)
