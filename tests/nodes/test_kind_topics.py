"""What the robot node makes of commands and joints, by kind of robot."""

from __future__ import annotations

import numpy as np
import pytest
from rclpy.serialization import serialize_message

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.messages import RotorMessage
from rlstack.interfaces.rates_messages import RatesMessage
from rlstack.interfaces.trajectory_messages import TrajectoryMessage
from rlstack.interfaces.twist_messages import TwistMessage
from rlstack.nodes.kind_topics import kind_topics
from rlstack.robots import load_robot
from rlstack.sim.backends.mujoco import MujocoBackend
from tests.support.robots import under_an_autopilot

STAMPED = {"cmd_vel_type": "TwistStamped"}


def test_a_twist_is_read_and_a_zero_one_needs_no_other_soon() -> None:
    robot = load_robot("turtlebot3_burger")
    kind = kind_topics(robot)(robot, STAMPED)  # type: ignore[arg-type]
    assert (kind.command_topic, kind.timeout_s) == ("cmd_vel", 0.5)
    for twist, moves in (([0.1, 0.0], True), ([0.0, -0.2], True), ([0.0, 0.0], False)):
        stamp, command = kind.read(serialize_message(TwistMessage().fill(7, np.array(twist))))
        assert stamp == 7 and command["twist"].tolist() == twist and kind.moves(command) is moves
    plain = kind_topics(robot)(robot, {"cmd_vel_type": "Twist"})  # type: ignore[arg-type]
    stamp, command = plain.read(serialize_message(TwistMessage(plain=True).fill(7, np.array([0.1, 0.2]))))
    assert stamp is None and command["twist"].tolist() == [0.1, 0.2]


def test_a_base_shows_its_wheels_and_a_quadrotor_its_rotors() -> None:
    robot = load_robot("husky")
    backend = MujocoBackend(robot)
    backend.connect()
    try:
        backend.write({"twist": np.array([0.5, 0.0])})
        backend.step(1.0)
        sensed = backend.read().signals
    finally:
        backend.close()
    kind = kind_topics(robot)(robot, STAMPED)  # type: ignore[arg-type]
    assert list(kind.joints(sensed)) == [joint.name for joint in robot.drives] and not kind.speeds(sensed)
    signal, fill = kind.joint_states()
    message = fill(3, sensed)
    assert signal in backend.sensed and list(message.name) == [joint.name for joint in robot.drives]
    assert list(message.position) == sensed["joint_position"].tolist() == list(kind.joints(sensed).values())
    assert min(message.velocity) > 2.0

    flyer = load_robot("crazyflie")
    flying = kind_topics(flyer)(flyer, STAMPED)  # type: ignore[arg-type]
    turning = {"measured_rotor_speed": np.arange(4.0)}
    assert flying.speeds(turning) == {"m1": 0.0, "m2": 1.0, "m3": 2.0, "m4": 3.0} and not flying.joints(turning)
    off = RotorMessage(topics.type_of(topics.ROTOR_COMMAND)(), ("m1", "m2", "m3", "m4")).fill_off(5)
    assert flying.read(serialize_message(off)) == (5, {})


def test_an_arm_takes_targets_by_name_and_shows_its_joints() -> None:
    robot = load_robot("panda")
    names = tuple(joint.name for joint in robot.drives)
    given = {"cmd_joints_type": "JointTrajectory", "cmd_joints_timeout_s": 2.5}
    kind = kind_topics(robot)(robot, given)  # type: ignore[arg-type]
    assert (kind.observed, kind.command_topic, kind.timeout_s) == ("joint_states", "cmd/joints", 2.5)
    target = np.arange(float(len(names)))
    message = TrajectoryMessage(names[::-1]).fill(7, target[::-1])
    stamp, command = kind.read(serialize_message(message))
    assert stamp == 7 and command["joint_target"].tolist() == target.tolist() and kind.moves(command)
    assert kind.read(serialize_message(TrajectoryMessage(names).fill_off(5))) == (5, {})
    signal, fill = kind.joint_states()
    shown = fill(3, {"joint_position": target, "joint_velocity": 2.0 * target})
    assert signal == "joint_position" and tuple(shown.name) == names and list(shown.velocity) == (2.0 * target).tolist()
    assert kind.joints({"joint_position": target}) == dict(zip(names, target)) and not kind.speeds({})
    backend = MujocoBackend(robot)
    assert kind.start_state(backend, 0.0) is None
    with pytest.raises(UserError, match=r"start_height_m: 1\.0 is not allowed for panda, which does not fly"):
        kind.start_state(backend, 1.0)
    plain = kind_topics(robot)(robot, {**given, "cmd_joints_type": "Float64MultiArray"})  # type: ignore[arg-type]
    stamp, command = plain.read(serialize_message(TrajectoryMessage(names, plain=True).fill(7, target)))
    assert stamp is None and command["joint_target"].tolist() == target.tolist()


def test_a_quadrotor_under_an_autopilot_takes_rates_and_thrust_instead() -> None:
    robot = under_an_autopilot()
    kind = kind_topics(robot)(robot, {})  # type: ignore[arg-type]
    message = RatesMessage()
    assert kind.command_topic == "cmd/rates" and kind.command_type is type(message.message)
    stamp, command = kind.read(serialize_message(message.fill(7, np.array([0.1, 0.2, 0.3, 9.0]))))
    assert stamp == 7 and command["rates_thrust"].tolist() == [0.1, 0.2, 0.3, 9.0]
    assert kind.read(serialize_message(message.fill_off(5))) == (5, {})


def test_motors_of_a_simulated_quadrotor_weaken_and_recover_and_a_real_ones_are_its_own() -> None:
    robot = load_robot("crazyflie")
    kind, backend = kind_topics(robot)(robot, STAMPED), MujocoBackend(robot)  # type: ignore[arg-type]
    backend.connect()
    turns = []
    for factors in ((0.8, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 1.0)):
        backend.reset(kind.start_state(backend, 1.0))
        assert kind.change(backend, {"rotor_thrust": factors}) == ""
        backend.step(0.05)
        turns.append(np.abs(backend.read().signals["angular_velocity"]).max() > 0.5)
    backend.close()
    assert turns == [True, False]
    assert kind.change(object(), {"rotor_thrust": factors, "other": 1}) == ""  # type: ignore[arg-type]
    assert "a real robot's motors" in kind.change(object(), {"rotor_thrust": (0.8, 1.0, 1.0, 1.0)})  # type: ignore[arg-type]
