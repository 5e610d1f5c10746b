"""Velocity commands of quadrotors through body rates: they are reached, at the height that is held."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import frames, load_robot
from rlstack.tasks.catalog.quadrotor_landmark import QuadrotorLandmarkTask
from rlstack.tasks.quadrotor.landmarks import QuadrotorVehicles, VelocityPipeline
from rlstack.tasks.quadrotor.sampling import Randomisation


def test_a_velocity_is_reached_in_a_constant_wind_and_the_height_is_held() -> None:
    robot = load_robot("x500_rates")
    assert isinstance(robot, Quadrotor)
    task = QuadrotorLandmarkTask(randomisation=Randomisation(force_sigma=0.05, delay_s=(0.02, 0.02)))
    vehicles = QuadrotorVehicles(robot, 20, task.rate_hz, task.randomisation)
    pipeline = task.make_pipeline(robot, [])
    assert isinstance(pipeline, VelocityPipeline) and pipeline.action_size == 3
    rng = np.random.default_rng(0)
    start = np.concatenate([np.zeros((20, 2)), rng.uniform(0.7, 1.3, (20, 1)), rng.uniform(-3, 3, (20, 1))], axis=1)
    vehicles.place(np.arange(20), start, rng)
    action = torch.tensor([0.5, -0.25, 0.3]).expand(20, 3)
    memory, steepest = pipeline.initial_memory(20), 0.0
    for _ in range(8 * int(task.rate_hz)):
        now = {name: torch.from_numpy(array.astype(np.float32)) for name, array in vehicles.signals().items()}
        prepared = pipeline.prepare(now, memory)
        command = pipeline.command(action, prepared)
        memory = pipeline.remember(prepared, memory, action)
        vehicles.step(command.numpy())
        steepest = max(steepest, float(frames.tilt(vehicles.signals()["orientation"]).max()))
    now = vehicles.signals()
    yaw = frames.yaw(now["orientation"])
    moving = frames.rotate(now["orientation"], now["linear_velocity"])
    ahead = np.cos(yaw) * moving[:, 0] + np.sin(yaw) * moving[:, 1]
    left = np.cos(yaw) * moving[:, 1] - np.sin(yaw) * moving[:, 0]
    np.testing.assert_allclose(ahead, 0.5 * task.speed_m_s, atol=0.12)
    np.testing.assert_allclose(left, -0.25 * task.speed_m_s, atol=0.12)
    np.testing.assert_allclose(now["angular_velocity"][:, 2], 0.3 * task.turning_rad_s, atol=0.05)
    np.testing.assert_allclose(now["position"][:, 2], task.height_m, atol=0.1)
    assert steepest < task.tilt_rad + 0.1 < replace(robot.limits).tilt_rad
