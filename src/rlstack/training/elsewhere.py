"""What a run's further processes build of its recipe: robots of their own, and the algorithm that moves them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch
import yaml

from rlstack.robots import load_robot
from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.training import ALGORITHMS
from rlstack.training.recipe import Recipe, recipe_from_data

_ALONE = {"apart": False, "workers": 0, "processes": 1}
"""Settings by which an algorithm starts no process itself."""


def build_elsewhere(text: str, robots: int | None, threads: int, seed: int, rank: int | None = None) -> Any:
    """Return a run's algorithm in this process, which is not the run's own and starts no further ones.

    Args:
        text: The run's recipe, as YAML.
        robots: How many it moves; None: as many as the recipe has.
        threads: On which this process computes.
        seed: Of its robots and its actions.
        rank: Number of this process, by which it has a device; None: it has the recipe's. See :func:`device_of`.
    """
    recipe = recipe_from_data(yaml.safe_load(text), "the run's recipe")
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    device = recipe.device if rank is None else device_of(recipe.device, rank)
    environment = robots_of(recipe, recipe.envs if robots is None else robots, device, seed)
    settings = recipe.algorithm_settings
    has = {one.name for one in fields(settings)}
    alone = replace(settings, **{name: value for name, value in _ALONE.items() if name in has})
    return ALGORITHMS.load(recipe.algorithm)(alone, environment)


def robots_of(recipe: Recipe[Any, Any], count: int, device: str, seed: int) -> LearningEnvironment:
    """Return robots of a recipe's task."""
    task = recipe.task_settings
    robot = task.reference(load_robot(recipe.robot))
    found: LearningEnvironment = task.environment(robot, task.pipeline(robot), count, device=device, seed=seed)
    return found


def device_of(device: str, rank: int) -> str:
    """Return the device of a process: of ``cuda``, the GPU of its number, in turn if there are fewer."""
    if device != "cuda":
        return device
    return f"cuda:{rank % max(torch.cuda.device_count(), 1)}"
