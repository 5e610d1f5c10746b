"""Sliding obstacles in PyBullet: one body with a prismatic joint and the parts fixed to it."""

from __future__ import annotations

from collections.abc import Sequence

from rlstack.arrays import Array
from rlstack.robots import frames
from rlstack.sim.backends.pybullet.server import NOT_FIXED, SLIDING, Server
from rlstack.sim.obstacle import TORSION_M, Obstacle, seen_from, slid

_RAILS = 0
"""PyBullet's number of the sliding link; its parts follow."""


class Sliding:
    """An obstacle on rails.

    PyBullet has no joint friction; a velocity motor with target 0 and the rails' friction as force limit is equivalent.

    Args:
        server: The physics server.
        obstacle: The sliding obstacle.
        parts: Parts fixed to it.
    """

    def __init__(self, server: Server, obstacle: Obstacle, parts: Sequence[Obstacle]) -> None:
        slide = obstacle.slide
        assert slide is not None
        self._server, self.obstacle = server, obstacle
        bullet = server.bullet
        links = (obstacle, *parts)
        places = [seen_from(obstacle, link) for link in links]
        shapes = [server.shapes(link) for link in links]
        count, no_place, no_turn = len(links), [0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]
        self.body = int(
            bullet.createMultiBody(
                0.0,  # mass of the shapeless base that the rails are fixed to
                -1,
                -1,
                obstacle.position_m,
                frames.from_yaw(obstacle.yaw_rad).tolist(),
                linkMasses=[link.mass_kg for link in links],
                linkCollisionShapeIndices=[felt for felt, _ in shapes],
                linkVisualShapeIndices=[seen for _, seen in shapes],
                linkPositions=[place.tolist() for place, _ in places],
                linkOrientations=[frames.from_yaw(yaw).tolist() for _, yaw in places],
                linkInertialFramePositions=[no_place] * count,
                linkInertialFrameOrientations=[no_turn] * count,
                linkParentIndices=[0, *[_RAILS + 1] * len(parts)],  # counted from 1; 0 is the base
                linkJointTypes=[bullet.JOINT_PRISMATIC, *[bullet.JOINT_FIXED] * len(parts)],
                linkJointAxis=[list(slide.axis)] * count,
            )
        )
        server.settle(self.body, None, SLIDING, NOT_FIXED | SLIDING)
        for number, link in enumerate(links):
            friction = 1.0 if link.friction is None else link.friction
            spinning = 0.0 if link.friction is None else TORSION_M
            bullet.changeDynamics(self.body, number, lateralFriction=friction, spinningFriction=spinning)
        bullet.changeDynamics(
            self.body, _RAILS, jointLowerLimit=0.0, jointUpperLimit=slide.travel_m, jointDamping=slide.damping_n_s_per_m
        )
        bullet.setJointMotorControl2(
            self.body, _RAILS, bullet.VELOCITY_CONTROL, targetVelocity=0.0, force=slide.friction_n
        )

    def pose(self) -> tuple[Array, Array]:
        """Return its pose: (3,) m and (4,) xyzw."""
        return slid(self.obstacle, self.motion()[0])

    def motion(self) -> tuple[float, float]:
        """Return its travel, m, and speed, m/s."""
        state = self._server.bullet.getJointState(self.body, _RAILS)
        return float(state[0]), float(state[1])

    def move(self, travelled_m: float, speed_m_s: float) -> None:
        """Set its motion, in the format of :meth:`motion`."""
        self._server.bullet.resetJointState(self.body, _RAILS, travelled_m, speed_m_s)
