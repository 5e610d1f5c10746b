"""Trajectory generators: circles, figure-eights, Lissajous figures, and random ones within a robot's limits.

Every path starts at the origin. Poses are evenly spaced in time, finely enough for linear interpolation.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.tasks.quadrotor.paths import Paths

Range = tuple[float, float]

STEP_S = 0.01
"""Default time between two poses, s."""


def lissajous(
    amplitude_m: ArrayLike,
    cycles: ArrayLike,
    phase_rad: ArrayLike,
    period_s: ArrayLike,
    *,
    laps: float = 1.0,
    ease_s: float = 0.0,
    yaw: ArrayLike = 0.0,
    step_s: float = STEP_S,
) -> Paths:
    """Return N figures ``amplitude sin(2 pi cycles t / period + phase)`` per axis, moved to start at the origin.

    Without ``ease_s`` a figure starts at full speed. With it, the rate of time grows from 0 to 1 over ``ease_s`` (as
    3 u^2 - 2 u^3), so the figure starts at rest without a jump in acceleration, and takes ``ease_s / 2`` longer.

    Args:
        amplitude_m: (N, 3) or (3,) m, world; half of the figure's size.
        cycles: (N, 3) or (3,) oscillations of each axis in one period; whole numbers close the figure.
        phase_rad: (N, 3) or (3,) rad.
        period_s: (N,) or scalar, s for a lap.
        laps: Number of periods.
        ease_s: Time until time runs at its full rate, s.
        yaw: (N,) or scalar, rad.
        step_s: Time between two poses, s.

    Raises:
        UserError: A time or the number of laps is not positive, or ``ease_s`` is negative.
    """
    arrays = [np.atleast_2d(np.asarray(a, dtype=float)) for a in (amplitude_m, cycles, phase_rad)]
    period = np.atleast_1d(np.asarray(period_s, dtype=float))
    heading = np.atleast_1d(np.asarray(yaw, dtype=float))
    _check_positive(period_s=float(period.min()), laps=laps, step_s=step_s)
    if not ease_s >= 0.0:
        raise UserError(f"ease_s is {ease_s:g}: must be 0 or more.")
    count = max(len(period), len(heading), *map(len, arrays))
    amplitude, turns, phase = (np.broadcast_to(a, (count, 3))[:, None] for a in arrays)
    period = np.broadcast_to(period, (count,))
    time = _times(period * laps + ease_s / 2.0, step_s)
    shown = _eased(time, ease_s)
    angle = 2.0 * np.pi * turns * (shown / period[:, None])[..., None] + phase
    position = amplitude * (np.sin(angle) - np.sin(phase))
    return Paths(time, position, np.broadcast_to(heading[:, None], time.shape).copy())


def figure_eight(
    count: int = 1,
    *,
    size_m: tuple[float, float] = (2.0, 1.0),
    period_s: float = 5.5,
    **options: float,
) -> Paths:
    """Return ``count`` copies of the benchmark figure-eight of quadrotor controllers: 2 m by 1 m in 5.5 s.

    x = sin(2 pi t / 5.5), y = sin(4 pi t / 5.5) / 2 in metres: the Lissajous figure of RAPTOR's published code and,
    rotated by 180 degrees, of Learning to Fly in Seconds' firmware. The robot hovers at the origin, and by default the
    figure starts at full speed (1.6 m/s), so that catching up is part of the error. On hardware both ease in over 2 s:
    ``ease_s=2`` is nearly the same (their rate grows linearly).

    Args:
        count: N.
        size_m: Size along x and y, m.
        period_s: For a lap, s.
        options: ``laps``, ``ease_s`` and ``step_s`` of :func:`lissajous`.
    """
    amplitude = np.tile([size_m[0] / 2.0, size_m[1] / 2.0, 0.0], (count, 1))
    return lissajous(amplitude, (1, 2, 0), (0.0, 0.0, 0.0), period_s, **options)


def circle(
    radius_m: ArrayLike,
    period_s: ArrayLike,
    *,
    clockwise: bool = False,
    **options: float,
) -> Paths:
    """Return N horizontal circles through the origin around (-radius, 0, 0), towards +y at first.

    Args:
        radius_m: (N,) or scalar, m.
        period_s: (N,) or scalar, s for a lap.
        clockwise: Fly towards -y at first, clockwise from above.
        options: ``laps``, ``ease_s`` and ``step_s`` of :func:`lissajous`.
    """
    radius = np.atleast_1d(np.asarray(radius_m, dtype=float))
    amplitude = radius[:, None] * np.array([1.0, -1.0 if clockwise else 1.0, 0.0])
    return lissajous(amplitude, (1, 1, 0), (np.pi / 2.0, 0.0, 0.0), period_s, **options)


def random_figures(
    rng: np.random.Generator, count: int, *, duration_s: float, ease_s: float = 0.0, step_s: float = STEP_S
) -> Paths:
    """Draw N variations of the standard figure-eight with random sizes, periods, orders, phases and tilt.

    They ignore the limits of robots: the fastest exceed those of some.

    Args:
        rng: Random generator.
        count: N.
        duration_s: Least duration of each path, s; the others are those of :func:`lissajous`.
    """
    amplitude = rng.uniform(0.3, 1.2, (count, 3)) * np.array([1.0, 0.6, 0.3])
    cycles = np.array([[1, 2, 1], [1, 1, 2], [1, 2, 3], [1, 3, 2]])[rng.integers(0, 4, count)]
    swap = rng.random(count) < 0.5
    amplitude[swap], cycles[swap] = amplitude[swap][:, [1, 0, 2]], cycles[swap][:, [1, 0, 2]]
    phase = rng.uniform(0.0, 2.0 * np.pi, (count, 3))
    phase[: count // 2] = 0.0
    shortest = 4.5
    period = rng.uniform(shortest, 2.0 * shortest, count)
    laps = duration_s / shortest + 1.0
    return lissajous(amplitude, cycles, phase, period, laps=laps, ease_s=ease_s, step_s=step_s)


def random_lissajous(
    rng: np.random.Generator,
    count: int,
    robot: Quadrotor,
    *,
    duration_s: float,
    size_m: tuple[float, float, float] = (2.0, 2.0, 1.0),
    speed_share: Range = (0.2, 0.6),
    acceleration_share: Range = (0.1, 0.5),
    ease_s: float = 1.0,
    step_s: float = STEP_S,
) -> Paths:
    """Draw N Lissajous figures with random sizes, whole cycles (1 to 3), phases and headings, within the limits.

    Args:
        rng: Random generator.
        count: N.
        robot: The robot whose limits apply.
        duration_s: Duration of each path, s; the last lap may be cut.
        size_m: Largest extent along x, y and z, m; the least is a quarter of it.
        speed_share: Range of the largest speed, as a share of the robot's limit (``limits.linear_velocity_m_s``).
        acceleration_share: Range of the largest acceleration, as a share of what :func:`slow_down` says.
        ease_s: See :func:`lissajous`; at least 0.5 s, which keeps the start within the limits too.
        step_s: Time between two poses, s.
    """
    _check_positive(duration_s=duration_s, step_s=step_s)
    if ease_s < 0.5:
        raise UserError(f"ease_s is {ease_s:g}: random figures start from rest, so give at least 0.5.")
    amplitude = rng.uniform(0.125, 0.5, (count, 3)) * size_m
    cycles = rng.integers(1, 4, (count, 3))
    phase = rng.uniform(0.0, 2.0 * np.pi, (count, 3))
    fast, hard = rng.uniform(*speed_share, count), rng.uniform(*acceleration_share, count)
    yaw = rng.uniform(-np.pi, np.pi, count)
    # At one cycle per second; the ease adds at most (amplitude x cycles x rate) / (2/3 ease) to the acceleration.
    angle = 2.0 * np.pi * cycles[:, None] * np.linspace(0.0, 1.0, 181)[:, None] + phase[:, None]
    scale = 2.0 * np.pi * cycles
    velocity = (amplitude * scale)[:, None] * np.cos(angle)
    acceleration = -(amplitude * scale**2)[:, None] * np.sin(angle)
    time = _times(np.full(count, duration_s), step_s)
    shown = _eased(time, ease_s)
    slow = slow_down(robot, velocity, acceleration, fast, hard)
    for _ in range(20):  # eased starts add acceleration: stretch by a few per cent until they fit
        angle = scale[:, None] * (shown / slow[:, None])[..., None] + phase[:, None]
        position = amplitude[:, None] * (np.sin(angle) - np.sin(phase)[:, None])
        more = slow_down(robot, *_differences(position, step_s), fast, hard)
        if more.max() <= 1.0:
            break
        slow = slow * np.maximum(more * 1.01, 1.0)
    return Paths(time, position, np.repeat(yaw[:, None], time.shape[1], axis=1))


def random_polynomials(
    rng: np.random.Generator,
    count: int,
    robot: Quadrotor,
    *,
    duration_s: float,
    legs: int = 6,
    size_m: tuple[float, float, float] = (2.0, 2.0, 1.0),
    speed_share: Range = (0.2, 0.7),
    acceleration_share: Range = (0.1, 0.6),
    turning: bool = False,
    step_s: float = STEP_S,
) -> Paths:
    """Draw N minimum-snap paths from rest to rest through random waypoints, within the limits.

    Waypoints are uniform in a box; between them run polynomials of degree 7 with all derivatives up to the sixth
    continuous, which minimise the integral of the squared snap (Mellinger and Kumar, ICRA 2011). Time is then
    stretched, for each path, until its largest speed and acceleration are its drawn shares of the limits. Shorter
    paths rest at their end until ``duration_s``; longer ones are cut.

    Args:
        rng: Random generator.
        count: N.
        robot: The robot whose limits apply.
        duration_s: Duration of each path, s.
        legs: Waypoints after the origin.
        size_m: The box around the origin, m.
        speed_share: As for :func:`random_lissajous`.
        acceleration_share: As for :func:`random_lissajous`.
        turning: Whether the heading changes smoothly between waypoints; otherwise it stays constant.
        step_s: Time between two poses, s.
    """
    _check_positive(duration_s=duration_s, step_s=step_s, legs=legs)
    places = rng.uniform(-0.5, 0.5, (count, legs + 1, 3)) * size_m
    places[:, 0] = 0.0
    fast, hard = rng.uniform(*speed_share, count), rng.uniform(*acceleration_share, count)
    yaws = rng.uniform(-np.pi, np.pi, (count, 1)) + turning * np.cumsum(rng.uniform(-0.5, 0.5, (count, legs + 1)), 1)
    coefficients = np.einsum("lkp,npd->nlkd", _minimum_snap(legs), np.concatenate([places, yaws[..., None]], axis=2))
    # One leg takes one unit of time here.
    fine = np.broadcast_to(np.linspace(0.0, legs, 40 * legs + 1), (count, 40 * legs + 1))
    velocity, acceleration = (_evaluate(coefficients[..., :3], fine, order) for order in (1, 2))
    leg_s = slow_down(robot, velocity, acceleration, fast, hard)
    time = _times(np.full(count, duration_s), step_s)
    pose = _evaluate(coefficients, np.minimum(time / leg_s[:, None], legs), 0)
    return Paths(time, pose[..., :3].copy(), pose[..., 3].copy())


def slow_down(
    robot: Quadrotor, velocity: Array, acceleration: Array, speed_share: ArrayLike, acceleration_share: ArrayLike
) -> Array:
    """Return the factors (N,) that stretch time so that motions reach given shares of the robot's limits.

    The limits: speed, ``limits.linear_velocity_m_s``; acceleration, the thrust margin beyond hovering,
    ``(thrust_to_weight - 1) g``, and gravity downward; and the tilt that the motion requires.

    Args:
        robot: The robot.
        velocity: (N, M, 3) m/s, world.
        acceleration: (N, M, 3) m/s^2, world.
        speed_share: (N,) or scalar, share of the speed limit.
        acceleration_share: (N,) or scalar, share of the other limits.
    """
    g = STANDARD_GRAVITY
    share = np.asarray(acceleration_share, dtype=float)
    speed = np.linalg.norm(velocity, axis=-1).max(axis=1)
    size = np.linalg.norm(acceleration, axis=-1).max(axis=1)
    down = np.maximum(-acceleration[..., 2], 0.0).max(axis=1)
    # Tilt: |a_xy| <= tan(limit) (g + a_z), linear in the square of the factor.
    slope = np.tan(np.minimum(share * robot.limits.tilt_rad, 1.5))
    level = np.linalg.norm(acceleration[..., :2], axis=-1)
    leaning = (level.T / slope - acceleration[..., 2].T).max(axis=0)
    stretch = np.stack(
        (
            speed / (np.asarray(speed_share) * robot.limits.linear_velocity_m_s),
            np.sqrt(size / (share * (robot.thrust_to_weight - 1.0) * g)),
            np.sqrt(down / (share * g)),
            np.sqrt(np.maximum(leaning, 0.0) / g),
        )
    ).max(axis=0)
    return np.asarray(np.maximum(stretch, 1e-6))


def _check_positive(**values: float) -> None:
    for name, number in values.items():
        if not number > 0.0:
            raise UserError(f"{name} is {number:g}: must be above 0.")


def _times(duration: Array, step_s: float) -> Array:
    """Return (N, M) times of poses that reach the longest of the durations (N,) s."""
    last = int(np.ceil(float(duration.max()) / step_s - 1e-9))
    return np.tile(np.arange(max(last, 1) + 1) * step_s, (len(duration), 1))


def _eased(time: Array, ease_s: float) -> Array:
    """Return the figure's own time at ``time`` when its rate grows from 0 to 1 over ``ease_s``."""
    if ease_s == 0.0:
        return time
    u = np.minimum(time / ease_s, 1.0)
    return np.asarray(ease_s * u**3 * (1.0 - 0.5 * u) + np.maximum(time - ease_s, 0.0))


def _differences(position: Array, step_s: float) -> tuple[Array, Array]:
    """Return velocity (N, M-1, 3) and acceleration (N, M-2, 3) between the samples (N, M, 3)."""
    velocity = np.diff(position, axis=1) / step_s
    return velocity, np.diff(velocity, axis=1) / step_s


@lru_cache(maxsize=16)
def _minimum_snap(legs: int) -> Array:
    """Return (legs, 8, legs + 1): the linear map from waypoints to each leg's polynomial coefficients, in unit time."""
    size = 8 * legs
    rows, places = [], []

    def condition(terms: list[tuple[int, float, float]], order: int, place: int | None) -> None:
        row = np.zeros(size)
        for leg, at, sign in terms:
            row[8 * leg : 8 * leg + 8] += sign * _powers(np.array(at), order)
        rows.append(row)
        places.append(np.eye(legs + 1)[place] if place is not None else np.zeros(legs + 1))

    for leg in range(legs):
        condition([(leg, 0.0, 1.0)], 0, leg)
        condition([(leg, 1.0, 1.0)], 0, leg + 1)
    for order in (1, 2, 3):
        condition([(0, 0.0, 1.0)], order, None)
        condition([(legs - 1, 1.0, 1.0)], order, None)
    for leg in range(legs - 1):
        for order in range(1, 7):
            condition([(leg, 1.0, 1.0), (leg + 1, 0.0, -1.0)], order, None)
    return np.linalg.solve(np.array(rows), np.array(places)).reshape(legs, 8, legs + 1)


def _powers(at: Array, order: int) -> Array:
    """Return (..., 8): derivatives of the given order of 1, t, ..., t^7."""
    exponent = np.arange(8)
    factor = np.ones(8)
    for k in range(order):
        factor *= exponent - k
    return np.asarray(factor * np.asarray(at)[..., None] ** np.maximum(exponent - order, 0))


def _evaluate(coefficients: Array, at: Array, order: int) -> Array:
    """Return (N, M, D) values of piecewise polynomials (N, legs, 8, D) at ``at`` (N, M) legs."""
    legs = coefficients.shape[1]
    leg = np.clip(at.astype(int), 0, legs - 1)
    local, robots = (at - leg)[..., None], np.arange(len(at))[:, None]
    factors = _powers(np.array(1.0), order)
    value = np.zeros((*at.shape, coefficients.shape[-1]))
    for k in range(7, order - 1, -1):
        value = value * local + factors[k] * coefficients[robots, leg, k]
    return value
