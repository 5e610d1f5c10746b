"""``isaacsim.core.prims.Articulation``: a view of one articulation, float32, wxyz, joints in PhysX's order."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.isaacsim_standin import articulations
from tests.support.isaacsim_standin.kit import Kit, checked, checked_quaternion, recorded

Array = np.ndarray


class Articulation:
    """A view of one robot; its prims must be on the stage when it is made."""

    kit: Kit

    def __init__(
        self, prim_paths_expr: str, name: str = "articulation_prim_view", reset_xform_properties: bool = True
    ) -> None:
        from pxr import UsdPhysics

        self.kit.require_running()
        self.kit.require(self.kit.world is not None, "make the World before views")
        self.kit.require(not reset_xform_properties, "the prims' transforms would be written anew")
        prim = self.kit.stage.GetPrimAtPath(prim_paths_expr)
        bears = bool(prim) and prim.HasAPI(UsdPhysics.ArticulationRootAPI)
        self.kit.require(bears, f"{prim_paths_expr} is no articulation root")
        self._path, self._of = prim_paths_expr, None

    @recorded
    def initialize(self, physics_sim_view: Any = None) -> None:
        self.kit.require_playing("Articulation.initialize")
        self._of = self.kit.physics

    def _held(self, what: str) -> articulations.Articulation:
        self.kit.require_playing(f"Articulation.{what}")
        self.kit.require(self._of is self.kit.physics, f"Articulation.{what} before initialize(), or after a stop()")
        held: articulations.Articulation = self.kit.physics.articulations[self._path]
        return held

    @property
    def dof_names(self) -> list[str]:
        """Of the joints that move, in PhysX's order."""
        return list(self._held("dof_names").dof_names)

    @property
    def joint_names(self) -> list[str]:
        """Of all joints, fixed ones too: what ``joint_names=`` is looked up in."""
        return [joint.name for joint in self._held("joint_names").joints]

    @property
    def body_names(self) -> list[str]:
        """Of all links, in PhysX's order."""
        return list(self._held("body_names").body_names)

    def get_dof_index(self, dof_name: str) -> int:
        """Return where a joint is in :attr:`dof_names`."""
        return self._held("get_dof_index").dof_names.index(dof_name)

    def _order(self, joint_indices: Any, joint_names: Any, what: str) -> Array:
        held = self._held(what)
        self.kit.require(
            joint_names is None,
            f"{what}: joint_names= is looked up among all joints, fixed ones too, and taken for an index of those that"
            " move",
        )
        self.kit.require(joint_indices is not None, f"{what} without joint_indices is in PhysX's order")
        whole = isinstance(joint_indices, np.ndarray) and np.issubdtype(joint_indices.dtype, np.integer)
        self.kit.require(whole and joint_indices.ndim == 1, f"{what}: joint_indices must be whole numbers (K,)")
        self.kit.require(bool((joint_indices < len(held.dofs)).all()), f"{what}: there are {len(held.dofs)} joints")
        return joint_indices

    def _get(self, name: str, joint_indices: Any, joint_names: Any, what: str) -> Array:
        order = self._order(joint_indices, joint_names, what)
        return getattr(self._held(what), name)[order][None].astype(np.float32)

    def _set(self, name: str, value: Any, joint_indices: Any, joint_names: Any, what: str) -> None:
        order = self._order(joint_indices, joint_names, what)
        getattr(self._held(what), name)[order] = checked(self.kit, what, value, (1, len(order)))[0]

    # ---- the root

    @recorded
    def get_world_poses(self, indices: Any = None, clone: bool = True, usd: bool = True) -> tuple[Array, Array]:
        root = self._held("get_world_poses").bodies[:1]
        return self.kit.physics.position[root].copy(), self.kit.physics.orientation[root].copy()

    @recorded
    def get_velocities(self, indices: Any = None, clone: bool = True) -> Array:
        """Return (1, 6): of the root's centre of mass."""
        return self.kit.physics.velocity[self._held("get_velocities").bodies[:1]].copy()

    @recorded
    def set_world_poses(
        self, positions: Any = None, orientations: Any = None, indices: Any = None, usd: bool = True
    ) -> None:
        held, physics = self._held("set_world_poses"), self.kit.physics
        physics.position[held.bodies[:1]] = checked(self.kit, "positions", positions, (1, 3))
        physics.orientation[held.bodies[:1]] = checked_quaternion(self.kit, "orientations", orientations, (1, 4))
        held.spread()

    @recorded
    def set_velocities(self, velocities: Any = None, indices: Any = None) -> None:
        """Take (1, 6): of the root's centre of mass."""
        held = self._held("set_velocities")
        given = checked(self.kit, "velocities", velocities, (1, 6))
        self.kit.require(not (held.fixed and given.any()), "what stands fixed has no velocity")
        self.kit.physics.velocity[held.bodies[:1]] = given
        held.spread()

    # ---- links

    @recorded
    def get_body_masses(self, indices: Any = None, body_indices: Any = None, clone: bool = True) -> Array:
        return self.kit.physics.mass[self._held("get_body_masses").bodies][None].astype(np.float32)

    @recorded
    def get_body_coms(self, indices: Any = None, body_indices: Any = None, clone: bool = True) -> tuple[Array, Array]:
        centres = self.kit.physics.centre[self._held("get_body_coms").bodies][None].astype(np.float32)
        return centres, np.tile(np.float32([1.0, 0.0, 0.0, 0.0]), (*centres.shape[:2], 1))

    @recorded
    def get_body_inertias(self, indices: Any = None, body_indices: Any = None, clone: bool = True) -> Array:
        """Return (1, links, 9): about the centres of mass, along the links' axes."""
        tensors = self.kit.physics.tensor[self._held("get_body_inertias").bodies]
        return tensors.reshape(1, -1, 9).astype(np.float32)

    # ---- joints

    @recorded
    def get_joint_positions(
        self, indices: Any = None, joint_indices: Any = None, joint_names: Any = None, clone: bool = True
    ) -> Array:
        return self._get("position", joint_indices, joint_names, "get_joint_positions")

    @recorded
    def get_joint_velocities(
        self, indices: Any = None, joint_indices: Any = None, joint_names: Any = None, clone: bool = True
    ) -> Array:
        return self._get("velocity", joint_indices, joint_names, "get_joint_velocities")

    @recorded
    def set_joint_positions(
        self, positions: Any, indices: Any = None, joint_indices: Any = None, joint_names: Any = None
    ) -> None:
        for name in ("position", "target"):
            self._set(name, positions, joint_indices, joint_names, "set_joint_positions")
        self._held("set_joint_positions").spread()

    @recorded
    def set_joint_velocities(
        self, velocities: Any, indices: Any = None, joint_indices: Any = None, joint_names: Any = None
    ) -> None:
        for name in ("velocity", "speed"):
            self._set(name, velocities, joint_indices, joint_names, "set_joint_velocities")
        self._held("set_joint_velocities").spread()

    @recorded
    def set_joint_position_targets(
        self, positions: Any, indices: Any = None, joint_indices: Any = None, joint_names: Any = None
    ) -> None:
        self._set("target", positions, joint_indices, joint_names, "set_joint_position_targets")

    @recorded
    def set_joint_velocity_targets(
        self, velocities: Any, indices: Any = None, joint_indices: Any = None, joint_names: Any = None
    ) -> None:
        self._set("speed", velocities, joint_indices, joint_names, "set_joint_velocity_targets")

    @recorded
    def set_joint_efforts(
        self, efforts: Any, indices: Any = None, joint_indices: Any = None, joint_names: Any = None
    ) -> None:
        """Act in one step only, beside the drives, and no limit holds them."""
        order, held = self._order(joint_indices, joint_names, "set_joint_efforts"), self._held("set_joint_efforts")
        if np.any(efforts):
            gains = np.concatenate([held.stiffness[order], held.damping[order]])
            self.kit.require(not gains.any(), "efforts need gains of zero")
        held.effort[:] = 0.0  # of all the others, as the real one does
        self._set("effort", efforts, joint_indices, joint_names, "set_joint_efforts")

    @recorded
    def set_gains(
        self,
        kps: Any = None,
        kds: Any = None,
        indices: Any = None,
        joint_indices: Any = None,
        joint_names: Any = None,
        save_to_usd: bool = False,
    ) -> None:
        self._set("stiffness", kps, joint_indices, joint_names, "set_gains")
        self._set("damping", kds, joint_indices, joint_names, "set_gains")

    @recorded
    def set_max_efforts(
        self, values: Any, indices: Any = None, joint_indices: Any = None, joint_names: Any = None
    ) -> None:
        self._set("strongest", values, joint_indices, joint_names, "set_max_efforts")

    @recorded
    def set_max_joint_velocities(
        self, values: Any, indices: Any = None, joint_indices: Any = None, joint_names: Any = None
    ) -> None:
        self._set("fastest", values, joint_indices, joint_names, "set_max_joint_velocities")

    @recorded
    def set_armatures(
        self, values: Any, indices: Any = None, joint_indices: Any = None, joint_names: Any = None
    ) -> None:
        self._set("armature", values, joint_indices, joint_names, "set_armatures")
