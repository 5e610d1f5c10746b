"""What a car's lidar sees between walls is what rays in the same world say."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import load_robot
from rlstack.sim.batch_wheeled_base.race import RaceSimulator, TrackProgress
from rlstack.sim.maps.generate import HELD_OUT_SEEDS
from rlstack.sim.maps.tracks import draw_track
from rlstack.sim.world import load_world


def racecar() -> WheeledBase:
    robot = load_robot("racecar")
    assert isinstance(robot, WheeledBase)
    return robot


@pytest.mark.parametrize("seed", [0, 7, HELD_OUT_SEEDS[3]])
def test_ranges_are_those_of_the_world_that_engines_load(seed: int) -> None:
    robot, track = racecar(), draw_track(seed)
    lidar = robot.lidars["scan"]
    simulator = RaceSimulator(robot, [track], rate_hz=20.0)
    for _ in range(12):
        simulator.step(np.array([[2.0, 0.3]]))
    x, y, yaw = simulator.pose()[0]
    angles = lidar.angles_rad + yaw
    c, s = np.cos(yaw), np.sin(yaw)
    origin = [x + c * lidar.position_m[0], y + s * lidar.position_m[0], lidar.position_m[2]]
    rays = np.stack([np.cos(angles), np.sin(angles), np.zeros(lidar.rays)], axis=1)
    cast = load_world(track.title).cast(np.tile(origin, (lidar.rays, 1)), rays)
    error = simulator.scan()[0] - np.clip(cast, lidar.range_min_m, lidar.range_max_m)
    assert abs(np.median(error)) < 2e-3
    assert np.percentile(np.abs(error), 95.0) < 2.5 * lidar.noise_m  # two standard deviations, and walls' corners


def test_clearance_is_the_worlds_and_below_zero_across_a_wall() -> None:
    robot, track = racecar(), draw_track(0)
    world, marshal = load_world(track.title), TrackProgress([track], robot)
    corners = robot.corners_m
    for aside in np.linspace(-0.3, 0.3, 7):
        marshal.start()
        pose = np.array([[0.0, aside, 0.1]])
        marshal.follow(pose[:, :2])
        c, s = np.cos(0.1), np.sin(0.1)
        points = np.stack([c * corners[:, 0] - s * corners[:, 1], s * corners[:, 0] + c * corners[:, 1]], axis=1)
        at = np.column_stack([points + pose[0, :2], np.full(len(points), 10.0)])
        at[:, 2] = 0.59  # away from the floor
        found = np.minimum(world.distance(at).min(), 0.58)
        assert marshal.clearance(pose)[0] == pytest.approx(found, abs=5e-3)
    marshal.start()
    assert marshal.clearance(np.array([[0.0, track.half_width_m, 0.0]]))[0] < -0.1
