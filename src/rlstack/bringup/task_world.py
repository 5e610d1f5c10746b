"""The world of a trial of a policy's own task, for a deployment in a simulator: `--world task`, `--world task:7`."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rlstack import schema
from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.interfaces.instruction import decoded
from rlstack.policies import load_policy
from rlstack.robots import RobotSpec, load_robot
from rlstack.sim.world import World

TASK = "task"
"""Name of such a world, perhaps with a seed: ``task:7``."""

_STARTS = {"count": 1, "clearance_m": 0.05, "body_radius_m": 0.05}
"""The trial has said where the robot starts."""


class Trial(NamedTuple):
    """A trial's world, and what the robot is to do there."""

    world: World
    goal: tuple[float, ...] | None = None
    """In ``odom``, m; None: there is none."""
    instruction: str = ""


def is_task_world(world: str) -> bool:
    """Return whether a world is that of a policy's task."""
    return world.partition(":")[0] == TASK


def with_task_world(policy: str | Path, robot: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return options of a deployment whose world is that of its policy's task, with the world's file.

    The goal and the instruction are the trial's, unless they are given.

    Args:
        policy: The policy file.
        robot: The robot's name or file.
        options: ``world``, ``goal``, ``instruction`` and others.

    Raises:
        UserError: There is no policy, several robots are asked for, the seed is not a whole number, or the trials of
            the policy's task have no world that simulators know.
    """
    name, _, text = options["world"].partition(":")
    if text and not text.isdecimal():
        raise UserError(f"The world '{options['world']}' is not allowed: give {name}, or {name}:7 for its seed 7.")
    if not policy:
        raise UserError(f"The world '{options['world']}' is that of a policy's task: give --policy, or another world.")
    if options.get("count", 1) != 1:
        raise UserError(f"The world '{options['world']}' is for one robot: leave count out.")
    spec = load_robot(robot)
    trial = trial_of(policy, spec, int(text or 0))
    content = world_yaml(trial.world)
    digest = hashlib.sha256(content.encode()).hexdigest()[:8]
    path = Path(tempfile.gettempdir()) / f"rlstack-{spec.name}-{name}-{text or 0}-{digest}.yaml"
    write_atomically(path, content)
    found = {**options, "world": str(path)}
    if options.get("goal") is None and trial.goal is not None:
        found["goal"] = trial.goal
    if not options.get("instruction") and trial.instruction:
        found["instruction"] = trial.instruction
    return found


def trial_of(policy: str | Path, robot: RobotSpec, seed: int) -> Trial:
    """Return a held-out trial of a policy's task; errors as of :func:`with_task_world`."""
    from rlstack.tasks.core.trained_task import trained_task  # needs torch
    from rlstack.verification.training_evaluation import verification_of

    contract = load_policy(policy, robot=robot).contract
    task = trained_task(contract, str(policy))
    verification = verification_of(task, robot.kind)
    make = getattr(verification, "trial_world", None)
    if make is None:
        raise UserError(
            f"The trials of {contract.task} have no world of their own: choose another world, such as those that"
            " `rlstack world` lists, or leave it out."
        )
    trials = verification.draw_evaluation(task, robot, 1, seed)
    said = getattr(trials, "instruction", None)
    instruction = "" if said is None else decoded(said[0])
    goal = getattr(trials, "goal", None) if said is None else None
    return Trial(make(task, trials, 0), None if goal is None else tuple(map(float, goal[0])), instruction)


def world_yaml(world: World) -> str:
    """Return a world file with a world's obstacles on an empty floor."""
    (x0, y0, _), (x1, y1, high) = world.bounds_m
    size = [2.0 * max(abs(x0), abs(x1)), 2.0 * max(abs(y0), abs(y1)), high]
    obstacles = [schema.to_data(replace(one, yaw_rad=float(one.yaw_rad))) for one in world.obstacles]
    data = {"generator": "empty", "settings": {"size_m": size}, "obstacles": obstacles, "starts": _STARTS}
    return yaml.safe_dump(data, sort_keys=False)
