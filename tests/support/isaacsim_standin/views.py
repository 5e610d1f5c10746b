"""``isaacsim.core.prims``: views of rigid bodies and articulations, float32, wxyz, batched over prims."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
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
        return np.stack([np.diag(self.kit.physics.inertia[k]).ravel() for k in at]).astype(np.float32)

    @recorded
    def set_inertias(self, values: Array, indices: Array | None = None) -> None:
        at = self._indices(indices)
        full = checked(self.kit, "values", values, (len(at), 9)).reshape(-1, 3, 3)
        moments = np.einsum("nii->ni", full)
        self.kit.require(bool((full == np.einsum("ni,ij->nij", moments, np.eye(3))).all()), "inertia must be diagonal")
        self.kit.physics.inertia[at] = moments

    @recorded
    def get_coms(self, indices: Array | None = None, clone: bool = True) -> tuple[Array, Array]:
        count = len(self._indices(indices))
        return np.zeros((count, 1, 3), np.float32), np.tile(np.float32([1.0, 0.0, 0.0, 0.0]), (count, 1, 1))

    @recorded
    def get_net_contact_forces(self, indices: Array | None = None, clone: bool = True, dt: float = 1.0) -> Array:
        self.kit.require(self._contacts, "track_contact_forces and prepare_contact_sensors must be True")
        at = self._indices(indices)
        return (self.kit.physics.impulse[at] / dt).astype(np.float32)


@dataclass
class Robot:
    """An imported robot's joints, in PhysX's order: breadth first."""

    names: list[str]
    position: Array = field(default_factory=lambda: np.zeros(0))
    velocity: Array = field(default_factory=lambda: np.zeros(0))
    stiffness: Array = field(default_factory=lambda: np.zeros(0))
    damping: Array = field(default_factory=lambda: np.zeros(0))
    target: Array = field(default_factory=lambda: np.zeros(0))
    speed: Array = field(default_factory=lambda: np.zeros(0))
    effort: Array = field(default_factory=lambda: np.zeros(0))
    measured: Array = field(default_factory=lambda: np.zeros(0))

    @staticmethod
    def of_urdf(tree: ElementTree.Element, root: str) -> Robot:
        """Return the joints of a parsed URDF that move."""
        names, level = [], [root]
        while level:
            below = []
            for joint in tree.findall("joint"):
                if joint.find("parent").attrib["link"] in level:  # type: ignore[union-attr]
                    below.append(joint.find("child").attrib["link"])  # type: ignore[union-attr]
                    if joint.attrib["type"] != "fixed":
                        names.append(joint.attrib["name"])
            level = below
        robot = Robot(names)
        for name in ("position", "velocity", "stiffness", "damping", "target", "speed", "effort", "measured"):
            setattr(robot, name, np.zeros(len(names), np.float32))
        return robot

    def forget(self) -> None:
        """Lose what is lost on stop."""
        for held in (self.stiffness, self.damping, self.target, self.speed, self.effort):
            held[:] = 0.0

    def step(self, duration: float) -> None:
        """Move each joint as if it were alone, with an inertia of 1."""
        drive = self.stiffness * (self.target - self.position) + self.damping * (self.speed - self.velocity)
        self.measured[:] = drive + self.effort
        self.velocity += duration * self.measured
        self.position += duration * self.velocity


class Articulation:
    """A view of one imported robot."""

    kit: Kit

    def __init__(
        self, prim_paths_expr: str, name: str = "articulation_prim_view", reset_xform_properties: bool = True
    ) -> None:
        self.kit.require_running()
        self.kit.require(prim_paths_expr in self.kit.articulations, f"{prim_paths_expr} is no articulation root")
        self._robot: Robot = self.kit.articulations[prim_paths_expr]
        self._initialised = False

    @recorded
    def initialize(self, physics_sim_view: Any = None) -> None:
        self.kit.require_playing("Articulation.initialize")
        self._initialised = True

    @property
    def dof_names(self) -> list[str]:
        """In PhysX's order."""
        self._require("dof_names")
        return list(self._robot.names)

    def _require(self, what: str) -> None:
        self.kit.require_playing(f"Articulation.{what}")
        self.kit.require(self._initialised, f"Articulation.{what} before initialize()")

    def _order(self, joint_names: list[str] | None, what: str) -> list[int]:
        self._require(what)
        self.kit.require(joint_names is not None, f"{what} without joint_names is in PhysX's order")
        return [self._robot.names.index(n) for n in joint_names or []]

    def _set(self, held: Array, value: Array, joint_names: list[str] | None, what: str) -> None:
        order = self._order(joint_names, what)
        held[order] = checked(self.kit, what, value, (1, len(order)))[0]

    @recorded
    def get_joint_positions(self, indices: Any = None, joint_indices: Any = None, joint_names: Any = None) -> Array:
        return self._robot.position[self._order(joint_names, "get_joint_positions")][None].copy()

    @recorded
    def get_joint_velocities(self, indices: Any = None, joint_indices: Any = None, joint_names: Any = None) -> Array:
        return self._robot.velocity[self._order(joint_names, "get_joint_velocities")][None].copy()

    @recorded
    def get_measured_joint_efforts(
        self, indices: Any = None, joint_indices: Any = None, joint_names: Any = None
    ) -> Array:
        return self._robot.measured[self._order(joint_names, "get_measured_joint_efforts")][None].copy()

    @recorded
    def set_joint_positions(
        self, positions: Array, indices: Any = None, joint_indices: Any = None, joint_names: Any = None
    ) -> None:
        self._set(self._robot.position, positions, joint_names, "set_joint_positions")
        self._set(self._robot.target, positions, joint_names, "set_joint_positions")

    @recorded
    def set_joint_velocities(
        self, velocities: Array, indices: Any = None, joint_indices: Any = None, joint_names: Any = None
    ) -> None:
        self._set(self._robot.velocity, velocities, joint_names, "set_joint_velocities")
        self._set(self._robot.speed, velocities, joint_names, "set_joint_velocities")

    @recorded
    def set_gains(
        self,
        kps: Array | None = None,
        kds: Array | None = None,
        indices: Any = None,
        joint_indices: Any = None,
        joint_names: Any = None,
        save_to_usd: bool = False,
    ) -> None:
        self._set(self._robot.stiffness, kps, joint_names, "set_gains")  # type: ignore[arg-type]
        self._set(self._robot.damping, kds, joint_names, "set_gains")  # type: ignore[arg-type]

    @recorded
    def set_joint_position_targets(
        self, positions: Array, indices: Any = None, joint_indices: Any = None, joint_names: Any = None
    ) -> None:
        self._set(self._robot.target, positions, joint_names, "set_joint_position_targets")

    @recorded
    def set_joint_velocity_targets(
        self, velocities: Array, indices: Any = None, joint_indices: Any = None, joint_names: Any = None
    ) -> None:
        self._set(self._robot.speed, velocities, joint_names, "set_joint_velocity_targets")

    @recorded
    def set_joint_efforts(
        self, efforts: Array, indices: Any = None, joint_indices: Any = None, joint_names: Any = None
    ) -> None:
        order = self._order(joint_names, "set_joint_efforts")
        gains = np.concatenate([self._robot.stiffness[order], self._robot.damping[order]])
        self.kit.require(not gains.any(), "efforts need gains of zero")
        self._set(self._robot.effort, efforts, joint_names, "set_joint_efforts")
