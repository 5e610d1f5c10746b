"""Bases and arms in the engine, on the stand-in: what the conformance suite does not reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import RobotSpec, frames, load_robot
from rlstack.robots.kind_models import mass_properties
from rlstack.sim.backends.isaac import IsaacEngine
from rlstack.sim.engine import BODY_ROWS, DriveMode, Scene
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.world import World
from tests.support.isaacsim_standin import Kit, MisuseError

STEP_S = 1e-3


@pytest.fixture
def base() -> WheeledBase:
    found = load_robot("turtlebot3_burger")
    assert isinstance(found, WheeledBase)
    return found


@pytest.fixture
def arm() -> RobotSpec:
    pytest.importorskip("pybullet_data", reason="it carries the arm's model")
    return load_robot("panda")


def engine(*robots: RobotSpec, **scene: Any) -> IsaacEngine:
    return IsaacEngine(Scene(robots, STEP_S, **scene))


def at(x: float, y: float, z: float, yaw: float = 0.0, **motion: tuple[float, float, float]) -> np.ndarray:
    """Return a body's state (13,)."""
    still = (0.0, 0.0, 0.0)
    turned = frames.from_yaw(np.array(yaw))
    return np.array([x, y, z, *turned, *motion.get("linear", still), *motion.get("angular", still)])


def state(made: IsaacEngine, index: int = 0, count: int = 1) -> np.ndarray:
    rows = np.empty((BODY_ROWS, count))
    made.refresh(rows)
    return rows[:, index]


def held(kit: Kit, index: int = 0) -> Any:
    """Return the stand-in's articulation of robot ``index``."""
    return next(one for path, one in kit.physics.articulations.items() if path.startswith(f"/r{index:04d}/"))


def test_velocities_are_those_of_base_link_and_not_of_its_centre_of_mass(kit: Kit, base: WheeledBase):
    made = engine(base)
    wanted = at(1.0, 2.0, 30.0, yaw=0.4, linear=(0.1, -0.2, 0.3), angular=(0.5, -0.7, 2.0))
    made.place(0, wanted)
    np.testing.assert_allclose(state(made), wanted, atol=1e-5)
    turned = frames.rotate(wanted[3:7], wanted[10:])
    lever = frames.rotate(wanted[3:7], base.chassis_inertial().centre_m)
    root = held(kit).bodies[0]
    np.testing.assert_allclose(kit.physics.velocity[root, :3], wanted[7:10] + np.cross(turned, lever), atol=1e-6)
    assert np.abs(np.cross(turned, lever)).max() > 0.05


def test_mass_properties_are_of_all_links(kit: Kit, base: WheeledBase):
    made = engine(base)
    found, wanted = made.mass_properties(0), mass_properties(base)
    assert found.mass_kg == pytest.approx(wanted.mass_kg, rel=1e-6)
    np.testing.assert_allclose(found.centre_m, wanted.centre_m, atol=1e-7)
    np.testing.assert_allclose(found.inertia_kg_m2, wanted.inertia_kg_m2, atol=1e-8)


def test_an_arm_weighs_what_its_file_says(kit: Kit, arm: RobotSpec):
    assert engine(arm).mass_properties(0).mass_kg == pytest.approx(arm.mass_kg, rel=1e-6)


def test_joints_are_in_the_files_order_and_not_in_that_of_physx(kit: Kit, arm: RobotSpec):
    made = engine(arm)
    names = [drive.name for drive in arm.drives]
    assert list(made.joint_names(0)) == names
    assert [name.removeprefix("r0000_") for name in held(kit).dof_names] != names
    wanted = np.linspace(-0.3, -0.1, len(names))
    wanted[-2:] = 0.01, 0.02
    made.place_joints(0, wanted, np.zeros(len(names)))
    np.testing.assert_allclose(made.joints(0).position, wanted, atol=1e-6)
    by_name = dict(zip(held(kit).dof_names, held(kit).position.tolist()))
    assert [by_name[f"r0000_{name}"] for name in names] == pytest.approx(wanted.tolist())


def test_gains_limits_and_armature_are_the_files(kit: Kit, base: WheeledBase, arm: RobotSpec):
    made = engine(base, arm)
    for index, robot in enumerate((base, arm)):
        count = len(robot.drives)
        made.drive(index, "file", np.zeros(count))
        one = held(kit, index)
        for drive in robot.drives:
            k = one.dof_names.index(f"r{index:04d}_{drive.name}")
            by_position = drive.mode == "position"
            found = [one.stiffness[k], one.damping[k], one.strongest[k], one.armature[k]]
            wanted = [drive.stiffness if by_position else 0.0, drive.damping, drive.effort_max, drive.armature]
            assert found == pytest.approx(wanted, rel=1e-6)
            assert (one.fastest[k] == pytest.approx(drive.velocity_max)) == by_position


@pytest.mark.parametrize("mode", ["position", "velocity", "effort"])
def test_each_mode_drives_what_it_says(kit: Kit, arm: RobotSpec, mode: DriveMode):
    made = engine(arm)
    rest = np.array([drive.rest for drive in arm.drives])
    made.place(0, at(0.0, 0.0, 0.0))
    made.place_joints(0, rest, np.zeros(len(rest)))
    target = {"position": rest, "velocity": np.zeros(len(rest)), "effort": np.zeros(len(rest))}[mode].copy()
    amount = 0.02 if mode == "effort" else 0.5  # more would take the light link to its speed limit
    target[0] += amount
    made.drive(0, mode, target)
    for _ in range(500):
        made.step()
    found = made.joints(0)
    measured = {"position": found.position, "velocity": found.velocity, "effort": found.effort}[mode]
    np.testing.assert_allclose(measured, target, atol=0.04 * amount)
    if mode == "effort":
        inertia = held(kit).inertia[held(kit).dof_names.index("r0000_panda_joint1")]
        assert found.velocity[0] == pytest.approx(0.5 * amount / inertia, rel=1e-3)
        made.drive(0, mode, np.full(len(rest), 1e4))
        np.testing.assert_allclose(made.joints(0).effort, [drive.effort_max for drive in arm.drives])
    made.drive(0, "file", rest)
    for _ in range(1500):
        made.step()
    np.testing.assert_allclose(made.joints(0).position, rest, atol=0.02)


def test_a_target_outlives_that_the_joints_are_put_elsewhere(kit: Kit, base: WheeledBase):
    made = engine(base)
    made.place(0, at(0.0, 0.0, base.rest_height_m))
    made.drive(0, "file", np.full(2, 3.0))
    made.place_joints(0, np.zeros(2), np.full(2, -1.0))
    for _ in range(500):
        made.step()
    np.testing.assert_allclose(made.joints(0).velocity, 3.0, rtol=0.01)


def test_what_the_importer_leaves_is_put_right(kit: Kit, base: WheeledBase, arm: RobotSpec):
    engine(base, arm)
    from pxr import UsdPhysics, UsdShade

    stage = kit.stage
    for index, robot in enumerate((base, arm)):
        top = stage.GetPrimAtPath(f"/r{index:04d}")
        links = [prim for prim in top.GetChildren() if prim.HasAPI(UsdPhysics.RigidBodyAPI)]
        for prim in links:
            read = {
                key: prim.GetAttribute(f"physxRigidBody:{key}").Get() for key in ("angularDamping", "sleepThreshold")
            }
            assert read == {"angularDamping": 0.0, "sleepThreshold": 0.0}
            assert prim.GetAttribute("physxRigidBody:disableGravity").Get() == (robot is arm)  # its file compensates it
        for drive in robot.drives:
            joint = stage.GetPrimAtPath(f"/r{index:04d}/joints/r{index:04d}_{drive.name}")
            kind = "linear" if drive.type == "prismatic" else "angular"
            assert joint.GetAttribute(f"drive:{kind}:physics:type").Get() == "force"
            assert np.isinf(joint.GetAttribute("physics:upperLimit").Get()) == (drive.type == "continuous")

    def friction(path: str) -> tuple[float, str]:
        bound, _ = UsdShade.MaterialBindingAPI(stage.GetPrimAtPath(path)).ComputeBoundMaterial("physics")
        prim = bound.GetPrim()
        read = round(UsdPhysics.MaterialAPI(prim).GetDynamicFrictionAttr().Get(), 6)
        return read, prim.GetAttribute("physxMaterial:frictionCombineMode").Get()

    wheel = "/r0000/r0000_wheel_left_link/collisions/mesh_0/cylinder"
    assert friction(wheel) == (base.contact.wheel_friction, "multiply")
    assert friction("/r0000/r0000_base_link/collisions/mesh_1/sphere") == (0.0, "multiply")  # the caster slides


def test_two_of_a_kind_have_shapes_of_their_own_and_none_is_left_at_the_origin(kit: Kit, base: WheeledBase):
    made = engine(base, base)
    solid = [shape for shape in kit.physics.shapes if shape.solid and shape.kind != "plane"]
    for index in range(2):
        mine = [shape for shape in solid if shape.path.startswith(f"/r{index:04d}/")]
        assert sorted(shape.kind for shape in mine) == ["box", "cylinder", "cylinder", "sphere"]
    assert len(solid) == 8
    made.place(0, at(3.0, 0.0, 5.0))
    made.place(1, at(6.0, 0.0, 5.0))
    through_the_origin = np.array([[-1.0, 0.0, 0.05]]), np.array([[1.0, 0.0, 0.0]])
    assert np.isinf(made.cast(0, *through_the_origin, 2.0)).all()


@pytest.mark.parametrize("isolated", [False, True])
def test_rays_pass_through_ones_own_links_and_meet_others(kit: Kit, base: WheeledBase, isolated: bool):
    made = engine(base, base, isolated=isolated)
    made.place(0, at(0.0, 0.0, 5.0))
    made.place(1, at(1.0, 0.0, 5.0))
    start = np.array([[0.0, 0.0, 5.05]])
    reach = made.cast(0, start, np.array([[1.0, 0.0, 0.0]]), 3.0)
    box = base.chassis
    front = 1.0 + box.collision_centre_m[0] - 0.5 * box.collision_size_m[0]
    np.testing.assert_allclose(reach, [np.inf if isolated else front], atol=1e-4)


def test_what_stands_touches_and_what_falls_does_not(kit: Kit, base: WheeledBase, arm: RobotSpec):
    made = engine(base, arm)
    made.place(1, at(3.0, 0.0, 0.0))
    made.place(0, at(0.0, 0.0, base.rest_height_m))
    made.step()
    assert (made.touching(0), made.touching(1)) == (True, False)
    made.place(0, at(0.0, 0.0, 1.0))
    made.step()
    assert not made.touching(0)
    assert state(made, 0, 2)[9] == pytest.approx(-9.81 * STEP_S, rel=1e-3)


def test_an_arm_stands_where_it_is_put_and_is_not_pushed(kit: Kit, arm: RobotSpec):
    made = engine(arm)
    made.place(0, at(1.0, 2.0, 0.5, yaw=0.7))
    made.push(np.full((3, 1), 50.0), np.zeros((3, 1)))
    made.step()
    np.testing.assert_allclose(state(made), at(1.0, 2.0, 0.5, yaw=0.7), atol=1e-6)


def test_a_push_moves_a_base_that_hangs_in_the_air(kit: Kit, base: WheeledBase):
    made = engine(base)
    made.place(0, at(0.0, 0.0, 5.0))
    made.push(np.array([[1.0], [0.0], [0.0]]), np.zeros((3, 1)))
    made.step()
    mass = kit.physics.mass[held(kit).bodies[0]]
    assert state(made)[7] == pytest.approx(STEP_S / mass, rel=1e-3)


def test_an_articulation_that_is_not_where_it_is_put_is_noticed(
    kit: Kit, base: WheeledBase, monkeypatch: pytest.MonkeyPatch
):
    from tests.support.isaacsim_standin.joint_views import Articulation

    monkeypatch.setattr(Articulation, "set_world_poses", lambda self, **_: None)
    put = np.array([[5.0, 0.0, 1000.0]], np.float32)
    monkeypatch.setattr(Articulation, "get_world_poses", lambda self: (put, np.array([[1.0, 0, 0, 0]], np.float32)))
    with pytest.raises(RuntimeError, match="does not place turtlebot3_burger as commanded"):
        engine(base)


def test_joints_are_dead_once_the_world_is_closed(kit: Kit, base: WheeledBase):
    made = engine(base)
    made.close()
    with pytest.raises((RuntimeError, MisuseError)):
        made.joints(0)


def test_an_arm_that_is_to_know_where_an_object_is_is_refused(kit: Kit, arm: RobotSpec):
    thing = Obstacle(name="object", shape="box", size_m=(0.04, 0.04, 0.04), position_m=(0.5, 0.1, 0.02), mass_kg=0.1)
    bounds = ((-1.0, -1.0, 0.0), (1.0, 1.0, 2.0))
    table = World(name="table", seed=0, floor=True, obstacles=(thing,), bounds_m=bounds, starts_m=((0.0, 0.0, 0.0),))
    with pytest.raises(UserError, match="The pose of 'object' for an arm is not supported in Isaac Sim"):
        engine(arm, world=table)
