from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlstack.robots import lens

BARREL = (-0.28, 0.07, 0.001, -0.0005, 0.0)
"""About what an action camera has."""

mild = st.tuples(*(st.floats(-limit, limit) for limit in (0.15, 0.05, 0.005, 0.005, 0.01)))
planes = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).uniform(-0.7, 0.7, (50, 2)))


@settings(deadline=None)
@given(planes, mild)
def test_undistorting_is_the_inverse_of_distorting(points: NDArray, coefficients: tuple[float, ...]) -> None:
    assert np.allclose(lens.undistort(lens.distort(points, coefficients), coefficients), points, atol=1e-10)
    shown = 0.7 * points  # farther out such a lens may show nothing at all
    assert np.allclose(lens.distort(lens.undistort(shown, coefficients), coefficients), shown, atol=1e-10)


@settings(deadline=None)
@given(planes, mild)
def test_the_slope_is_that_of_the_distortion(points: NDArray, coefficients: tuple[float, ...]) -> None:
    step = 1e-6
    for axis in range(2):
        ahead, behind = points.copy(), points.copy()
        ahead[:, axis] += step
        behind[:, axis] -= step
        measured = (lens.distort(ahead, coefficients) - lens.distort(behind, coefficients)) / (2.0 * step)
        assert np.allclose(lens.slope(points, coefficients)[..., axis], measured, atol=1e-7)


def test_it_is_the_distortion_of_opencv() -> None:
    import cv2

    points = np.random.default_rng(0).uniform(-0.6, 0.6, (200, 2))
    in_space = np.concatenate((points, np.ones((len(points), 1))), axis=1)
    shown, _ = cv2.projectPoints(in_space, np.zeros(3), np.zeros(3), np.eye(3), np.array(BARREL))
    assert np.allclose(lens.distort(points, BARREL), shown[:, 0], atol=1e-12)


def test_a_lens_that_folds_the_image_over_is_noticed() -> None:
    border = np.array([(0.9, 0.9), (-0.9, 0.9), (0.9, -0.9), (-0.9, -0.9)])
    assert lens.is_one_to_one(border, BARREL)
    assert not lens.is_one_to_one(border, (-0.6, 0.0, 0.0, 0.0, 0.0))
