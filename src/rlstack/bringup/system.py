"""Which processes make a system: the one description that `rlstack up` and the launch files render.

A launch file and the supervisor turn the same :class:`System` into running processes, so a parameter that
one of them sets and the other forgets cannot exist.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS
from rlstack.robots import load_quadrotor

Parameter = bool | int | float | str | tuple[float, ...]
"""What a ROS parameter may hold here."""

START_S = 20.0
"""How long the policy waits for the first messages when all nodes start at once: a node takes 2 s of a processor to
start, which a busy machine may not have."""

WhenItEnds = Literal["stop the rest", "let the rest go on", "start the next stage"]


@dataclass(frozen=True, kw_only=True)
class Process:
    """One node, as the module that runs it.

    It is started as ``python -m module`` with the interpreter that reads this description: that one can import
    rlstack, whatever ``PATH`` says (a virtual environment that is not activated, a colcon workspace, a pip install).

    Args:
        name: What logs call it, and the node's name.
        module: The module with the node's ``main``.
        parameters: ROS parameters by name.
        namespace: Absolute namespace, such as ``/cf1``.
        remappings: Pairs of topic names, from and to.
        when_it_ends: What its end means for the others.
        why: The reason for ``when_it_ends``, said to the user when it happens.
        grace_s: How long it may take to end after it was asked to, before it is killed.
    """

    name: str
    module: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    namespace: str = "/"
    remappings: tuple[tuple[str, str], ...] = ()
    when_it_ends: WhenItEnds = "stop the rest"
    why: str = ""
    grace_s: float = 5.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    def command(self) -> list[str]:
        """Return the command line that starts it, for a supervisor that is not launch."""
        ros = ["-r", f"__node:={self.name}", "-r", f"__ns:={self.namespace}"]
        for source, target in self.remappings:
            ros += ["-r", f"{source}:={target}"]
        for name, value in self.parameters.items():
            ros += ["-p", f"{name}:={_as_yaml(value)}"]
        return [*python_module(self.module), "--ros-args", *ros]


@dataclass(frozen=True, kw_only=True)
class System:
    """Processes that run together, and what follows when they have done their work.

    Args:
        name: What logs call it.
        processes: In starting order; the first to end badly gives the exit status.
        then: Started when a process with ``start the next stage`` has ended with status 0.
    """

    name: str
    processes: tuple[Process, ...]
    then: System | None = None

    def __post_init__(self) -> None:
        names = [process.name for process in self.processes]
        if len(set(names)) != len(names):
            raise ValueError(f"Process names must differ: {names}.")


def python_module(module: str) -> list[str]:
    """Return the command that runs ``module``; unbuffered, so that its log lines come when they are written."""
    return [sys.executable, "-u", "-m", module]


def deploy_system(
    policy: str | Path,
    robot: str = "crazyflie",
    backend: str = "mujoco",
    *,
    namespace: str = "",
    goal: Sequence[float] = (0.0, 0.0, 1.0),
    goal_yaw_rad: float = 0.0,
    real_time_factor: float = 1.0,
    lock_step: bool = False,
    auto_arm: bool | None = None,
    noise_seed: int = 0,
) -> System:
    """Describe a robot that flies a policy: the robot node, the policy node and the guard between them.

    Args:
        policy: The policy file.
        robot: A robot's name or file.
        backend: What stands behind the common topics: a simulator or a real robot.
        namespace: Of the robot's topics; empty takes the robot's name.
        goal: Where to hover, m, in ``odom``.
        goal_yaw_rad: Heading to hold there.
        real_time_factor: Simulated seconds per second (simulators only).
        lock_step: Time waits for every command (simulators only).
        auto_arm: Arm without being asked; None arms simulators and never a real robot.
        noise_seed: Of the simulated sensors' noise.

    Raises:
        UserError: An unknown robot or backend (nearest names listed), or a value that makes no sense.
    """
    robot, spec = _resolve_robot(robot), load_quadrotor(robot)
    simulated = is_simulator(backend)
    if not math.isfinite(real_time_factor) or real_time_factor <= 0.0:
        raise UserError(f"The real-time factor {real_time_factor} is not allowed: give a number above 0, such as 1.0.")
    if lock_step and not simulated:
        raise UserError(f"Lock step needs a simulator, and the backend '{backend}' is not one: leave lock step off.")
    if len(goal) != 3 or not all(math.isfinite(x) for x in goal):
        raise UserError(f"The goal {list(goal)} is not allowed: give three finite numbers x y z in metres.")
    space = checked_namespace(namespace or spec.name)
    armed = simulated if auto_arm is None else auto_arm
    return System(
        name="deploy",
        processes=(
            Process(
                name="robot",
                module="rlstack.nodes.robot",
                namespace=space,
                parameters={
                    "robot": robot,
                    "backend": backend,
                    "lock_step": lock_step,
                    "real_time_factor": float(real_time_factor),
                    "noise_seed": int(noise_seed),
                },
                why="without the robot there is nothing to fly",
            ),
            Process(
                name="guard",
                module="rlstack.nodes.guard",
                namespace=space,
                parameters={"robot": robot, "lock_step": lock_step, "auto_arm": armed},
                why="nothing may fly without the guard",
            ),
            Process(
                name="policy",
                module="rlstack.nodes.policy",
                namespace=space,
                parameters={
                    "policy": str(Path(policy).expanduser().absolute()),
                    "robot": robot,
                    "goal_position": tuple(float(x) for x in goal),
                    "goal_yaw": float(goal_yaw_rad),
                    "lock_step": lock_step,
                    "topic_timeout_s": START_S,
                },
                when_it_ends="let the rest go on",
                why="the guard flies its fallback and then lands",
            ),
        ),
    )


def train_system(
    recipe: str = "quadrotor_hover",
    *,
    out: str | Path = "",
    seed: int | None = None,
    overrides: Sequence[str] = (),
    fly: bool = True,
    robot: str = "crazyflie",
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
        robot: Flown afterwards.
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
        then = deploy_system(folder / "policy.onnx", robot, backend, namespace=namespace, goal=goal)
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


def is_simulator(backend: str) -> bool:
    """Return whether ``backend`` owns time; raise ``UserError`` with the nearest names for an unknown one."""
    return bool(getattr(BACKENDS.load(backend), "owns_time", False))


def checked_namespace(name: str) -> str:
    """Return ``name`` as an absolute ROS namespace; raise ``UserError`` for one that ROS would refuse."""
    absolute = "/" + name.strip("/")
    if absolute != "/" and not re.fullmatch(r"(/[A-Za-z_][A-Za-z0-9_]*)+", absolute):
        raise UserError(
            f"The namespace '{name}' is not allowed: letters, digits and _ between slashes, no part beginning with a"
            " digit, such as cf1 or fleet/cf1."
        )
    return absolute


def _new_run_folder(recipe: str) -> Path:
    from rlstack.training.run import new_folder  # needs torch, as the training that follows does

    return new_folder(Path(recipe).stem).absolute()


def _resolve_robot(robot: str) -> str:
    """Return a robot file as an absolute path, because the nodes may run in another working directory."""
    return str(Path(robot).expanduser().absolute()) if robot.endswith((".yaml", ".yml")) else robot


def _as_yaml(value: Parameter) -> str:
    """Return ``value`` as rcl reads it after ``:=`` (YAML, of which JSON is a part)."""
    plain: Any = list(value) if isinstance(value, tuple) else value
    return json.dumps(plain, ensure_ascii=False)  # JSON's escapes beyond 16 bits are not YAML's
