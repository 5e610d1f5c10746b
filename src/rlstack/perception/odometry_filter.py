"""Odometry of a flying robot from its IMU, and a motion capture's poses or optical flow with a rangefinder.

An error-state Kalman filter (Solà, "Quaternion kinematics for the error-state Kalman filter", arXiv 1711.02508) of
position, velocity, attitude and the IMU's biases. Measurements may be late and out of order: the last half second is
kept, and what follows a late measurement is computed again.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from rlstack.arrays import Array
from rlstack.perception.odometry_state import (
    DOWN,
    SIZE,
    TURN,
    FilterSettings,
    State,
    V,
    cross,
    to_matrix_quickly,
)
from rlstack.robots.frames import from_matrix, inverse, multiply, normalise

POSE, FLOW = "pose", "flow"
"""Where the position comes from: poses of a motion capture, or optical flow and a rangefinder."""

KEPT_S = 0.5
"""For how long samples are kept; a measurement that is later is refused."""
_GAP_S = 0.1
"""A longer time without the IMU begins anew."""
_RESTING = 25
"""Samples of the IMU whose mean is the direction of gravity where nothing else tells the attitude."""


Correction = Callable[[State], State | None]


@dataclass(eq=False)
class _Sample:
    """A sample of the IMU, or a measurement, and the state after it."""

    time_s: float
    imu: tuple[Array, Array] | None
    correct: Correction | None
    after: State


@dataclass
class FilterCounts:
    """Counters since the start."""

    measurements: int = 0
    outliers: int = 0
    too_late: int = 0
    resets: int = 0
    longest_delay_s: float = field(default=0.0)


class OdometryFilter:
    """The filter; feed it with :meth:`take_imu` and any of the measurements.

    Args:
        settings: Noise and limits.
        on_floor: Whether flow and range alone give the position: it begins level, above the floor at the origin, once
            the IMU has been at rest for some samples. Otherwise the first pose begins it.
    """

    def __init__(self, settings: FilterSettings | None = None, *, on_floor: bool = False) -> None:
        self.settings = settings or FilterSettings()
        self.counts = FilterCounts()
        self._on_floor = on_floor
        self._samples: list[_Sample] = []
        self._waiting: list[tuple[float, Correction]] = []
        self._still: list[tuple[Array, Array]] = []
        self._accepted_s = -math.inf

    @property
    def state(self) -> State | None:
        """The newest estimate; None: nothing has begun it yet."""
        return self._samples[-1].after if self._samples else None

    @property
    def time_s(self) -> float:
        """Time of the newest estimate, s."""
        return self._samples[-1].time_s if self._samples else -math.inf

    @property
    def angular_velocity(self) -> Array:
        """(3,) rad/s in the body frame, without the bias."""
        newest = self._samples[-1]
        assert newest.imu is not None
        return newest.imu[0] - newest.after.angular_velocity_bias

    def reset(self) -> None:
        """Forget everything but the counters."""
        self._samples, self._waiting, self._still, self._accepted_s = [], [], [], -math.inf

    def take_imu(self, time_s: float, angular_velocity: Array, acceleration: Array) -> bool:
        """Take a sample of the IMU; return whether there is an estimate at its time.

        Args:
            time_s: When it was measured.
            angular_velocity: (3,) rad/s, body frame.
            acceleration: (3,) m/s^2, gravity included: (0, 0, 9.81) at rest.
        """
        imu = (np.asarray(angular_velocity, dtype=float), np.asarray(acceleration, dtype=float))
        if not self._samples:
            self._begin_on_floor(time_s, imu)
            return bool(self._samples)
        if time_s <= self.time_s:
            if self.time_s - time_s < KEPT_S:
                return False  # out of order: the newest is kept
            self.reset()
            return False
        if time_s - self.time_s > _GAP_S:
            self.counts.resets += 1
            self.reset()
            return False
        self._samples.append(_Sample(time_s, imu, None, self._samples[-1].after))
        self._again(len(self._samples) - 1)
        ready = [one for one in self._waiting if one[0] <= time_s]
        self._waiting = [one for one in self._waiting if one[0] > time_s]
        for at_s, correct in ready:
            self._insert(at_s, correct)
        while self._samples[0].time_s < time_s - KEPT_S:
            del self._samples[0]
        return True

    def take_pose(self, time_s: float, position: Array, orientation: Array) -> None:
        """Take a pose, as of a motion capture or of visual odometry.

        Args:
            time_s: When it was measured; by up to :data:`KEPT_S` before the newest sample of the IMU.
            position: (3,) m, world.
            orientation: (4,) xyzw, body in world.
        """
        place, turn = np.asarray(position, dtype=float), normalise(np.asarray(orientation, dtype=float))
        s = self.settings
        if not self._samples:
            self._begin(time_s, place, turn)
            return

        def correct(state: State) -> State | None:
            there = state.corrected(place - state.position, _OF_POSITION, np.full(3, s.position_m**2), s.gate)
            if there is None:
                return None
            apart = multiply(inverse(there.orientation), turn)
            angle = 2.0 * apart[:3] * (1.0 if apart[3] >= 0.0 else -1.0)
            return there.corrected(angle, _OF_TURN, np.full(3, s.orientation_rad**2), s.gate)

        self._measured(time_s, correct, lambda: self._begin(time_s, place, turn))

    def take_flow(self, time_s: float, velocity: Array) -> None:
        """Take the velocity over the floor by optical flow: (2,) m/s, forward and left in the body frame."""
        seen, noise = np.asarray(velocity, dtype=float), np.full(2, self.settings.flow_m_s**2)

        def correct(state: State) -> State | None:
            turn = to_matrix_quickly(state.orientation)
            own = turn.T @ state.velocity
            jacobian = np.zeros((2, SIZE))
            jacobian[:, V], jacobian[:, TURN] = turn.T[:2], cross(own)[:2]
            return state.corrected(seen - own[:2], jacobian, noise, self.settings.gate)

        self._measured(time_s, correct, lambda: self._loosen(V, 1.0))

    def take_range(self, time_s: float, distance_m: float) -> None:
        """Take the distance to a level floor at height 0, along the body's axis that points down, m."""

        def correct(state: State) -> State | None:
            turn = to_matrix_quickly(state.orientation)
            if turn[2, 2] < 0.5:
                return state  # tilted by more than 60 degrees it looks elsewhere
            height = float(state.position[2])
            jacobian = np.zeros((1, SIZE))
            jacobian[0, 2] = 1.0 / turn[2, 2]
            jacobian[0, 6:8] = height / turn[2, 2] ** 2 * np.array([turn[2, 1], -turn[2, 0]])
            apart = np.array([distance_m - height / turn[2, 2]])
            return state.corrected(apart, jacobian, np.array([self.settings.range_m**2]), self.settings.gate)

        self._measured(time_s, correct, lambda: self._loosen(slice(2, 3), 0.5))

    # Beginning -------------------------------------------------------------------------------------------------

    def _begin(self, time_s: float, position: Array, orientation: Array, turn_rad: float = 0.0) -> None:
        s = self.settings
        deviations = np.repeat([s.position_m, 0.5, turn_rad or s.orientation_rad, 0.2, 0.02], 3)
        state = State(position, np.zeros(3), orientation, np.zeros(3), np.zeros(3), np.diag(deviations**2))
        imu = (np.zeros(3), -DOWN)
        self._samples, self._waiting = [_Sample(time_s, imu, None, state)], []
        self._accepted_s = time_s

    def _begin_on_floor(self, time_s: float, imu: tuple[Array, Array]) -> None:
        if not self._on_floor:
            return
        self._still.append(imu)
        if len(self._still) < _RESTING:
            return
        up = normalise_vector(np.mean([one[1] for one in self._still], axis=0))
        gyro = np.mean([one[0] for one in self._still], axis=0)
        side = normalise_vector(np.cross(up, [1.0, 0.0, 0.0]))
        level = from_matrix(np.stack([np.cross(side, up), side, up]))
        self._still = []
        self._begin(time_s, np.zeros(3), level, turn_rad=0.02)
        first = self._samples[0]
        first.after = replace(first.after, angular_velocity_bias=gyro)

    def _loosen(self, part: slice, deviation: float) -> None:
        """Believe less in a part of the newest state, so that measurements that were outliers count."""
        newest = self._samples[-1].after
        covariance = newest.covariance.copy()
        covariance[part, part] += deviation**2 * np.eye(part.stop - part.start)
        self._samples[-1].after = replace(newest, covariance=covariance)

    # Measurements ----------------------------------------------------------------------------------------------

    def _measured(self, time_s: float, correct: Correction, anew: Callable[[], None]) -> None:
        if not self._samples:
            return
        self.counts.measurements += 1
        self.counts.longest_delay_s = max(self.counts.longest_delay_s, self.time_s - time_s)
        if time_s < self._samples[0].time_s:
            self.counts.too_late += 1
            return
        if self.counts.outliers and time_s - self._accepted_s > self.settings.patience_s:
            self.counts.resets += 1
            self._accepted_s = time_s
            anew()
            return
        if time_s > self.time_s:
            self._waiting.append((time_s, correct))
        else:
            self._insert(time_s, correct)

    def _insert(self, time_s: float, correct: Correction) -> None:
        place = bisect.bisect_right(self._samples, time_s, key=lambda one: one.time_s)
        if place == 0:
            self.counts.too_late += 1
            return
        following = next((one.imu for one in self._samples[place:] if one.imu is not None), None)
        held = following or next(one.imu for one in reversed(self._samples[:place]) if one.imu is not None)
        before = self._samples[place - 1]
        state = before.after
        if time_s > before.time_s:
            state = state.moved(time_s - before.time_s, *held, self.settings)
        if correct(state) is None:
            self.counts.outliers += 1
            return
        self._accepted_s = max(self._accepted_s, time_s)
        self._samples.insert(place, _Sample(time_s, held, correct, state))
        self._again(place)

    def _again(self, place: int) -> None:
        """Compute the states from a place on."""
        for k in range(place, len(self._samples)):
            before, now = self._samples[k - 1], self._samples[k]
            state, step_s = before.after, now.time_s - before.time_s
            if now.imu is not None and step_s > 0.0:
                state = state.moved(step_s, *now.imu, self.settings)
            if now.correct is not None:
                state = now.correct(state) or state
            now.after = state


_OF_POSITION = np.hstack([np.eye(3), np.zeros((3, 12))])
_OF_TURN = np.hstack([np.zeros((3, 6)), np.eye(3), np.zeros((3, 6))])


def normalise_vector(v: Array) -> Array:
    """Return a vector (3,) of length 1."""
    found: Array = np.asarray(v, dtype=float) / np.linalg.norm(v)
    return found
