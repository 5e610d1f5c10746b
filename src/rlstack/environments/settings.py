"""Validated settings of an environment: task, robot, simulator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rlstack import schema
from rlstack.environments.core import BATCH, GOAL, OBSERVATIONS, POLICY, EnvironmentCore
from rlstack.errors import UserError, unknown_name
from rlstack.robots import RobotSpec, load_robot
from rlstack.tasks import TASKS
from rlstack.tasks.quadrotor.task import QuadrotorTask
from rlstack.training.recipe import recipe_files


def make_core(
    task: str,
    count: int,
    *,
    backend: str | None = None,
    robot: str | RobotSpec | None = None,
    observation: str | Mapping[str, Any] = POLICY,
    world: str | Path | None = None,
    physics_rate_hz: float | None = None,
    height_m: float | None = None,
    **settings: Any,
) -> EnvironmentCore:
    """Return the environment core of N robots at a task.

    Args:
        task: The task's name.
        count: N.
        backend: ``"batch"``: the task's training simulator (default); for quadrotors also ``"mujoco"``,
            ``"pybullet"`` or another in-process engine.
        robot: A robot's name or file; None: the robot of the task's recipe.
        observation: One of :data:`OBSERVATIONS`; a mapping: the task's settings named ``observation``.
        world: World of an engine, such as ``"warehouse:7"``.
        physics_rate_hz: Physics steps per second, for quadrotors.
        height_m: Height of the task's origin above the world's start position.
        settings: The task's settings by name, such as ``rate_hz`` and ``episode_s``.

    Raises:
        UserError: Something is unknown, not allowed or not installed.
    """
    if count < 1:
        raise UserError(f"num_envs: {count} is not allowed: must be at least 1.")
    made, spec, shown = configured(task, robot, observation, settings)
    try:
        if isinstance(made, QuadrotorTask) and shown != GOAL:
            from rlstack.environments.quadrotors import QuadrotorCore
            from rlstack.environments.vehicles import make_vehicles

            vehicles = make_vehicles(
                backend or BATCH,
                spec,
                count,
                made,
                world=world,
                physics_rate_hz=physics_rate_hz,
                height_m=height_m,
            )
            return QuadrotorCore(made, spec, shown, vehicles, count)
        if backend not in (None, BATCH):
            raise UserError(f"backend: '{backend}' is not allowed: {task} runs only in its training simulator.")
        engines = {"world": world, "physics_rate_hz": physics_rate_hz, "height_m": height_m}
        for name, given in engines.items():
            if given is not None:
                raise UserError(f"{name}: {given} is not allowed: only quadrotor tasks have it.")
        from rlstack.environments.learning import LearningCore

        return LearningCore(made.environment(spec, made.pipeline(spec), count, device="cpu", seed=0), shown)
    except ImportError as error:
        raise UserError(
            f"The environment of {task} needs {error.name}, which is not installed: pip install 'rlstack[gym]'."
        ) from error


def configured(
    task: str, robot: str | RobotSpec | None, observation: str | Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[Any, Any, Any]:
    """Return a task's configuration, its robot, and the kind of observation, for the arguments of :func:`make_core`.

    Raises:
        UserError: A name is unknown or a value is not allowed.
    """
    kind = TASKS.load(task)
    shown, given = POLICY, {key: schema.to_data(entry) for key, entry in settings.items()}
    if not isinstance(observation, str):
        given["observation"] = schema.to_data(observation)
    elif observation in OBSERVATIONS:
        shown = observation
    else:
        raise unknown_name("observation", observation, OBSERVATIONS)
    made = schema.load(kind, given, f"environment of {task}")
    spec = _robot(task) if robot is None else load_robot(robot) if isinstance(robot, str) else robot
    return made, made.reference(spec), shown


def _robot(task: str) -> RobotSpec:
    """Return the robot of the recipe with the task's name, or of the first recipe that learns the task.

    Raises:
        UserError: No recipe learns it.
    """
    files = recipe_files()
    for path in (*(files[name] for name in [task] if name in files), *files.values()):
        recipe = yaml.safe_load(path.read_text())
        if recipe.get("task") == task:
            return load_robot(recipe["robot"])
    raise UserError(f"robot: no recipe learns {task}, so it has no default robot: give a name or file.")
