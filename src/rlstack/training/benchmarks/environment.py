"""Speed of the full training environment: simulator, observation, noise, reward, resets."""

from __future__ import annotations

import time
from typing import Any

import torch

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.tasks import TASKS
from rlstack.tasks.quadrotor.environment import QuadrotorEnvironment
from rlstack.training.benchmarks.timing import rate


def measure(task: str, robots: int, seconds: float, repeats: int, device: str, seed: int) -> dict[str, Any]:
    """Return the rate of its steps and ``first_step_s``, the time to the first step including compilation.

    The actions are random, one set for all steps, around hovering: robots get lost and are reset, as in training.

    Args:
        task: The task's name.
        robots: Number of robots in parallel.
        seconds: Duration of each measurement.
        repeats: Number of measurements.
        device: ``cpu`` or a CUDA device.
        seed: Seed of episodes, noise and actions.
    """
    torch.set_num_threads(1)
    begin = time.perf_counter()
    settings, robot = TASKS.load(task)(), load_quadrotor("crazyflie")
    environment = QuadrotorEnvironment(settings, robot, settings.pipeline(robot), robots, device=device, seed=seed)
    rotors, model = len(robot.rotors), robot.rotor_model
    hover = (robot.hover_speed_rad_s - model.speed_min_rad_s) / (model.speed_max_rad_s - model.speed_min_rad_s)
    generator = torch.Generator().manual_seed(seed)
    actions = (2.0 * hover - 1.0) + 0.1 * torch.randn(robots, rotors, generator=generator)
    actions = actions.to(environment.device)
    wait = torch.cuda.synchronize if environment.device.type == "cuda" else None
    with torch.inference_mode():
        environment.observe()
        environment.step(actions)
        if wait is not None:
            wait()
        first = time.perf_counter() - begin
        return {"first_step_s": first, **rate(lambda: environment.step(actions), robots, seconds, repeats, wait)}
