"""A scene as USD prims: floor, obstacles and quadrotors, in metres, z up. Needs ``pxr``, which ships with Isaac Sim.

USD is the same in every generation of Isaac Sim and in the package usd-core, so this module is tested on the real
library. PhysX's own attributes are written by name, because their schema ships with Isaac Sim alone.

PhysX's defaults for rigid bodies would change a flight, so all are written explicitly: angular damping (default 0.05),
the speed limit of 100 rad/s, sleeping and the gyroscopic term (on). Defaults are those declared by PhysxSchema.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.world import World

ROBOTS = "/World/robots"
OBSTACLES = "/World/obstacles"
FLOOR = "/World/floor"
MATERIAL = "/World/contact"
APART = "/World/apart"
_FLOOR_EXTENT_M = 100.0
"""Half the edge of the floor's visible part; its collision plane is infinite."""
_CONTACT_OFFSET_M = 0.002
"""Distance at which PhysX generates contacts; its own default suits furniture-sized bodies."""
_FRICTION = 1.0
"""Friction coefficient between all bodies, as in the MuJoCo models."""
_LIGHT = (0.93, 0.94, 0.96)
_DARK = (0.16, 0.17, 0.19)
_FRONT = (0.93, 0.45, 0.10)


def robot_path(index: int) -> str:
    """Return the prim path of robot ``index``; paths sort in the order of the robots."""
    return f"{ROBOTS}/r{index:04d}"


def author_surroundings(stage: Any, world: World | None) -> None:
    """Write lights, floor and obstacles of a world, by default a floor, to a stage without robots.

    Obstacles with a mass are movable.
    """
    from pxr import UsdGeom, UsdLux, UsdPhysics

    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdGeom.Xform.Define(stage, "/World")
    for scope in (ROBOTS, OBSTACLES):
        UsdGeom.Scope.Define(stage, scope)
    UsdLux.DomeLight.Define(stage, "/World/sky").CreateIntensityAttr(600.0)
    UsdLux.DistantLight.Define(stage, "/World/sun").CreateIntensityAttr(1500.0)
    write_material(stage, MATERIAL, _FRICTION)
    if world is None or world.floor:
        _author_floor(stage)
    for obstacle in () if world is None else world.obstacles:
        prim = _shape(stage, f"{OBSTACLES}/{obstacle.name}", obstacle.shape, obstacle.size_m, obstacle.colour)
        half = 0.5 * obstacle.yaw_rad
        set_pose(prim, obstacle.position_m, (0.0, 0.0, math.sin(half), math.cos(half)))
        _make_solid(prim)
        if obstacle.mass_kg > 0.0:
            UsdPhysics.RigidBodyAPI.Apply(prim)
            UsdPhysics.MassAPI.Apply(prim).CreateMassAttr(obstacle.mass_kg)  # inertia from the shape


def author_quadrotor(
    stage: Any, index: int, robot: Quadrotor, position_m: tuple[float, float, float], *, seen: bool = True
) -> str:
    """Write a quadrotor as a single rigid body with the file's mass and inertia; return its path.

    Its rotors are visual only: the simulation computes their forces on the body. Without ``seen``, only its collision
    shape is written.
    """
    from pxr import Gf, UsdGeom, UsdPhysics

    path, body = robot_path(index), robot.body
    prim = UsdGeom.Xform.Define(stage, path).GetPrim()
    set_pose(prim, position_m, (0.0, 0.0, 0.0, 1.0))
    UsdPhysics.RigidBodyAPI.Apply(prim)
    mass = UsdPhysics.MassAPI.Apply(prim)
    mass.CreateMassAttr(body.mass_kg)
    mass.CreateCenterOfMassAttr(Gf.Vec3f(0.0, 0.0, 0.0))
    mass.CreateDiagonalInertiaAttr(Gf.Vec3f(*body.inertia_kg_m2))
    mass.CreatePrincipalAxesAttr(Gf.Quatf(1.0, 0.0, 0.0, 0.0))
    settle_body(prim)
    extent = 2.0 * body.collision_radius_m, 2.0 * body.collision_radius_m, body.collision_height_m
    collider = _shape(stage, f"{path}/collision", "cylinder", extent, _FRONT)
    UsdGeom.Imageable(collider).CreatePurposeAttr(UsdGeom.Tokens.guide)  # collision only, not visible
    _make_solid(collider)
    if seen:
        _author_looks(stage, path, robot)
    return path


def settle_body(prim: Any, *, gravity: bool = True) -> None:
    """Disable PhysX's default damping, speed limit, sleeping and gyroscopic term of a rigid body."""
    write_schema(
        prim,
        "PhysxRigidBodyAPI",
        "physxRigidBody",
        linearDamping=0.0,
        angularDamping=0.0,
        maxAngularVelocity=math.degrees(1e4),  # deg/s
        sleepThreshold=0.0,
        stabilizationThreshold=0.0,
        enableGyroscopicForces=True,
        disableGravity=not gravity,
    )


def keep_apart(stage: Any, paths: Sequence[str]) -> None:
    """Disable collisions among the bodies at ``paths``, by one collision group that filters itself."""
    from pxr import UsdPhysics

    group = UsdPhysics.CollisionGroup.Define(stage, APART)
    group.CreateFilteredGroupsRel().AddTarget(APART)
    members = group.GetCollidersCollectionAPI().CreateIncludesRel()
    for path in paths:
        members.AddTarget(path)


def write_material(stage: Any, path: str, friction: float) -> Any:
    """Write a contact material without restitution and return it."""
    from pxr import UsdPhysics, UsdShade

    material = UsdShade.Material.Define(stage, path)
    contact = UsdPhysics.MaterialAPI.Apply(material.GetPrim())
    contact.CreateStaticFrictionAttr(friction)
    contact.CreateDynamicFrictionAttr(friction)
    contact.CreateRestitutionAttr(0.0)
    return material


def bind_material(prim: Any, material: Any, *, over_descendants: bool = False) -> None:
    """Bind a contact material to a prim, and with ``over_descendants`` in place of its descendants' own."""
    from pxr import UsdShade

    strength = UsdShade.Tokens.strongerThanDescendants if over_descendants else UsdShade.Tokens.weakerThanDescendants
    UsdShade.MaterialBindingAPI.Apply(prim).Bind(material, strength, "physics")


def _author_floor(stage: Any) -> None:
    from pxr import Gf, UsdGeom

    UsdGeom.Xform.Define(stage, FLOOR)
    plane = UsdGeom.Plane.Define(stage, f"{FLOOR}/collision")
    plane.CreateAxisAttr(UsdGeom.Tokens.z)
    plane.CreatePurposeAttr(UsdGeom.Tokens.guide)
    _make_solid(plane.GetPrim())
    e = _FLOOR_EXTENT_M
    seen = UsdGeom.Mesh.Define(stage, f"{FLOOR}/seen")
    seen.CreatePointsAttr([Gf.Vec3f(x, y, 0.0) for x, y in ((-e, -e), (e, -e), (e, e), (-e, e))])
    seen.CreateFaceVertexCountsAttr([4])
    seen.CreateFaceVertexIndicesAttr([0, 1, 2, 3])
    seen.CreateNormalsAttr([Gf.Vec3f(0.0, 0.0, 1.0)] * 4)
    seen.CreateDisplayColorAttr([Gf.Vec3f(0.78, 0.80, 0.82)])


def _author_looks(stage: Any, path: str, robot: Quadrotor) -> None:
    radius = robot.rotor_model.radius_m
    reach = max(math.hypot(*rotor.position_m) for rotor in robot.rotors)
    _shape(stage, f"{path}/frame", "box", (0.6 * reach, 0.5 * reach, 0.2 * reach), _DARK)
    for number, rotor in enumerate(robot.rotors):
        x, y, z = rotor.position_m
        colour = _FRONT if x > 0.0 else _LIGHT
        prim = _shape(stage, f"{path}/rotor{number}", "cylinder", (2.0 * radius, 2.0 * radius, 0.08 * radius), colour)
        set_pose(prim, (x, y, z + 0.25 * radius), (0.0, 0.0, 0.0, 1.0))


def _shape(
    stage: Any, path: str, kind: str, size: tuple[float, float, float], colour: tuple[float, float, float]
) -> Any:
    """Define a box, cylinder or sphere of full extents ``size``; return its prim."""
    from pxr import Gf, UsdGeom

    if kind == "box":
        shape = UsdGeom.Cube.Define(stage, path)
        shape.CreateSizeAttr(1.0)
    elif kind == "cylinder":
        shape = UsdGeom.Cylinder.Define(stage, path)
        shape.CreateAxisAttr(UsdGeom.Tokens.z)
        shape.CreateRadiusAttr(size[0] / 2.0)
        shape.CreateHeightAttr(size[2])
    else:
        shape = UsdGeom.Sphere.Define(stage, path)
        shape.CreateRadiusAttr(size[0] / 2.0)
    shape.CreateDisplayColorAttr([Gf.Vec3f(*colour)])
    set_pose(shape.GetPrim(), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), size if kind == "box" else (1.0, 1.0, 1.0))
    return shape.GetPrim()


def set_pose(
    prim: Any,
    position: Sequence[float],
    orientation: tuple[float, float, float, float],
    scale: tuple[float, float, float] | None = None,
) -> None:
    """Write translate, orient (from xyzw) and scale, in the order that Isaac Sim's views expect."""
    from pxr import Gf, UsdGeom

    xform, precision = UsdGeom.Xformable(prim), UsdGeom.XformOp.PrecisionDouble
    ops = {op.GetOpName(): op for op in xform.GetOrderedXformOps()}
    if not ops:
        ops = {
            "xformOp:translate": xform.AddTranslateOp(precision),
            "xformOp:orient": xform.AddOrientOp(precision),
            "xformOp:scale": xform.AddScaleOp(precision),
        }
        ops["xformOp:scale"].Set(Gf.Vec3d(1.0, 1.0, 1.0))
    x, y, z, w = orientation
    ops["xformOp:translate"].Set(Gf.Vec3d(*position))
    ops["xformOp:orient"].Set(Gf.Quatd(w, x, y, z))
    if scale is not None:
        ops["xformOp:scale"].Set(Gf.Vec3d(*scale))


def _make_solid(prim: Any) -> None:
    """Give a shape collision, with the stage's contact material."""
    from pxr import Sdf, UsdPhysics, UsdShade

    UsdPhysics.CollisionAPI.Apply(prim)
    write_schema(prim, "PhysxCollisionAPI", "physxCollision", contactOffset=_CONTACT_OFFSET_M, restOffset=0.0)
    bind_material(prim, UsdShade.Material.Get(prim.GetStage(), Sdf.Path(MATERIAL)))


def write_schema(prim: Any, schema: str, prefix: str, **attributes: float | bool | str) -> None:
    """Apply one of PhysX's schemas by name and write its attributes; strings become tokens."""
    from pxr import Sdf

    prim.AddAppliedSchema(schema)
    for name, number in attributes.items():
        names = Sdf.ValueTypeNames
        kind = names.Bool if isinstance(number, bool) else names.Token if isinstance(number, str) else names.Float
        prim.CreateAttribute(f"{prefix}:{name}", kind, custom=False).Set(number)
