"""Wind: a mean velocity plus Dryden turbulence.

Source: MIL-F-8785C, "Flying Qualities of Piloted Airplanes", 1980, section 3.7, kept in MIL-HDBK-1797; low-altitude
model (height h from 10 to 1000 feet), wind speed W at 20 feet of 15, 30 and 45 knots for light, moderate and severe:

    sigma_w = 0.1 W      sigma_u = sigma_v = sigma_w / (0.177 + 0.000823 h)^0.4
    L_w = h              L_u = L_v = h / (0.177 + 0.000823 h)^1.2               (h and L in feet)

Along the mean wind (u), to the left of it (v) and up (w), white noise goes through the forming filters

    H_u(s) = sigma_u sqrt(2 L_u / (pi V)) / (1 + L_u s / V)
    H_v(s) = sigma_v sqrt(L_v / (pi V)) (1 + sqrt(3) L_v s / V) / (1 + L_v s / V)^2             w likewise

with V the vehicle's airspeed through the frozen turbulence. The filters are integrated exactly for any time step and
start in their stationary state. Angular rates of the air are omitted, because a multirotor is small compared to L. In
hover V is the wind speed, at least 1 m/s.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.fused import Kernel, clip, maximum
from rlstack.sim.physics.body import Vector, vector

if TYPE_CHECKING:
    from rlstack.sim.world import Wind


_FOOT, _KNOT = 0.3048, 1852.0 / 3600.0
SPEED_AT_20_FEET_M_S = {"none": 0.0, "light": 15.0 * _KNOT, "moderate": 30.0 * _KNOT, "severe": 45.0 * _KNOT}
"""W by turbulence level, m/s."""
LEAST_AIRSPEED_M_S = 1.0
STATE_ROWS = NOISE_ROWS = 5
"""States of the filters: one for u, two each for v and w."""

_ROOT = math.sqrt(3.0)
_BLOCK = 256  # normals drawn at a time for one robot


def intensities(height: Any, speed_at_20_feet: Any) -> tuple[Any, Any]:
    """Return the standard deviations of the horizontal and vertical components, m/s, at a height, m, for W, m/s."""
    up = 0.1 * speed_at_20_feet
    return up * np.exp(-0.4 * np.log(_profile(height))), up


def lengths(height: Any) -> tuple[Any, Any]:
    """Return the scale lengths of the horizontal and vertical components, m, at a height, m."""
    up = clip(height, 10.0 * _FOOT, 1000.0 * _FOOT)
    return up * np.exp(-1.2 * np.log(_profile(height))), up


def _profile(height: Any) -> Any:
    # heights are clipped to 10 to 1000 feet
    return 0.177 + (0.000823 / _FOOT) * clip(height, 10.0 * _FOOT, 1000.0 * _FOOT)


def stationary(noise: Vector) -> Vector:
    """Return a random stationary state (5,) of the filters, from standard normal values (5,)."""
    u, v1, v2, w1, w2 = noise
    # variances 1/2 and 1/4, covariance 1/4
    half = math.sqrt(0.5)
    return vector(u, half * v1, 0.5 * half * (v1 + v2), half * w1, 0.5 * half * (w1 + w2))


def advance(state: Vector, noise: Vector, duration: Any, airspeed: Any, height: Any) -> Vector:
    """Return the filters' state (5,) after ``duration`` s.

    Args:
        state: From :func:`stationary` or this function.
        noise: (5,) standard normal values.
        duration: s.
        airspeed: V, above 0 m/s.
        height: m.
    """
    along, up = lengths(height)
    keep = np.exp(-duration * airspeed / along)
    u = keep * state[0] + np.sqrt(1.0 - keep * keep) * noise[0]
    v = _second_order(state[1:3], noise[1:3], duration * airspeed / along)
    w = _second_order(state[3:5], noise[3:5], duration * airspeed / up)
    return vector(u, *v, *w)


def _second_order(state: Vector, noise: Vector, h: Any) -> tuple[Any, Any]:
    # x' = -x + noise and y' = x - y over h, with the Cholesky factor of the noise covariance
    keep = np.exp(-h)
    gone = keep * keep
    xx = 0.5 * (1.0 - gone)
    xy = 0.25 - gone * (0.5 * h + 0.25)
    yy = 0.25 - gone * (0.5 * h * h + 0.5 * h + 0.25)
    root = np.sqrt(xx)
    rest = np.sqrt(maximum(yy - xy * xy / xx, 0.0))
    return keep * state[0] + root * noise[0], keep * (h * state[0] + state[1]) + xy / root * noise[0] + rest * noise[1]


def gust(state: Vector, height: Any, speed_at_20_feet: Any) -> Vector:
    """Return the turbulence (3,) along the mean wind, to the left of it and up, m/s."""
    along, up = intensities(height, speed_at_20_feet)
    lateral = _ROOT * state[1] + (1.0 - _ROOT) * state[2]
    vertical = _ROOT * state[3] + (1.0 - _ROOT) * state[4]
    return vector(along * state[0], along * lateral, up * vertical)


@lru_cache(maxsize=1)
def _step() -> Kernel:
    """Return the kernel of one step for all robots, a dozen times as fast as numpy; it runs each physics step."""

    def step(state: Any, noise: Any, at: Any, wind: Any, duration: Any) -> dict[str, Any]:
        height, *velocity = at
        mean, (x, y), strength = wind[:3], wind[3:5], wind[5]
        through = np.array(velocity) - mean
        airspeed = maximum(np.sqrt((through * through).sum(axis=0)), LEAST_AIRSPEED_M_S)
        after = advance(state, noise, duration[0], airspeed, height)
        u, v, w = gust(after, height, strength)
        return {"next": after, "air": mean + vector(x * u - y * v, y * u + x * v, w)}

    return Kernel(step, {"state": STATE_ROWS, "noise": NOISE_ROWS, "at": 4, "wind": 6, "duration": 1}, dtype="float64")


class WindField:
    """The wind at N robots; each one's turbulence depends only on the seed and the robot's index.

    Args:
        wind: Settings of mean wind and turbulence.
        count: N.
        seed: At least 0.
        floor_height_m: World z of the floor.
    """

    def __init__(self, wind: Wind, count: int, seed: int = 0, floor_height_m: float = 0.0) -> None:
        self._turbulent, self._seed, self._floor = wind.turbulence != "none", seed, floor_height_m
        speed = math.hypot(*wind.velocity_m_s[:2])
        forward = [part / speed for part in wind.velocity_m_s[:2]] if speed > 0.0 else [1.0, 0.0]
        settings = [*wind.velocity_m_s, *forward, SPEED_AT_20_FEET_M_S[wind.turbulence]]
        self._streams = [np.random.default_rng((seed, index, 0)) for index in range(count)]
        self._episode = np.zeros(count, dtype=int)
        self._drawn = np.empty((_BLOCK, NOISE_ROWS, count))
        self._next = _BLOCK
        begin = [stationary(stream.standard_normal(NOISE_ROWS)) for stream in self._streams]
        self._states = [np.array(begin).T.copy(), np.zeros((STATE_ROWS, count))]  # now and after the next step
        self._noise, self._at, self._duration = (np.zeros((rows, count)) for rows in (NOISE_ROWS, 4, 1))
        self._air = np.tile(np.array(wind.velocity_m_s)[:, None], count)
        arrays = {
            "noise": self._noise,
            "at": self._at,
            "duration": self._duration,
            "wind": np.tile(np.array(settings)[:, None], count),
            "air": self._air,
        }
        a, b = self._states
        pairs = [(a, b), (b, a)] if self._turbulent else []
        self._launches = [_step().prepare({**arrays, "state": now, "next": after}) for now, after in pairs]

    def reset(self, index: int) -> None:
        """Start new turbulence for robot ``index``, for its next episode."""
        if not self._turbulent:
            return
        self._episode[index] += 1
        stream = self._streams[index] = np.random.default_rng((self._seed, index, int(self._episode[index])))
        self._states[0][:, index] = stationary(stream.standard_normal(NOISE_ROWS))
        self._drawn[self._next :, :, index] = stream.standard_normal((_BLOCK - self._next, NOISE_ROWS))

    def advance(self, duration_s: float, position: NDArray[Any], velocity: NDArray[Any]) -> Array:
        """Advance time; return the air velocity at each robot, (3, N) m/s, world.

        Args:
            duration_s: Above 0 s.
            position: (3, N) the robots' positions, m.
            velocity: (3, N) the robots' velocities, m/s, world.
        """
        if self._turbulent:
            if self._next == _BLOCK:
                for index, stream in enumerate(self._streams):
                    self._drawn[:, :, index] = stream.standard_normal((_BLOCK, NOISE_ROWS))
                self._next = 0
            self._noise[:] = self._drawn[self._next]
            self._next += 1
            self._at[0], self._at[1:], self._duration[:] = position[2] - self._floor, velocity, duration_s
            self._launches[0]()
            self._launches.reverse()
            self._states.reverse()
        return self._air.copy()
