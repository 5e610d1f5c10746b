"""Corrections of imported robots on the stage. Needs ``pxr``, which ships with Isaac Sim.

According to its sources, the importer of 5.1.0 leaves several settings that would change a motion: drives are of type
``acceleration``, whose gains scale with inertia; links have PhysX's damping of 0.05 and may fall asleep; nothing has
friction of its own; the robot stands at the origin, and so do the shapes that its links reference, as solid
obstacles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.robots import RobotSpec
from rlstack.robots.urdf import BODY
from rlstack.sim.backends.isaac.stage import (
    MATERIAL,
    bind_material,
    set_pose,
    settle_body,
    write_material,
    write_schema,
)
from rlstack.sim.backends.isaac.urdf import ImportedUrdf


@dataclass(frozen=True)
class ImportedRobot:
    """A robot with joints on the stage."""

    path: str
    """Path of the prim that contains the robot."""
    base: str
    """Path of the link with the frame ``base_link``."""
    links: tuple[str, ...]
    """Paths of all links."""
    zero_poses: dict[str, tuple[Array, Array]]
    """By link name: rotation (3, 3) and position (3,) in ``base_link``, with all joints at zero."""


def settle_imported(
    stage: Any,
    path: str,
    urdf: ImportedUrdf,
    robot: RobotSpec,
    place: Sequence[float],
    *,
    fixed: bool,
    seen: bool,
) -> ImportedRobot:
    """Correct an imported robot and move it to ``place``; return its prims.

    Args:
        stage: A ``pxr.Usd.Stage``.
        path: Path of the prim that contains the robot.
        urdf: The imported URDF.
        robot: Its robot file.
        place: (3,) position of ``base_link``, m.
        fixed: Whether its base is fixed.
        seen: Whether it is visible; otherwise only its collision shapes are kept.

    Raises:
        RuntimeError: The importer's result differs from what its sources promise.
    """
    from pxr import UsdGeom, UsdPhysics, UsdShade

    top = stage.GetPrimAtPath(path)
    links = [prim for prim in top.GetChildren() if prim.HasAPI(UsdPhysics.RigidBodyAPI)] if top else []
    if urdf.root not in [prim.GetName() for prim in links]:
        raise RuntimeError(f"Isaac Sim imported {robot.name} without its link {urdf.root} at {path}.")
    zero_poses = _zero_poses(links, urdf.root)
    for prim in links:
        settle_body(prim, gravity=not robot.gravity_compensation)
    base = f"{path}/{urdf.root}"
    holder = stage.GetPrimAtPath(f"{path}/root_joint") if fixed else stage.GetPrimAtPath(base)
    if not (holder and holder.HasAPI(UsdPhysics.ArticulationRootAPI)):
        raise RuntimeError(f"Isaac Sim imported {robot.name} at {path} without an articulation.")
    write_schema(
        holder,
        "PhysxArticulationAPI",
        "physxArticulation",
        sleepThreshold=0.0,
        stabilizationThreshold=0.0,
        enabledSelfCollisions=False,
    )
    if fixed:
        from pxr import Gf

        # Without a first body, the joint's frame is relative to the world.
        UsdPhysics.FixedJoint(holder).CreateLocalPos0Attr().Set(Gf.Vec3f(*place))
    for joint in robot.drives:
        _settle_joint(stage.GetPrimAtPath(f"{path}/joints/{urdf.prefix}{joint.name}"), joint.type, robot.name)
    bind_material(top, UsdShade.Material.Get(stage, MATERIAL))
    _bind_materials(stage, path, urdf, robot)
    set_pose(top, place, (0.0, 0.0, 0.0, 1.0))
    if not seen:
        UsdGeom.Imageable(top).MakeInvisible()
    return ImportedRobot(path, base, tuple(str(prim.GetPath()) for prim in links), zero_poses)


def retire_sources(stage: Any) -> None:
    """Deactivate the source shapes that imported links reference, after all imports.

    The importer leaves them at the origin as solid obstacles; only imported robots pass through them.
    """
    sources = stage.GetPrimAtPath("/colliders")
    if sources:
        sources.SetActive(False)  # references to them stay valid


def _zero_poses(links: Sequence[Any], root: str) -> dict[str, tuple[Array, Array]]:
    from pxr import Usd, UsdGeom

    matrices = {}
    for prim in links:
        world = UsdGeom.Xformable(prim).ComputeLocalToWorldTransform(Usd.TimeCode.Default())
        matrices[str(prim.GetName())] = np.array(world).T
    back = np.linalg.inv(matrices[root])
    seen = {name: back @ matrix for name, matrix in matrices.items()}
    return {name: (matrix[:3, :3], matrix[:3, 3]) for name, matrix in seen.items()}


def _settle_joint(prim: Any, kind: str, robot: str) -> None:
    from pxr import UsdPhysics

    if not prim:
        raise RuntimeError(f"Isaac Sim imported {robot} without a joint of its file.")
    drive = UsdPhysics.DriveAPI.Apply(prim, "linear" if kind == "prismatic" else "angular")
    drive.CreateTypeAttr().Set("force")  # gains and limits are set later, in SI units, through the articulation
    if kind == "continuous":
        joint = UsdPhysics.RevoluteJoint(prim)
        joint.CreateLowerLimitAttr().Set(-math.inf)
        joint.CreateUpperLimitAttr().Set(math.inf)


def _bind_materials(stage: Any, path: str, urdf: ImportedUrdf, robot: RobotSpec) -> None:
    """Set the robot file's friction on links; contacts use the product of both sides, and the floor's is 1."""
    friction = {urdf.root if name == BODY else urdf.prefix + name: mu for name, mu in robot.link_friction.items()}
    kinds = sorted(set(friction.values()))
    materials = {mu: write_material(stage, f"{path}/friction_{k}", mu) for k, mu in enumerate(kinds)}
    for material in materials.values():
        write_schema(material.GetPrim(), "PhysxMaterialAPI", "physxMaterial", frictionCombineMode="multiply")
    for prim in stage.GetPrimAtPath(path).GetChildren():
        if (mu := friction.get(str(prim.GetName()))) is not None:
            bind_material(prim, materials[mu], over_descendants=True)
