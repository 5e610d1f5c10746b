"""wxyz and xyzw, world and body, float32 and float64, rows and columns."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlstack.robots import frames
from rlstack.sim.backends.isaac import convert
from tests.support.isaacsim_standin.physics import to_matrix

numbers = st.floats(-50.0, 50.0, width=32)
bodies = arrays(np.float64, (13, 3), elements=numbers).map(
    lambda a: np.concatenate([a[:3], frames.normalise(a[3:7].T + np.array([0.0, 0.0, 0.0, 1e-3])).T, a[7:]])
)


def test_the_real_part_comes_first_there_and_last_here():
    np.testing.assert_array_equal(convert.xyzw_from_wxyz(np.array([[1.0, 2.0, 3.0, 4.0]])), [[2.0, 3.0, 4.0, 1.0]])
    np.testing.assert_array_equal(convert.wxyz_from_xyzw(np.array([2.0, 3.0, 4.0, 1.0])), [1.0, 2.0, 3.0, 4.0])


def test_a_body_that_turns_about_its_own_x_after_a_yaw_turns_about_the_worlds_y():
    yaw = frames.from_yaw(np.pi / 2.0)
    body = np.concatenate([[1.0, 2.0, 3.0], yaw, [0.5, 0.0, 0.0], [7.0, 0.0, 0.0]])
    position, orientation, velocity = convert.views_from_row(body)
    np.testing.assert_allclose(position, [[1.0, 2.0, 3.0]])
    np.testing.assert_allclose(orientation, [[np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)]], atol=1e-7)
    np.testing.assert_allclose(velocity, [[0.5, 0.0, 0.0, 0.0, 7.0, 0.0]], atol=1e-6)


@settings(deadline=None)
@given(bodies)
def test_a_state_survives_the_way_there_and_back_to_single_precision(rows: np.ndarray):
    there = [convert.views_from_row(column) for column in rows.T]
    assert {a.dtype for views in there for a in views} == {np.dtype(np.float32)}
    back = convert.rows_from_views(*(np.concatenate(parts) for parts in zip(*there)))
    assert back.dtype == np.float64
    np.testing.assert_allclose(np.linalg.norm(back[3:7], axis=0), 1.0, atol=1e-12)
    np.testing.assert_allclose(back, rows, atol=2e-4)  # of numbers up to 90


@settings(deadline=None)
@given(bodies, arrays(np.float64, (3, 3), elements=numbers), arrays(np.float64, (3, 3), elements=numbers))
def test_a_wrench_acts_in_the_world_as_its_matrix_turns_it(rows: np.ndarray, force: np.ndarray, torque: np.ndarray):
    forces, torques = convert.wrench_in_world(force, torque, rows[3:7])
    np.testing.assert_allclose(forces, force.T, rtol=1e-6)
    matrices = to_matrix(np.roll(rows[3:7].T, 1, axis=1))
    np.testing.assert_allclose(torques, np.einsum("nij,jn->ni", matrices, torque), atol=1e-3)
    assert forces.flags.c_contiguous
