"""Which processes make a system: the one description that `rlstack up` and the launch files render.

A launch file and the supervisor turn the same :class:`System` into running processes, so a parameter that
one of them sets and the other forgets cannot exist.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.bringup.crew import Point, absolute_file, checked_namespace, is_simulator, robot_crew, robot_goals
from rlstack.bringup.process import Parameter, Process, System, WhenItEnds, python_module
from rlstack.errors import UserError
from rlstack.robots import load_quadrotor

__all__ = [
    "Parameter",
    "Process",
    "System",
    "WhenItEnds",
    "checked_namespace",
    "deploy_system",
    "is_simulator",
    "python_module",
    "simulate_system",
    "train_system",
]

START_S = 20.0
"""How long the policy waits for the first messages when all nodes start at once: a node takes 2 s of a processor to
start, which a busy machine may not have."""


def deploy_system(
    policy: str | Path,
    robot: str = "crazyflie",
    backend: str = "mujoco",
    *,
    world: str = "",
    count: int = 1,
    namespace: str = "",
    goal: Sequence[float] = (0.0, 0.0, 1.0),
    goal_yaw_rad: float = 0.0,
    real_time_factor: float = 1.0,
    lock_step: bool = False,
    auto_arm: bool | None = None,
    noise_seed: int = 0,
) -> System:
    """Describe robots that fly a policy: the robot node, and for each robot a policy node and the guard between them.

    Args:
        policy: The policy file.
        robot: A robot's name or file.
        backend: What stands behind the common topics: a simulator or a real robot.
        world: Name or file of the world to fly in, such as ``warehouse:7`` (simulators only); empty: a floor.
        count: Robots of this kind that share the world (simulators only).
        namespace: Of the robot's topics; empty takes the robot's name. Several robots have namespaces of their own in
            it, the robot's name and a number; empty: at the top.
        goal: Where to hover, m, in ``odom``; for several robots, from where each one starts.
        goal_yaw_rad: Heading to hold there.
        real_time_factor: Simulated seconds per second (simulators only).
        lock_step: Time waits for every command (simulators only).
        auto_arm: Arm without being asked; None arms simulators and never a real robot.
        noise_seed: Of the simulated sensors' noise.

    Raises:
        UserError: An unknown robot, backend or world (nearest names listed), an engine that is not installed, or a
            value that makes no sense.
    """
    crew = robot_crew(
        robot,
        backend,
        world=world,
        count=count,
        namespace=namespace,
        real_time_factor=real_time_factor,
        lock_step=lock_step,
        noise_seed=noise_seed,
    )
    if len(goal) != 3 or not all(math.isfinite(x) for x in goal):
        raise UserError(f"The goal {list(goal)} is not allowed: give three finite numbers x y z in metres.")
    armed = crew.simulated if auto_arm is None else auto_arm
    spec, file = load_quadrotor(robot), absolute_file(robot)
    processes = [crew.process]
    for space, place in zip(crew.namespaces, robot_goals(crew.starts_m, goal)):
        prefix = f"{space.rpartition('/')[2]}." if count > 1 else ""
        processes += [
            Process(
                name=f"{prefix}guard",
                node="guard",
                module="rlstack.nodes.guard",
                namespace=space,
                parameters={
                    "robot": file,
                    "lock_step": lock_step,
                    "auto_arm": armed,
                    **_fence(crew.fence_m, spec.limits.geofence_min_m, spec.limits.geofence_max_m),
                },
                why="nothing may fly without the guard",
            ),
            Process(
                name=f"{prefix}policy",
                node="policy",
                module="rlstack.nodes.policy",
                namespace=space,
                parameters={
                    "policy": str(Path(policy).expanduser().absolute()),
                    "robot": file,
                    "goal_position": place,
                    "goal_yaw": float(goal_yaw_rad),
                    "lock_step": lock_step,
                    "topic_timeout_s": START_S * (1 if count == 1 else count),
                },
                when_it_ends="let the rest go on",
                why="the guard flies its fallback and then lands",
            ),
        ]
    return System(name="deploy", processes=tuple(processes))


def simulate_system(
    robot: str = "crazyflie",
    backend: str = "mujoco",
    **options: Any,
) -> System:
    """Describe simulated robots that wait for commands from whatever controls them; no policy, and no guard.

    Args:
        robot: A robot's name or file.
        backend: A simulator.
        options: ``world``, ``count``, ``namespace``, ``real_time_factor``, ``lock_step`` and ``noise_seed`` as of
            :func:`deploy_system`, and ``start_height_m``, in the air.

    Raises:
        UserError: As of :func:`deploy_system`.
    """
    if not is_simulator(backend):
        raise UserError(f"The backend '{backend}' is no simulator: a real robot flies behind a guard, with deploy.")
    return System(name="simulate", processes=(robot_crew(robot, backend, **options).process,))


def train_system(
    recipe: str = "quadrotor_hover",
    *,
    out: str | Path = "",
    seed: int | None = None,
    overrides: Sequence[str] = (),
    fly: bool = True,
    robot: str = "",
    backend: str = "mujoco",
    namespace: str = "",
    goal: Sequence[float] = (0.0, 0.0, 1.0),
) -> System:
    """Describe a training run that publishes its progress, and the simulated flight of its policy that follows.

    Args:
        recipe: A training recipe's name or file.
        out: The run's folder, which must not exist yet; empty takes the next free ``runs/<recipe>-NNN``.
        seed: Overrides the recipe's.
        overrides: More recipe fields, each ``field=value``.
        fly: Start the robot and fly the new policy when training has ended well.
        robot: Flown afterwards; empty takes the recipe's.
        backend: Flown in afterwards; a simulator only, because the new policy has not been verified.
        namespace: As in :func:`deploy_system`.
        goal: As in :func:`deploy_system`.
    """
    folder = Path(out).expanduser().absolute() if str(out) else _new_run_folder(recipe)
    if folder.exists():
        raise UserError(f"The run folder {folder} exists and is never overwritten: choose another with out.")
    then = None
    if fly:
        if not is_simulator(backend):
            raise UserError(
                f"A policy fresh from training may fly in simulators only, and the backend '{backend}' is not one:"
                " train first, then verify and deploy."
            )
        flown = robot or _recipe_robot(recipe, overrides)
        then = deploy_system(folder / "policy.onnx", flown, backend, namespace=namespace, goal=goal)
    parameters: dict[str, Parameter] = {"recipe": recipe, "out": str(folder)}
    if seed is not None:
        parameters["seed"] = int(seed)
    if overrides:
        parameters["overrides"] = json.dumps(list(overrides))
    return System(
        name="train",
        processes=(
            Process(
                name="train",
                module="rlstack.nodes.train",
                parameters=parameters,
                when_it_ends="start the next stage",
                why="training is over",
                grace_s=20.0,  # it saves a checkpoint
            ),
        ),
        then=then,
    )


def _new_run_folder(recipe: str) -> Path:
    from rlstack.training.run import new_folder  # needs torch, as the training that follows does

    return new_folder(Path(recipe).stem).absolute()


def _recipe_robot(recipe: str, overrides: Sequence[str]) -> str:
    from rlstack.training.recipe import load_recipe

    changed = [word.partition("=")[2] for word in overrides if word.lstrip("-").startswith("robot=")]
    return changed[-1] if changed else load_recipe(recipe).robot


def _fence(world: tuple[Point, Point] | None, low: Point, high: Point) -> dict[str, Parameter]:
    """Return the guard's parameters that let a simulated robot use all of its world."""
    if world is None:
        return {}
    lower, upper = np.minimum(world[0], low), np.maximum(world[1], high)
    return {
        "allow_wider": True,
        "geofence_min_m": tuple(map(float, lower)),
        "geofence_max_m": tuple(map(float, upper)),
    }
