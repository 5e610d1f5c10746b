"""A robot with joints in Isaac Sim, as :class:`rlstack.sim.engine.Engine` uses it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Array32
from rlstack.robots import RobotSpec, frames
from rlstack.robots.inertia import inertial, moved, together
from rlstack.sim.backends.isaac import convert
from rlstack.sim.backends.isaac.api_5_articulation import Articulation5
from rlstack.sim.backends.isaac.imported import ImportedRobot
from rlstack.sim.engine import DriveMode, JointState, MassProperties

_UNLIMITED = 1e6
"""Velocity limit of joints without one, rad/s or m/s."""


class ArticulatedRobot:
    """One robot with joints, from the world's ``reset()`` to its end.

    Drives are PhysX's: ``stiffness * (target - position) + damping * (target speed - speed)``, integrated implicitly,
    within the file's effort limit. Position-driven joints keep the file's velocity limit; for velocity-driven joints
    the limit applies to the target, so that a wheel can be pushed faster than its motor turns it.

    Args:
        articulation: Its initialized views.
        imported: Its prims.
        robot: Its robot file.
        prefix: Prefix of its joint names.
        fixed: Whether its base is fixed.
    """

    def __init__(
        self, articulation: Articulation5, imported: ImportedRobot, robot: RobotSpec, prefix: str, fixed: bool
    ) -> None:
        self.articulation, self.path = articulation, imported.path
        self._zero_poses, self._fixed = imported.zero_poses, fixed
        self._drives = drives = robot.drives
        self.names = tuple(drive.name for drive in drives)
        self._order = articulation.order([prefix + name for name in self.names])
        self._stiffness, self._damping, self._strongest, self._fastest = (
            np.array([getattr(drive, name) for drive in drives])
            for name in ("stiffness", "damping", "effort_max", "velocity_max")
        )
        self._driven = np.array([drive.mode != "free" for drive in drives], dtype=bool)
        self._own_position = np.array([drive.mode == "position" for drive in drives], dtype=bool)
        self._mode: DriveMode | None = None
        self._gains = np.zeros((2, len(drives)))
        self._target = np.zeros(len(drives))
        self._centre = np.asarray(articulation.base_centre(), dtype=float)
        articulation.set_limits(
            self._order,
            _single(np.where(self._driven, self._strongest, 0.0)),
            _single(np.where(self._own_position, self._fastest, _UNLIMITED)),
            _single(np.array([drive.armature for drive in drives])),
        )
        articulation.set_gains(self._order, _single(self._gains[0]), _single(self._gains[1]))

    # ---- the base

    def refresh(self, column: Array) -> None:
        """Write the state (13,) of ``base_link``, see :data:`rlstack.sim.engine.BODY_ROWS`."""
        column[:] = convert.rows_from_views(*self.articulation.state())[:, 0]
        angular = frames.rotate(column[3:7], column[10:13])
        column[7:10] -= frames.cross(angular, frames.rotate(column[3:7], self._centre))

    def place(self, body: Array) -> None:
        """Set the state (13,) of ``base_link``, with the joints at rest at zero."""
        held = np.array(body, dtype=float)
        if self._fixed:
            held[7:] = 0.0
        angular = frames.rotate(held[3:7], held[10:13])
        held[7:10] += frames.cross(angular, frames.rotate(held[3:7], self._centre))
        self.articulation.place(*convert.views_from_row(held))
        self.place_joints(np.zeros(len(self.names)), np.zeros(len(self.names)))

    def push(self, force: Array, torque: Array) -> None:
        """Set the force (3,) N and torque (3,) N m on the base for the next step, both in the world frame."""
        if not self._fixed and (force.any() or torque.any()):
            self.articulation.push(_single(force), _single(torque))

    def set_mass(self, mass_kg: float, inertia_kg_m2: Array) -> None:
        """Set mass and principal moments (3,) of the base's link."""
        self.articulation.set_base_mass(mass_kg, inertia_kg_m2)

    def mass_properties(self) -> MassProperties:
        """Return PhysX's mass properties of all links together, with the joints at zero."""
        pieces = []
        for name, (mass, centre, inertia) in self.articulation.masses().items():
            rotation, position = self._zero_poses[name]
            pieces.append(moved(inertial(mass, centre.astype(float), inertia.astype(float)), rotation, position))
        return MassProperties(*together(pieces))

    # ---- joints

    def joints(self) -> JointState:
        """Return the joints' state; efforts come from the drive law, because PhysX does not report them."""
        position, velocity = (np.asarray(a, dtype=float) for a in self.articulation.joints(self._order))
        if self._mode == "effort":
            effort = self._target
        else:
            by_position = self._by_position()
            speed = np.where(by_position, 0.0, self._target)
            pull = self._gains[0] * (np.where(by_position, self._target, position) - position)
            effort = pull + self._gains[1] * (speed - velocity)
        return JointState(position, velocity, np.clip(effort, -self._strongest, self._strongest))

    def place_joints(self, position: Array, velocity: Array) -> None:
        """Set the joints' state; their targets stay."""
        if not self.names:
            return
        self.articulation.place_joints(self._order, _single(position), _single(velocity))
        if self._mode is not None:
            self._command()

    def drive(self, mode: DriveMode, target: Array) -> None:
        """Drive the joints towards a target until the next call."""
        if not self.names:
            return
        if mode != self._mode:
            self._mode = mode
            powered = self._driven & (mode != "effort")
            self._gains[0] = np.where(powered & self._by_position(), self._stiffness, 0.0)
            self._gains[1] = np.where(powered, self._damping, 0.0)
            self.articulation.set_gains(self._order, _single(self._gains[0]), _single(self._gains[1]))
        wanted = np.where(self._driven, np.asarray(target, dtype=float), 0.0)
        if mode == "effort":
            self._target = np.clip(wanted, -self._strongest, self._strongest)
        else:
            self._target = np.where(self._by_position(), wanted, np.clip(wanted, -self._fastest, self._fastest))
        self._command()

    def _by_position(self) -> NDArray[np.bool_]:
        """Return which joints have a position target."""
        return self._own_position if self._mode == "file" else np.full(len(self.names), self._mode == "position")

    def _command(self) -> None:
        if self._mode == "effort":
            self.articulation.push_joints(self._order, _single(self._target))
            return
        by_position = self._by_position()
        where = np.where(by_position, self._target, 0.0)  # without stiffness, the position target has no effect
        self.articulation.drive(self._order, _single(where), _single(np.where(by_position, 0.0, self._target)))


def _single(row: Array) -> Array32:
    return np.asarray(row, dtype=np.float32)[None]
