"""The URDF of a robot, generated from its file for PyBullet, Isaac Sim, RViz and other programs."""

from __future__ import annotations

from rlstack.robots.robot_models import Meshes, Rotors, UrdfOptions, models_of
from rlstack.robots.spec import RobotSpec
from rlstack.robots.urdf.parts import BODY, add_frames, text_of

__all__ = ["BODY", "to_urdf"]


def to_urdf(
    robot: RobotSpec,
    *,
    prefix: str = "",
    rotors: Rotors = "continuous",
    meshes: Meshes = "path",
    frames: bool = True,
) -> str:
    """Return the robot as URDF text. Its root link is ``base_link``; joints come in the robot file's order.

    Mass and inertia of a quadrotor and a base are exactly those of the file. A manipulator's links are its model's,
    which is checked against the file first; its limits are the file's.

    Args:
        robot: The robot.
        prefix: Prefix of all links and joints, such as ``cf1/``.
        rotors: For quadrotors. ``continuous``: spinning links, for viewers and for engines that drive them; their
            mass and inertia are subtracted from the body's, so that the total is the file's. ``fixed``: frames on the
            body, which has all of the mass. ``none``: visuals only, no links.
        meshes: References to a manipulator's meshes: by ``path`` (engines), by file ``uri`` (RViz), or omitted.
        frames: Whether cameras and lidars have their frames: massless links, which PhysX treats as 1 kg.

    Raises:
        UserError: There is no URDF of such a robot, or its model is missing, malformed or disagrees with the file.
    """
    root = models_of(robot).urdf(robot, UrdfOptions(prefix=prefix, rotors=rotors, meshes=meshes))
    if frames:
        add_frames(root, robot, prefix)
    return text_of(root)
