"""Validated settings of an environment: task, robot, simulator."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlstack import schema
from rlstack.environments.environment_core import GOAL, OBSERVATIONS, POLICY, EnvironmentCore
from rlstack.errors import UserError, unknown_name
from rlstack.robots import RobotSpec, load_robot
from rlstack.sim.vector import BATCH, whole_steps
from rlstack.tasks import TASKS
from rlstack.tasks.quadrotor.task import QuadrotorTask
from rlstack.training.recipe import recipe_files
from rlstack.yaml_files import read_yaml

_HEIGHT_IN_A_WORLD_M = 1.5
_BATCH_RATE_HZ = 100.0
"""Least step rate of the batch simulator, as in training."""


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
        world: World of an engine, such as ``"warehouse:7"``; None: a floor, far below.
        physics_rate_hz: Physics steps per second, for quadrotors; None: about the engine's own, a whole number per
            control period.
        height_m: Height of the task's origin above the world's start position; None: so high that quadrotors are lost
            before they touch the floor, or 1.5 m in a world.
        settings: The task's settings by name, such as ``rate_hz`` and ``episode_s``.

    Raises:
        UserError: Something is unknown, not allowed or not installed.
    """
    if count < 1:
        raise UserError(f"num_envs: {count} is not allowed: must be at least 1.")
    config, spec, observation_kind = configured(task, robot, observation, settings)
    try:
        if isinstance(config, QuadrotorTask) and observation_kind != GOAL:
            from rlstack.environments.quadrotor_core import QuadrotorCore
            from rlstack.kinds.quadrotor.simulation_vector import quadrotor_vector

            options = _simulator_options(config, backend or BATCH, count, world, physics_rate_hz, height_m)
            simulator = quadrotor_vector(backend or BATCH, spec, count, config.rate_hz, **options)
            return QuadrotorCore(config, spec, observation_kind, simulator, count)
        if backend not in (None, BATCH):
            raise UserError(f"backend: '{backend}' is not allowed: {task} runs only in its training simulator.")
        engines = {"world": world, "physics_rate_hz": physics_rate_hz, "height_m": height_m}
        for name, given in engines.items():
            if given is not None:
                raise UserError(f"{name}: {given} is not allowed: only quadrotor tasks have it.")
        from rlstack.environments.learning_core import LearningCore

        return LearningCore(
            config.environment(spec, config.pipeline(spec), count, device="cpu", seed=0), observation_kind
        )
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
    observation_kind, given = POLICY, {key: schema.to_data(entry) for key, entry in settings.items()}
    if not isinstance(observation, str):
        given["observation"] = schema.to_data(observation)
    elif observation in OBSERVATIONS:
        observation_kind = observation
    else:
        raise unknown_name("observation", observation, OBSERVATIONS)
    config = schema.load(kind, given, f"environment of {task}")
    spec = _robot(task) if robot is None else load_robot(robot) if isinstance(robot, str) else robot
    return config, config.reference(spec), observation_kind


def _simulator_options(
    task: Any,
    backend: str,
    count: int,
    world: str | Path | None,
    physics_rate_hz: float | None,
    height_m: float | None,
) -> dict[str, Any]:
    """Return the options of :func:`rlstack.kinds.quadrotor.simulation_vector.quadrotor_vector` for a task."""
    if physics_rate_hz is not None:
        steps = physics_rate_hz / task.rate_hz
        if not math.isfinite(steps) or round(steps) < 1 or abs(steps - round(steps)) > 1e-6:
            raise UserError(
                f"physics_rate_hz: {physics_rate_hz:g} is not allowed: must be a whole multiple of rate_hz"
                f" ({task.rate_hz:g} Hz)."
            )
    if backend == BATCH:
        for name, given in (("world", world), ("height_m", height_m)):
            if given is not None:
                raise UserError(f"{name}: the batch simulator has neither world nor floor: choose another backend.")
        substeps = whole_steps(physics_rate_hz or max(_BATCH_RATE_HZ, task.rate_hz), task.rate_hz)
        return {"longest_delay_s": max(task.max_delay_s, 0.0), "substeps": substeps}
    if height_m is None:
        height_m = task.lost_m + 1.0 if world is None else _HEIGHT_IN_A_WORLD_M
    # the seed is that of a world's wind
    options = {"physics_rate_hz": physics_rate_hz, "world": world, "seed": 0}
    return {**options, "together": count, "height_m": height_m}


def _robot(task: str) -> RobotSpec:
    """Return the robot of the recipe with the task's name, or of the first recipe that learns the task.

    Raises:
        UserError: No recipe learns it.
    """
    files = recipe_files()
    for path in (*(files[name] for name in [task] if name in files), *files.values()):
        recipe = read_yaml(path, "the recipe")
        if recipe.get("task") == task:
            return load_robot(recipe["robot"])
    raise UserError(f"robot: no recipe learns {task}, so it has no default robot: give a name or file.")
