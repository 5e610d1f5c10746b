from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import viser

from rlstack.robots import load_robot
from rlstack.robots.urdf import to_urdf
from rlstack.view.robot_model import RobotModel

URDF = """<robot name="r"><link name="base_link">
<visual><geometry><mesh filename="{mesh}"/></geometry></visual>
<collision><origin xyz="0 0 0.1"/><geometry><box size="0.2 0.4 0.6"/></geometry></collision></link>
<link name="arm"><visual><geometry><cylinder radius="0.05" length="0.5"/></geometry></visual></link>
<joint name="turn" type="revolute"><origin xyz="1 0 0"/><axis xyz="0 0 1"/><parent link="base_link"/><child link="arm"/>
<limit lower="-3" upper="3" effort="1" velocity="1"/></joint></robot>"""
CUBE = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 1 3 4\nf 2 3 4\n"


@pytest.fixture(scope="module")
def scene() -> Iterator[Any]:
    server = viser.ViserServer("127.0.0.1", 0, verbose=False)
    yield server.scene
    server.stop()


def handle(scene: Any, name: str) -> Any:
    return scene.get_handle_by_name(name)


def test_links_move_with_joints_and_the_root(scene: Any, tmp_path: Path) -> None:
    mesh = tmp_path / "cube.obj"
    mesh.write_text(CUBE)
    model = RobotModel(scene, "/moved", URDF.format(mesh=mesh))
    assert model.missing == []
    model.place(np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.0, 0.0, 1.0]))
    model.move_joints({"turn": np.pi / 2})
    np.testing.assert_allclose(handle(scene, "/moved").position, [1, 2, 3])
    np.testing.assert_allclose(handle(scene, "/moved/arm").position, [1, 0, 0])
    np.testing.assert_allclose(handle(scene, "/moved/arm").wxyz, [np.sqrt(0.5), 0, 0, np.sqrt(0.5)], atol=1e-9)
    assert model.reach_m == pytest.approx(1.25)


def test_frames_and_joints_may_have_a_prefix(scene: Any) -> None:
    model = RobotModel(scene, "/two", to_urdf(load_robot("panda"), prefix="panda2/"))
    tool = model.pose("panda_grasptarget")
    assert tool is not None and model.frame("panda_hand") == model.frame("panda2/panda_hand")
    model.move_joints({"panda_joint1": 1.0})  # joint states have none
    moved = model.pose("panda2/panda_grasptarget")
    assert moved is not None and np.linalg.norm(moved[0] - tool[0]) > 0.05
    plain = RobotModel(scene, "/plain", to_urdf(load_robot("panda")))  # robot_state_publisher adds one on /tf alone
    assert plain.frame("cell/panda_hand") == plain.frame("panda_hand")


@pytest.mark.parametrize("mesh", ["package://no such!/x.stl", "x" * 400])
def test_a_mesh_whose_place_is_none_is_named(scene: Any, mesh: str) -> None:
    assert "is not there" in RobotModel(scene, "/nameless", URDF.format(mesh=mesh)).missing[0]


def test_a_missing_mesh_is_named_and_its_collision_shape_shown(scene: Any) -> None:
    model = RobotModel(scene, "/bare", URDF.format(mesh="/nowhere/cube.obj"))
    assert model.missing == ["The mesh /nowhere/cube.obj is not there."]
    np.testing.assert_allclose(handle(scene, "/bare/base_link/0").dimensions, [0.2, 0.4, 0.6])


def test_a_mesh_that_is_none_is_named(scene: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.stl").write_text("no mesh")
    model = RobotModel(scene, "/bad", URDF.format(mesh=f"file://{tmp_path}/bad.stl"))
    assert "bad.stl cannot be read" in model.missing[0]


def test_something_can_be_added_to_a_frame_without_shapes(scene: Any) -> None:
    model = RobotModel(scene, "/base", to_urdf(load_robot("turtlebot3_burger")))
    assert model.frame("nothing") is None
    node = model.frame("scan_link")
    assert node == "/base/scan_link"
    assert handle(scene, node).position[2] > 0.1


@pytest.mark.parametrize("name", ["crazyflie", "so100", "go1", "ur5e"])
def test_every_kind_of_robot_has_something_to_see(scene: Any, name: str) -> None:
    model = RobotModel(scene, f"/all/{name}", to_urdf(load_robot(name)))
    assert model.missing == []
    assert model.reach_m > 0.04
