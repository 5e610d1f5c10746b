"""A small task and a small recipe: whatever the shipped ones are tuned to, tests stay as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.fused import Kernel
from rlstack.tasks.catalog.quadrotor_hover import HoverTask, Observation
from rlstack.tasks.quadrotor.environment import QuadrotorEnvironment
from rlstack.tasks.quadrotor.sampling import Randomisation, Starts
from rlstack.tasks.quadrotor.task import Curriculum, Noise
from rlstack.training.recipe import Recipe, recipe_from_data


def small_task(**changes: Any) -> HoverTask:
    """Return a hover task of short episodes, disturbed in every way that a few robots can show."""
    task = HoverTask(
        rate_hz=100.0,
        episode_s=0.5,
        lost_m=1.0,
        starts=Starts(
            position_m=0.2,
            tilt_rad=0.5,
            linear_velocity_m_s=0.5,
            angular_velocity_rad_s=0.5,
            rotor_speed_fraction=0.6,
            settled_share=0.1,
        ),
        randomisation=Randomisation(
            force_sigma=0.05, torque_sigma_m=1e-4, mass=(0.9, 1.1), thrust=(0.95, 1.05), delay_s=(0.0, 0.02)
        ),
        noise=Noise(position_m=0.001, orientation_rad=0.001, linear_velocity_m_s=0.002, angular_velocity_rad_s=0.002),
        observation=Observation(
            max_position_error_m=0.5, action_history=2, disturbance_estimate=True, disturbance_bandwidth_hz=1.0
        ),
        curriculum=Curriculum(start_scale=0.5, full_after=0.5),
    )
    return replace(task, **changes)


def small_recipe_data(**changes: Any) -> dict[str, Any]:
    """Return a recipe of four iterations of 64 robots, as its YAML would hold it; it flies at 20 Hz to be quick."""
    data: dict[str, Any] = {
        "name": "small",
        "task": "quadrotor_hover",
        "robot": "crazyflie",
        "algorithm": "ppo",
        "seed": 3,
        "steps": 4 * 64 * 8,
        "envs": 64,
        "device": "cpu",
        "threads": 1,
        "selection": {"episodes": 8, "every": 0.25, "after": 0.5, "seed": 11},
        "task_settings": {
            "rate_hz": 20.0,
            "episode_s": 1.0,
            "observation": {"action_history": 2, "disturbance_estimate": True},
            "randomisation": {"mass": [0.9, 1.1], "delay_s": [0.0, 0.05]},
            "curriculum": {"start_scale": 0.5, "full_after": 0.8},
        },
        "algorithm_settings": {
            "rollout": 8,
            "epochs": 2,
            "minibatches": 2,
            "network": "mlp",
            "hidden": [16],
            "critic_hidden": [16],
            "gru_width": 8,
        },
    }
    for key, change in changes.items():
        data[key] = {**data[key], **change} if isinstance(change, dict) else change
    return data


def small_recipe(**changes: Any) -> Recipe[Any, Any]:
    """Return :func:`small_recipe_data` as a recipe."""
    return recipe_from_data(small_recipe_data(**changes), "small.yaml")


def small_apg_data(**changes: Any) -> dict[str, Any]:
    """Return a recipe of four windows of 64 robots, learned by gradients, as its YAML would hold it."""
    data = small_recipe_data(algorithm="apg")
    data["algorithm_settings"] = {
        "window": 8,
        "network": "mlp",
        "hidden": [16],
        "gru_width": 8,
        "initial_action": 0.334,
    }
    for key, change in changes.items():
        data[key] = {**data[key], **change} if isinstance(change, dict) else change
    return data


def sensed(env: QuadrotorEnvironment) -> dict[str, NDArray[np.float32]]:
    """Return (N, ...) of every input that the newest observation was made from, noise included."""
    step, shapes = env.task_step, {}

    def flat(**rows: Any) -> dict[str, Any]:
        signals = step._sensed(rows)
        shapes.update({name: np.shape(signal) for name, signal in signals.items()})
        return {name: np.asarray(signal, dtype=object).reshape(-1) for name, signal in signals.items()}

    kernel = Kernel(flat, step.inputs)
    arrays = {"state": env.state, "parameters": env.parameters, "memory": env.memory, "noise": env.noise[:, 0]}
    made = {name: np.zeros((rows, env.count), np.float32) for name, rows in kernel.outputs.items()}
    kernel({**arrays, "goal": env.goal[:, 0], **made})
    return {name: array.T.reshape(env.count, *shapes[name]) for name, array in made.items()}
