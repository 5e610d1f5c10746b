"""Motor inertia of joints (``armature``), which PyBullet does not model.

A rotor turns with its joint alone, so that it adds to the diagonal of the mass matrix. As inertia of the link that it
moves it is felt by contacts and motors within the step, but by every joint before it, too: the SO-100's shoulder would
carry those of its elbow and wrist. So the links of joints that turn have it (a finger that slides has none), and what
is too much of it, ``excess @ acceleration``, is given back as torques, of the acceleration that was measured. Given
back at once it would swing up, as the excess may be more than the mass matrix. With X the one that is wanted and H
PyBullet's, each step takes a share of ``X^-1 H (measured - before)``: a free arm comes to its own acceleration by that
share in each step. The share is the inverse of the greatest eigenvalue of ``X^-1 H``, which is what an arm that is held
wants, so as not to swing up.
"""

from __future__ import annotations

import numpy as np

from rlstack.arrays import Array
from rlstack.robots.joints import DrivenJoint
from rlstack.robots.kinematics import cross
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.backends.pybullet.server import Server

_GREATEST_SHARE = 0.5
"""Of a new acceleration, however little there is to give back: what is measured is rough where links hit something."""


def carry(server: Server, body: int, number: int, armature: float) -> Array:
    """Give the link of a joint that turns its motor's inertia, along PyBullet's frame of the link.

    Returns:
        What was added to the link's moments (3,): exact where the joint's axis is one of the frame's, as a wheel's is.
    """
    bullet, client = server.bullet, server.client
    moments = np.array(bullet.getDynamicsInfo(body, number, physicsClientId=client)[2])
    added = armature * np.array(bullet.getJointInfo(body, number, physicsClientId=client)[13]) ** 2
    bullet.changeDynamics(body, number, localInertiaDiagonal=(moments + added).tolist(), physicsClientId=client)
    return np.asarray(added)


class Armature:
    """The motor inertia of one robot with a fixed base.

    Args:
        server: Where the arm is.
        body: The arm's; its links are given the rotors.
        moving: The numbers of its joints that move, in PyBullet's order.
        drives: Of the joints that are driven, by number.
    """

    def __init__(self, server: Server, body: int, moving: list[int], drives: dict[int, DrivenJoint]) -> None:
        bullet, client = server.bullet, server.client
        self._server, self._body = server, body
        self._links = list(range(bullet.getNumJoints(body, physicsClientId=client)))
        infos = [bullet.getJointInfo(body, link, physicsClientId=client) for link in self._links]
        known = [bullet.getDynamicsInfo(body, link, physicsClientId=client) for link in self._links]
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
        """Begin anew: the joints were put somewhere."""
        self._acceleration = np.zeros(len(self._moving))
        self._last: Array | None = None

    def torque(self, step_s: float, lifting: bool) -> Array:
        """Return what the moving joints are to have beside their drives' efforts, N m or N; once in a step.

        Args:
            step_s: Since the step before.
            lifting: Hold the links up, too.
        """
        bullet, client = self._server.bullet, self._server.client
        states = bullet.getJointStates(self._body, self._numbers, physicsClientId=client)
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
        """Return the wanted mass matrix's inverse at rest, and how much of each new acceleration is taken."""
        bullet, client = self._server.bullet, self._server.client
        before = [state[0] for state in bullet.getJointStates(self._body, self._numbers, physicsClientId=client)]
        for number, q in zip(self._numbers, rest):
            bullet.resetJointState(self._body, number, q, physicsClientId=client)
        rotations, axes, centres, places = self._motion()
        for number, q in zip(self._numbers, before):
            bullet.resetJointState(self._body, number, q, physicsClientId=client)
        along = (self._moved_by[:, :, None] * np.where(self._turns[:, None], axes, 0.0)) @ rotations
        sliding = self._sliding(axes, centres, places)
        own = np.einsum("lja,la,lka->jk", along, moments, along) + np.einsum(
            "lja,l,lka->jk", sliding, self._mass, sliding
        )
        inverse = np.linalg.inv(own + self._wanted)
        held = np.eye(len(rest)) + inverse @ self._excess(rotations, axes)
        return inverse, float(min(_GREATEST_SHARE, 1.0 / np.linalg.eigvals(held).real.max()))

    def _motion(self) -> tuple[Array, Array, Array, Array]:
        """Return the links' rotations (L, 3, 3), the joints' axes (J, 3), the links' centres and the joints' places."""
        bullet, client = self._server.bullet, self._server.client
        states = bullet.getLinkStates(self._body, self._links, computeForwardKinematics=1, physicsClientId=client)
        turned = [bullet.getMatrixFromQuaternion(state[1]) for state in states]
        rotations = np.array(turned).reshape(-1, 3, 3)
        axes = (rotations[self._moving] @ self._axes[:, :, None])[:, :, 0]
        centres, places = np.array([state[0] for state in states]), np.array([state[4] for state in states])
        return rotations, axes, centres, places[self._moving]

    def _sliding(self, axes: Array, centres: Array, places: Array) -> Array:
        """Return how fast each link's centre of mass (L, J, 3) moves for 1 rad/s or m/s of each joint."""
        swung = cross(axes, centres[:, None] - places)
        return np.asarray(self._moved_by[:, :, None] * np.where(self._turns[:, None], swung, axes))

    def _excess(self, rotations: Array, axes: Array) -> Array:
        """Return what PyBullet's mass matrix has too much of: the rotors as links have them, less as they are."""
        felt = axes @ (rotations[self._moving] * self._root[:, None]) * self._turned_by
        spread = felt.swapaxes(0, 1).reshape(len(felt), -1)
        return np.asarray(spread @ spread.T - self._wanted)
