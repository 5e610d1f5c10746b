"""Race tracks: wide enough bends, walls that keep apart, and where a place on them is."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.sim.maps.generate import HELD_OUT_SEEDS, TRAINING_SEEDS
from rlstack.sim.maps.tracks import LEAST_RADIUS_M, LENGTH_M, SAMPLES, Track, draw_track
from tests.support.track_walls import wall_distance

seeds = st.integers(0, 2_000_000)


@settings(deadline=None, max_examples=30)
@given(seeds)
def test_every_track_can_be_driven(seed: int) -> None:
    track = draw_track(seed)
    steps = np.linalg.norm(np.roll(track.middle, -1, axis=0) - track.middle, axis=1)
    assert steps.sum() == pytest.approx(track.length_m, rel=0.02)
    assert steps.max() < 1.1 * steps.min()
    assert LENGTH_M[0] <= track.length_m <= LENGTH_M[1]
    assert np.abs(track.curvature).max() <= 1.0 / LEAST_RADIUS_M + 1e-6
    # no other part of the track is in the way: along all of the middle the nearest wall is its own
    clearance = wall_distance(track, track.middle)
    assert clearance.min() > 0.95 * track.half_width_m - 0.01 and clearance.max() <= track.half_width_m + 1e-6


@settings(deadline=None, max_examples=10)
@given(seeds)
def test_it_starts_at_the_origin_along_x_on_a_straight(seed: int) -> None:
    track = draw_track(seed)
    np.testing.assert_allclose(track.middle[0], 0.0, atol=1e-6)
    np.testing.assert_allclose(track.tangent[0], [1.0, 0.0], atol=1e-6)
    assert np.abs(track.curvature[:4]).max() < 0.2


@settings(deadline=None, max_examples=20)
@given(seeds, st.floats(0.0, 1.0), st.floats(-0.4, 0.4))
def test_a_place_is_found_again(seed: int, share: float, left: float) -> None:
    track = draw_track(seed)
    index = int(share * (SAMPLES - 1))
    pose = track.pose(index * track.length_m / SAMPLES, left)
    along, aside = track.place(pose[None, :2])
    gap = (along[0] - index * track.length_m / SAMPLES + track.length_m / 2.0) % track.length_m - track.length_m / 2.0
    assert abs(gap) < 0.03 and abs(aside[0] - left) < 0.01


def test_the_same_seed_gives_the_same_track_on_every_machine() -> None:
    def told(track: Track) -> str:
        arrays = (track.middle, track.left, track.right)
        return hashlib.sha256(b"".join(np.round(a, 5).tobytes() for a in arrays)).hexdigest()[:16]

    assert told(draw_track(7)) == "777c748d3c4e1ba6" != told(draw_track(8))


def test_held_out_seeds_are_no_training_seeds_and_none_is_negative() -> None:
    assert not set(TRAINING_SEEDS[:10]) & set(HELD_OUT_SEEDS[:10]) and TRAINING_SEEDS.stop <= HELD_OUT_SEEDS.start
    with pytest.raises(ValueError, match="-1 is not allowed"):
        draw_track(-1)
