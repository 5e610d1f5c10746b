"""Biases and delay of an IMU against odometry: rates and forces, integrated, against turns and changes of velocity.

No robot's model enters, so this holds for every robot that has both. From one instant of the odometry to another a
tenth of a second later, the gyroscope's rates add up to the turn, but for its bias and for what it measured late; the
accelerometer's forces, turned into the world by the odometry, add up with gravity to the change of velocity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.identification.recorded import Track
from rlstack.robots.frames import from_rotation_vector, inverse, multiply, normalise, rotate
from rlstack.robots.spec import STANDARD_GRAVITY

_SPAN_S = 0.1
"""Time over which rates and forces are added up: long against the noise of an attitude, short against a turn."""
_STEPS = 12
"""Steps of the integration in it."""
_LATEST_S, _COARSE_S = 0.1, 0.01
"""Largest delay either way that is looked for, and the step with which it is."""
_GAP = 3.0
"""Usual periods between two measurements above which nothing is added up across them."""
_BLOCKS = 12
"""Parts of a recording whose disagreement tells the intervals."""
_HUBER = 3.0
_ROUNDS = 5


@dataclass(frozen=True)
class Against:
    """What a sensor's vector is off the odometry.

    Args:
        bias: (3,) mean of what it measures too much.
        delay_s: How much later than the odometry it measures.
        deviation: (4,) standard deviations of bias and delay.
    """

    bias: Array
    delay_s: float
    deviation: Array


def rates_against(odom: Track, time_s: Array, rates: Array) -> Against | None:
    """Compare rates (n, 3), rad/s in the body, with the turns of the odometry's attitude; None: too little of both."""
    spans = _spans(odom, time_s)
    if len(spans) < 2 * _BLOCKS:
        return None
    begin_s, end_s = odom.time_s[spans].T
    attitude = odom.values["orientation"]
    turn = multiply(inverse(attitude[spans[:, 0]]), attitude[spans[:, 1]])
    middle_s, step_s = _middles(begin_s, end_s)

    def left(values: Array) -> Array:
        rate = _interpolated(middle_s + values[3], time_s, rates) - values[:3]
        added = np.tile([0.0, 0.0, 0.0, 1.0], (len(spans), 1))
        for k in range(_STEPS):
            added = multiply(added, from_rotation_vector(rate[:, k] * step_s[:, None]))
        return _small(multiply(inverse(added), turn))

    return _fitted(left, np.array([1e-3, 1e-3, 1e-3, 1e-4]), begin_s)


def forces_against(odom: Track, time_s: Array, forces: Array, delay_s: float | None) -> Against | None:
    """Compare specific forces (n, 3), m/s^2 in the body, with the changes of the odometry's velocity.

    Args:
        odom: Attitude, and velocity in the body.
        time_s: (n,) of the forces.
        forces: (n, 3).
        delay_s: The sensor's delay, where it is known; None: it is estimated.
    """
    spans = _spans(odom, time_s)
    if len(spans) < 2 * _BLOCKS:
        return None
    begin_s, end_s = odom.time_s[spans].T
    attitude = odom.values["orientation"]
    velocity = rotate(attitude, odom.values["linear_velocity"])
    change = velocity[spans[:, 1]] - velocity[spans[:, 0]]
    change[:, 2] += STANDARD_GRAVITY * (end_s - begin_s)
    middle_s, step_s = _middles(begin_s, end_s)
    turned = _between(middle_s, odom.time_s, attitude)

    def left(values: Array) -> Array:
        force = _interpolated(middle_s + values[3], time_s, forces) - values[:3]
        return np.asarray(change - np.sum(rotate(turned, force) * step_s[:, None, None], axis=1))

    return _fitted(left, np.array([1e-2, 1e-2, 1e-2, 1e-4]), begin_s, delay_s)


def _spans(odom: Track, time_s: Array) -> Array:
    """Return the first and last indices (S, 2) of spans of the odometry, without gaps, that the sensor covers."""
    count = max(round(_SPAN_S / odom.period_s), 1)
    first = np.arange(0, len(odom) - count, count)
    at = odom.time_s
    whole = at[first + count] - at[first] < (count + _GAP) * odom.period_s
    inside = (at[first] > time_s[0] + _LATEST_S) & (at[first + count] < time_s[-1] - _LATEST_S)
    gaps = np.concatenate([[0], np.cumsum(np.diff(time_s) > _GAP * float(np.median(np.diff(time_s))))])
    which = np.searchsorted(time_s, [at[first], at[first + count]]).clip(0, len(gaps) - 1)
    first = first[whole & inside & (gaps[which[0]] == gaps[which[1]])]
    return np.stack([first, first + count], axis=1)


def _middles(begin_s: Array, end_s: Array) -> tuple[Array, Array]:
    """Return the middles (S, steps) and the length (S,) of the steps of the integration, s."""
    step_s = (end_s - begin_s) / _STEPS
    return begin_s[:, None] + step_s[:, None] * (np.arange(_STEPS) + 0.5), step_s


def _interpolated(at_s: Array, time_s: Array, values: Array) -> Array:
    return np.stack([np.interp(at_s, time_s, values[:, axis]) for axis in range(values.shape[1])], axis=-1)


def _between(at_s: Array, time_s: Array, attitude: Array) -> Array:
    """Return attitudes (..., 4) at times between two measurements."""
    last = (np.searchsorted(time_s, at_s, side="right") - 1).clip(0, len(time_s) - 2)
    share = ((at_s - time_s[last]) / (time_s[last + 1] - time_s[last]))[..., None]
    before, after = attitude[last], attitude[last + 1]
    after = np.where(np.sum(before * after, axis=-1, keepdims=True) < 0.0, -after, after)
    return normalise(before + share * (after - before))


def _small(turn: Array) -> Array:
    return np.asarray(2.0 * turn[..., :3] * np.where(turn[..., 3:] < 0.0, -1.0, 1.0))


def _fitted(left: Callable[[Array], Array], steps: Array, begin_s: Array, delay_s: float | None = None) -> Against:
    """Return the least-squares estimate of bias and delay, robust, with the scatter of the blocks as its deviation."""
    values, free = np.zeros(4), 3 if delay_s is not None else 4
    values[3] = delay_s or 0.0
    if delay_s is None:
        tried = np.arange(-_LATEST_S, _LATEST_S + 0.5 * _COARSE_S, _COARSE_S)
        cost = [float(np.median(np.abs(_less_mean(left(np.array([0.0, 0.0, 0.0, late])))))) for late in tried]
        values[3] = tried[int(np.argmin(cost))]
    for _ in range(_ROUNDS):
        now = left(values)
        slopes = [(left(values + step) - now) / step.sum() for step in np.diag(steps)[:free]]
        slope = np.stack(slopes, axis=-1)  # (S, 3, free)
        scale = 1.4826 * np.median(np.abs(now), axis=0) + 1e-12
        weight = 1.0 / np.maximum(np.abs(now) / (_HUBER * scale), 1.0)
        normal = np.einsum("sak,sa,sal->kl", slope, weight, slope)
        pull = np.einsum("sak,sa,sa->sk", slope, weight, now)
        inverted = np.linalg.pinv(normal)
        values[:free] -= inverted @ pull.sum(axis=0)
        values[3] = np.clip(values[3], -_LATEST_S, _LATEST_S)
    block = np.minimum((np.argsort(np.argsort(begin_s)) * _BLOCKS) // len(begin_s), _BLOCKS - 1)
    now = left(values)
    pull = np.einsum("sak,sa,sa->sk", slope, weight, now)
    scores = np.stack([pull[block == k].sum(axis=0) for k in range(_BLOCKS)])
    spread = inverted @ (scores.T @ scores) @ inverted * _BLOCKS / (_BLOCKS - 1)
    deviation = np.zeros(4)
    deviation[:free] = np.sqrt(np.diag(spread))
    return Against(values[:3], float(values[3]), deviation)


def _less_mean(values: Array) -> Array:
    return np.asarray(values - np.median(values, axis=0))
