"""Tests of the scan's sectors and their change, in the graph and in training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from rlstack.robots import load_robot
from rlstack.robots.frames import from_yaw
from rlstack.tasks.catalog.base_navigation import NavigationMaps, NavigationTask
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.tasks.wheeled_base.departures import BaseDepartures
from rlstack.tasks.wheeled_base.scan_motion import ScanHistory, ScanMotion, measured_pipeline
from rlstack.tasks.wheeled_base.task import ScanObservation

ROBOT = load_robot("turtlebot3_burger")
LIDAR = ROBOT.lidars["scan"]
SECTORS, PERIODS = 72, 3


@pytest.fixture
def term():
    return ScanMotion(LIDAR, SECTORS, 0.3, PERIODS, 10.0)


def observed(term, scans, poses):
    """Return the columns (T, 2 sectors) of one robot's scans (T, rays) at poses (T, 3), through the graph's memory."""
    pipeline, found = Pipeline([term], "twist", [-1.0, -1.0], [1.0, 1.0]), []
    memory = pipeline.initial_memory(1)
    for scan, (x, y, yaw) in zip(scans, poses):
        inputs = {
            "scan": torch.as_tensor(scan, dtype=torch.float32)[None],
            "position": torch.tensor([[x, y, 0.0]], dtype=torch.float32),
            "orientation": torch.from_numpy(from_yaw([yaw])).float(),
        }
        prepared = pipeline.prepare(inputs, memory)
        found.append(pipeline.observe(prepared, memory)[0])
        memory = pipeline.remember(prepared, memory, torch.zeros(1, 2))
    return torch.stack(found)


def wall(x, y, yaw, at_m=2.0):
    """Return the ranges of a long wall ahead of the origin, parallel to y."""
    angles = LIDAR.angles_rad + yaw
    with np.errstate(divide="ignore"):
        ranges = (at_m - x) / np.cos(angles)
    return np.where((np.cos(angles) > 1e-3) & (ranges < LIDAR.range_max_m), ranges, LIDAR.range_max_m)


def test_a_leg_on_one_ray_is_seen_whichever_ray_that_is(term):
    for ray in range(0, LIDAR.rays, 7):
        scan = np.full(LIDAR.rays, LIDAR.range_max_m)
        scan[ray] = 0.5
        assert term.nearest(torch.tensor(scan)[None].float()).min() == pytest.approx(0.5)


def test_single_rays_at_the_least_range_are_dropouts_and_a_wide_obstacle_there_is_not(term):
    rng = np.random.default_rng(0)
    scan = np.full(LIDAR.rays, 3.0)
    scan[rng.choice(LIDAR.rays, 20, replace=False)] = LIDAR.range_min_m
    assert term.nearest(torch.tensor(scan)[None].float()).amin() > 2.9
    scan[100:110] = LIDAR.range_min_m
    assert term.nearest(torch.tensor(scan)[None].float()).amin() == pytest.approx(LIDAR.range_min_m)


def test_a_wall_hardly_changes_by_own_motion_and_an_approaching_one_does(term):
    poses = [(0.02 * k, 0.0, 0.05 * k) for k in range(8)]
    still = observed(term, [wall(*pose) for pose in poses], poses)[:, SECTORS:]
    nearer = observed(term, [wall(*pose, at_m=2.0 - 0.1 * k) for k, pose in enumerate(poses)], poses)[:, SECTORS:]
    assert still[:PERIODS].abs().max() == 0.0  # nothing is known before
    # far rays graze the wall, where the shortened range is a rough guess
    ahead = np.abs(np.mod(term.angles.numpy() + np.pi, 2.0 * np.pi) - np.pi) < 0.8
    assert still[-1][ahead].abs().max() < 0.15
    assert nearer[-1][ahead].median() > 0.15


def test_training_computes_the_columns_of_the_graph(term):
    rng = np.random.default_rng(1)
    poses = np.cumsum(rng.uniform(-0.05, 0.05, (9, 3)), axis=0)
    scans = rng.uniform(0.2, 8.0, (9, LIDAR.rays))
    history, out, found = ScanHistory(term, 0, 1, "cpu"), torch.zeros(2 * SECTORS, 1), []
    for scan, (x, y, yaw) in zip(scans, poses):
        pose = torch.tensor([[x], [y], [np.cos(yaw)], [np.sin(yaw)]], dtype=torch.float32)
        history(term.nearest(torch.as_tensor(scan, dtype=torch.float32)[None]).T, pose, out)
        found.append(out[:, 0].clone())
    assert torch.allclose(torch.stack(found), observed(term, scans, poses), atol=1e-4)


def test_late_scans_are_the_past_ones_and_never_older_than_the_episode(term):
    history, out = ScanHistory(term, 2, 2, "cpu"), torch.zeros(2 * SECTORS, 2)
    history.late[:] = torch.tensor([0, 2])
    pose, seen = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]), []
    for k in range(5):
        history(torch.full((SECTORS, 2), 1.0 + k), pose, out)
        seen.append((0.3 / out[0] - 0.3).tolist())
    assert np.allclose(seen, [[1.0, 1.0], [2.0, 1.0], [3.0, 1.0], [4.0, 2.0], [5.0, 3.0]], atol=1e-4)
    history.repeat()
    history(torch.full((SECTORS, 2), 5.0), pose, out)
    assert np.allclose(0.3 / out[0] - 0.3, [5.0, 3.0], atol=1e-4)


def test_departures_reach_the_observation_and_default_settings_have_none():
    maps = NavigationMaps(kinds=("clutter", "chairs"), count=6)
    plain = NavigationTask(maps=maps)
    bold = replace(
        plain,
        observation=ScanObservation(change_periods=PERIODS),
        departures=BaseDepartures(scan_delay_s=0.3, odometry_delay_s=0.1, odometry_scale=0.08, gain=0.25),
    )
    pipeline = bold.pipeline(ROBOT)
    assert measured_pipeline(pipeline).size == pipeline.size
    assert {name for name, _ in bold.trained_ranges(ROBOT).items()} >= {"scan_delay_s", "odometry_scale", "gain_scale"}
    environment = bold.environment(ROBOT, pipeline, 6, "cpu", 0)
    assert (environment._scans.late >= 0).all() and environment._scans.late.max() <= 3
    environment.observe()
    actor = environment.step(torch.zeros(6, 2)).actor
    assert actor.shape == (6, pipeline.size) and torch.isfinite(actor).all()
    assert plain.scan_term(ROBOT).size == SECTORS and "past_closeness" not in plain.pipeline(ROBOT).memory
