from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.robots import frames, load_robot
from rlstack.robots.frame_tree import FrameTree, Joint, read_frames
from rlstack.robots.sensing import rotation_from_rpy
from rlstack.robots.urdf import to_urdf

ARM = """<?xml version="1.0"?>
<robot name="arm">
  <link name="base_link"/><link name="upper"/><link name="slide"/><link name="finger"/><link name="camera_link"/>
  <joint name="shoulder" type="revolute">
    <parent link="base_link"/><child link="upper"/><origin xyz="0 0 0.5" rpy="0 0 1.5707963267948966"/>
    <axis xyz="0 2 0"/><limit lower="-3" upper="3" velocity="1" effort="1"/>
  </joint>
  <joint name="lift" type="prismatic">
    <parent link="upper"/><child link="slide"/><origin xyz="1 0 0" rpy="0 0 1.5707963267948966"/><axis xyz="1 0 0"/>
    <limit lower="-3" upper="3" velocity="1" effort="1"/>
  </joint>
  <joint name="grip" type="prismatic">
    <parent link="slide"/><child link="finger"/><axis xyz="0 0 1"/><mimic joint="lift" multiplier="-2" offset="0.1"/>
    <limit lower="-3" upper="3" velocity="1" effort="1"/>
  </joint>
  <joint name="eye" type="fixed"><parent link="base_link"/><child link="camera_link"/><origin rpy="0 0.5 0"/></joint>
</robot>"""

angles = st.floats(-3.0, 3.0)


def test_the_tree_is_as_written() -> None:
    tree = read_frames(ARM)
    assert tree.root == "base_link"
    assert [joint.child for joint in tree.fixed] == ["camera_link"]
    assert [joint.child for joint in tree.moving] == ["upper", "slide", "finger"]
    assert sorted(tree.frames) == ["base_link", "camera_link", "finger", "slide", "upper"]
    assert tree.values({"lift": 0.2, "shoulder": 1.0, "other": 3.0}) == pytest.approx(
        {"shoulder": 1.0, "lift": 0.2, "grip": -0.3}
    )


def test_a_sliding_joint_moves_along_its_axis_in_the_turned_frame() -> None:
    _, lift, grip = read_frames(ARM).moving
    position, orientation = lift.pose(0.25)
    np.testing.assert_allclose(position, (1.0, 0.25, 0.0), atol=1e-12)
    np.testing.assert_allclose(orientation, frames.from_yaw(np.pi / 2), atol=1e-12)
    np.testing.assert_allclose(grip.pose(0.1)[0], (0.0, 0.0, 0.1), atol=1e-12)


def test_a_turning_joint_turns_about_its_axis_by_the_right_hand() -> None:
    shoulder = read_frames(ARM).moving[0]
    position, orientation = shoulder.pose(np.pi / 2)
    assert position == (0.0, 0.0, 0.5)
    # about the child's y by a quarter turn x goes to -z; the child's y is the parent's -x
    np.testing.assert_allclose(frames.rotate(orientation, (1.0, 0.0, 0.0)), (0.0, 0.0, -1.0), atol=1e-12)
    np.testing.assert_allclose(frames.rotate(orientation, (0.0, 1.0, 0.0)), (-1.0, 0.0, 0.0), atol=1e-12)


@settings(deadline=None)
@given(st.tuples(angles, angles, angles), st.tuples(angles, angles, angles), st.sampled_from(["x", "y", "z"]), angles)
def test_poses_are_those_of_matrices(rpy: tuple, place: tuple, axis: str, value: float) -> None:
    direction = np.eye(3)["xyz".index(axis)]
    rotation = rotation_from_rpy(rpy)
    x, y, z, w = frames.from_matrix(rotation).tolist()
    turning = Joint("j", "continuous", "a", "b", place, (x, y, z, w), tuple(direction.tolist()))
    sliding = Joint("j", "prismatic", "a", "b", place, (x, y, z, w), tuple(direction.tolist()))
    expected = rotation @ frames.to_matrix(frames.from_rotation_vector(value * direction))
    np.testing.assert_allclose(frames.to_matrix(turning.pose(value)[1]), expected, atol=1e-9)
    np.testing.assert_allclose(sliding.pose(value)[0], np.array(place) + rotation @ (value * direction), atol=1e-9)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(-1.0, 1.0), min_size=9, max_size=9))
def test_an_arms_frames_are_where_mujoco_has_them(values: list[float]) -> None:
    mujoco = pytest.importorskip("mujoco")
    model, tree = mujoco_panda()
    data = mujoco.MjData(model)
    names = [joint.name for joint in tree.moving]
    data.qpos[[model.joint(name).qposadr[0] for name in names]] = values
    mujoco.mj_kinematics(model, data)
    poses = tree.poses(dict(zip(names, values)))
    for joint in tree.moving:  # fixed links become part of those that they are on
        body = data.body(joint.child)
        np.testing.assert_allclose(poses[joint.child][0], body.xpos, atol=1e-6)
        np.testing.assert_allclose(frames.to_matrix(poses[joint.child][1]), body.xmat.reshape(3, 3), atol=1e-6)


@cache
def mujoco_panda() -> tuple[Any, FrameTree]:
    import mujoco

    text = to_urdf(load_robot("panda"), meshes="none")
    return mujoco.MjModel.from_xml_string(text), read_frames(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<robot", "not valid XML"),
        ("<sdf/>", "begins with <sdf>"),
        ("<robot name='r'/>", "it has no links"),
        ("<robot name='r'><link name='a'/><link name='b'/></robot>", "links without a parent (a, b)"),
        (ARM.replace('<child link="upper"/>', '<child link="nowhere"/>'), "'nowhere' is not a link"),
        (ARM.replace('type="revolute"', 'type="floating"'), "'shoulder' is floating"),
        (ARM.replace('xyz="0 2 0"', 'xyz="0 0 0"'), "its axis is zero"),
        (ARM.replace('xyz="0 0 0.5"', 'xyz="0 nan 0.5"'), "3 finite numbers"),
        (ARM.replace('xyz="0 0 0.5"', 'xyz="0 x 0.5"'), "joint 'shoulder': origin xyz: '0 x 0.5' is not allowed"),
        (ARM.replace('<child link="slide"/>', '<child link="upper"/>'), "are not one tree"),
        (ARM.replace('<parent link="base_link"/><child link="upper"/>', '<parent link="finger"/><child link="upper"/>'),
         "form a loop"),
    ],
)  # fmt: skip
def test_what_is_no_tree_is_refused_in_words(text: str, says: str) -> None:
    with pytest.raises(UserError) as refused:
        read_frames(text)
    assert says in str(refused.value)
