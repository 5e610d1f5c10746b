"""Calls of the Isaac Sim 5.0 and 5.1 API for robots with joints; the rest is in ``api_5.py``.

Pitfalls in the public sources of 5.1.0, all handled here:

- Joints are in PhysX's order, breadth first. ``joint_names=`` in ``Articulation``'s calls is looked up among **all**
joints, fixed ones included, and then used as an index of moving ones (IsaacSim issues 518 and 528). Use
``joint_indices=`` from ``get_dof_index`` instead.
- Gains, limits and armature set through a view are lost on ``stop()``, so they are set after each ``reset()``. Views
use SI units (rad), the stage degrees.
- ``set_joint_positions`` and ``set_joint_velocities`` also overwrite the drives' targets.
- The root's poses are of the link's own frame, its velocities of its **centre of mass** (PhysX:
  "with respect to the link's center of mass and not the actor frame origin").
- Inertias are about the centre of mass along the link's axes (as Isaac Lab documents).
- ``get_measured_joint_efforts`` returns the solver's force along the joint, gravity and inertia included, not the
drive's effort.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array32

Order = NDArray[np.int64]


class Articulation5:
    """One robot with joints. Arrays over joints are (1, joints), in the order of the indices passed.

    Args:
        prims: The module ``isaacsim.core.prims``.
        root: Path of the prim that is the articulation's root.
        base: Path of its first link, to which wrenches are applied.
        links: Paths of all links.
        name: Name of the views.
    """

    def __init__(self, prims: Any, root: str, base: str, links: Sequence[str], name: str) -> None:
        self._base_name = base.rsplit("/", 1)[-1]
        self._view = prims.Articulation(prim_paths_expr=root, name=name, reset_xform_properties=False)
        self._base = prims.RigidPrim(prim_paths_expr=[base], name=f"{name}_base", reset_xform_properties=False)
        self._links = prims.RigidPrim(
            prim_paths_expr=list(links),
            name=f"{name}_links",
            reset_xform_properties=False,
            track_contact_forces=True,
            prepare_contact_sensors=True,
        )
        self._wrench: tuple[Array32, Array32] | None = None
        self._efforts: tuple[Order, Array32] | None = None

    def initialize(self, physics_view: Any) -> None:
        """Initialize the views after the world's ``reset()``."""
        for view in (self._view, self._base, self._links):
            view.initialize(physics_view)

    def before_step(self) -> None:
        """Apply the wrenches of one step; the world calls this before each step."""
        if self._efforts is not None:
            order, efforts = self._efforts
            self._view.set_joint_efforts(efforts, joint_indices=order)
        wrench, self._wrench = self._wrench, None
        if wrench is not None:
            forces, torques = wrench
            self._base.apply_forces_and_torques_at_pos(forces=forces, torques=torques, is_global=True)

    # ---- the base

    def state(self) -> tuple[Array32, Array32, Array32]:
        """Return the base's position (1, 3), orientation (1, 4) wxyz and centre-of-mass velocities (1, 6)."""
        positions, orientations = self._view.get_world_poses()
        return positions, orientations, self._view.get_velocities()

    def place(self, position: Array32, orientation: Array32, velocity: Array32) -> None:
        """Set the base's position (1, 3), orientation (1, 4) wxyz and centre-of-mass velocities (1, 6)."""
        self._view.set_world_poses(positions=position, orientations=orientation)
        self._view.set_velocities(velocity)
        self._wrench = None

    def push(self, force: Array32, torque: Array32) -> None:
        """Set force and torque (1, 3) at the base's centre of mass for the next step, world frame."""
        self._wrench = force, torque

    def set_base_mass(self, mass_kg: float, inertia: NDArray[np.floating]) -> None:
        """Set mass and principal moments (3,) of the base's link."""
        self._base.set_masses(np.array([mass_kg], dtype=np.float32))
        self._base.set_inertias(np.diag(inertia).astype(np.float32).reshape(1, 9))

    def masses(self) -> dict[str, tuple[float, Array32, Array32]]:
        """Return by link name the mass, centre of mass (3,) and inertia (3, 3) about it, in the link's frame."""
        masses = self._view.get_body_masses()[0]
        centres, _ = self._view.get_body_coms()
        inertias = self._view.get_body_inertias()[0].reshape(-1, 3, 3)
        return {
            name: (float(mass), centre, inertia)
            for name, mass, centre, inertia in zip(self._view.body_names, masses, centres[0], inertias)
        }

    def base_centre(self) -> Array32:
        """Return the base's centre of mass (3,) in its own frame."""
        centres, _ = self._view.get_body_coms()
        centre: Array32 = centres[0, self._view.body_names.index(self._base_name)]
        return centre

    def contact(self) -> bool:
        """Return whether any link had contact in the last step."""
        return bool((np.linalg.norm(self._links.get_net_contact_forces(dt=1.0), axis=1) > 0.0).any())

    # ---- joints

    def joint_names(self) -> list[str]:
        """Return the names of the moving joints, in PhysX's order."""
        return list(self._view.dof_names)

    def order(self, names: Sequence[str]) -> Order:
        """Return the indices of named joints."""
        return np.array([self._view.get_dof_index(name) for name in names], dtype=np.int64)

    def joints(self, order: Order) -> tuple[Array32, Array32]:
        """Return positions and velocities (joints,)."""
        positions = self._view.get_joint_positions(joint_indices=order)
        return positions[0], self._view.get_joint_velocities(joint_indices=order)[0]

    def place_joints(self, order: Order, position: Array32, velocity: Array32) -> None:
        """Set the joints' state, which also becomes their target."""
        self._view.set_joint_positions(position, joint_indices=order)
        self._view.set_joint_velocities(velocity, joint_indices=order)

    def set_limits(self, order: Order, effort: Array32, velocity: Array32, armature: Array32) -> None:
        """Set the drives' effort limits, the joints' velocity limits and their armature."""
        self._view.set_max_efforts(effort, joint_indices=order)
        self._view.set_max_joint_velocities(velocity, joint_indices=order)
        self._view.set_armatures(armature, joint_indices=order)

    def set_gains(self, order: Order, stiffness: Array32, damping: Array32) -> None:
        """Set the drives' gains; both are zero for effort control."""
        self._view.set_gains(kps=stiffness, kds=damping, joint_indices=order)

    def drive(self, order: Order, position: Array32, velocity: Array32) -> None:
        """Set the drives' targets and clear applied efforts."""
        if self._efforts is not None:
            self._view.set_joint_efforts(np.zeros_like(self._efforts[1]), joint_indices=self._efforts[0])
            self._efforts = None
        self._view.set_joint_position_targets(position, joint_indices=order)
        self._view.set_joint_velocity_targets(velocity, joint_indices=order)

    def push_joints(self, order: Order, efforts: Array32) -> None:
        """Apply efforts in every following step; requires zero gains."""
        self._efforts = order, efforts
