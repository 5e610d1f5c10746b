"""Motor inertia of joints (``armature``), which PyBullet does not model.

A rotor turns with its joint alone, so its inertia belongs on the diagonal of the mass matrix. If it is added to the
moved link instead, contacts and motors feel it within the step, but so does every joint before it: the SO-100's
shoulder would carry the rotors of elbow and wrist. So the links of revolute joints get the inertia (sliding fingers do
not), and the surplus, ``excess @ acceleration``, is compensated by torques from the measured acceleration. Full
compensation at once would be unstable, as the excess may exceed the mass matrix. With X the wanted mass matrix and H
PyBullet's, each step applies a share of ``X^-1 H (measured - before)``, so that a free arm converges to its own
acceleration by that share per step. The share is the inverse of the greatest eigenvalue of ``X^-1 H``, which keeps a
held arm stable.
"""

from __future__ import annotations

import numpy as np

from rlstack.arrays import Array
from rlstack.robots.frames import cross
from rlstack.robots.joints import DrivenJoint
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.backends.pybullet.server import Server

_GREATEST_SHARE = 0.5
"""Greatest share of a new acceleration: measurements are noisy where links hit something."""


def carry(server: Server, body: int, number: int, armature: float) -> Array:
    """Add the motor inertia of a revolute joint to its link, along PyBullet's link frame.

    Returns:
        The increase of the link's moments (3,): exact if the joint's axis is an axis of the frame, as for a wheel.
    """
    bullet = server.bullet
    moments = np.array(bullet.getDynamicsInfo(body, number)[2])
    added = armature * np.array(bullet.getJointInfo(body, number)[13]) ** 2
    bullet.changeDynamics(body, number, localInertiaDiagonal=(moments + added).tolist())
    return np.asarray(added)


class Armature:
    """The motor inertia of one robot with a fixed base.

    Args:
        server: The physics server.
        body: The arm's body; its links get the rotors' inertia.
        moving: Numbers of its moving joints, in PyBullet's order.
        drives: The driven joints, by number.
    """

    def __init__(self, server: Server, body: int, moving: list[int], drives: dict[int, DrivenJoint]) -> None:
        bullet = server.bullet
        self._server, self._body = server, body
        self._links = list(range(bullet.getNumJoints(body)))
        infos = [bullet.getJointInfo(body, link) for link in self._links]
        known = [bullet.getDynamicsInfo(body, link) for link in self._links]
        self._numbers, self._moving = moving, np.array(moving)
        self._axes = np.array([infos[number][13] for number in moving])
        self._turns = np.array([infos[number][2] == bullet.JOINT_REVOLUTE for number in moving])
        self._mass = np.array([one[0] for one in known])
        self._moved_by = np.zeros((len(self._links), len(moving)))
        for link in self._links:
            at = link
            while at >= 0:
                self._moved_by[link, self._moving == at] = 1.0
                at = infos[at][16]
        self._turned_by = self._moved_by[self._moving, :, None] * self._turns[:, None]
        armature = [drives[number].armature if number in drives else 0.0 for number in moving]
        self._wanted = np.diag(armature)
        self._root = np.zeros((len(moving), 3))
        for k in np.flatnonzero(self._turns):
            self._root[k] = np.sqrt(carry(server, body, moving[k], armature[k]))
        self.forget()
        rest = [drives[number].rest if number in drives else 0.0 for number in moving]
        self._wanted_inverse, self._share = self._calmed(rest, np.array([one[2] for one in known]))

    def forget(self) -> None:
        """Reset the filter after the joints were moved."""
        self._acceleration = np.zeros(len(self._moving))
        self._last: Array | None = None

    def torque(self, step_s: float, lifting: bool) -> Array:
        """Return the moving joints' torques besides their drives' efforts, N m or N; call it once per step.

        Args:
            step_s: Time since the previous step.
            lifting: Whether to compensate gravity, too.
        """
        bullet = self._server.bullet
        states = bullet.getJointStates(self._body, self._numbers)
        velocity = np.array([state[1] for state in states])
        rotations, axes, centres, places = self._motion()
        excess = self._excess(rotations, axes)
        if self._last is not None:
            off = (velocity - self._last) / step_s - self._acceleration
            self._acceleration += self._share * (off + self._wanted_inverse @ (excess @ off))
        self._last = velocity
        torque = excess @ self._acceleration
        if lifting:
            torque += STANDARD_GRAVITY * self._mass @ self._sliding(axes, centres, places)[:, :, 2]
        return np.asarray(torque)

    def _calmed(self, rest: list[float], moments: Array) -> tuple[Array, float]:
        """Return the inverse of the wanted mass matrix at rest, and the share of each new acceleration to apply."""
        bullet = self._server.bullet
        before = [state[0] for state in bullet.getJointStates(self._body, self._numbers)]
        for number, q in zip(self._numbers, rest):
            bullet.resetJointState(self._body, number, q)
        rotations, axes, centres, places = self._motion()
        for number, q in zip(self._numbers, before):
            bullet.resetJointState(self._body, number, q)
        along = (self._moved_by[:, :, None] * np.where(self._turns[:, None], axes, 0.0)) @ rotations
        sliding = self._sliding(axes, centres, places)
        own = np.einsum("lja,la,lka->jk", along, moments, along) + np.einsum(
            "lja,l,lka->jk", sliding, self._mass, sliding
        )
        inverse = np.linalg.inv(own + self._wanted)
        held = np.eye(len(rest)) + inverse @ self._excess(rotations, axes)
        return inverse, float(min(_GREATEST_SHARE, 1.0 / np.linalg.eigvals(held).real.max()))

    def _motion(self) -> tuple[Array, Array, Array, Array]:
        """Return link rotations (L, 3, 3), joint axes (J, 3), link centres and joint positions."""
        bullet = self._server.bullet
        states = bullet.getLinkStates(self._body, self._links, computeForwardKinematics=1)
        turned = [bullet.getMatrixFromQuaternion(state[1]) for state in states]
        rotations = np.array(turned).reshape(-1, 3, 3)
        axes = (rotations[self._moving] @ self._axes[:, :, None])[:, :, 0]
        centres, places = np.array([state[0] for state in states]), np.array([state[4] for state in states])
        return rotations, axes, centres, places[self._moving]

    def _sliding(self, axes: Array, centres: Array, places: Array) -> Array:
        """Return the links' centre-of-mass velocity Jacobian (L, J, 3), per rad/s or m/s of each joint."""
        swung = cross(axes, centres[:, None] - places)
        return np.asarray(self._moved_by[:, :, None] * np.where(self._turns[:, None], swung, axes))

    def _excess(self, rotations: Array, axes: Array) -> Array:
        """Return the surplus in PyBullet's mass matrix: the rotors as parts of links, minus the true diagonal terms."""
        felt = axes @ (rotations[self._moving] * self._root[:, None]) * self._turned_by
        spread = felt.swapaxes(0, 1).reshape(len(felt), -1)
        return np.asarray(spread @ spread.T - self._wanted)
