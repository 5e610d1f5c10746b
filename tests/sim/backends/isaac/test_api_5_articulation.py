"""What is called of Isaac Sim 5.x for robots with joints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlstack.sim.backends.isaac import api_5
from rlstack.sim.backends.isaac.api_5_articulation import Articulation5
from tests.support.isaacsim_standin import Kit

HEAVY = (
    '<inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    '<collision><geometry><sphere radius="0.1"/></geometry></collision>'
)
URDF = f"""<robot name="tree">
  <link name="trunk"><inertial><origin xyz="0.5 0 0"/><mass value="5"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="mast">{HEAVY}</link><link name="left">{HEAVY}</link><link name="left_tip">{HEAVY}</link>
  <link name="right">{HEAVY}</link>
  <joint name="mast_root" type="fixed"><parent link="trunk"/><child link="mast"/></joint>
  <joint name="left_root" type="revolute"><parent link="trunk"/><child link="left"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" velocity="9" effort="50"/></joint>
  <joint name="left_end" type="continuous"><parent link="left"/><child link="left_tip"/><axis xyz="0 1 0"/></joint>
  <joint name="right_root" type="revolute"><parent link="trunk"/><child link="right"/><axis xyz="0 0 -1"/>
    <limit lower="-1" upper="1" velocity="9" effort="50"/></joint>
</robot>"""
JOINTS = ["left_root", "left_end", "right_root"]  # the file's order, depth first
LINKS = ("trunk", "mast", "left", "left_tip", "right")


@pytest.fixture
def tree(kit: Kit, tmp_path: Path) -> tuple[api_5.World5, Articulation5]:
    """Return a world that plays and an imported robot in it, 50 m up."""
    file = tmp_path / "tree.urdf"
    file.write_text(URDF)
    world = api_5.World5(api_5.construct(), 500, lambda stage: None)
    from pxr import Gf, UsdPhysics  # which the application brings

    root = world.import_urdf(str(file), fixed_base=False)
    assert root == "/tree/trunk"
    world.usd.GetPrimAtPath("/tree").GetAttribute("xformOp:translate").Set(Gf.Vec3d(0.0, 0.0, 50.0))
    world.usd.GetPrimAtPath("/colliders").SetActive(False)
    for name in JOINTS:
        UsdPhysics.DriveAPI(world.usd.GetPrimAtPath(f"/tree/joints/{name}"), "angular").CreateTypeAttr().Set("force")
    made = world.articulation(root, root, [f"/tree/{link}" for link in LINKS])
    world.play([], np.zeros((0, 3)))
    return world, made


def single(*numbers: float) -> np.ndarray:
    return np.array([numbers], dtype=np.float32)


def test_joints_go_by_name_because_their_order_is_another(kit: Kit, tree: tuple[api_5.World5, Articulation5]):
    _, made = tree
    assert sorted(made.joint_names()) == sorted(JOINTS)
    assert made.joint_names() != JOINTS
    order = made.order(JOINTS)
    made.place_joints(order, single(0.1, 0.2, 0.3), single(1.0, 2.0, 3.0))
    position, velocity = made.joints(order)
    np.testing.assert_allclose(position, (0.1, 0.2, 0.3), rtol=1e-6)
    np.testing.assert_allclose(velocity, (1.0, 2.0, 3.0))
    held = kit.physics.articulations["/tree/trunk"]
    assert dict(zip(held.dof_names, held.position.tolist())) == pytest.approx(dict(zip(JOINTS, (0.1, 0.2, 0.3))))
    assert "mast_root" in [joint.name for joint in held.joints]  # so names of all joints are no indices of these


def test_drives_pull_each_joint_to_its_own_target(tree: tuple[api_5.World5, Articulation5]):
    world, made = tree
    order = made.order(JOINTS)
    made.set_gains(order, single(100.0, 100.0, 100.0), single(20.0, 20.0, 20.0))
    made.drive(order, single(0.3, -0.2, 0.1), single(0.0, 0.0, 0.0))
    for _ in range(1000):
        world.step()
    np.testing.assert_allclose(made.joints(order)[0], (0.3, -0.2, 0.1), atol=1e-3)


def test_efforts_act_in_every_step_until_something_else_drives(tree: tuple[api_5.World5, Articulation5]):
    world, made = tree
    order = made.order(JOINTS)
    made.set_gains(order, single(0.0, 0.0, 0.0), single(0.0, 0.0, 0.0))
    made.push_joints(order, single(0.0, 5.0, 0.0))
    for _ in range(10):
        world.step()
    np.testing.assert_allclose(made.joints(order)[1], (0.0, 10 * 5.0 / 500.0, 0.0), rtol=1e-5)
    made.set_gains(order, single(0.0, 0.0, 0.0), single(1.0, 1.0, 1.0))
    made.drive(order, single(0.0, 0.0, 0.0), single(0.0, 0.0, 0.0))
    world.step()
    assert made.joints(order)[1][1] < 0.1


def test_limits_and_armature_are_those_of_the_named_joints(kit: Kit, tree: tuple[api_5.World5, Articulation5]):
    _, made = tree
    made.set_limits(made.order(JOINTS), single(1.0, 2.0, 3.0), single(4.0, 5.0, 6.0), single(7.0, 8.0, 9.0))
    held = kit.physics.articulations["/tree/trunk"]
    for name, wanted in (("strongest", (1, 2, 3)), ("fastest", (4, 5, 6)), ("armature", (7, 8, 9))):
        assert dict(zip(held.dof_names, getattr(held, name).tolist())) == dict(zip(JOINTS, wanted))


def test_the_base_is_put_and_pushed(tree: tuple[api_5.World5, Articulation5]):
    world, made = tree
    position, orientation, _ = made.state()
    np.testing.assert_allclose(position[0, 2], 50.0, atol=0.01)  # two steps of a fall
    made.place(single(1.0, 2.0, 40.0), orientation, single(0.5, 0.0, 0.0, 0.0, 0.0, 0.0))
    position, _, velocity = made.state()
    np.testing.assert_allclose(position, [[1.0, 2.0, 40.0]])
    np.testing.assert_allclose(velocity, [[0.5, 0.0, 0.0, 0.0, 0.0, 0.0]])
    made.push(single(0.0, 10.0, 0.0), single(0.0, 0.0, 0.0))
    world.step()
    world.step()
    velocity = made.state()[2][0]
    assert velocity[1] == pytest.approx(10.0 / 5.0 / 500.0, rel=1e-4)  # in one step only
    assert velocity[2] == pytest.approx(-2 * 9.81 / 500.0, rel=1e-4)


def test_masses_come_by_the_links_names(tree: tuple[api_5.World5, Articulation5]):
    _, made = tree
    masses = made.masses()
    assert {name: mass for name, (mass, _, _) in masses.items()} == {
        name: 5.0 if name == "trunk" else 2.0 for name in LINKS
    }
    np.testing.assert_allclose(masses["trunk"][1], (0.5, 0.0, 0.0))
    np.testing.assert_allclose(made.base_centre(), (0.5, 0.0, 0.0))
    np.testing.assert_allclose(masses["left"][2], np.eye(3), rtol=1e-6)
    made.set_base_mass(6.0, np.array([1.0, 2.0, 3.0]))
    mass, _, inertia = made.masses()["trunk"]
    assert mass == 6.0
    np.testing.assert_allclose(inertia, np.diag([1.0, 2.0, 3.0]))


def test_a_urdf_keeps_its_fixed_links_and_inertias_and_may_stand_fixed(kit: Kit, tmp_path: Path):
    file = tmp_path / "tree.urdf"
    file.write_text(URDF)
    world = api_5.World5(api_5.construct(), 500, lambda stage: None)
    assert world.import_urdf(str(file), fixed_base=True) == "/tree/root_joint"
    config = kit.named("Commands.execute")[-1]["arguments"]["import_config"]
    assert (config.merge_fixed_joints, config.import_inertia_tensor, config.fix_base) == (False, True, True)
    assert (config.self_collision, config.make_default_prim, config.create_physics_scene) == (False, False, False)


def test_a_urdf_that_is_not_there_is_an_error(kit: Kit):
    world = api_5.World5(api_5.construct(), 500, lambda stage: None)
    with pytest.raises(RuntimeError, match=r"could not import /nowhere/x\.urdf"):
        world.import_urdf("/nowhere/x.urdf", fixed_base=False)
