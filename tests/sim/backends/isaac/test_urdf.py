"""The URDF that the importer is given."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.robots.model import read_urdf
from rlstack.robots.sensing import rotation_from_rpy
from rlstack.robots.urdf import to_urdf
from rlstack.sim.backends.isaac.urdf import _rpy, importable_urdf

ARM = """<robot name="arm">
  <link name="foot"><inertial><mass value="2"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="flange"><collision><origin xyz="0 0 1" rpy="0 0 0"/><geometry><box size="1 1 1"/></geometry></collision>
  </link>
  <link name="hand"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="mount" type="{mount}"><parent link="foot"/><child link="flange"/>
    <origin xyz="1 0 0" rpy="0 1.5707963267948966 0"/>{axis}</joint>
  <joint name="lift" type="prismatic"><parent link="flange"/><child link="hand"/><origin xyz="0 0 2" rpy="0 0 0.5"/>
    <axis xyz="0 0 1"/><limit lower="0" upper="1" velocity="1" effort="5"/></joint>
</robot>"""


def arm(folder: Path, *, weightless_moves: bool = False) -> Manipulator:
    """Return a manipulator whose model is the above."""
    file = folder / "arm.urdf"
    limit = '<axis xyz="0 0 1"/><limit lower="0" upper="1" velocity="1" effort="5"/>'
    file.write_text(
        ARM.format(mount="prismatic" if weightless_moves else "fixed", axis=limit if weightless_moves else "")
    )
    panda = load_robot("panda")
    assert isinstance(panda, Manipulator)
    finger = replace(panda.gripper[0], name="lift", position_max_m=1.0, velocity_max_m_s=1.0, effort_max_n=5.0)
    joints = (replace(finger, name="mount"), finger) if weightless_moves else (finger,)
    return replace(
        panda, name="arm", model=str(file), inertials={}, mass_kg=3.0, joints=joints, gripper=(), tool_link="hand"
    )


@pytest.mark.parametrize("name", ["turtlebot3_burger", "husky", "crazyflie"])
def test_everything_is_prefixed_by_the_robots_number(name: str):
    made = importable_urdf(load_robot(name), 12)
    tree = ElementTree.fromstring(made.text)
    assert (tree.get("name"), made.name, made.prefix, made.root) == ("r0012", "r0012", "r0012_", "r0012_base_link")
    assert all(e.get("name", "").startswith("r0012_") for e in [*tree.findall("link"), *tree.findall("joint")])


def test_an_arm_loses_its_frames_and_nothing_else():
    pytest.importorskip("pybullet_data", reason="it carries the arm's model")
    panda = load_robot("panda")
    made = importable_urdf(panda, 0)
    tree = ElementTree.fromstring(made.text)
    assert made.root == "r0000_panda_link0"
    masses = [float(mass.get("value", "0")) for mass in tree.iterfind("link/inertial/mass")]
    assert len(masses) == len(tree.findall("link")) and min(masses) > 0.0
    whole, before = read_urdf(made.text, "it").inertial, read_urdf(to_urdf(panda, meshes="none"), "that").inertial
    assert whole.mass_kg == pytest.approx(before.mass_kg)
    np.testing.assert_allclose(whole.centre_m, before.centre_m, atol=1e-12)
    np.testing.assert_allclose(whole.inertia_kg_m2, before.inertia_kg_m2, atol=1e-12)


def test_a_frames_shapes_and_joints_go_to_the_link_that_it_is_fixed_to(tmp_path: Path):
    tree = ElementTree.fromstring(importable_urdf(arm(tmp_path), 0).text)
    assert [link.get("name") for link in tree.findall("link")] == ["r0000_foot", "r0000_hand"]
    shape, joint = tree.find("link[@name='r0000_foot']/collision/origin"), tree.find("joint[@name='r0000_lift']")
    assert shape is not None and joint is not None
    # pitched by 90 degrees, the flange's z is the foot's x
    np.testing.assert_allclose(np.array(shape.attrib["xyz"].split(), dtype=float), (2.0, 0.0, 0.0), atol=1e-12)
    origin, parent = joint.find("origin"), joint.find("parent")
    assert origin is not None and parent is not None and parent.get("link") == "r0000_foot"
    np.testing.assert_allclose(np.array(origin.attrib["xyz"].split(), dtype=float), (3.0, 0.0, 0.0), atol=1e-12)
    turned = rotation_from_rpy(np.array(origin.attrib["rpy"].split(), dtype=float))
    wanted = rotation_from_rpy((0.0, 0.5 * np.pi, 0.0)) @ rotation_from_rpy((0.0, 0.0, 0.5))
    np.testing.assert_allclose(turned, wanted, atol=1e-9)


def test_a_link_that_moves_and_weighs_nothing_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match=r"arm: the link 'r0000_flange'.*weighs nothing.*give it a mass"):
        importable_urdf(arm(tmp_path, weightless_moves=True), 0)


@settings(deadline=None)
@given(st.tuples(*[st.floats(-3.1, 3.1)] * 3))
def test_roll_pitch_yaw_come_back_as_the_same_rotation(rpy: tuple[float, float, float]):
    matrix = rotation_from_rpy(rpy)
    np.testing.assert_allclose(rotation_from_rpy(_rpy(matrix)), matrix, atol=1e-8)


@pytest.mark.parametrize("pitch", [0.5 * np.pi, -0.5 * np.pi])
def test_also_straight_up_and_down(pitch: float):
    matrix = rotation_from_rpy((0.3, pitch, 0.7))
    np.testing.assert_allclose(rotation_from_rpy(_rpy(matrix)), matrix, atol=1e-9)
