from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.control.reference_trajectory import along, rest
from rlstack.robots import frames


def turning(now: float, step: float, length: float = 4.0, angular: float = 2.3) -> tuple[np.ndarray, ...]:
    """Return poses on two helices, (2, M) s from ``now``; the second one is flown the other way round."""
    time = np.arange(0.0, length + 1e-9, step)
    angle = angular * time
    helix = np.stack((np.cos(angle), np.sin(angle), 0.3 * time), axis=1)
    position = np.stack((helix, helix * [1.0, -1.0, 1.0]))
    yaw = np.stack((0.5 * time, -0.5 * time))
    return np.tile(time - now, (2, 1)), position, frames.from_yaw(yaw)


@settings(deadline=None, max_examples=60)
@given(now=st.floats(0.0, 3.9), step=st.floats(0.004, 0.06))
def test_derivatives_are_those_of_the_curve_at_its_ends_too(now: float, step: float) -> None:
    w = 2.3
    reference = along(*turning(now, step))
    cos, sin = np.cos(w * now), np.sin(w * now)
    for n, sign in enumerate((1.0, -1.0)):
        np.testing.assert_allclose(reference.position[n], [cos, sign * sin, 0.3 * now], atol=w * w * step**2 / 8 + 1e-9)
        np.testing.assert_allclose(reference.velocity[n], [-w * sin, sign * w * cos, 0.3], atol=2e-3)
        np.testing.assert_allclose(reference.acceleration[n], [-w * w * cos, -sign * w * w * sin, 0.0], atol=2e-2)
        np.testing.assert_allclose(reference.jerk[n], [w**3 * sin, -sign * w**3 * cos, 0.0], atol=0.3)
        np.testing.assert_allclose(reference.snap[n], [w**4 * cos, sign * w**4 * sin, 0.0], atol=4.0)
        assert reference.yaw[n] == pytest.approx(sign * 0.5 * now, abs=1e-6)


def test_the_lead_takes_the_higher_derivatives_from_ahead_and_the_rest_from_now() -> None:
    poses = turning(1.0, 0.01)
    now, ahead, led = along(*poses), along(*turning(1.2, 0.01)), along(*poses, lead_s=0.2)
    np.testing.assert_array_equal(led.position, now.position)
    np.testing.assert_array_equal(led.velocity, now.velocity)
    np.testing.assert_allclose(led.acceleration, ahead.acceleration, atol=1e-4)
    np.testing.assert_allclose(led.jerk, ahead.jerk, atol=1e-2)


def test_before_the_first_pose_and_after_the_last_it_rests() -> None:
    for now, where in ((-0.5, 0), (4.5, -1)):
        poses = turning(now, 0.01)
        reference = along(*poses)
        np.testing.assert_allclose(reference.position, poses[1][:, where])
        for still in (reference.velocity, reference.acceleration, reference.jerk, reference.snap):
            np.testing.assert_array_equal(still, 0.0)
    # Soon it starts: velocity not yet, acceleration ahead.
    soon = along(*turning(-0.05, 0.01), lead_s=0.1)
    assert np.abs(soon.velocity).max() == 0.0 and np.abs(soon.acceleration).max() > 1.0


def test_corners_are_walked_along_the_line() -> None:
    time = np.tile([-0.5, 0.5, 1.5], (1, 1))
    position = np.array([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]])
    level = np.tile([0.0, 0.0, 0.0, 1.0], (1, 3, 1))
    reference = along(time, position, level)
    np.testing.assert_allclose(reference.position, [[0.5, 0.0, 0.0]])
    np.testing.assert_allclose(reference.velocity, [[1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(reference.acceleration, 0.0)
    two = along(time[:, :2], position[:, :2], level[:, :2])
    np.testing.assert_allclose(two.velocity, [[1.0, 0.0, 0.0]])


def test_the_heading_goes_the_short_way_round() -> None:
    level = frames.from_yaw(np.array([[3.0, -3.0]]))
    reference = along(np.array([[-1.0, 1.0]]), np.zeros((1, 2, 3)), level)
    assert frames.wrap_angle(reference.yaw[0] - np.pi) == pytest.approx(0.0, abs=1e-9)


def test_rest_is_rest() -> None:
    reference = rest(np.ones((3, 3)), np.array([0.1, 0.2, 0.3]))
    np.testing.assert_array_equal(reference.position, 1.0)
    assert not reference.velocity.any() and not reference.snap.any()
    np.testing.assert_array_equal(reference.yaw, [0.1, 0.2, 0.3])
