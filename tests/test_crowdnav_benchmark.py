"""benchmarks/crowdnav.py: its episodes are the published ones, and ORCA fares in them as published."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.benchmarks import load_benchmark


def test_crowdnav_starts_are_those_of_its_source_and_orca_fares_as_published():
    pytest.importorskip("pyrvo")
    crowdnav = load_benchmark("crowdnav")
    starts = crowdnav.published_starts(60)
    random = np.random.RandomState(1000).random_sample  # what the source's seed(1000) and random() give
    angle = random() * np.pi * 2
    first = 4.0 * np.array([np.cos(angle), np.sin(angle)]) + [random() - 0.5, random() - 0.5]
    np.testing.assert_allclose(starts[0, 0], first)
    place, velocity = crowdnav.walks(starts)
    figures = crowdnav.cross(crowdnav.OrcaRobot(), place, velocity).figures()
    assert 0.3 < figures["success"] < 0.55  # .426 over all 500; published .43
    assert 10.0 < figures["time_s"] < 11.8  # 10.86; published 10.86

    class Blind:
        inputs = ("position",)

        def reset(self, batch=1):
            pass

        def step(self, inputs):
            assert set(inputs) == {"position"}  # what it wants: a policy file refuses anything else
            return {"planar_twist": np.tile([0.0, 1.0, 0.0], (60, 1))}

    straight = crowdnav.cross(Blind(), place, velocity)
    assert (straight.ending == "collided").mean() > 0.8
    assert (straight.time_s[straight.ending == "arrived"] == 7.75).all()
