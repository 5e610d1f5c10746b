"""A robot in a PyBullet world, loaded from the URDF in its robot file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots import RobotSpec, frames
from rlstack.robots.inertia import Inertial, inertial, moved, together
from rlstack.robots.kind_models import mass_properties
from rlstack.robots.urdf import BODY, to_urdf
from rlstack.sim.backends.pybullet.joint_motors import JointMotors
from rlstack.sim.backends.pybullet.server import EVERYTHING, RAYS, ROBOT, WORLD, Server
from rlstack.sim.engine import MassProperties

_MASS_TOLERANCE = 1e-9
"""Relative tolerance of PyBullet's mass and inertia of a single-body robot."""


class BulletRobot:
    """One robot.

    PyBullet describes a base by its inertial frame, at the centre of mass along the principal axes; this class uses
    ``base_link``. Both are the same for single-body robots.

    Args:
        server: The physics server; the robot is loaded at the origin.
        robot: The robot to load.
        isolated: Whether it collides with the world only, and is invisible.

    Raises:
        UserError: PyBullet's values contradict the file; the message has the part and both values.
    """

    def __init__(self, server: Server, robot: RobotSpec, isolated: bool) -> None:
        self.server, self.robot = server, robot
        bullet = server.bullet
        self.body = _load(server, robot, seen=not isolated)
        friction = robot.link_friction
        mask = RAYS | WORLD if isolated else EVERYTHING
        # PyBullet multiplies friction coefficients and defaults to 0.5; manipulated objects have their own
        server.settle(self.body, None if friction else 1.0, ROBOT, mask)
        if friction:  # the links' friction is in the URDF
            bullet.changeDynamics(self.body, -1, lateralFriction=friction.get(BODY, 1.0))
        if isolated:
            bullet.changeVisualShape(self.body, -1, rgbaColor=[0.0, 0.0, 0.0, 0.0])
        info = bullet.getDynamicsInfo(self.body, -1)
        self._centre, self._axes = np.array(info[3]), np.array(info[4])
        self.plain = bool((self._centre == 0.0).all() and (self._axes[:3] == 0.0).all())
        """Whether PyBullet's base frame equals ``base_link``."""
        self._whole = self._read()
        if not robot.drives:  # for several links, PyBullet sums rounded values
            _check(robot, self._whole)
        self.drives = JointMotors(server, self.body, robot)

    def pose(self) -> tuple[Array, Array]:
        """Return the pose of ``base_link``: position (3,) m and orientation (4,) xyzw."""
        position, orientation = self.server.bullet.getBasePositionAndOrientation(self.body)
        turned = frames.multiply(np.array(orientation), frames.inverse(self._axes))
        return np.array(position) - frames.rotate(turned, self._centre), turned

    def refresh(self, column: Array) -> None:
        """Write the state (13,) of ``base_link``, see :data:`rlstack.sim.engine.BODY_ROWS`."""
        position, turned = self.pose()
        (u, v, w), (a, b, c) = self.server.bullet.getBaseVelocity(self.body)
        x, y, z = frames.rotate(turned, self._centre).tolist()
        column[:3], column[3:7] = position, turned
        # the cross product, written out: numpy takes ten times as long for three numbers
        column[7:10] = u - (b * z - c * y), v - (c * x - a * z), w - (a * y - b * x)
        column[10:] = frames.rotate_inverse(turned, np.array([a, b, c]))

    def place(self, state: Array) -> None:
        """Set the state (13,) of ``base_link``, with the joints at rest at zero."""
        bullet = self.server.bullet
        turned, arm = state[3:7], frames.rotate(state[3:7], self._centre)
        angular = frames.rotate(turned, state[10:])
        position = (state[:3] + arm).tolist()
        orientation = frames.multiply(turned, self._axes).tolist()
        bullet.resetBasePositionAndOrientation(self.body, position, orientation)
        velocity = (state[7:10] + np.cross(angular, arm)).tolist()
        bullet.resetBaseVelocity(self.body, velocity, angular.tolist())
        self.drives.place(np.zeros(len(self.drives.names)), np.zeros(len(self.drives.names)))

    def torque_in_base(self, torque: Array) -> list[float]:
        """Transform a torque (3,) from ``base_link`` to PyBullet's base frame."""
        turned: list[float] = frames.rotate_inverse(self._axes, torque).tolist()
        return turned

    def set_mass(self, mass_kg: float, inertia_kg_m2: Array) -> None:
        """Set mass and principal moments (3,) of the base."""
        self.server.bullet.changeDynamics(self.body, -1, mass=mass_kg, localInertiaDiagonal=inertia_kg_m2.tolist())
        self._whole = self._read()

    def mass_properties(self) -> MassProperties:
        """Return PyBullet's mass properties, read when the robot was loaded or its mass set."""
        return MassProperties(*self._whole)

    def _read(self) -> Inertial:
        """Read PyBullet's values with all joints at zero; a fixed base has no mass there."""
        bullet = self.server.bullet
        pieces = []
        position, turned = self.pose()
        for link in range(-1, bullet.getNumJoints(self.body)):
            info = bullet.getDynamicsInfo(self.body, link)
            if link < 0:
                at, along = self._centre, self._axes
            else:
                state = bullet.getLinkState(self.body, link, computeForwardKinematics=1)
                at = frames.rotate_inverse(turned, np.array(state[0]) - position)
                along = frames.multiply(frames.inverse(turned), np.array(state[1]))
            pieces.append(moved(inertial(info[0], (0.0, 0.0, 0.0), info[2]), frames.to_matrix(along), at))
        return together(pieces)


def _load(server: Server, robot: RobotSpec, seen: bool) -> int:
    bullet = server.bullet
    flags = bullet.URDF_USE_INERTIA_FROM_FILE | bullet.URDF_USE_IMPLICIT_CYLINDER
    if not seen:
        flags |= bullet.URDF_IGNORE_VISUAL_SHAPES
    text = to_urdf(robot, rotors="none", frames=False)
    # PyBullet reads files only, and caches them by name, so every file gets a new name.
    with tempfile.TemporaryDirectory(prefix="rlstack-") as folder:
        path = Path(folder) / f"{robot.name}.urdf"
        path.write_text(text)
        try:
            body = bullet.loadURDF(str(path), useFixedBase=robot.fixed_base, flags=flags)
        except bullet.error as error:
            raise UserError(f"PyBullet cannot load the robot {robot.name}: {error}.") from error
    return int(body)


def _check(robot: RobotSpec, held: Inertial) -> None:
    expected = mass_properties(robot)
    for name in ("mass_kg", "inertia_kg_m2"):
        file, engine = getattr(expected, name), getattr(held, name)
        if np.abs(np.asarray(engine) - file).max() > _MASS_TOLERANCE * np.abs(file).max():
            raise UserError(f"{robot.name}: {name} is {file} in the robot file and {engine} in PyBullet.")
