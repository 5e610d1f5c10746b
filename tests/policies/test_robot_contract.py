from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack import schema
from rlstack.errors import UserError
from rlstack.interfaces.image_reader import image_geometry
from rlstack.interfaces.instruction import TextInput
from rlstack.interfaces.signals import COMMANDED, SENSED, camera_of
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.policies import Contract, StatePort, contract_for, load_policy
from rlstack.policies.robot_contract import check_contract, check_robot
from rlstack.robots import Camera, load_robot
from tests.policies.graphs import crazyflie, gru_contract, gru_model, mlp_contract, mlp_model, put, sealed


def refused(folder: Path, contract: Contract | dict[str, Any], robot: Quadrotor | None = None) -> str:
    """The hash is right: only the contract is wrong."""
    with pytest.raises(UserError) as caught:
        load_policy(put(folder, sealed(mlp_model(), contract)), robot=robot)
    return str(caught.value)


def with_input(index: int, **changes: Any) -> Contract:
    contract = mlp_contract()
    ports = list(contract.inputs)
    ports[index] = replace(ports[index], **changes)
    return replace(contract, inputs=tuple(ports))


def with_output(**changes: Any) -> Contract:
    contract = mlp_contract()
    return replace(contract, outputs=(replace(contract.outputs[0], **changes),))


def test_contract_for_quotes_the_catalogue_and_the_robot() -> None:
    robot = crazyflie()
    theirs = [name for name, s in SENSED.items() if not {"rays", "joints"} & {*s.shape} and not camera_of(s)]
    text, fields = TextInput(words=("hover",)), {"name": "all", "task": "t", "state": {"h": (2, 3)}}
    contract = contract_for(robot, theirs, ["rotor_speed"], rate_hz=50.0, text=text, **fields)
    assert len(contract.inputs) > 15
    for port in contract.inputs:
        signal = SENSED[port.name]
        assert (port.unit, port.frame, port.topic, port.type, port.field) == (
            signal.unit,
            signal.frame,
            signal.topic,
            signal.type,
            signal.field,
        )
        assert port.shape == tuple(4 if size == "rotors" else size for size in signal.shape)
        assert port.minimum == port.maximum == ()
    (output,) = contract.outputs
    assert output.element_names == robot.rotor_names == ("m1", "m2", "m3", "m4")
    assert output.minimum == (0.0,) * 4 and output.maximum == (robot.rotor_model.speed_max_rad_s,) * 4
    assert contract.state == (StatePort(name="h", shape=(2, 3)),)
    assert contract.robot == "crazyflie" and contract.rate_hz == 50.0
    assert mlp_contract().rate_hz == robot.control_rate_hz


def base(**changes: Any) -> WheeledBase:
    robot = load_robot("turtlebot3_burger")
    assert isinstance(robot, WheeledBase)
    return replace(robot, **changes)


def base_contract(robot: WheeledBase | None = None) -> Contract:
    return contract_for(robot or base(), ["scan", "position", "people_position"], ["twist"], name="b", task="t")


def test_contract_for_a_base_has_its_scan_its_joints_and_its_limits() -> None:
    robot = base()
    lidar, limits = robot.lidars["scan"], robot.limits
    theirs = [name for name, signal in SENSED.items() if "rotors" not in signal.shape and not camera_of(signal)]
    contract = contract_for(robot, theirs, ["twist"], name="all", task="t")
    ports = {port.name: port for port in contract.inputs}
    assert ports["joint_velocity"].element_names == ("wheel_left_joint", "wheel_right_joint")
    assert ports["people_position"].shape == ("people", 3) and ports["people_position"].dynamic == ("people",)
    scan = ports["scan"].scan
    assert scan is not None and ports["scan"].shape == (scan.rays,) == (lidar.rays,)
    np.testing.assert_allclose(scan.angles_rad, lidar.angles_rad)
    assert (scan.range_min_m, scan.range_max_m) == (lidar.range_min_m, lidar.range_max_m)
    assert scan.position_m == lidar.position_m and scan.frames[0] == "scan_link"
    assert [port.name for port in contract.inputs if port.scan is not None] == ["scan"]
    (twist,) = contract.outputs
    assert (twist.topic, twist.type) == ("cmd_vel", "geometry_msgs/msg/TwistStamped")
    assert twist.maximum == (limits.linear_velocity_m_s, limits.angular_velocity_rad_s)
    assert twist.minimum == tuple(-x for x in twist.maximum)
    assert schema.load(Contract, schema.to_data(contract), "there and back") == contract


def test_a_robot_has_no_more_than_its_file_says() -> None:
    with pytest.raises(UserError, match="'crazyflie' has no lidar called scan"):
        contract_for(crazyflie(), ["scan"], ["rotor_speed"], name="a", task="t")
    with pytest.raises(UserError, match="'turtlebot3_burger' has no rotors, so it has no 'measured_rotor_speed'"):
        contract_for(base(), ["measured_rotor_speed"], ["twist"], name="a", task="t")
    for command in ("rotor_speed", "planar_twist"):
        with pytest.raises(UserError, match=f"no limits for the command '{command}'|has no rotors"):
            contract_for(base(), ["scan"], [command], name="a", task="t")


def test_a_policy_for_another_lidar_is_refused_with_both_numbers() -> None:
    contract, robot = base_contract(), base()
    check_robot(contract, robot, "policy.onnx")
    lidar = robot.lidars["scan"]
    finer = replace(lidar, rays=720)
    check_robot(contract, base(lidars={"scan": finer}), "policy.onnx")  # what is finer has all that is wanted
    for changed, said in (
        (replace(lidar, rays=90), r"90 rays .* cannot be resampled to 360 rays.*4 degrees apart"),
        (replace(lidar, angle_min_rad=-1.0, angle_max_rad=1.0), "nothing was measured at"),
        (replace(lidar, position_m=(0.1, 0.0, 0.172)), r"position_m \[0.1, 0.0, 0.172\], not \[-0.032"),
        (replace(lidar, rpy_rad=(0.0, 0.0, 3.1)), "rpy_rad"),
    ):
        with pytest.raises(UserError, match=said):
            check_robot(contract, base(lidars={"scan": changed}), "policy.onnx")
    with pytest.raises(UserError, match="no lidar called scan"):
        check_robot(contract, base(lidars={}), "policy.onnx")


def test_a_scan_must_say_which_rays_it_has(tmp_path: Path) -> None:
    contract = base_contract()
    scan = contract.inputs[0].scan
    assert scan is not None
    for changes in ({"scan": None}, {"scan": replace(scan, rays=300)}, {"shape": (300,)}):
        wrong = replace(contract, inputs=(replace(contract.inputs[0], **changes), *contract.inputs[1:]))
        assert "the input 'scan' has the shape [3" in refused(tmp_path, wrong)
    beside = replace(contract.inputs[1], scan=scan)
    assert "the input 'position' has the shape [3] and a scan of 360 rays" in refused(
        tmp_path, replace(contract, inputs=(contract.inputs[0], beside))
    )


def test_contract_for_unknown_signal_lists_the_nearest() -> None:
    with pytest.raises(UserError, match="Nearest: position"):
        contract_for(crazyflie(), ["positon"], ["rotor_speed"], name="a", task="t")
    with pytest.raises(UserError, match=r"no topic takes it\) 'rotor_sped'"):
        contract_for(crazyflie(), ["position"], ["rotor_sped"], name="a", task="t")


def test_input_that_no_topic_gives(tmp_path: Path) -> None:
    message = refused(tmp_path, with_input(0, name="smell"))
    assert "no topic gives the input 'smell'" in message and "Train and export" in message


def test_output_that_no_topic_takes(tmp_path: Path) -> None:
    assert "no topic takes the output 'song'" in refused(tmp_path, with_output(name="song"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("unit", "mm"),
        ("frame", "base_link"),
        ("topic", "odometry"),
        ("type", "geometry_msgs/msg/Pose"),
        ("field", "pose.position"),
        ("shape", (4,)),
        ("shape", ()),
    ],
)
def test_input_that_differs_from_the_catalogue(tmp_path: Path, key: str, value: Any) -> None:
    message = refused(tmp_path, with_input(0, **{key: value}))
    assert f"the input 'position' has the {key}" in message and "this rlstack's has" in message


def test_output_that_differs_from_the_catalogue(tmp_path: Path) -> None:
    message = refused(tmp_path, with_output(unit="rpm"))
    assert "the output 'rotor_speed' has the unit 'rpm', but this rlstack's has 'rad/s'" in message


@pytest.mark.parametrize("shape", [(0,), (-3,), (2**40,)])
def test_absurd_shape(tmp_path: Path, shape: tuple[int, ...]) -> None:
    assert "must be at least 1 and their product at most" in refused(tmp_path, with_input(0, shape=shape))


def test_absurd_state_shape(tmp_path: Path) -> None:
    contract = replace(mlp_contract(), state=(StatePort(name="h", shape=(2**40,)),))
    assert "the state 'h' has the shape" in refused(tmp_path, contract)


def test_element_names_must_fit(tmp_path: Path) -> None:
    assert "has 4 elements but 3 element names" in refused(tmp_path, with_output(element_names=("m1", "m2", "m3")))
    assert "names an element twice" in refused(tmp_path, with_output(element_names=("m1", "m1", "m3", "m4")))


def test_range_must_be_there_and_in_order(tmp_path: Path) -> None:
    assert "0 minimum and 0 maximum values" in refused(tmp_path, with_output(minimum=(), maximum=()))
    assert "is not below its maximum" in refused(tmp_path, with_output(minimum=(0.0, 0.0, 0.0, 2272.6)))


def test_names_must_be_distinct_and_not_look_like_states(tmp_path: Path) -> None:
    twice = replace(mlp_contract(), inputs=mlp_contract().inputs + mlp_contract().inputs[:1])
    assert "the input name 'position' is not allowed" in refused(tmp_path, twice)
    assert "the input name 'state.x' is not allowed" in refused(tmp_path, with_input(0, name="state.x"))
    state = (StatePort(name="", shape=(1,)),)
    assert "the state name '' is not allowed" in refused(tmp_path, replace(mlp_contract(), state=state))


def test_no_name_is_sensed_and_commanded() -> None:
    assert not SENSED.keys() & COMMANDED.keys(), "an ONNX graph cannot have an input and an output of one name"


@pytest.mark.parametrize("key", ["inputs", "outputs"])
def test_no_ports(tmp_path: Path, key: str) -> None:
    assert f"the contract has no {key}" in refused(tmp_path, {**schema.to_data(mlp_contract()), key: []})


def test_the_right_robot_is_taken(tmp_path: Path) -> None:
    assert (
        load_policy(put(tmp_path, sealed(gru_model(), gru_contract())), robot=crazyflie()).contract.robot == "crazyflie"
    )


def test_wrong_robot(tmp_path: Path) -> None:
    message = refused(tmp_path, mlp_contract(), replace(crazyflie(), name="falcon"))
    assert (
        "is a policy for the robot 'crazyflie', not for 'falcon'" in message and "Choose --robot crazyflie" in message
    )


def test_another_order_of_rotors(tmp_path: Path) -> None:
    robot = crazyflie()
    message = refused(tmp_path, mlp_contract(), replace(robot, rotors=robot.rotors[::-1]))
    assert "is for the rotors m1, m2, m3, m4 in this order, but crazyflie has m4, m3, m2, m1" in message


def test_another_order_of_sensed_rotors(tmp_path: Path) -> None:
    robot = crazyflie()
    contract = contract_for(robot, ["measured_rotor_speed"], ["rotor_speed"], name="a", task="t")
    port = replace(contract.inputs[0], element_names=("m1", "m2", "m4", "m3"))
    with pytest.raises(
        UserError, match="the input 'measured_rotor_speed' is for the rotors m1, m2, m4, m3 in this order"
    ):
        check_robot(replace(contract, inputs=(port,)), robot, "policy.onnx")


@pytest.mark.parametrize(
    "limits", [{"speed_max_rad_s": 2200.0}, {"speed_min_rad_s": 100.0}, {"speed_max_rad_s": 2272.5999}], ids=str
)
def test_commands_beyond_the_robots_limits(tmp_path: Path, limits: dict[str, float]) -> None:
    robot = crazyflie()
    message = refused(tmp_path, mlp_contract(), replace(robot, rotor_model=replace(robot.rotor_model, **limits)))
    assert "beyond the limits of crazyflie" in message


IMAGE_CAMERAS = ("joint_position", "wrist_image", "wrist_image_age", "scene_image")


def test_a_contract_says_what_a_policy_sees_and_of_which_camera() -> None:
    robot = load_robot("panda")
    place = {"position_m": (1.25, 0.0, 0.75), "horizontal_fov_rad": 1.3}
    wide = replace(robot, cameras={**robot.cameras, "scene": Camera(width=640, height=480, rate_hz=30.0, **place)})
    cut = image_geometry(wide.cameras["scene"], "scene", width=96, height=96, fit="crop", max_age_s=0.4)
    pictures = {"scene": cut}
    contract = contract_for(wide, IMAGE_CAMERAS, ["joint_target"], name="p", task="t", rate_hz=20.0, pictures=pictures)
    wrist, age, scene = contract.inputs[1:]
    assert wrist.shape == (84, 84, 3) and wrist.picture is not None and wrist.picture.link == "panda_hand"
    assert wrist.topic == age.topic == "wrist/image_raw" and age.shape == (1,) and age.picture is None
    assert scene.shape == (96, 96, 3) and scene.picture == cut and scene.frame == "scene_optical_frame"
    check_contract(contract, "p.onnx")
    check_robot(contract, wide, "p.onnx")
    with pytest.raises(UserError, match="'scene_image' is not what panda sees: an image of 84 x 84 pixels is not 96"):
        check_robot(contract, robot, "p.onnx")


def test_a_policy_for_a_camera_that_the_robot_does_not_have_is_refused_by_name() -> None:
    robot = load_robot("panda")
    contract = contract_for(robot, IMAGE_CAMERAS, ["joint_target"], name="p", task="t")
    one = {"scene": robot.cameras["scene"]}
    with pytest.raises(UserError, match="'wrist_image' is of a camera called 'wrist', which panda does not have: its"):
        check_robot(contract, replace(robot, cameras=one), "p.onnx")
    with pytest.raises(UserError, match="'wrist', which panda does not have: it has no cameras"):
        check_robot(contract, replace(robot, cameras={}), "p.onnx")
    with pytest.raises(UserError, match="'so100' has no camera called wrist with colours, so it has no 'wrist_image'"):
        contract_for(load_robot("so100"), IMAGE_CAMERAS, ["joint_target"], name="p", task="t")


def test_a_contract_that_contradicts_itself_about_pictures_is_refused() -> None:
    contract = contract_for(load_robot("panda"), IMAGE_CAMERAS, ["joint_target"], name="p", task="t")
    first, wrist, age, scene = contract.inputs
    for inputs, said in (
        ((age, scene), "'wrist_image_age' is how old a picture is that the policy does not take"),
        ((replace(wrist, picture=None),), r"has the shape \[84, 84, 3\] and no picture"),
        ((replace(wrist, shape=(96, 84, 3)),), r"\[96, 84, 3\] and an image of 84 x 84 pixels"),
        ((wrist, replace(age, picture=wrist.picture)), "'wrist_image_age' has the shape"),
    ):
        with pytest.raises(UserError, match=said):
            check_contract(replace(contract, inputs=(first, *inputs)), "p.onnx")


def test_a_policy_that_follows_instructions_says_which_words_it_knows() -> None:
    robot, names = load_robot("panda"), ("joint_position", "instruction")
    text = TextInput(words=("push", "red"), examples=("push red",))
    contract = contract_for(robot, names, ["joint_target"], text=text, name="p", task="t")
    check_contract(contract, "p.onnx")
    joints, told = contract.inputs
    assert told.text == text and told.shape == (128,) and joints.text is None
    assert schema.load(Contract, schema.to_data(contract), "contract") == contract
    for inputs, said in (
        ((joints, replace(told, text=None)), "'instruction' has no list of words that the policy knows"),
        ((replace(joints, text=text), told), "'joint_position' has a list of words"),
    ):
        with pytest.raises(UserError, match=said):
            check_contract(replace(contract, inputs=inputs), "p.onnx")
