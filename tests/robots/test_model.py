"""Reading URDF and MJCF: against MuJoCo's own reader, and what is malformed by name."""

from __future__ import annotations

import math
from pathlib import Path

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.robots.model import read_model, read_urdf

LINK = '<link name="{0}"><inertial><origin xyz="{1}" rpy="{2}"/><mass value="{3}"/>{4}</inertial></link>'
INERTIA = '<inertia ixx="0.3" ixy="0.02" ixz="-0.01" iyy="0.4" iyz="0.03" izz="0.5"/>'
TRIPLES = st.tuples(*[st.floats(-1.5, 1.5)] * 3)


def words(values: tuple[float, ...]) -> str:
    return " ".join(map(repr, values))


def chain(first: tuple, second: tuple, mount: tuple, axis: tuple) -> str:
    return (
        "<robot name='r'>"
        + LINK.format("base_link", words(first), words(second), 2.0, INERTIA)
        + LINK.format("arm", words(second), words(first), 0.7, INERTIA)
        + "<joint name='shoulder' type='revolute'><parent link='base_link'/><child link='arm'/>"
        + f"<origin xyz='{words(mount)}' rpy='{words(first)}'/><axis xyz='{words(axis)}'/>"
        + "<limit lower='-1' upper='2' velocity='3' effort='4'/></joint></robot>"
    )


@settings(deadline=None, max_examples=40)
@given(TRIPLES, TRIPLES, TRIPLES, st.sampled_from([(1.0, 0.0, 0.0), (0.0, 3.0, 0.0), (1.0, -1.0, 0.5)]))
def test_what_is_read_of_a_urdf_is_what_mujoco_makes_of_it(
    first: tuple, second: tuple, mount: tuple, axis: tuple
) -> None:
    text = chain(first, second, mount, axis)
    ours = read_urdf(text, "r")
    option = "<mujoco><compiler fusestatic='false'/></mujoco></robot>"
    model = mujoco.MjModel.from_xml_string(text.replace("</robot>", option))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(ours.inertial.mass_kg, model.body_mass.sum())
    np.testing.assert_allclose(ours.inertial.centre_m, data.subtree_com[0], atol=1e-9)
    np.testing.assert_allclose(ours.poses["arm"][1], data.body("arm").xpos, atol=1e-9)
    np.testing.assert_allclose(ours.poses["arm"][0], data.body("arm").xmat.reshape(3, 3), atol=1e-9)
    (joint,) = ours.moving
    np.testing.assert_allclose(joint.axis, data.xaxis[0], atol=1e-9)
    assert (joint.lower, joint.upper, joint.velocity, joint.effort) == (-1.0, 2.0, 3.0, 4.0)
    # The whole inertia, against a body that MuJoCo fuses out of the two.
    fused = text.replace("revolute", "fixed").replace("<robot name='r'>", "<robot name='r'><link name='world'/>")
    fused = fused.replace(
        "</robot>",
        "<joint name='w' type='floating'><parent link='world'/><child link='base_link'/></joint>"
        "<mujoco><compiler fusestatic='true'/></mujoco></robot>",
    )
    one = mujoco.MjModel.from_xml_string(fused)
    assert one.nbody == 2
    turn = np.empty(9)
    mujoco.mju_quat2Mat(turn, one.body_iquat[1])
    whole = turn.reshape(3, 3) @ np.diag(one.body_inertia[1]) @ turn.reshape(3, 3).T
    np.testing.assert_allclose(ours.inertial.inertia_kg_m2, whole, atol=1e-9)


def test_joints_are_in_depth_first_order_and_types_are_told_apart() -> None:
    def joint(name: str, kind: str, parent: str, child: str, extra: str = "") -> str:
        return f"<joint name='{name}' type='{kind}'><parent link='{parent}'/><child link='{child}'/>{extra}</joint>"

    text = (
        "<robot name='r'>"
        + "".join(f"<link name='{name}'/>" for name in "dcba")
        + joint("second", "continuous", "a", "d", "<limit velocity='0' effort='0'/>")
        + joint("first", "prismatic", "b", "c", "<mimic joint='second'/><limit upper='1'/>")
        + joint("fixed", "fixed", "a", "b")
        + "</robot>"
    )
    model = read_urdf(text, "r")
    # "d" hangs on "a" first in the file.
    assert model.links == ("a", "d", "b", "c") and model.root == "a"
    assert [joint.name for joint in model.joints] == ["second", "fixed", "first"]
    assert [joint.name for joint in model.moving] == ["second"]
    assert model.joints[0].velocity == math.inf  # 0: not known
    assert model.inertial.mass_kg == 0.0


BAD = [
    ("<robot name='r'><link name='a'/>", "not valid XML"),
    ("<mujoco/>", r"not a URDF: it begins with <mujoco>"),
    ("<robot name='r'/>", "has no links"),
    (
        "<robot name='r' xmlns:xacro='http://www.ros.org/wiki/xacro'><xacro:macro/><link name='a'/></robot>",
        "xacro FILE",
    ),
    ("<robot name='r'><link/></robot>", "a <link> has no name"),
    ("<robot name='r'><link name='a'/><link name='a'/></robot>", "two links are called 'a'"),
    ("<robot name='r'><link name='a'/><link name='b'/></robot>", r"not one tree: there are 2 links .*\(a, b\)"),
    ("<robot><link name='a'/><joint name='j' type='fixed'><parent link='a'/></joint></robot>", "'j': its child ''"),
    (
        "<robot><link name='a'/><joint name='j' type='weld'><parent link='a'/><child link='a'/></joint></robot>",
        "joint 'j': type='weld'",
    ),
    (
        "<robot><link name='a'/><link name='b'/><joint name='j' type='revolute'><parent link='a'/><child link='b'/>"
        "</joint></robot>",
        "joint 'j' is revolute and has no limits",
    ),
    (
        "<robot><link name='a'/><link name='b'/><joint name='j' type='continuous'><parent link='a'/><child link='b'/>"
        "<axis xyz='0 0 0'/></joint></robot>",
        "joint 'j': its axis is zero",
    ),
    (
        "<robot><link name='a'/><link name='b'/><link name='c'/>"
        "<joint name='j' type='fixed'><parent link='b'/><child link='c'/></joint>"
        "<joint name='k' type='fixed'><parent link='c'/><child link='b'/></joint></robot>",
        "form a loop: b, c",
    ),
    ("<robot><link name='a'><inertial><mass value='nan'/><inertia/></inertial></link></robot>", "mass: 'nan'"),
    ("<robot><link name='a'><inertial><mass value='-1'/><inertia/></inertial></link></robot>", "must be at least 0"),
    ("<robot><link name='a'><inertial><mass value='1'/></inertial></link></robot>", "needs <mass> and <inertia>"),
    (
        "<robot><link name='a'><inertial><origin xyz='0 0'/><mass value='1'/><inertia/></inertial></link></robot>",
        "origin xyz: '0 0' is not allowed: must be 3 finite numbers",
    ),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_what_is_malformed_is_refused_by_name(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    path.write_text(text)
    with pytest.raises(UserError, match=said) as refused:
        read_model(path)
    assert str(path) in str(refused.value)


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=40), st.integers(0, 600), st.integers(0, 30))
def test_no_text_makes_the_reader_fail_otherwise(put: str, at: int, cut: int) -> None:
    text = chain((0.1, 0.2, 0.3), (0.0, 0.0, 0.0), (0.5, 0.0, 0.0), (0.0, 0.0, 1.0))
    try:
        read_urdf(text[:at] + put + text[at + cut :], "robot.urdf")
    except UserError as error:
        assert "robot.urdf" in str(error)


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Cannot read the model file .*none\.urdf: No such file"):
        read_model(tmp_path / "none.urdf")
    binary = tmp_path / "binary.urdf"
    binary.write_bytes(b"\xff\xfe\x00robot")
    with pytest.raises(UserError, match=r"Cannot read the model file .*binary\.urdf"):
        read_model(binary)
    broken = tmp_path / "broken.xml"
    broken.write_text("<mujoco><worldbody><geom type='teapot'/></worldbody></mujoco>")
    with pytest.raises(UserError, match=r"MuJoCo refuses the model .*broken\.xml"):
        read_model(broken)
    empty = tmp_path / "empty.xml"
    empty.write_text("<mujoco/>")
    with pytest.raises(UserError, match="has no bodies"):
        read_model(empty)
