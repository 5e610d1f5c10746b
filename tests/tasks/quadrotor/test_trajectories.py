from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.tasks.quadrotor import trajectories
from rlstack.tasks.quadrotor.paths import Paths
from tests.support import robots

ROBOTS = {"crazyflie": robots.crazyflie(), "large": robots.large()}


def motion(paths: Paths) -> tuple[np.ndarray, np.ndarray]:
    """Return velocity and acceleration between the samples, (N, M-1, 3) and (N, M-2, 3)."""
    step = float(paths.time_s[0, 1])
    velocity = np.diff(paths.position, axis=1) / step
    return velocity, np.diff(velocity, axis=1) / step


def test_the_figure_eight_is_the_published_one() -> None:
    paths = trajectories.figure_eight(3)
    assert len(paths) == 3 and paths.duration_s == pytest.approx(5.5)
    time = paths.time_s[0]
    np.testing.assert_allclose(np.diff(time), 0.01)
    np.testing.assert_allclose(paths.position[1, :, 0], np.sin(2 * np.pi * time / 5.5), atol=1e-12)
    np.testing.assert_allclose(paths.position[1, :, 1], 0.5 * np.sin(4 * np.pi * time / 5.5), atol=1e-12)
    np.testing.assert_array_equal(paths.position[..., 2], 0.0)
    np.testing.assert_array_equal(paths.yaw, 0.0)
    np.testing.assert_allclose(np.ptp(paths.position[0], axis=0), (2.0, 1.0, 0.0), atol=1e-3)
    np.testing.assert_allclose(paths.position[0, -1], paths.position[0, 0], atol=1e-12)
    # At full speed from the first instant, which is 1.6 m/s.
    assert np.linalg.norm(motion(paths)[0][0, 0]) == pytest.approx(2 * np.pi / 5.5 * np.sqrt(2.0), rel=1e-3)


def test_an_eased_figure_starts_at_rest_and_takes_half_the_ease_longer() -> None:
    paths, plain = trajectories.figure_eight(ease_s=2.0, laps=2), trajectories.figure_eight(laps=2)
    assert paths.duration_s == pytest.approx(12.0) and plain.duration_s == pytest.approx(11.0)
    velocity, acceleration = motion(paths)
    assert np.linalg.norm(velocity[0, 0]) < 1e-3 and np.linalg.norm(acceleration[0, 0]) < 0.05
    for late in (2.0, 7.3, 12.0):
        np.testing.assert_allclose(paths.at(late), plain.at(late - 1.0), atol=1e-4)
    np.testing.assert_allclose(paths.position[0, -1], 0.0, atol=1e-9)


def test_a_circle_has_its_radius_its_centre_and_its_sense() -> None:
    paths = trajectories.circle([0.5, 1.5], [3.0, 6.0])
    centre = np.array([[-0.5, 0.0, 0.0], [-1.5, 0.0, 0.0]])
    radius = np.linalg.norm(paths.position - centre[:, None], axis=2)
    np.testing.assert_allclose(radius, [[0.5], [1.5]] * np.ones_like(radius))
    np.testing.assert_allclose(paths.at(1.5), [[-1.0, 0.0, 0.0], [-1.5, 1.5, 0.0]], atol=1e-9)
    clockwise = trajectories.circle(1.0, 4.0, clockwise=True)
    np.testing.assert_allclose(clockwise.at(1.0), [[-1.0, -1.0, 0.0]], atol=1e-9)
    assert clockwise.duration_s == pytest.approx(4.0)


@settings(deadline=None, max_examples=40)
@given(
    amplitude=st.tuples(*[st.floats(0.0, 3.0)] * 3),
    cycles=st.tuples(*[st.integers(0, 5)] * 3),
    phase=st.tuples(*[st.floats(0.0, 6.3)] * 3),
    period=st.floats(0.5, 20.0),
    laps=st.integers(1, 3),
    ease=st.floats(0.0, 3.0),
)
def test_every_lissajous_starts_at_the_origin_closes_and_keeps_its_size(
    amplitude: tuple[float, ...],
    cycles: tuple[int, ...],
    phase: tuple[float, ...],
    period: float,
    laps: int,
    ease: float,
) -> None:
    step = (period * laps + ease / 2.0) / 200
    paths = trajectories.lissajous(amplitude, cycles, phase, period, laps=laps, ease_s=ease, step_s=step)
    assert paths.duration_s == pytest.approx(period * laps + ease / 2.0)
    np.testing.assert_allclose(paths.position[0, 0], 0.0, atol=1e-12)
    if ease < period * laps:
        np.testing.assert_allclose(paths.position[0, -1], 0.0, atol=1e-6)
    assert (np.ptp(paths.position[0], axis=0) <= 2.0 * np.array(amplitude) + 1e-9).all()


def limits_kept(robot: object, paths: Paths, speed_share: float, acceleration_share: float) -> None:
    velocity, acceleration = motion(paths)
    assert np.linalg.norm(velocity, axis=2).max() <= speed_share * robot.limits.linear_velocity_m_s * 1.01
    thrust = acceleration + np.array([0.0, 0.0, STANDARD_GRAVITY])
    room = (robot.thrust_to_weight - 1.0) * STANDARD_GRAVITY
    assert np.linalg.norm(acceleration, axis=2).max() <= acceleration_share * room * 1.02
    assert np.linalg.norm(thrust, axis=2).max() < robot.thrust_to_weight * STANDARD_GRAVITY
    assert thrust[..., 2].min() > 0.0
    tilt = np.arctan2(np.linalg.norm(thrust[..., :2], axis=2), thrust[..., 2])
    assert tilt.max() <= acceleration_share * robot.limits.tilt_rad * 1.02


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("make", [trajectories.random_polynomials, trajectories.random_lissajous])
@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 2**31), speed=st.floats(0.1, 1.0), acceleration=st.floats(0.1, 1.0))
def test_random_paths_start_at_rest_and_keep_within_their_shares_of_the_limits(
    name: str, make: object, seed: int, speed: float, acceleration: float
) -> None:
    robot = ROBOTS[name]
    shares = {"speed_share": (0.5 * speed, speed), "acceleration_share": (0.5 * acceleration, acceleration)}
    paths = make(np.random.default_rng(seed), 20, robot, duration_s=6.0, **shares)
    assert paths.time_s.shape == (20, 601) and paths.duration_s == pytest.approx(6.0)
    np.testing.assert_allclose(paths.position[:, 0], 0.0, atol=1e-9)
    assert np.linalg.norm(paths.position[:, 1], axis=1).max() < 1e-3
    limits_kept(robot, paths, speed, acceleration)


def test_random_paths_use_the_limits_that_they_are_given() -> None:
    robot = ROBOTS["crazyflie"]
    paths = trajectories.random_polynomials(
        np.random.default_rng(0), 200, robot, duration_s=20.0, speed_share=(0.7, 0.7), acceleration_share=(0.9, 0.9)
    )
    fastest = np.linalg.norm(motion(paths)[0], axis=2).max(axis=1)
    assert np.mean(fastest > 0.69 * robot.limits.linear_velocity_m_s) > 0.5
    # With so much time all arrive, and rest.
    assert np.abs(np.diff(paths.position[:, -50:], axis=1)).max() == 0.0


def test_random_polynomials_are_smooth_pass_through_their_places_and_repeat_by_seed() -> None:
    robot = ROBOTS["large"]
    first, again, other = (
        trajectories.random_polynomials(np.random.default_rng(s), 50, robot, duration_s=12.0, turning=True)
        for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.position, again.position)
    assert not np.array_equal(first.position, other.position)
    assert np.abs(np.diff(first.yaw, axis=1)).max() < 0.1
    jerk = np.diff(motion(first)[1], axis=1) / 0.01
    assert np.abs(np.diff(jerk, axis=1)).max() < 0.25 * np.abs(jerk).max()  # no jump even of the third derivative
    still = trajectories.random_polynomials(np.random.default_rng(1), 5, robot, duration_s=2.0)
    np.testing.assert_allclose(still.yaw, still.yaw[:, :1] * np.ones((1, 201)), atol=1e-9)


def test_the_minimum_snap_path_is_the_known_one_from_rest_to_rest() -> None:
    (coefficients,) = trajectories._minimum_snap(1)
    u = np.linspace(0.0, 1.0, 11)
    values = (u[:, None] ** np.arange(8)) @ coefficients @ [0.0, 1.0]
    np.testing.assert_allclose(values, 35 * u**4 - 84 * u**5 + 70 * u**6 - 20 * u**7, atol=1e-9)


def test_what_makes_no_sense_is_refused() -> None:
    rng, robot = np.random.default_rng(0), ROBOTS["crazyflie"]
    with pytest.raises(UserError, match="period_s is 0: must be above 0"):
        trajectories.circle(1.0, 0.0)
    with pytest.raises(UserError, match="ease_s is -1"):
        trajectories.figure_eight(ease_s=-1.0)
    with pytest.raises(UserError, match="start from rest"):
        trajectories.random_lissajous(rng, 2, robot, duration_s=2.0, ease_s=0.0)
    with pytest.raises(UserError, match="duration_s is -1"):
        trajectories.random_polynomials(rng, 2, robot, duration_s=-1.0)
