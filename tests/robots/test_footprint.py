"""Outlines: discs cover them, and no disc about three or two points is smaller than it must be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.robots.footprint import FootprintShape, cover, covering_discs, enclosing_disc, hull, rectangle

POINTS = st.lists(st.tuples(st.floats(-2.0, 2.0), st.floats(-2.0, 2.0)), min_size=3, max_size=12)


def inside(corners: np.ndarray, count: int = 400) -> np.ndarray:
    """Return points in a convex polygon, its edges among them: mixtures of its corners."""
    random = np.random.default_rng(3)
    mixtures = random.dirichlet(np.full(len(corners), 0.3), count)
    edges = np.concatenate([np.linspace(a, b, 20) for a, b in zip(corners, np.roll(corners, 1, axis=0))])
    return np.concatenate([mixtures @ corners, edges])


def depth(points: np.ndarray, discs: tuple[tuple[float, float, float], ...]) -> np.ndarray:
    """Return how far inside the nearest disc each point is, m."""
    return np.max([r - np.hypot(*(points - (x, y)).T) for x, y, r in discs], axis=0)


@settings(deadline=None, max_examples=60)
@given(POINTS, st.integers(1, 4))
def test_discs_cover_the_whole_outline(points: list[tuple[float, float]], count: int) -> None:
    corners = hull(points)
    if len(corners) < 3:
        return
    for discs in (covering_discs(corners, count), cover(corners)):
        assert depth(inside(corners), discs).min() > -1e-6


@settings(deadline=None, max_examples=60)
@given(POINTS)
def test_the_smallest_disc_has_two_points_across_it_or_three_around_it(points: list[tuple[float, float]]) -> None:
    x, y, radius = enclosing_disc(np.array(points))
    distances = np.hypot(*(np.array(points) - (x, y)).T)
    assert distances.max() == pytest.approx(radius, abs=1e-6)
    # from a smaller disc anywhere a point would stick out: moving the middle cannot bring all of them nearer
    for turn in np.linspace(0.0, 2.0 * np.pi, 12, endpoint=False):
        moved = np.array([x, y]) + 1e-3 * np.array([np.cos(turn), np.sin(turn)])
        assert np.hypot(*(np.array(points) - moved).T).max() >= radius - 1e-6


def test_a_square_takes_one_disc_and_a_bar_takes_several() -> None:
    ((x, y, radius),) = cover(rectangle((1.0, 2.0), (0.5, 0.5), 0.3))
    assert (x, y, radius) == pytest.approx((1.0, 2.0, np.hypot(0.25, 0.25)))
    bar = cover(rectangle((0.0, 0.0), (2.0, 0.5)))
    assert len(bar) == 4 and {round(r, 6) for _, _, r in bar} == {round(float(np.hypot(0.25, 0.25)), 6)}
    assert np.diff([x for x, _, _ in bar]) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "given_", [{}, {"radius_m": 0.3, "corners_m": ((0, 0), (1, 0), (0, 1))}, {"corners_m": ((0, 0), (1, 1))}]
)
def test_an_outline_is_a_disc_or_encloses_something(given_: dict) -> None:
    with pytest.raises(ValueError, match=r"give one of the two|enclose nothing"):
        FootprintShape(**given_)
