"""A model that is not the robot of its file is refused: by part, with both numbers and the tolerance."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator, ManipulatorLimits
from rlstack.robots import RobotSpec, load_robot, robot_names
from rlstack.robots.joints import PrismaticJoint, RevoluteJoint
from rlstack.robots.kind_models import check_file, check_model, checked_model
from rlstack.robots.mjcf import mujoco_spec, to_mjcf
from rlstack.robots.model import read_urdf
from rlstack.robots.model_check import Tolerance
from rlstack.robots.urdf import to_urdf
from tests.support.robots import car, crazyflie

ARM = """<robot name="arm">
  <link name="stand"><inertial><mass value="2"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
  <link name="upper"><inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
  <link name="slide"><inertial><mass value="0.5"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
  <link name="tool"/>
  <joint name="shoulder" type="revolute"><parent link="stand"/><child link="upper"/><origin xyz="0 0 0.2"/>
    <axis xyz="0 0 1"/><limit lower="-1" upper="1" velocity="2" effort="10"/></joint>
  <joint name="extend" type="prismatic"><parent link="upper"/><child link="slide"/><axis xyz="1 0 0"/>
    <limit lower="0" upper="0.3" velocity="0.5" effort="20"/></joint>
  <joint name="flange" type="fixed"><parent link="slide"/><child link="tool"/></joint>
</robot>"""

ARM_MJCF = """<mujoco><compiler angle="degree"/><worldbody><body name="stand">
  <inertial mass="2" pos="0 0 0" diaginertia="0.1 0.1 0.1"/>
  <body name="upper" pos="0 0 0.2"><joint name="shoulder" axis="0 0 1" range="-57.3 57.3" actuatorfrcrange="-10 10"/>
    <inertial mass="1" pos="0 0 0" diaginertia="0.1 0.1 0.1"/>
    <body name="slide"><joint name="extend" type="slide" axis="1 0 0" range="0 0.3" actuatorfrcrange="-20 20"/>
      <inertial mass="0.5" pos="0 0 0" diaginertia="0.1 0.1 0.1"/><body name="tool"/></body></body></body></worldbody>
  <actuator><motor joint="shoulder"/></actuator></mujoco>"""


def arm(path: Path, **changes: Any) -> Manipulator:
    """Return a made-up arm with its model at ``path``."""
    robot = Manipulator(
        name="arm",
        kind="manipulator",
        description="made up for tests",
        control_rate_hz=50.0,
        sensors={},
        model=str(path),
        mass_kg=3.5,
        mass_tolerance=0.02,
        joints=(
            RevoluteJoint(
                name="shoulder",
                position_min_rad=-0.9,
                position_max_rad=0.8,
                velocity_max_rad_s=1.5,
                effort_max_n_m=9.0,
                stiffness_n_m_per_rad=50.0,
                damping_n_m_s_per_rad=5.0,
                rest_rad=0.3,
            ),
            PrismaticJoint(
                name="extend",
                position_min_m=0.0,
                position_max_m=0.3,
                velocity_max_m_s=0.5,
                effort_max_n=20.0,
                stiffness_n_per_m=500.0,
                damping_n_s_per_m=50.0,
            ),
        ),
        tool_link="tool",
        limits=ManipulatorLimits(workspace_min_m=(-1, -1, 0), workspace_max_m=(1, 1, 1), tool_velocity_m_s=1.0),
    )
    return replace(robot, **changes)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    return path


@pytest.mark.parametrize("robot", [*map(load_robot, robot_names("quadrotor")), car()], ids=lambda r: r.name)
def test_what_is_generated_is_accepted(robot: RobotSpec, tmp_path: Path) -> None:
    for name, text in (("robot.urdf", to_urdf(robot)), ("robot.xml", to_mjcf(robot))):
        path = tmp_path / name
        path.write_text(text)
        check_file(robot, path)


def test_a_base_footprint_below_base_link_changes_nothing(tmp_path: Path) -> None:
    robot = load_robot("turtlebot3_burger")
    foot = (
        '<link name="base_footprint"/><joint name="base_joint" type="fixed"><parent link="base_footprint"/>'
        '<child link="base_link"/><origin xyz="0 0 0.01" rpy="0 0 0.5"/></joint></robot>'
    )
    check_model(robot, read_urdf(to_urdf(robot).replace("</robot>", foot), "robot"))


def test_the_panda_of_pybullet_data_is_the_panda() -> None:
    pytest.importorskip("pybullet_data")
    model = checked_model(load_robot("panda"))
    assert model is not None and model.root == "panda_link0"
    assert checked_model(crazyflie()) is None


def test_an_arm_that_was_saved_as_mjcf_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    pytest.importorskip("pybullet_data")
    monkeypatch.chdir(tmp_path)
    Path("panda.xml").write_text(to_mjcf(load_robot("panda")))
    check_file(load_robot("panda"), "panda.xml")
    assert [path.name for path in tmp_path.iterdir()] == ["panda.xml"]  # MuJoCo wrote no log
    assert not [warning for warning in recwarn if "prefix" in str(warning.message)]


SPOILT: list[tuple[str, Callable[[str], str], str]] = [
    (
        "mass",
        lambda t: t.replace('mass value="1"', 'mass value="1.1"'),
        r"mass is 3.6 kg, .* 3.5 kg \(2 % is allowed\)",
    ),
    (
        "joint missing",
        lambda t: t.replace("shoulder", "elbow"),
        r"no joint 'shoulder', .* it has: elbow, extend, flange",
    ),
    ("type", lambda t: t.replace("prismatic", "revolute"), "its joint 'extend' is revolute, .* is prismatic"),
    ("upper", lambda t: t.replace('upper="1"', 'upper="0.5"'), "upper limit of its joint 'shoulder' is 0.5, .*it: 0.8"),
    ("lower", lambda t: t.replace('lower="-1"', 'lower="-0.5"'), "lower limit of its joint 'shoulder' is -0.5.*: -0.9"),
    (
        "speed",
        lambda t: t.replace('velocity="2"', 'velocity="1"'),
        "velocity limit of its joint 'shoulder' is 1.*: 1.5",
    ),
    ("effort", lambda t: t.replace('effort="10"', 'effort="5"'), "effort limit of its joint 'shoulder' is 5, .*: 9"),
    ("extra", lambda t: t.replace('"flange" type="fixed"', '"flange" type="continuous"'), "'flange' that moves"),
    ("tool", lambda t: t.replace('"tool"', '"hand"'), "no link 'tool', which is the tool_link of arm"),
    ("cut off", lambda t: t[:-20], "not valid XML"),
]


@pytest.mark.parametrize(("spoil", "said"), [s[1:] for s in SPOILT], ids=[s[0] for s in SPOILT])
def test_a_model_that_is_not_the_files_is_refused_before_anything_starts(
    spoil: Callable[[str], str], said: str, model: Path
) -> None:
    robot = arm(model)
    checked_model(robot)
    model.write_text(spoil(ARM))
    for start in (checked_model, to_urdf, mujoco_spec):
        with pytest.raises(UserError, match=said) as refused:
            start(robot)  # type: ignore[operator]
        assert str(model) in str(refused.value)


def test_the_order_of_joints_must_be_the_files(model: Path) -> None:
    robot = arm(model)
    turned = replace(robot, joints=robot.joints[::-1])
    with pytest.raises(
        UserError, match="in the order shoulder, extend, and the robot file of arm in the order extend, "
    ):
        checked_model(turned)


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("none.urdf", r"The model of arm is not there: none\.urdf is not a file"),
        (
            "package:no_such_package/arm.urdf",
            r"Python package 'no_such_package' is not installed: `pip install no_such",
        ),
        ("package:rlstack/arm.urdf", r"The model of arm is not there: .*rlstack/arm\.urdf is not a file"),
        ("package://no_such_ros_package/arm.urdf", "no ROS package 'no_such_ros_package' is found"),
    ],
)
def test_a_model_that_is_not_there_is_refused_by_name(reference: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        checked_model(replace(arm(tmp_path), model=reference))


def test_pybullet_datas_models_say_which_package_brings_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pybullet_data", None)
    with pytest.raises(UserError, match=r"'pybullet_data' is not installed: `pip install pybullet`"):
        checked_model(load_robot("panda"))


def test_a_ros_packages_model_and_meshes_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ament_index_python")
    (tmp_path / "share/ament_index/resource_index/packages").mkdir(parents=True)
    (tmp_path / "share/ament_index/resource_index/packages/arm_description").touch()
    folder = tmp_path / "share/arm_description"
    (folder / "meshes").mkdir(parents=True)
    (folder / "meshes/upper.stl").write_bytes(b"solid")
    mesh = '<visual><geometry><mesh filename="package://arm_description/meshes/upper.stl"/></geometry></visual>'
    (folder / "arm.urdf").write_text(ARM.replace('<link name="upper">', f'<link name="upper">{mesh}'))
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    robot = arm(tmp_path, model="package://arm_description/arm.urdf")
    assert checked_model(robot) is not None
    assert f'filename="{folder}/meshes/upper.stl"' in to_urdf(robot)
    (folder / "meshes/upper.stl").unlink()
    with pytest.raises(
        UserError, match=r"arm\.urdf: the mesh package://arm_description/meshes/upper\.stl is not found"
    ):
        to_urdf(robot)


def test_quadrotors_and_bases_are_held_against_models_too(tmp_path: Path) -> None:
    text = to_urdf(crazyflie())

    def refused(change: str, into: str, robot: RobotSpec | None = None, source: str = text) -> str:
        assert change in source
        with pytest.raises(UserError) as error:
            check_model(robot or crazyflie(), read_urdf(source.replace(change, into), "cf.urdf"))
        return str(error.value)

    assert "its joint 'm1' is at (0.038, -0.028, 0) m" in refused('xyz="0.028 -0.028 0.0"', 'xyz="0.038 -0.028 0.0"')
    assert "no joint 'm3'" in refused('"m3"', '"motor3"')
    heavy = replace(crazyflie(), body=replace(crazyflie().body, mass_kg=0.03))
    with pytest.raises(UserError, match=r"mass is 0.027 kg, and the robot file's 0.03 kg \(1 % is allowed\)"):
        check_model(heavy, read_urdf(text, "cf.urdf"))
    check_model(heavy, read_urdf(text, "cf.urdf"), Tolerance(mass=0.11))
    flat = replace(crazyflie(), body=replace(crazyflie().body, inertia_kg_m2=(3.0e-6, 3.85e-6, 5.9675e-6)))
    with pytest.raises(UserError, match=r"its inertia .*\(3.85e-06, 3.85e-06.*5 % of the largest is allowed"):
        check_model(flat, read_urdf(text, "cf.urdf"))
    # A wheel that turns about -y would drive backwards.
    base = to_urdf(car())
    assert "turns about (0, -1, 0)" in refused('axis xyz="0.0 1.0 0.0"', 'axis xyz="0 -1 0"', car(), base)
    assert "its centre of mass is at" in refused(
        'origin xyz="0.15 0.01 0.04"', 'origin xyz="0.15 0.02 0.04"', car(), base
    )


def test_an_mjcf_is_as_good_a_model_and_gets_the_files_drives(tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    path.write_text(ARM_MJCF)
    robot = arm(path)
    model = checked_model(robot)
    assert model is not None and [joint.name for joint in model.moving] == ["shoulder", "extend"]
    made = mujoco_spec(robot).compile()
    np.testing.assert_allclose(made.joint("shoulder").range, [-0.9, 0.8], rtol=1e-9)
    np.testing.assert_allclose(made.joint("extend").range, [0.0, 0.3])
    assert [made.actuator(i).name for i in range(made.nu)] == ["shoulder", "extend"]
    assert made.body("base_link").id > 0 and made.body("tool").id > 0
    data = mujoco.MjData(made)
    data.ctrl[:] = [0.5, 0.2]
    mujoco.mj_step(made, data, 3000)
    np.testing.assert_allclose(data.qpos, [0.5, 0.2], atol=1e-3)
    with pytest.raises(UserError, match=r"is an MJCF, .*: there is no URDF of it"):
        to_urdf(robot)
    path.write_text(ARM_MJCF.replace('mass="1"', 'mass="1.5"'))
    with pytest.raises(UserError, match=r"its mass is 4 kg, and the robot file's 3.5 kg"):
        mujoco_spec(robot)
