from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.arrays import Array
from rlstack.hardware.mavlink.frames import swap_body, swap_local_orientation, swap_orientation, swap_world
from rlstack.robots.frames import from_rotation_vector, from_yaw, rotate, yaw

vectors = st.lists(st.floats(-3.0, 3.0), min_size=3, max_size=3).map(np.array)
turns = vectors.map(from_rotation_vector)


@settings(deadline=None)
@given(turns, vectors)
def test_a_vector_turned_in_their_frames_is_the_one_turned_in_ours(q: Array, v: Array) -> None:
    """What the body sees at v is at the same place in the world, whichever frames are used."""
    ours = rotate(swap_orientation(q), swap_body(v))
    assert np.allclose(ours, swap_world(rotate(q, v)), atol=1e-12)
    assert np.allclose(rotate(swap_local_orientation(q), swap_body(v)), swap_body(rotate(q, v)), atol=1e-12)


@settings(deadline=None)
@given(turns, vectors)
def test_there_and_back_is_the_same(q: Array, v: Array) -> None:
    assert np.allclose(swap_world(swap_world(v)), v) and np.allclose(swap_body(swap_body(v)), v)
    for swap in (swap_orientation, swap_local_orientation):
        assert np.isclose(abs(np.dot(swap(swap(q)), q)), 1.0)


def test_level_and_north_is_a_heading_of_90_degrees_and_north_is_y() -> None:
    level_north = np.array([0.0, 0.0, 0.0, 1.0])
    assert np.isclose(yaw(swap_orientation(level_north)), np.pi / 2)
    assert np.allclose(swap_world([3.0, 1.0, -2.0]), [1.0, 3.0, 2.0])  # north 3, east 1, 2 m up


@given(st.floats(-3.1, 3.1))
def test_headings_turn_the_other_way(angle: float) -> None:
    ours = yaw(swap_orientation(from_yaw(angle)))
    assert np.isclose(np.cos(ours), np.cos(np.pi / 2 - angle)) and np.isclose(np.sin(ours), np.sin(np.pi / 2 - angle))


def test_many_at_once_are_as_one_by_one() -> None:
    generator = np.random.default_rng(1)
    vectors, turned = generator.normal(size=(5, 3)), from_rotation_vector(generator.normal(size=(5, 3)))
    assert np.allclose(swap_world(vectors), [swap_world(v) for v in vectors])
    assert np.allclose(swap_orientation(turned), [swap_orientation(q) for q in turned])
