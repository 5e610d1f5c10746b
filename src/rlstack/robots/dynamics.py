"""Arm dynamics: the mass matrix, and the torques due to gravity and motion.

Recursive Newton-Euler and composite rigid bodies (Featherstone, Rigid Body Dynamics Algorithms, 2008, chapters 5, 6),
for N robots at once, with all spatial vectors in ``base_link`` about its origin: angular above linear.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rlstack.arrays import Array
from rlstack.robots.inertia import Inertial, together
from rlstack.robots.kind_models import robot_model
from rlstack.robots.kinematics import Carried, Chain, chain_in, cross_matrix, joint_motion
from rlstack.robots.spec import STANDARD_GRAVITY, RobotSpec


class _Moved(NamedTuple):
    """A chain of J joints at given positions."""

    axes: Array
    """(N, J, 6) spatial velocity of the links behind a joint, per rad/s or m/s of it."""
    inertia: Array
    """(N, J, 6, 6) spatial inertia of the links that move with each joint and no later one."""


class ArmDynamics:
    """The joints from an arm's base to its tool; links on other joints, such as fingers, count as at zero.

    Args:
        robot: The arm; its drives' ``armature`` counts, their gains do not.
        link: The end of the chain; by default the end effector.

    Raises:
        UserError: The model cannot be read, has no such link, or the robot file does not name a joint on the way.
    """

    def __init__(self, robot: RobotSpec, link: str = "") -> None:
        model = robot_model(robot).seen_from("base_link")
        self.chain: Chain = chain_in(model, robot, link or robot.end_effector)
        moved_by = {joint.child: joint.name for joint in model.joints}
        groups: list[list[Inertial]] = [[] for _ in self.chain.joints]
        for name, piece in model.pieces.items():
            at: str | None = name
            while at is not None and moved_by.get(at) not in self.chain.joints:
                at = model.parents.get(at)
            if at is not None:
                groups[self.chain.joints.index(moved_by[at])].append(piece)
        whole = [together(group) for group in groups]
        self._mass = np.array([piece.mass_kg for piece in whole])
        self._centre = np.array([piece.centre_m for piece in whole])
        self._inertia = np.array([piece.inertia_kg_m2 for piece in whole])
        self._armature = np.array([robot.drives[k].armature for k in self.chain.index])

    @property
    def carried(self) -> Carried:
        """The links' masses, for :func:`rlstack.robots.kinematics.holding_effort`."""
        ones = np.ones((len(self._mass), 1))
        return Carried(STANDARD_GRAVITY * self._mass, np.concatenate([self._centre, ones], axis=1))

    def mass_matrix(self, joints: Array) -> Array:
        """Return the mass matrix (N, J, J), kg m^2, kg m or kg.

        Args:
            joints: (N, J) rad or m, from base to tool.
        """
        moved = self._moved(joints)
        composite = np.cumsum(moved.inertia[:, ::-1], axis=1)[:, ::-1]
        pushed = np.einsum("njab,njb->nja", composite, moved.axes)
        upper = np.triu(np.einsum("nka,nja->nkj", moved.axes, pushed))
        return np.asarray(upper + np.triu(upper, 1).swapaxes(1, 2) + np.diag(self._armature))

    def bias(self, joints: Array, velocity: Array, gravity_m_s2: float = STANDARD_GRAVITY) -> Array:
        """Return the torques or forces (N, J) that keep the joint velocities constant, against gravity and inertia.

        Args:
            joints: (N, J) rad or m, from base to tool.
            velocity: (N, J) rad/s or m/s.
            gravity_m_s2: 0 for an arm whose controller compensates gravity.
        """
        moved = self._moved(joints)
        twist = np.zeros((len(joints), 6))
        acceleration = np.zeros_like(twist)
        acceleration[:, 5] = gravity_m_s2
        forces = []
        for k in range(joints.shape[1]):
            own = moved.axes[:, k] * velocity[:, k : k + 1]
            twist = twist + own
            acceleration = acceleration + _motion_cross(twist, own)
            momentum = _apply(moved.inertia[:, k], twist)
            forces.append(_apply(moved.inertia[:, k], acceleration) + _force_cross(twist, momentum))
        carried = np.cumsum(np.stack(forces, axis=1)[:, ::-1], axis=1)[:, ::-1]
        return np.asarray((moved.axes * carried).sum(axis=2))

    def _moved(self, joints: Array) -> _Moved:
        marks, reached = joint_motion(self.chain.screws, joints)
        turning, sliding, place = np.moveaxis(marks[:, :, :3], -1, 0)
        inertia = [self._spatial(k, end[:, :3, :3], end[:, :3, 3]) for k, end in enumerate(reached)]
        axes = np.concatenate([turning, np.cross(place, turning) + sliding], axis=2)
        return _Moved(axes, np.stack(inertia, axis=1))

    def _spatial(self, k: int, rotation: Array, position: Array) -> Array:
        """Return the spatial inertia (N, 6, 6) of the links that joint k moves, about the origin."""
        centre = rotation @ self._centre[k] + position
        mass, skew = self._mass[k], cross_matrix(centre)
        found = np.zeros((len(centre), 6, 6))
        found[:, :3, :3] = rotation @ self._inertia[k] @ rotation.swapaxes(1, 2) - mass * skew @ skew
        found[:, :3, 3:], found[:, 3:, :3] = mass * skew, -mass * skew
        found[:, 3:, 3:] = mass * np.eye(3)
        return found


def _apply(matrix: Array, vector: Array) -> Array:
    return np.asarray((matrix @ vector[:, :, None])[:, :, 0])


def _motion_cross(a: Array, b: Array) -> Array:
    """Return the rate of change of motion b (N, 6) in a frame that moves with a (N, 6)."""
    angular = np.cross(a[:, :3], b[:, :3])
    return np.concatenate([angular, np.cross(a[:, :3], b[:, 3:]) + np.cross(a[:, 3:], b[:, :3])], axis=1)


def _force_cross(a: Array, f: Array) -> Array:
    """Return the rate of change of force f (N, 6), moment above force, in a frame that moves with a (N, 6)."""
    moment = np.cross(a[:, :3], f[:, :3]) + np.cross(a[:, 3:], f[:, 3:])
    return np.concatenate([moment, np.cross(a[:, :3], f[:, 3:])], axis=1)
