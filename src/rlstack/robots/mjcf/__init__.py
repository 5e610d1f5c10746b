"""The MuJoCo model of a robot, generated from its file so that the two always agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.robots.mjcf.parts import BODY, CAMERA
from rlstack.robots.mjcf.world import import_mujoco, new_world
from rlstack.robots.robot_models import models_of
from rlstack.robots.spec import RobotSpec

__all__ = ["BODY", "CAMERA", "add_robot", "import_mujoco", "mujoco_spec", "new_world", "to_mjcf"]


def add_robot(spec: Any, robot: RobotSpec, prefix: str = "", *, timestep_s: float = 0.001) -> Any:
    """Add a robot to a world, standing at the origin, and return its ``mujoco.MjsBody``.

    All names of the robot get the prefix: with ``0/`` its body is ``0/base_link``. Joints, and the actuators that
    are named after them, come in the file's order.

    Args:
        spec: The ``mujoco.MjSpec`` of the world, such as one from :func:`new_world`.
        robot: The robot.
        prefix: Prefix of all names; each robot of a world needs its own.
        timestep_s: Physics step: contacts are as stiff as it allows.

    Raises:
        UserError: MuJoCo is not installed, the world has parts with the robot's names, there is no such model, or a
            model that the file names is missing, malformed or disagrees with the file.
    """
    if spec.body(prefix + BODY) is not None:
        raise UserError(f"The world has a body called '{prefix + BODY}', which is the robot's name: rename it.")
    if robot.drives:
        # Damping that is far stiffer than the step is exact in it; RK4 would be unstable.
        spec.option.integrator = import_mujoco().mjtIntegrator.mjINT_IMPLICITFAST
    return models_of(robot).add_to_mujoco(spec, robot, prefix, timestep_s)


def mujoco_spec(
    robot: RobotSpec, *, timestep_s: float = 0.001, world: str | Path | None = None, floor: bool = True
) -> Any:
    """Return an editable MuJoCo model of one robot, standing at the origin of a world.

    Args:
        robot: The robot.
        timestep_s: Physics step, s.
        world: An MJCF file to place the robot in; without one, a lit, empty world.
        floor: Whether the empty world has a floor at z = 0.

    Returns:
        A ``mujoco.MjSpec``; ``compile()`` makes the ``mujoco.MjModel``.

    Raises:
        UserError: MuJoCo is not installed, or the world cannot be read or has parts with the robot's names.
    """
    spec = new_world(timestep_s=timestep_s, world=world, floor=floor)
    if world is not None and spec.body(BODY) is not None:
        raise UserError(f"The world {world} has a body called '{BODY}', which is the robot's name: rename it.")
    add_robot(spec, robot, timestep_s=timestep_s)
    return spec


def to_mjcf(robot: RobotSpec) -> str:
    """Return the robot in an empty world with a floor as MJCF text, for other programs.

    Raises:
        UserError: MuJoCo is not installed.
    """
    spec = mujoco_spec(robot)
    spec.modelname = robot.name
    spec.compile()
    return str(spec.to_xml())
