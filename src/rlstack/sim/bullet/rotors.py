"""What the rotors of an arm's motors add to its joints' inertia (``armature``), which PyBullet has no number for.

A rotor turns with its joint alone, so that it adds to the diagonal of the mass matrix. As inertia of the link that it
moves it is felt by contacts and motors within the step, but also by every joint before it: the SO-100's shoulder would
carry those of its elbow and wrist too. So the links have it, and what is too much of it, ``excess @ acceleration``, is
given back as torques, of the acceleration that was measured. That is smoothed: with X the mass matrix that is wanted, H
PyBullet's, and a share ``1 / r`` of each new acceleration, r the largest v'Xv / v'Hv of any v, each way to move comes to
its own without overshoot, also where contacts hold some of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlstack.robots import frames
from rlstack.robots.joints import DrivenJoint
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.bullet.server import Server

Array = NDArray[np.float64]

_GREATEST_SHARE = 0.5
"""Of a new acceleration: PyBullet's mass matrix is taken in one posture, and others have another."""


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


class Rotors:
    """The rotors of one arm that stands fixed.

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
        self._moving = np.array(moving)
        self._axes = np.array([infos[number][13] for number in moving])
        self._turns = np.array([infos[number][2] == bullet.JOINT_REVOLUTE for number in moving])
        self._mass = np.array([one[0] for one in known])
        self._moved_by = np.zeros((len(self._links), len(moving)))
        for link in self._links:
            at = link
            while at >= 0:
                self._moved_by[link, self._moving == at] = 1.0
                at = infos[at][16]
        armature = [drives[number].armature if number in drives else 0.0 for number in moving]
        self._wanted = np.diag(armature)
        self._root = np.zeros((len(moving), 3))
        for k in np.flatnonzero(self._turns):
            self._root[k] = np.sqrt(carry(server, body, moving[k], armature[k]))
        self.forget()
        rest = [drives[number].rest if number in drives else 0.0 for number in moving]
        self._share = self._share_at(rest, np.array([one[2] for one in known]))

    def forget(self) -> None:
        """Begin anew: the joints were put somewhere."""
        self._acceleration, self._last = np.zeros(len(self._moving)), None

    def torque(self, step_s: float, lifting: bool) -> Array:
        """Return what the moving joints are to have beside their drives' efforts, N m or N; once in a step.

        Args:
            step_s: Since the step before.
            lifting: Hold the links up, too.
        """
        bullet, client = self._server.bullet, self._server.client
        states = bullet.getJointStates(self._body, self._moving.tolist(), physicsClientId=client)
        velocity = np.array([state[1] for state in states])
        if self._last is not None:
            self._acceleration += self._share * ((velocity - self._last) / step_s - self._acceleration)
        self._last: Array | None = velocity
        rotations, turning, sliding = self._motion()
        torque = self._excess(rotations, turning) @ self._acceleration
        return np.asarray(torque + STANDARD_GRAVITY * self._mass @ sliding[:, :, 2] if lifting else torque)

    def _share_at(self, rest: list[float], moments: Array) -> float:
        bullet, client = self._server.bullet, self._server.client
        numbers = self._moving.tolist()
        before = [state[0] for state in bullet.getJointStates(self._body, numbers, physicsClientId=client)]
        for number, q in zip(numbers, rest):
            bullet.resetJointState(self._body, number, q, physicsClientId=client)
        rotations, turning, sliding = self._motion()
        for number, q in zip(numbers, before):
            bullet.resetJointState(self._body, number, q, physicsClientId=client)
        along = turning @ rotations
        own = np.einsum("lja,la,lka->jk", along, moments, along) + np.einsum(
            "lja,l,lka->jk", sliding, self._mass, sliding
        )
        held = np.linalg.cholesky(own + self._wanted + self._excess(rotations, turning))
        wanted = np.linalg.solve(held, np.linalg.solve(held, own + self._wanted).T)
        return float(min(_GREATEST_SHARE, 1.0 / np.linalg.eigvalsh(wanted).max()))

    def _motion(self) -> tuple[Array, Array, Array]:
        """Return the links' rotations (L, 3, 3), and how they turn and slide (L, J, 3) for each joint's motion."""
        bullet, client = self._server.bullet, self._server.client
        states = bullet.getLinkStates(self._body, self._links, computeForwardKinematics=1, physicsClientId=client)
        rotations = frames.to_matrix([state[1] for state in states])
        centres = np.array([state[0] for state in states])
        places = np.array([states[number][4] for number in self._moving])
        axes = (rotations[self._moving] @ self._axes[:, :, None])[:, :, 0]
        turning = np.where(self._turns[:, None], axes, 0.0)
        sliding = np.cross(turning, centres[:, None] - places) + (axes - turning)
        moved_by = self._moved_by[:, :, None]
        return rotations, moved_by * turning, moved_by * sliding

    def _excess(self, rotations: Array, turning: Array) -> Array:
        """Return what PyBullet's mass matrix has too much of: the rotors as links have them, less as they are."""
        felt = turning[self._moving] @ (rotations[self._moving] * self._root[:, None])
        spread = felt.swapaxes(0, 1).reshape(len(felt), -1)
        return np.asarray(spread @ spread.T - self._wanted)
