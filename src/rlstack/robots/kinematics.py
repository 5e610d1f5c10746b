"""Arm kinematics: tool pose and Jacobian as pure functions over N robots, for numpy and torch alike.

They use standard operations only, so that torch exports them to ONNX and training matches the policy file. The formula
is the product of exponentials (Brockett 1984; Lynch and Park, Modern Robotics, chapter 4), with each joint's axis and
position in the model with all joints at zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots.frames import cross, library_of
from rlstack.robots.kind_models import robot_model
from rlstack.robots.model import Model
from rlstack.robots.spec import RobotSpec


class Screws(NamedTuple):
    """The constants of a chain of J joints, in ``base_link`` with all joints at zero; arrays of numpy or torch.

    A joint at q, with all others at zero, moves the links behind it by the 4 x 4 transform
    ``unit + sin(q) sine + (1 - cos(q)) versine + q linear``.
    """

    unit: Any
    """(4, 4)."""
    sine: Any
    """(J, 4, 4); zero for prismatic joints."""
    versine: Any
    """(J, 4, 4); zero for prismatic joints."""
    linear: Any
    """(J, 4, 4); zero for revolute joints."""
    marks: Any
    """(J, 4, 3): columns are the axis of rotation, the axis of translation, and a point on the axis, m."""
    tool: Any
    """(4, 4) transform from the tool to base_link."""


class Carried(NamedTuple):
    """The links behind each of a chain's J joints and no later one; arrays of numpy or torch."""

    weight: Any
    """(J,) N."""
    centre: Any
    """(J, 4) m of its mass, and 1, in ``base_link`` with all joints at zero."""


class ToolMotion(NamedTuple):
    """Tool poses and Jacobians of N robots; see :func:`tool_motion`."""

    position: Any
    """(N, 3) m in base_link."""
    rotation: Any
    """(N, 3, 3) from the tool to base_link."""
    jacobian: Any
    """(N, 6, J): linear velocity of the tool, m/s, above its angular velocity, rad/s, both in base_link, per rad/s or
    m/s of each joint."""


@dataclass(frozen=True)
class Chain:
    """The joints from an arm's base to its tool.

    Args:
        joints: Their names, from base to tool.
        index: (J,) indices in the robot's joint arrays.
        screws: The constants, float64.
    """

    joints: tuple[str, ...]
    index: tuple[int, ...]
    screws: Screws


def chain_of(robot: RobotSpec, link: str = "") -> Chain:
    """Return the chain of a robot's joints from ``base_link`` to a link, by default its end effector.

    Raises:
        UserError: The model cannot be read, has no such link, or the robot file does not name a joint on the way.
    """
    return chain_in(robot_model(robot), robot, link or robot.end_effector)


def chain_in(model: Model, robot: RobotSpec, link: str) -> Chain:
    """Return the chain to a link of a loaded model; see :func:`chain_of`."""
    model = model.seen_from("base_link")
    if link not in model.poses:
        raise UserError(f"{model.where} has no link '{link}'; it has: {', '.join(model.links)}.")
    above: dict[str, list[Any]] = {}
    for joint in model.joints:  # an MJCF's body may have several
        above.setdefault(joint.child, []).append(joint)
    way: list[Any] = []
    at: str | None = link
    while at is not None:
        way[:0] = above.get(at, [])
        at = model.parents.get(at)
    names = [drive.name for drive in robot.drives]
    moving = [joint for joint in way if joint.type != "fixed"]
    for joint in moving:
        if joint.name not in names:
            raise UserError(
                f"{model.where}: the joint '{joint.name}' on the way to '{link}' is not in the robot file of"
                f" {robot.name}: name it there, or make it fixed in the model."
            )
    count = len(moving)
    sine, versine, linear, marks = (np.zeros((count, 4, width)) for width in (4, 4, 4, 3))
    for k, joint in enumerate(moving):
        if joint.type == "prismatic":
            linear[k, :3, 3] = marks[k, :3, 1] = joint.axis
        else:
            cross = cross_matrix(joint.axis)
            for matrix, turn in ((sine[k], cross), (versine[k], cross @ cross)):
                matrix[:3, :3], matrix[:3, 3] = turn, -turn @ joint.position
            marks[k, :3, 0] = joint.axis
        marks[k, :3, 2], marks[k, 3, 2] = joint.position, 1.0
    tool = np.eye(4)
    tool[:3, :3], tool[:3, 3] = model.poses[link]
    return Chain(
        joints=tuple(joint.name for joint in moving),
        index=tuple(names.index(joint.name) for joint in moving),
        screws=Screws(np.eye(4), sine, versine, linear, marks, tool),
    )


def tool_motion(screws: Screws, joints: Any) -> ToolMotion:
    """Return the tool's pose and geometric Jacobian.

    Args:
        screws: Constants of the chain, arrays of the same library and type as ``joints``.
        joints: (N, J) rad or m, from base to tool.
    """
    xp = library_of(joints)
    moved, reached = joint_motion(screws, joints)
    tool = reached[-1] @ screws.tool
    axis, place = moved[:, :, :3, 0], tool[:, :3, 3]
    linear = cross(axis, place[:, None, :] - moved[:, :, :3, 2]) + moved[:, :, :3, 1]
    jacobian = xp.concatenate([linear, axis], 2).swapaxes(1, 2)
    return ToolMotion(place, tool[:, :3, :3], jacobian)


def holding_effort(screws: Screws, carried: Carried, joints: Any) -> Any:
    """Return the torques or forces (N, J) that hold an arm against gravity, N m or N.

    Args:
        screws: Constants of the chain, arrays of the same library and type as ``joints``.
        carried: The links' masses, likewise.
        joints: (N, J) rad or m, from base to tool.
    """
    xp = library_of(joints)
    moved, reached = joint_motion(screws, joints)
    centre = (xp.stack(reached, 1) @ carried.centre[:, :, None])[:, :, :3, 0]
    efforts = []
    for k in range(joints.shape[1]):  # of all links behind a joint
        lever = ((centre[:, k:] - moved[:, k : k + 1, :3, 2]) * carried.weight[k:, None]).sum(1)
        axis, slide = moved[:, k, :3, 0], moved[:, k, 2, 1]
        efforts.append(axis[:, 0] * lever[:, 1] - axis[:, 1] * lever[:, 0] + slide * carried.weight[k:].sum())
    return xp.stack(efforts, 1)


def joint_motion(screws: Screws, joints: Any) -> tuple[Any, list[Any]]:
    """Return the joints' present axes and points (N, J, 4, 3), and each joint's transform (N, 4, 4) of later links."""
    xp = library_of(joints)
    angle = joints[:, :, None, None]
    alone = xp.sin(angle) * screws.sine + (1.0 - xp.cos(angle)) * screws.versine + angle * screws.linear + screws.unit
    reached = [alone[:, 0]]
    before = [0.0 * reached[0] + screws.unit]  # each joint's frame, moved by the joints before it
    for k in range(1, joints.shape[1]):
        before.append(reached[-1])
        reached.append(reached[-1] @ alone[:, k])
    return xp.stack(before, 1) @ screws.marks, reached


def cross_matrix(vector: Array) -> Array:
    """Return the matrices (..., 3, 3) whose product with another vector is the cross product with it."""
    x, y, z = np.moveaxis(vector, -1, 0)
    zero = np.zeros_like(x)
    return np.moveaxis(np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]]), (0, 1), (-2, -1))
