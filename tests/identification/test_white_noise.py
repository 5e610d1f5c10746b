"""White noise is told from a smooth motion, with intervals that hold it, and what is not white is not."""

from __future__ import annotations

import numpy as np

from rlstack.identification.white_noise import calm, white_noise


def test_intervals_hold_the_noise_of_a_smooth_motion_as_often_as_they_say() -> None:
    at = np.linspace(0.0, 0.5, 51)[None, :, None] + np.arange(20)[:, None, None]
    motion, held = np.sin(3.0 * at) * np.ones(3), []
    for seed in range(60):
        value, deviation = white_noise(motion + np.random.default_rng(seed).normal(0.0, 0.002, motion.shape))
        assert abs(np.log(value / 0.002)) < 0.15
        held.append(abs(np.log(value / 0.002)) < 1.645 * deviation)
    assert 0.85 <= np.mean(held) <= 1.0, np.mean(held)


def test_a_motion_that_is_not_smooth_disagrees_with_itself_and_repeated_readings_tell_nothing() -> None:
    rng = np.random.default_rng(0)
    wavy = np.sin(np.arange(2000) * 1.2).reshape(20, 100, 1) + rng.normal(0.0, 1e-3, (20, 100, 1))
    assert white_noise(wavy)[1] > 0.2
    assert white_noise(np.zeros((5, 50, 1))) == (0.0, np.inf)
    assert white_noise(np.full((5, 50, 1), np.nan)) == (0.0, np.inf)
    missing = rng.normal(0.0, 1.0, (20, 100, 1))
    missing[:, ::7] = np.nan
    assert abs(white_noise(missing)[0] - 1.0) < 0.15


def test_the_calm_pieces_are_those_that_move_least() -> None:
    slopes = np.array([3.0, -0.1, 0.2, -5.0])
    pieces = slopes[:, None, None] * np.linspace(0.0, 1.0, 30)[None, :, None]
    np.testing.assert_array_equal(calm(pieces, 0.5), pieces[[1, 2]])
