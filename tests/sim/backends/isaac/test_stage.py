"""The stage, on the real USD: what a physics engine would read in it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.backends.isaac import stage as authored
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.world import World
from tests.support.isaacsim_standin.shapes import schemas

pytest.importorskip("pxr", reason="pip install usd-core")

OBSTACLES = (
    Obstacle(name="shelf", shape="box", size_m=(1.0, 2.0, 3.0), position_m=(1.0, -2.0, 1.5), yaw_rad=0.3),
    Obstacle(name="pole", shape="cylinder", size_m=(0.2, 0.2, 4.0), position_m=(0.0, 3.0, 2.0), colour=(0.1, 0.2, 0.3)),
    Obstacle(name="ball", shape="sphere", size_m=(0.5, 0.5, 0.5), position_m=(2.0, 0.0, 0.25), mass_kg=0.4),
)

WORLD = World(
    name="stage", seed=0, floor=True, obstacles=OBSTACLES, bounds_m=((-9.0,) * 3, (9.0,) * 3), starts_m=((0.0,) * 3,)
)


@pytest.fixture
def stage() -> Any:
    from pxr import Usd

    made = Usd.Stage.CreateInMemory()
    authored.author_surroundings(made, WORLD)
    return made


def pose(prim: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return position, rotation (3, 3) and scale of a prim in the world."""
    from pxr import Usd, UsdGeom

    matrix = np.array(UsdGeom.Xformable(prim).ComputeLocalToWorldTransform(Usd.TimeCode.Default())).T
    scale = np.linalg.norm(matrix[:3, :3], axis=0)
    return matrix[:3, 3], matrix[:3, :3] / scale, scale


def test_it_is_in_metres_and_z_is_up(stage: Any):
    from pxr import UsdGeom

    assert UsdGeom.GetStageMetersPerUnit(stage) == 1.0
    assert UsdGeom.GetStageUpAxis(stage) == UsdGeom.Tokens.z


def test_obstacles_have_their_place_size_and_heading(stage: Any):
    box = stage.GetPrimAtPath(f"{authored.OBSTACLES}/shelf")
    position, rotation, scale = pose(box)
    np.testing.assert_allclose(position, (1.0, -2.0, 1.5))
    np.testing.assert_allclose(scale, (1.0, 2.0, 3.0))
    assert box.GetAttribute("size").Get() == 1.0
    assert math.atan2(rotation[1, 0], rotation[0, 0]) == pytest.approx(0.3)
    pole = stage.GetPrimAtPath(f"{authored.OBSTACLES}/pole")
    read = {name: pole.GetAttribute(name).Get() for name in ("radius", "height", "axis")}
    assert read == {"radius": 0.1, "height": 4.0, "axis": "Z"}
    np.testing.assert_allclose(pole.GetAttribute("primvars:displayColor").Get()[0], (0.1, 0.2, 0.3), atol=1e-6)


def test_only_what_has_a_mass_moves(stage: Any):
    from pxr import UsdPhysics

    for obstacle in OBSTACLES:
        prim = stage.GetPrimAtPath(f"{authored.OBSTACLES}/{obstacle.name}")
        assert prim.HasAPI(UsdPhysics.CollisionAPI)
        assert prim.HasAPI(UsdPhysics.RigidBodyAPI) == (obstacle.mass_kg > 0.0)
    assert UsdPhysics.MassAPI(stage.GetPrimAtPath(f"{authored.OBSTACLES}/ball")).GetMassAttr().Get() == pytest.approx(
        0.4
    )


def test_the_floor_is_a_plane_to_touch_and_a_sheet_to_see(stage: Any):
    from pxr import Usd, UsdPhysics

    solid, seen = (stage.GetPrimAtPath(f"{authored.FLOOR}/{name}") for name in ("collision", "seen"))
    assert (solid.GetTypeName(), solid.GetAttribute("axis").Get()) == ("Plane", "Z")
    assert solid.HasAPI(UsdPhysics.CollisionAPI)
    assert not seen.HasAPI(UsdPhysics.CollisionAPI)
    bare = Usd.Stage.CreateInMemory()
    authored.author_surroundings(bare, replace(WORLD, floor=False, obstacles=()))
    assert not bare.GetPrimAtPath(authored.FLOOR)


@pytest.mark.parametrize("name", ["crazyflie", "x500"])
def test_a_quadrotor_is_one_body_with_the_files_mass_and_inertia(stage: Any, name: str):
    from pxr import UsdPhysics

    robot = load_quadrotor(name)
    path = authored.author_quadrotor(stage, 3, robot, (1.0, 2.0, 3.0))
    prim = stage.GetPrimAtPath(path)
    assert path == authored.robot_path(3)
    np.testing.assert_allclose(pose(prim)[0], (1.0, 2.0, 3.0))
    bodies = [p for p in stage.Traverse() if p.HasAPI(UsdPhysics.RigidBodyAPI) and str(p.GetPath()).startswith(path)]
    assert bodies == [prim]
    mass = UsdPhysics.MassAPI(prim)
    assert mass.GetMassAttr().Get() == pytest.approx(robot.body.mass_kg)
    np.testing.assert_allclose(mass.GetDiagonalInertiaAttr().Get(), robot.body.inertia_kg_m2, rtol=1e-6)
    np.testing.assert_array_equal(mass.GetCenterOfMassAttr().Get(), (0.0, 0.0, 0.0))
    collider = stage.GetPrimAtPath(f"{path}/collision")
    assert collider.GetAttribute("radius").Get() == robot.body.collision_radius_m
    assert collider.GetAttribute("height").Get() == robot.body.collision_height_m
    assert collider.GetAttribute("purpose").Get() == "guide"


def test_nothing_of_physx_bends_its_flight(stage: Any):
    prim = stage.GetPrimAtPath(authored.author_quadrotor(stage, 0, load_quadrotor("crazyflie"), (0.0, 0.0, 1.0)))
    assert "PhysxRigidBodyAPI" in schemas(prim)

    def written(name: str) -> Any:
        return prim.GetAttribute(f"physxRigidBody:{name}").Get()

    assert [written(n) for n in ("linearDamping", "angularDamping", "sleepThreshold", "stabilizationThreshold")] == [
        0
    ] * 4
    assert written("enableGyroscopicForces") is True
    assert written("disableGravity") is False
    assert written("maxAngularVelocity") > math.degrees(1000.0)


def test_a_crowd_has_nothing_that_is_only_seen(stage: Any):
    robot = load_quadrotor("crazyflie")
    for index, seen in ((0, True), (1, False)):
        prim = stage.GetPrimAtPath(authored.author_quadrotor(stage, index, robot, (0.0, 0.0, 1.0), seen=seen))
        drawn = {p.GetName() for p in prim.GetChildren()} - {"collision"}
        assert drawn == ({"frame", "rotor0", "rotor1", "rotor2", "rotor3"} if seen else set())


def test_those_kept_apart_touch_all_but_each_other(stage: Any):
    from pxr import Usd, UsdPhysics

    robot = load_quadrotor("crazyflie")
    paths = [authored.author_quadrotor(stage, k, robot, (float(k), 0.0, 1.0)) for k in range(3)]
    authored.keep_apart(stage, paths)
    table = UsdPhysics.CollisionGroup.ComputeCollisionGroupTable(stage)
    groups = table.GetGroups()
    assert [str(g) for g in groups] == [authored.APART]
    assert not table.IsCollisionEnabled(groups[0], groups[0])
    members = UsdPhysics.CollisionGroup(stage.GetPrimAtPath(authored.APART)).GetCollidersCollectionAPI()
    inside = Usd.CollectionAPI.ComputeIncludedObjects(members.ComputeMembershipQuery(), stage)
    colliders = {str(p.GetPath()) for p in inside if p.HasAPI(UsdPhysics.CollisionAPI)}
    assert colliders == {f"{path}/collision" for path in paths}


def test_the_paths_of_many_robots_sort_in_their_order():
    paths = [authored.robot_path(k) for k in range(300)]
    assert sorted(paths) == paths
