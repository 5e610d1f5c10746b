from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.arrays import Array
from rlstack.perception.odometry_filter import OdometryFilter
from rlstack.perception.odometry_state import FilterSettings, State
from rlstack.robots.frames import from_rotation_vector, inverse, multiply, rotate, rotate_inverse, to_matrix

GRAVITY = np.array([0.0, 0.0, 9.81])
STEP_S = 0.004
SETTINGS = FilterSettings(imu_hz=1.0 / STEP_S)
few = settings(deadline=None, max_examples=4)


class Motion:
    """A smooth flight with its exact IMU: position, attitude and their derivatives as functions of time."""

    def __init__(self, seed: int, size: float = 1.0) -> None:
        random = np.random.default_rng(seed)
        self._across, self._beat = size * random.uniform(0.1, 0.6, 3), random.uniform(1.0, 3.0, 3)
        self._turns, self._pace = size * random.uniform(0.05, 0.3, 3), random.uniform(0.5, 2.0, 3)

    def position(self, t: float) -> Array:
        return self._across * np.sin(self._beat * t) + np.array([0.0, 0.0, 1.0])

    def velocity(self, t: float) -> Array:
        return self._across * self._beat * np.cos(self._beat * t)

    def orientation(self, t: float) -> Array:
        return from_rotation_vector(self._turns * np.sin(self._pace * t))

    def rates(self, t: float) -> Array:
        apart = multiply(inverse(self.orientation(t - 1e-5)), self.orientation(t + 1e-5))
        return 2.0 * apart[:3] / 2e-5

    def force(self, t: float) -> Array:
        gained = -self._across * self._beat**2 * np.sin(self._beat * t)
        return rotate_inverse(self.orientation(t), gained + GRAVITY)


def off(state: State, motion: Motion, t: float) -> Array:
    """Return the error of position, velocity and turn, (9,)."""
    apart = multiply(inverse(state.orientation), motion.orientation(t))
    turn = 2.0 * apart[:3] * np.sign(apart[3])
    return np.concatenate([motion.position(t) - state.position, motion.velocity(t) - state.velocity, turn])


def fly(
    motion: Motion,
    seconds: float,
    *,
    every: int = 3,
    noise: bool = True,
    bias: Sequence[float] = (0.0, 0.0, 0.0),
    seed: int = 0,
    lost: range = range(0),
) -> tuple[OdometryFilter, float]:
    """Fly with poses at every few samples of the IMU; ``lost``: numbers of the poses that are wrong by 2 m."""
    random, made = np.random.default_rng(seed), OdometryFilter(SETTINGS)
    scale, count, t = float(noise), 0, 0.0
    for k in range(round(seconds / STEP_S)):
        t, middle = k * STEP_S, (k - 0.5) * STEP_S  # a sample holds over the time before it
        gyro = motion.rates(middle) + scale * SETTINGS.angular_velocity_rad_s * random.standard_normal(3)
        force = motion.force(middle) + scale * SETTINGS.acceleration_m_s2 * random.standard_normal(3)
        made.take_imu(t, gyro, force + np.array(bias))
        if k % every == 0:
            place = motion.position(t) + scale * SETTINGS.position_m * random.standard_normal(3)
            turn = from_rotation_vector(scale * SETTINGS.orientation_rad * random.standard_normal(3))
            place = place + np.array([2.0, 0.0, 0.0]) * (count in lost)
            made.take_pose(t, place, multiply(motion.orientation(t), turn))
            count += 1
    return made, t


@few
@given(seed=st.integers(0, 1000))
def test_without_noise_it_follows_any_smooth_flight(seed: int) -> None:
    motion = Motion(seed)
    made, t = fly(motion, 1.0, noise=False)
    assert made.state is not None and np.abs(off(made.state, motion, t)).max() < 0.01
    assert made.counts.outliers == made.counts.resets == 0


def test_its_errors_are_as_large_as_its_covariance_says() -> None:
    errors = []
    for seed in range(6):
        motion = Motion(seed)
        made, t = fly(motion, 1.2, seed=seed)
        assert made.state is not None
        error = off(made.state, motion, t)
        errors.append(error @ np.linalg.solve(made.state.covariance[:9, :9], error))
    assert 3.0 < np.mean(errors) < 18.0  # 9 is expected of nine normal values


def test_it_finds_the_bias_of_the_accelerometer() -> None:
    made, _ = fly(Motion(3), 4.0, bias=(0.15, -0.1, 0.1), every=2)
    assert made.state is not None
    np.testing.assert_allclose(made.state.acceleration_bias, (0.15, -0.1, 0.1), atol=0.06)


@few
@given(delays=st.lists(st.integers(0, 40), min_size=12, max_size=12), seed=st.integers(0, 50))
def test_late_measurements_give_the_same_as_timely_ones(delays: list[int], seed: int) -> None:
    motion, ends = Motion(seed), []
    for late in (False, True):
        made = OdometryFilter(SETTINGS)
        made.take_pose(-STEP_S, motion.position(-STEP_S), motion.orientation(-STEP_S))
        due: dict[int, list[int]] = {}
        for number, delay in enumerate(delays):
            due.setdefault(4 * number + delay * late, []).append(number)
        for k in range(100):
            made.take_imu(k * STEP_S, motion.rates(k * STEP_S), motion.force(k * STEP_S))
            for number in due.get(k, []):
                at = 4 * number * STEP_S - 0.4 * STEP_S  # between two samples
                made.take_pose(at, motion.position(at), motion.orientation(at))
        ends.append(made.state)
    for part in ("position", "velocity", "orientation", "covariance"):
        np.testing.assert_allclose(getattr(ends[0], part), getattr(ends[1], part), atol=1e-9)


@few
@given(seed=st.integers(0, 1000), heading=st.floats(-3.0, 3.0))
def test_a_turned_world_gives_the_same_turned(seed: int, heading: float) -> None:
    motion, turn = Motion(seed), from_rotation_vector([0.0, 0.0, heading])
    pair = [OdometryFilter(SETTINGS), OdometryFilter(SETTINGS)]
    for k in range(60):
        t = k * STEP_S
        for made, by in zip(pair, (np.array([0.0, 0.0, 0.0, 1.0]), turn)):
            made.take_imu(t, motion.rates(t), motion.force(t))
            if k % 3 == 0:
                made.take_pose(t, rotate(by, motion.position(t)), multiply(by, motion.orientation(t)))
    one, two = pair[0].state, pair[1].state
    assert one is not None and two is not None
    np.testing.assert_allclose(two.position, rotate(turn, one.position), atol=1e-8)
    np.testing.assert_allclose(two.velocity, rotate(turn, one.velocity), atol=1e-8)


def a_state(seed: int) -> State:
    random = np.random.default_rng(seed)
    turn = from_rotation_vector(0.4 * random.standard_normal(3))
    place, speed = random.standard_normal(3) + np.array([0.0, 0.0, 3.0]), random.standard_normal(3)
    return State(place, speed, turn, np.zeros(3), np.zeros(3), np.eye(15))


def moved(state: State, error: Array) -> State:
    turn = multiply(state.orientation, from_rotation_vector(error[6:9]))
    return State(state.position + error[:3], state.velocity + error[3:6], turn, error[9:12], error[12:15], np.eye(15))


@few
@given(seed=st.integers(0, 1000))
def test_the_motions_jacobian_is_its_derivative(seed: int) -> None:
    state, random = a_state(seed), np.random.default_rng(seed + 1)
    rates, force = random.standard_normal(3), random.standard_normal(3) + GRAVITY
    still = FilterSettings(0.0, 0.0, 0.0, 0.0)
    covariance = state.moved(STEP_S, rates, force, still).covariance
    columns = []
    for k in range(15):
        ends = [moved(state, s * 1e-5 * np.eye(15)[k]).moved(STEP_S, rates, force, still) for s in (1.0, -1.0)]
        apart = multiply(inverse(ends[1].orientation), ends[0].orientation)
        rest = [
            ends[0].acceleration_bias - ends[1].acceleration_bias,
            (ends[0].angular_velocity_bias - ends[1].angular_velocity_bias),
        ]
        columns.append(
            np.concatenate(
                [ends[0].position - ends[1].position, ends[0].velocity - ends[1].velocity, 2.0 * apart[:3], *rest]
            )
            / 2e-5
        )
    change = np.array(columns).T
    np.testing.assert_allclose(covariance, change @ change.T, atol=3e-4)


@few
@given(seed=st.integers(0, 1000))
def test_flow_and_range_pull_the_estimate_towards_what_they_measure(seed: int) -> None:
    state = a_state(seed)
    for measure in ("flow", "range"):
        made = OdometryFilter(SETTINGS)
        made.take_pose(0.0, state.position, state.orientation)
        made.take_imu(STEP_S, np.zeros(3), rotate_inverse(state.orientation, GRAVITY))
        before = made.state
        assert before is not None
        turn = to_matrix(before.orientation)
        if measure == "flow":
            own = (turn.T @ before.velocity)[:2]
            made.take_flow(STEP_S, own + 0.1)
            assert made.state is not None
            gained = (to_matrix(made.state.orientation).T @ made.state.velocity)[:2] - own
            assert (gained > 0.05).all() and (gained < 0.1).all()
        else:
            made.take_range(STEP_S, before.position[2] / turn[2, 2] + 0.002)
            assert made.state is not None and before.position[2] < made.state.position[2] < before.position[2] + 0.002


class TakeOff(Motion):
    """Up from the floor, where it was at rest, and to the side."""

    def position(self, t: float) -> Array:
        return (1.0 - np.cos(self._beat * t)) * self._across * np.array([1.0, 1.0, 0.0]) + [
            0.0,
            0.0,
            0.5 - 0.5 * np.cos(t),
        ]

    def velocity(self, t: float) -> Array:
        return np.sin(self._beat * t) * self._beat * self._across * np.array([1.0, 1.0, 0.0]) + [
            0.0,
            0.0,
            0.5 * np.sin(t),
        ]

    def force(self, t: float) -> Array:
        gained = np.cos(self._beat * t) * self._beat**2 * self._across * np.array([1.0, 1.0, 0.0])
        return rotate_inverse(self.orientation(t), gained + np.array([0.0, 0.0, 0.5 * np.cos(t)]) + GRAVITY)


def test_flow_and_range_alone_hold_height_and_velocity_from_the_floor_on() -> None:
    motion, made, bias = TakeOff(5, size=0.3), OdometryFilter(SETTINGS, on_floor=True), np.array([0.01, 0.0, -0.01])
    for k in range(30):
        made.take_imu((k - 30) * STEP_S, bias, GRAVITY)
    assert made.state is not None and np.abs(made.state.position).max() < 0.02
    for k in range(500):
        t = k * STEP_S
        turn = motion.orientation(t)
        made.take_imu(t, motion.rates(t - 0.5 * STEP_S) + bias, motion.force(t - 0.5 * STEP_S))
        if k % 4 == 0:
            made.take_flow(t, rotate_inverse(turn, motion.velocity(t))[:2])
            made.take_range(t, motion.position(t)[2] / to_matrix(turn)[2, 2])
    assert made.counts.resets == made.counts.outliers == 0
    np.testing.assert_allclose(made.state.velocity, motion.velocity(t), atol=0.05)
    np.testing.assert_allclose(made.state.position, motion.position(t), atol=0.1)
    assert made.state.position[2] == pytest.approx(motion.position(t)[2], abs=0.02)


def test_an_outlier_is_left_out_and_a_lasting_one_believed() -> None:
    motion = Motion(1)
    made, t = fly(motion, 1.5, lost=range(40, 43))
    assert made.state is not None and made.counts.outliers == 3 and made.counts.resets == 0
    assert np.abs(off(made.state, motion, t)).max() < 0.06
    made, t = fly(motion, 1.5, lost=range(40, 1000))
    assert made.state is not None and made.counts.resets == 1
    assert made.state.position[0] - motion.position(t)[0] == pytest.approx(2.0, abs=0.05)


def test_gaps_and_measurements_that_are_too_late_are_counted() -> None:
    motion = Motion(2)
    made, t = fly(motion, 1.0)
    made.take_pose(t - 0.9, motion.position(0.0), motion.orientation(0.0))
    assert made.counts.too_late == 1
    assert not made.take_imu(t + 5.0, np.zeros(3), GRAVITY) and made.state is None and made.counts.resets == 1
    assert OdometryFilter(SETTINGS).take_imu(0.0, np.zeros(3), GRAVITY) is False
