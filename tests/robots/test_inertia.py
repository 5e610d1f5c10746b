"""Rigid pieces add up as mechanics says, and come apart again."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.robots.inertia import inertial, is_physical, moved, of_sphere, together, without
from rlstack.robots.sensing import rotation_from_rpy

SIZES = st.tuples(*[st.floats(0.05, 2.0)] * 3)
POINTS = st.tuples(*[st.floats(-2.0, 2.0)] * 3)


def box(mass: float, size: tuple[float, float, float]) -> np.ndarray:
    x, y, z = size
    return mass / 12.0 * np.array([y * y + z * z, x * x + z * z, x * x + y * y])


@settings(deadline=None, max_examples=50)
@given(SIZES, POINTS, st.tuples(*[st.floats(-3.0, 3.0)] * 3))
def test_a_box_cut_in_two_is_the_box_wherever_it_is(size: tuple, centre: tuple, rpy: tuple) -> None:
    half = (size[0] / 2.0, size[1], size[2])
    ends = [(centre[0] + side * size[0] / 4.0, centre[1], centre[2]) for side in (-1.0, 1.0)]
    turn, offset = rotation_from_rpy(rpy), np.array([0.3, -0.2, 0.1])
    whole = moved(inertial(3.0, centre, box(3.0, size)), turn, offset)
    both = together(moved(inertial(1.5, end, box(1.5, half)), turn, offset) for end in ends)
    assert both.mass_kg == whole.mass_kg
    np.testing.assert_allclose(both.centre_m, whole.centre_m, atol=1e-9)
    np.testing.assert_allclose(both.inertia_kg_m2, whole.inertia_kg_m2, rtol=1e-9, atol=1e-9)


@settings(deadline=None, max_examples=50)
@given(SIZES, POINTS, POINTS)
def test_what_is_taken_out_can_be_put_back(size: tuple, where: tuple, other: tuple) -> None:
    whole = inertial(5.0, where, box(5.0, size))
    piece = inertial(0.1, other, of_sphere(0.1, 0.05))
    again = together((without(whole, [piece]), piece))
    np.testing.assert_allclose(again.mass_kg, whole.mass_kg, rtol=1e-12)
    np.testing.assert_allclose(again.centre_m, whole.centre_m, atol=1e-12)
    np.testing.assert_allclose(again.inertia_kg_m2, whole.inertia_kg_m2, atol=1e-10)


def test_which_inertias_a_body_can_have() -> None:
    assert is_physical(np.diag([1.0, 1.0, 2.0]))  # a thin disc
    assert not is_physical(np.diag([1.0, 1.0, 2.1]))
    assert not is_physical(np.diag([1.0, 1.0, 0.0]))
    assert not is_physical(np.array([[1.0, 1.1, 0.0], [1.1, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    assert not is_physical(np.array([[1.0, 0.1, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))


def test_nothing_weighs_nothing() -> None:
    assert together([]).mass_kg == 0.0
