"""Tests of the lidar of racing cars."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlstack.fused import Kernel, zeros
from rlstack.robots import Lidar, load_robot
from rlstack.sim.batch_wheeled_base.race import RaceSimulator
from rlstack.sim.maps.tracks import draw_track
from rlstack.tasks.wheeled_base.racing.step import noisy_rays

CAR = load_robot("racecar")


def test_a_car_scans_with_the_noise_and_dropouts_of_its_file():
    track = draw_track(0)

    def scan(**noise):
        lidar = replace(CAR.lidars["scan"], **{"noise_m": 0.0, "noise_share": 0.0, "dropout": 0.0, **noise})
        car = replace(CAR, lidars={**CAR.lidars, "scan": lidar})
        return RaceSimulator(car, [track] * 20, rate_hz=20.0).scan()

    clean = scan()
    inside = clean < 0.9 * CAR.lidars["scan"].range_max_m
    errors = (scan(noise_share=0.02) - clean)[inside] / clean[inside]
    assert errors.std() == pytest.approx(0.02, rel=0.05)
    dropped = scan(dropout=0.2)
    assert np.isfinite(dropped).all()
    # a dropped ray reads a neighbour, which is nearly as far
    assert 0.1 < (dropped != clean).mean() < 0.25 and np.abs(dropped - clean)[inside].mean() < 0.1


def test_training_has_the_same_noise_and_dropouts():
    count, rays = 20000, 5
    lidar = Lidar(rays=5, rate_hz=10.0, range_min_m=0.1, range_max_m=8.0, noise_share=0.02)
    lidar = replace(lidar, angle_min_rad=0.0, angle_max_rad=0.08)
    for dropout in (0.0, 0.2):
        model = replace(lidar, dropout=dropout)
        kernel = Kernel(
            lambda ranges, noise, model=model: {"seen": noisy_rays(ranges, noise, model, range(rays))},
            {"ranges": rays, "noise": rays},
        )
        ranges, noise, seen = (zeros(rays, count) for _ in range(3))
        ranges[:], noise[:] = 2.0 + np.arange(rays)[:, None], np.random.default_rng(0).standard_normal((rays, count))
        kernel({"ranges": ranges, "noise": noise, "seen": seen})
        error = np.abs(seen[2] / 4.0 - 1.0)
        assert np.mean(error < 0.08) == pytest.approx(1.0 - dropout, abs=0.01)
        if dropout:  # the shorter neighbour
            assert np.median(seen[2][error > 0.2]) == pytest.approx(3.0, abs=0.1)
