"""The URDF of a robot, generated from its file: for PyBullet, Isaac Sim, RViz and whatever else reads URDF."""

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

    Mass and inertia of a quadrotor and a base are those of the file to the last digit. A manipulator's links are its
    model's, which is checked against the file first, and its limits the file's.

    Args:
        robot: What to describe.
        prefix: Of the names of all links and joints, such as ``cf1/``.
        rotors: Of quadrotors. ``continuous``: links of their own that turn, for viewers and for engines that drive
            them; their mass and inertia are taken out of the body's, so that the whole is the file's. ``fixed``: frames
            on the body, which has all of the mass. ``none``: no links, only seen.
        meshes: How a manipulator's meshes are named: by ``path`` (engines), by file ``uri`` (RViz), or left out.
        frames: Whether cameras and lidars have their frames: links without mass, which PhysX takes for 1 kg.

    Raises:
        UserError: There is no URDF of such a robot, or its model is missing, malformed or not what the file says.
    """
    root = models_of(robot).urdf(robot, UrdfOptions(prefix=prefix, rotors=rotors, meshes=meshes))
    if frames:
        add_frames(root, robot, prefix)
    return text_of(root)
