"""``isaacsim.core.prims.RigidPrim``: views of rigid bodies, float32, wxyz, batched over prims."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.isaacsim_standin.kit import Kit, checked, checked_quaternion, recorded

Array = np.ndarray


class RigidPrim:
    """A view of rigid bodies; its prims must be on the stage when it is made."""

    kit: Kit

    def __init__(
        self,
        prim_paths_expr: str | list[str],
        name: str = "rigid_prim_view",
        reset_xform_properties: bool = True,
        track_contact_forces: bool = False,
        prepare_contact_sensors: bool = True,
        max_contact_count: int = 0,
    ) -> None:
        self.kit.require_running()
        self.kit.require(self.kit.world is not None, "make the World before views")
        paths = [prim_paths_expr] if isinstance(prim_paths_expr, str) else prim_paths_expr
        for path in paths:
            self.kit.require(bool(self.kit.stage.GetPrimAtPath(path)), f"there is no prim at {path}")
        self.prim_paths, self.count = list(paths), len(paths)
        self._contacts = track_contact_forces and prepare_contact_sensors
        self._at: Array = np.zeros(0, dtype=int)

    @recorded
    def initialize(self, physics_sim_view: Any = None) -> None:
        self.kit.require_playing("RigidPrim.initialize")
        self.kit.require(physics_sim_view is self.kit.physics, "physics_sim_view must be the World's present one")

    def _indices(self, indices: Array | None) -> Array:
        self.kit.require_playing("a RigidPrim")
        at = np.array([self.kit.physics.index[path] for path in self.prim_paths])
        if indices is None:
            return at
        self.kit.require(isinstance(indices, np.ndarray) and indices.ndim == 1, "indices must be an array (M,)")
        self.kit.require(np.issubdtype(indices.dtype, np.integer), "indices must be whole numbers")
        return at[indices]

    @recorded
    def get_world_poses(
        self, indices: Array | None = None, clone: bool = True, usd: bool = True
    ) -> tuple[Array, Array]:
        at = self._indices(indices)
        return self.kit.physics.position[at].copy(), self.kit.physics.orientation[at].copy()

    @recorded
    def set_world_poses(
        self,
        positions: Array | None = None,
        orientations: Array | None = None,
        indices: Array | None = None,
        usd: bool = True,
    ) -> None:
        at = self._indices(indices)
        self.kit.physics.position[at] = checked(self.kit, "positions", positions, (len(at), 3))
        self.kit.physics.orientation[at] = checked_quaternion(self.kit, "orientations", orientations, (len(at), 4))

    @recorded
    def get_velocities(self, indices: Array | None = None, clone: bool = True) -> Array:
        at = self._indices(indices)
        return self.kit.physics.velocity[at].copy()

    @recorded
    def set_velocities(self, velocities: Array, indices: Array | None = None) -> None:
        at = self._indices(indices)
        self.kit.physics.velocity[at] = checked(self.kit, "velocities", velocities, (len(at), 6))

    @recorded
    def apply_forces_and_torques_at_pos(
        self,
        forces: Array | None = None,
        torques: Array | None = None,
        positions: Array | None = None,
        indices: Array | None = None,
        is_global: bool = True,
    ) -> None:
        at = self._indices(indices)
        self.kit.require(
            positions is None and is_global, "the stand-in knows world wrenches at the centre of mass only"
        )
        if forces is not None:
            self.kit.physics.force[at] += checked(self.kit, "forces", forces, (len(at), 3))
        if torques is not None:
            self.kit.physics.torque[at] += checked(self.kit, "torques", torques, (len(at), 3))

    @recorded
    def get_masses(self, indices: Array | None = None, clone: bool = True) -> Array:
        at = self._indices(indices)
        return self.kit.physics.mass[at].astype(np.float32)

    @recorded
    def set_masses(self, masses: Array, indices: Array | None = None) -> None:
        at = self._indices(indices)
        self.kit.physics.mass[at] = checked(self.kit, "masses", masses, (len(at),))

    @recorded
    def get_inertias(self, indices: Array | None = None, clone: bool = True) -> Array:
        at = self._indices(indices)
        return self.kit.physics.tensor[at].reshape(-1, 9).astype(np.float32)

    @recorded
    def set_inertias(self, values: Array, indices: Array | None = None) -> None:
        at = self._indices(indices)
        full = checked(self.kit, "values", values, (len(at), 9)).reshape(-1, 3, 3)
        moments = np.einsum("nii->ni", full)
        self.kit.require(bool((full == np.einsum("ni,ij->nij", moments, np.eye(3))).all()), "inertia must be diagonal")
        self.kit.physics.inertia[at], self.kit.physics.tensor[at] = moments, full

    @recorded
    def get_coms(self, indices: Array | None = None, clone: bool = True) -> tuple[Array, Array]:
        at = self._indices(indices)
        centres = self.kit.physics.centre[at][:, None].astype(np.float32)
        return centres, np.tile(np.float32([1.0, 0.0, 0.0, 0.0]), (len(at), 1, 1))

    @recorded
    def get_net_contact_forces(self, indices: Array | None = None, clone: bool = True, dt: float = 1.0) -> Array:
        self.kit.require(self._contacts, "track_contact_forces and prepare_contact_sensors must be True")
        at = self._indices(indices)
        return (self.kit.physics.impulse[at] / dt).astype(np.float32)
