"""What the URDF importer puts on the stage: its prims, paths, references and defaults in 5.1.0, as its sources say.

Shapes are written below ``/colliders/<link>`` and ``/visuals/<link>`` and referenced, instanced, from the links: so two
robots with links of one name have each other's shapes, and what is below ``/colliders`` stands at the origin, solid,
until somebody takes it away. Meshes are prims without points: nothing here touches them.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np

Array = np.ndarray
SCOPES = ("/visuals", "/colliders", "/meshes")
MOVING = {"revolute": "RevoluteJoint", "continuous": "RevoluteJoint", "prismatic": "PrismaticJoint"}


def rotation(rpy: Array) -> Array:
    """Return (3, 3) of roll, pitch and yaw about fixed axes."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy), np.sin(rpy)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def quaternion(matrix: Array) -> tuple[float, float, float, float]:
    """Return wxyz of a rotation (3, 3)."""
    from pxr import Gf

    found = Gf.Matrix3d(*np.asarray(matrix, dtype=float).T.ravel().tolist()).ExtractRotation().GetQuat()
    return found.GetReal(), *found.GetImaginary()


def place_of(element: ElementTree.Element) -> Array:
    """Return (4, 4) of an element's origin."""
    origin, found = element.find("origin"), np.eye(4)
    if origin is not None:
        found[:3, :3] = rotation(np.array(origin.get("rpy", "0 0 0").split(), dtype=float))
        found[:3, 3] = np.array(origin.get("xyz", "0 0 0").split(), dtype=float)
    return found


def end_of(joint: ElementTree.Element, tag: str) -> str:
    """Return the link at the ``parent`` or ``child`` end."""
    return joint.find(tag).attrib["link"]  # type: ignore[union-attr]


class Importer:
    """Of one robot."""

    def __init__(self, stage: Any, tree: ElementTree.Element, config: Any) -> None:
        self.stage, self.tree, self.config = stage, tree, config
        default = stage.GetDefaultPrim()
        wanted = f"{default.GetPath() if default else ''}/{tree.attrib['name']}"
        self.top = self._free(wanted)

    def _free(self, path: str) -> str:
        """Return the path, numbered where there is something already."""
        found, number = path, 0
        while self.stage.GetPrimAtPath(found):
            number += 1
            found = f"{path}_{number:02d}"
        return found

    def run(self) -> str:
        """Write the robot; return the path of the prim that bears the articulation."""
        from pxr import UsdGeom, UsdPhysics

        stage = self.stage
        self._xform(self.top, np.eye(4))
        for scope in (f"{self.top}/joints", *SCOPES):
            stage.DefinePrim(scope, "Scope")
        joints = self.tree.findall("joint")
        children = {end_of(joint, "child") for joint in joints}
        root = next(link.attrib["name"] for link in self.tree.findall("link") if link.attrib["name"] not in children)
        self._add_below(root, np.eye(4))
        for scope in SCOPES:
            UsdGeom.Imageable(stage.GetPrimAtPath(scope)).CreateVisibilityAttr().Set(UsdGeom.Tokens.invisible)
        if self.config.fix_base:
            holder = UsdPhysics.FixedJoint.Define(stage, f"{self.top}/root_joint")
            holder.CreateBody1Rel().SetTargets([f"{self.top}/{root}"])
            prim = holder.GetPrim()
        else:
            prim = stage.GetPrimAtPath(f"{self.top}/{root}")
        UsdPhysics.ArticulationRootAPI.Apply(prim)
        prim.AddAppliedSchema("PhysxArticulationAPI")
        return str(prim.GetPath())

    def _xform(self, path: str, place: Array, scale: tuple[float, float, float] = (1.0, 1.0, 1.0)) -> Any:
        from pxr import Gf, UsdGeom

        xform = UsdGeom.Xform.Define(self.stage, path)
        double = UsdGeom.XformOp.PrecisionDouble
        xform.AddTranslateOp(double).Set(Gf.Vec3d(*place[:3, 3].tolist()))
        xform.AddOrientOp(double).Set(Gf.Quatd(*quaternion(place[:3, :3])))
        xform.AddScaleOp(double).Set(Gf.Vec3d(*scale))
        return xform.GetPrim()

    def _add_below(self, name: str, place: Array) -> None:
        link = next(link for link in self.tree.findall("link") if link.attrib["name"] == name)
        self._add_link(link, place)
        for joint in self.tree.findall("joint"):
            if end_of(joint, "parent") == name:
                self._add_below(end_of(joint, "child"), place @ place_of(joint))
                self._add_joint(joint)

    def _add_link(self, link: ElementTree.Element, place: Array) -> None:
        from pxr import Gf, UsdPhysics

        name = link.attrib["name"]
        prim = self._xform(f"{self.top}/{name}", place)
        UsdPhysics.RigidBodyAPI.Apply(prim)
        mass = UsdPhysics.MassAPI.Apply(prim)
        inertial = link.find("inertial")
        if inertial is not None:
            mass.CreateMassAttr(float(inertial.find("mass").attrib["value"]))  # type: ignore[union-attr]
            j = {key: float(x) for key, x in inertial.find("inertia").attrib.items()}  # type: ignore[union-attr]
            full = [[j["ixx"], j["ixy"], j["ixz"]], [j["ixy"], j["iyy"], j["iyz"]], [j["ixz"], j["iyz"], j["izz"]]]
            moments, axes = np.linalg.eigh(np.array(full))
            axes[:, 2] *= np.linalg.det(axes)
            centre = place_of(inertial)
            mass.CreateDiagonalInertiaAttr(Gf.Vec3f(*moments.tolist()))
            mass.CreatePrincipalAxesAttr(Gf.Quatf(*quaternion(centre[:3, :3] @ axes)))
            mass.CreateCenterOfMassAttr(Gf.Vec3f(*centre[:3, 3].tolist()))
        for tag, scope, holder in (("visual", "/visuals", "visuals"), ("collision", "/colliders", "collisions")):
            self._add_shapes(link, tag, f"{scope}/{name}", f"{self.top}/{name}/{holder}")

    def _add_shapes(self, link: ElementTree.Element, tag: str, source: str, target: str) -> None:
        from pxr import UsdGeom, UsdPhysics

        UsdGeom.Xform.Define(self.stage, source)
        for number, element in enumerate(link.findall(tag)):
            path = self._free(f"{source}/mesh_{number}")
            shape = element.find("geometry")[0]  # type: ignore[index]
            size = tuple(float(x) for x in shape.get("size", "1 1 1").split())
            holder = self._xform(path, place_of(element), size)  # type: ignore[arg-type]
            if shape.tag == "box":
                UsdGeom.Cube.Define(self.stage, f"{path}/box").CreateSizeAttr(1.0)
            elif shape.tag == "sphere":
                UsdGeom.Sphere.Define(self.stage, f"{path}/sphere").CreateRadiusAttr(float(shape.attrib["radius"]))
            elif shape.tag == "cylinder":
                made = UsdGeom.Cylinder.Define(self.stage, f"{path}/cylinder")
                made.CreateAxisAttr(UsdGeom.Tokens.z)
                made.CreateRadiusAttr(float(shape.attrib["radius"]))
                made.CreateHeightAttr(float(shape.attrib["length"]))
            else:
                UsdGeom.Mesh.Define(self.stage, f"{path}/mesh")
            if tag == "collision":
                for prim in holder.GetChildren():
                    UsdPhysics.CollisionAPI.Apply(prim)
                UsdGeom.Imageable(holder).CreatePurposeAttr().Set(UsdGeom.Tokens.guide)
        prim = UsdGeom.Xform.Define(self.stage, target).GetPrim()
        prim.GetReferences().AddInternalReference(source)
        prim.SetInstanceable(True)

    def _add_joint(self, joint: ElementTree.Element) -> None:
        from pxr import Gf, UsdPhysics

        kind, path = joint.attrib["type"], f"{self.top}/joints/{joint.attrib['name']}"
        place, turn = place_of(joint), np.eye(3)
        if kind == "fixed":
            made = UsdPhysics.FixedJoint.Define(self.stage, path)
        else:
            given = joint.find("axis")
            axis = np.array((given.get("xyz", "1 0 0") if given is not None else "1 0 0").split(), dtype=float)
            along = int(np.argmax(np.abs(axis)))
            if abs(axis[along]) < 1.0 - 1e-5:
                raise NotImplementedError("the stand-in knows joints along x, y or z only")
            if axis[along] < 0.0:  # turned by 180 degrees about another axis
                turn = -np.eye(3)
                turn[(along + 1) % 3, (along + 1) % 3] = 1.0
            made = getattr(UsdPhysics, MOVING[kind]).Define(self.stage, path)
            made.CreateAxisAttr("XYZ"[along])
            unit = 1.0 if kind == "prismatic" else math.degrees(1.0)
            limit = joint.find("limit")
            limits = {} if limit is None else {key: float(x) for key, x in limit.attrib.items()}
            made.CreateLowerLimitAttr(unit * limits.get("lower", -3.4e38))
            made.CreateUpperLimitAttr(unit * limits.get("upper", 3.4e38))
            made.GetPrim().AddAppliedSchema("PhysxJointAPI")
            drive = UsdPhysics.DriveAPI.Apply(made.GetPrim(), "linear" if kind == "prismatic" else "angular")
            drive.CreateTypeAttr("acceleration")
            drive.CreateMaxForceAttr(limits.get("effort", 0.0) or 3.4e38)
            drive.CreateStiffnessAttr(0.0)
            drive.CreateDampingAttr(0.0)
        made.CreateBody0Rel().SetTargets([f"{self.top}/{end_of(joint, 'parent')}"])
        made.CreateBody1Rel().SetTargets([f"{self.top}/{end_of(joint, 'child')}"])
        made.CreateLocalPos0Attr(Gf.Vec3f(*place[:3, 3].tolist()))
        made.CreateLocalRot0Attr(Gf.Quatf(*quaternion(place[:3, :3] @ turn)))
        made.CreateLocalPos1Attr(Gf.Vec3f(0.0, 0.0, 0.0))
        made.CreateLocalRot1Attr(Gf.Quatf(*quaternion(turn)))
