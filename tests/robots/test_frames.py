from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlstack.robots import frames

PI = np.pi
unit = st.floats(-1.0, 1.0, width=64)
angles = st.floats(-10.0, 10.0)


@st.composite
def quaternions(draw: st.DrawFn, shape: tuple[int, ...] = (5,)) -> np.ndarray:
    raw = draw(arrays(float, (*shape, 4), elements=unit))
    raw[np.linalg.norm(raw, axis=-1) < 1e-3] = (0.0, 0.0, 0.0, 1.0)
    return frames.normalise(raw)


vectors = arrays(float, (5, 3), elements=st.floats(-100.0, 100.0))


@settings(deadline=None)
@given(quaternions(), vectors)
def test_rotate_is_the_matrix_product_and_undone_by_its_inverse(q: np.ndarray, v: np.ndarray) -> None:
    world = frames.rotate(q, v)
    np.testing.assert_allclose(world, np.einsum("nij,nj->ni", frames.to_matrix(q), v), atol=1e-11)
    np.testing.assert_allclose(frames.rotate_inverse(q, world), v, atol=1e-11)
    np.testing.assert_allclose(np.linalg.norm(world, axis=-1), np.linalg.norm(v, axis=-1), atol=1e-11)


@settings(deadline=None)
@given(quaternions(), quaternions(), vectors)
def test_multiply_is_first_right_then_left(a: np.ndarray, b: np.ndarray, v: np.ndarray) -> None:
    np.testing.assert_allclose(
        frames.rotate(frames.multiply(a, b), v), frames.rotate(a, frames.rotate(b, v)), atol=1e-11
    )
    identity = frames.multiply(a, frames.inverse(a))
    np.testing.assert_allclose(identity, np.broadcast_to([0.0, 0.0, 0.0, 1.0], a.shape), atol=1e-14)


@settings(deadline=None)
@given(quaternions((3, 2)))
def test_matrix_round_trip_of_any_leading_shape(q: np.ndarray) -> None:
    matrix = frames.to_matrix(q)
    np.testing.assert_allclose(
        matrix @ np.swapaxes(matrix, -1, -2), np.broadcast_to(np.eye(3), matrix.shape), atol=1e-13
    )
    np.testing.assert_allclose(np.linalg.det(matrix), 1.0, atol=1e-13)
    back = frames.from_matrix(matrix)
    assert np.all(back[..., 3] >= 0.0)
    np.testing.assert_allclose(np.abs(np.sum(back * q, axis=-1)), 1.0, atol=1e-13)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_half_turns_survive_the_matrix(axis: int) -> None:
    q = np.zeros(4)
    q[axis] = 1.0
    np.testing.assert_allclose(np.abs(frames.from_matrix(frames.to_matrix(q))), q, atol=1e-15)


@settings(deadline=None)
@given(angles)
def test_yaw_of_a_level_body_is_the_angle_given(angle: float) -> None:
    q = frames.from_yaw(angle)
    difference = frames.wrap_angle(frames.yaw(q) - angle)
    assert abs(difference) < 1e-9
    assert frames.tilt(q) == 0.0


@settings(deadline=None)
@given(st.floats(0.0, PI), angles, angles)
def test_tilt_is_the_angle_about_any_level_axis_whatever_the_heading(tilt: float, heading: float, axis: float) -> None:
    lean = frames.from_rotation_vector(tilt * np.array([np.cos(axis), np.sin(axis), 0.0]))
    q = frames.multiply(lean, frames.from_yaw(heading))
    assert abs(float(frames.tilt(q)) - tilt) < 1e-9
    assert abs(float(np.cos(tilt)) - frames.rotate(q, [0.0, 0.0, 1.0])[2]) < 1e-9


@settings(deadline=None)
@given(arrays(float, (3,), elements=st.floats(-3.0, 3.0)))
def test_rotation_vector_leaves_its_axis_alone_and_composes(v: np.ndarray) -> None:
    q = frames.from_rotation_vector(v)
    assert abs(np.linalg.norm(q) - 1.0) < 1e-14
    np.testing.assert_allclose(frames.rotate(q, v), v, atol=1e-12)
    np.testing.assert_allclose(frames.multiply(q, q), frames.from_rotation_vector(2.0 * v), atol=1e-12)


def test_right_hand_rule_forward_left_up() -> None:
    quarter = frames.from_yaw(PI / 2)
    np.testing.assert_allclose(frames.rotate(quarter, [1.0, 0.0, 0.0]), [0.0, 1.0, 0.0], atol=1e-15)
    nose_down = frames.from_rotation_vector([0.0, PI / 2, 0.0])
    np.testing.assert_allclose(frames.rotate(nose_down, [1.0, 0.0, 0.0]), [0.0, 0.0, -1.0], atol=1e-15)


@settings(deadline=None)
@given(angles)
def test_wrap_angle_keeps_the_direction(angle: float) -> None:
    wrapped = frames.wrap_angle(angle)
    assert -PI <= wrapped < PI
    np.testing.assert_allclose([np.cos(wrapped), np.sin(wrapped)], [np.cos(angle), np.sin(angle)], atol=1e-9)


@pytest.mark.parametrize("bad", [[0.0] * 4, [np.nan, 0, 0, 1], [np.inf, 0, 0, 1]])
def test_normalise_makes_no_attitude_up(bad: list[float]) -> None:
    assert not np.all(np.isfinite(frames.normalise(bad)))


@pytest.mark.parametrize("scale", [1e-300, 1e-3, 1e300])
def test_normalise_any_size(scale: float) -> None:
    np.testing.assert_allclose(frames.normalise(np.array([0.0, 0.6, 0.0, -0.8]) * scale), [0.0, 0.6, 0.0, -0.8])


def test_one_alone_is_computed_as_many_are_to_the_last_bit():
    random = np.random.default_rng(0)
    first, second = frames.normalise(random.normal(size=(2, 200, 4)))
    vectors = random.normal(size=(200, 3))
    for p, q, v, *many in zip(
        first, second, vectors, frames.rotate(first, vectors), frames.multiply(first, second), frames.to_matrix(first)
    ):
        for alone, among_many in zip((frames.rotate(p, v), frames.multiply(p, q), frames.to_matrix(p)), many):
            np.testing.assert_array_equal(alone, among_many)
