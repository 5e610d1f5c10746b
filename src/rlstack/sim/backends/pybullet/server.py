"""One PyBullet world: a physics server in this process, its settings and its obstacles."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

from rlstack.errors import UserError
from rlstack.robots import frames
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.obstacle import TORSION_M, Obstacle

RAYS, FIXED, MOVING, ROBOT, SEEN, SLIDING = 1, 2, 4, 8, 16, 32
"""Collision groups: rays (PyBullet's first group), static obstacles, movable obstacles, robots, visual shapes and
obstacles on rails.

In PyBullet 3.2.7, bodies collide if one's group is in the other's mask; the masks here are symmetric. Static obstacles
are not tested against each other: for 230 objects in a warehouse that reduces the cost per step from 110 us to 20 us.
"""
WORLD = FIXED | MOVING | SLIDING
EVERYTHING = RAYS | WORLD | ROBOT
NOT_FIXED = RAYS | MOVING | ROBOT
"""Groups that collide with static obstacles."""

FASTEST = 1e200
"""Speed limit in PyBullet, m/s and rad/s. A racing quadrotor approaches the default of 100, and a diverging simulation
must be detectable."""


def import_pybullet() -> Any:
    """Return the ``pybullet`` module; raise ``UserError`` with the install command if it is missing."""
    # Its first import prints the build time on stderr.
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        import pybullet
    except ImportError as error:
        raise UserError(
            f"PyBullet cannot be imported ({error}): install it with `pip install 'rlstack[pybullet]'`, on Python 3.10"
            " or 3.11, for which there are wheels; for others pip would have to compile it."
        ) from error
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
    return pybullet


class Server:
    """A physics server in this process, empty but for gravity.

    Args:
        bullet: The ``pybullet`` module.
        step_s: Physics step, s.

    Raises:
        UserError: PyBullet allows no more servers in this process.
    """

    def __init__(self, bullet: Any, step_s: float) -> None:
        clients = importlib.import_module("pybullet_utils.bullet_client")
        self.client = int(bullet.connect(bullet.DIRECT))
        self.bullet: Any = clients.BulletClient.__new__(clients.BulletClient)
        """The module's functions, all called with this server's ``physicsClientId``."""
        # Its own connect passes options, upon which PyBullet prints "argv[0]=" for each simulation
        vars(self.bullet).update(_client=self.client, _shapes={}, _pid=os.getpid())
        if self.client < 0:
            raise UserError("PyBullet allows no more simulations in this process: close some.")
        self.bullet.setGravity(0.0, 0.0, -STANDARD_GRAVITY)
        self.bullet.setPhysicsEngineParameter(
            fixedTimeStep=step_s,
            numSubSteps=0,
            deterministicOverlappingPairs=1,
            solverResidualThreshold=0.0,  # with the default of 1e-7, a robot of 27 g rocks on the floor
            enableFileCaching=0,  # a robot file may change while the process runs
        )

    def add_floor(self) -> int:
        """Add a floor at z = 0; return its body."""
        shape = self.bullet.createCollisionShape(self.bullet.GEOM_PLANE)
        body = int(self.bullet.createMultiBody(0.0, shape, useMaximalCoordinates=1))
        self.settle(body, 1.0, FIXED, NOT_FIXED)
        return body

    def add_obstacle(self, obstacle: Obstacle) -> int:
        """Add an obstacle without rails; return its body."""
        bullet = self.bullet
        felt, seen = self.shapes(obstacle)
        turned = frames.from_yaw(obstacle.yaw_rad).tolist()
        body = int(
            bullet.createMultiBody(
                obstacle.mass_kg,
                felt,
                seen,
                obstacle.position_m,
                turned,
                # a static obstacle costs time in every step as a multibody, and almost none as a rigid body
                useMaximalCoordinates=int(obstacle.mass_kg == 0.0),
            )
        )
        friction = 1.0 if obstacle.friction is None else obstacle.friction
        if obstacle.mass_kg > 0.0:
            self.settle(body, friction, MOVING, EVERYTHING)
            if obstacle.friction is not None:  # an object pinched between two pads must not spin
                bullet.changeDynamics(body, -1, spinningFriction=TORSION_M)
        else:
            kinematic = obstacle.kinematic
            self.settle(body, friction, SEEN if kinematic else FIXED, RAYS if kinematic else NOT_FIXED)
        return body

    def shapes(self, obstacle: Obstacle) -> tuple[int, int]:
        """Create an obstacle's collision and visual shapes; return their ids."""
        bullet, size = self.bullet, obstacle.size_m
        felt, seen = {
            "box": (
                {"shapeType": bullet.GEOM_BOX, "halfExtents": [s / 2.0 for s in size]},
                {"shapeType": bullet.GEOM_BOX, "halfExtents": [s / 2.0 for s in size]},
            ),
            "cylinder": (
                {"shapeType": bullet.GEOM_CYLINDER, "radius": size[0] / 2.0, "height": size[2]},
                {"shapeType": bullet.GEOM_CYLINDER, "radius": size[0] / 2.0, "length": size[2]},
            ),
            "sphere": (
                {"shapeType": bullet.GEOM_SPHERE, "radius": size[0] / 2.0},
                {"shapeType": bullet.GEOM_SPHERE, "radius": size[0] / 2.0},
            ),
        }[obstacle.shape]
        return (
            int(bullet.createCollisionShape(**felt)),
            int(bullet.createVisualShape(rgbaColor=[*obstacle.colour, 1.0], **seen)),
        )

    def motion(self, body: int) -> tuple[Sequence[float], ...]:
        """Return a body's position, orientation, linear and angular velocity in the world frame."""
        bullet = self.bullet
        pose = bullet.getBasePositionAndOrientation(body)
        return (*pose, *bullet.getBaseVelocity(body))

    def move(
        self,
        body: int,
        position: Sequence[float],
        orientation: Sequence[float],
        linear: Sequence[float],
        angular: Sequence[float],
    ) -> None:
        """Set a body's motion, in the format of :meth:`motion`."""
        self.bullet.resetBasePositionAndOrientation(body, position, orientation)
        self.bullet.resetBaseVelocity(body, linear, angular)

    def settle(self, body: int, friction: float | None, group: int, mask: int) -> None:
        """Set the common dynamics of all parts of a body, in place of PyBullet's defaults.

        No damping, no restitution, no speed limit. Friction coefficients of touching bodies are multiplied; MuJoCo's
        coefficient is 1, too.

        Args:
            body: The body's id.
            friction: Friction coefficient; None keeps the URDF's.
            group: Its collision group.
            mask: Groups that it collides with.
        """
        bullet = self.bullet
        more = {} if friction is None else {"lateralFriction": friction}
        for link in range(-1, bullet.getNumJoints(body)):
            bullet.changeDynamics(
                body,
                link,
                linearDamping=0.0,
                angularDamping=0.0,
                jointDamping=0.0,
                restitution=0.0,
                **more,
            )
            # in a separate call: combined with it, PyBullet applies the other settings to the base, whatever the link
            bullet.changeDynamics(body, link, maxJointVelocity=FASTEST)
            bullet.setCollisionFilterGroupMask(body, link, group, mask)

    def close(self) -> None:
        """Disconnect the server."""
        self.bullet.disconnect()
