"""What the robot and the guard node make of commands, services and parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from std_srvs.srv import SetBool, Trigger

from rlstack.interfaces import topics
from rlstack.interfaces.backend import BACKENDS
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.nodes.robot import RESET_JUMP_NS, RobotNode
from tests.support.ros import Listener, NodeProcess, heights, nodes

pytestmark = pytest.mark.integration

ROBOT = load_quadrotor("crazyflie")
JOINTS = topics.type_of(topics.ROTOR_COMMAND)


def command(stamp: Any, names: list[str], speeds: list[float]) -> Any:
    message = JOINTS(name=names, velocity=speeds)
    message.header.stamp = stamp
    return message


class Hosted:
    """A robot node in this process, in lock step, and a commander beside it."""

    def __init__(self, listener: Listener, **overrides: Any) -> None:
        self.listener = listener
        self.steps: list[tuple[Any, Any]] = []
        self.backend = BACKENDS.load("mujoco")(ROBOT, noise_seed=None)
        self.node = RobotNode(
            self.backend,
            lambda reading, sent: self.steps.append((reading, sent)),
            {"lock_step": True, **overrides},
            context=listener.context,
        )
        self.odometry = listener.hear(topics.ODOM, depth=100)
        self.sender = listener.node.create_publisher(JOINTS, topics.ROTOR_COMMAND, topics.quality("command"))
        listener.executor.add_node(self.node)
        self.node.start()
        listener.until(lambda: self.odometry and self.sender.get_subscription_count(), "the first observation")

    def answer(self, names: list[str], speeds: list[float]) -> None:
        """Answer the last observation."""
        self.sender.publish(command(self.odometry[-1].header.stamp, names, speeds))

    def close(self) -> None:
        self.node.stop()
        self.listener.executor.remove_node(self.node)
        self.node.destroy_node()


@pytest.fixture
def hosted(listener: Listener) -> Iterator[Hosted]:
    made = Hosted(listener)
    yield made
    made.close()


def test_rotors_named_in_another_order_still_go_to_the_right_ones(hosted: Hosted) -> None:
    speed = {"m1": 100.0, "m2": 200.0, "m3": 300.0, "m4": 400.0}
    for names in (["m1", "m2", "m3", "m4"], ["m3", "m1", "m4", "m2"], ["m4", "m3", "m2", "m1"]):
        before = len(hosted.steps)
        hosted.answer(names, [speed[name] for name in names])
        hosted.listener.until(lambda before=before: len(hosted.steps) > before, "a step")
        assert hosted.steps[-1][1]["rotor_speed"].tolist() == [100.0, 200.0, 300.0, 400.0]


def test_each_command_makes_one_control_period(hosted: Hosted) -> None:
    for _ in range(5):
        before, heard = len(hosted.steps), len({m.header.stamp.nanosec for m in hosted.odometry})
        hosted.answer(list(ROBOT.rotor_names), [1000.0] * 4)
        hosted.listener.until(
            lambda heard=heard: len({m.header.stamp.nanosec for m in hosted.odometry}) > heard, "an observation"
        )
        assert len(hosted.steps) == before + 1
    times = [reading.time_s for reading, _ in hosted.steps]
    np.testing.assert_allclose(np.diff(times), 1.0 / ROBOT.control_rate_hz, atol=1e-12)


@pytest.mark.parametrize(
    "names, speeds, words",
    [
        (["m1", "m2", "m3", "m4"], [1.0, 2.0, math.nan, 4.0], "finite"),
        (["m1", "m2", "m3", "m4"], [1.0, 2.0, math.inf, 4.0], "finite"),
        (["m1", "m2", "m3"], [1.0, 2.0, 3.0], "missing: m4"),
        (["m1", "m2", "m3", "x4"], [1.0, 2.0, 3.0, 4.0], "unknown: x4"),
    ],
)
def test_a_command_that_makes_no_sense_is_refused_and_counted(
    hosted: Hosted, names: list[str], speeds: list[float], words: str
) -> None:
    hosted.answer(names, speeds)
    hosted.listener.until(lambda: hosted.node.status()[1]["refused"] == 1, "the refusal")
    assert words in hosted.node.status()[1]["last refusal"]
    assert not hosted.steps and hosted.node.status()[1]["commands"] == 0


def test_a_command_that_answers_an_earlier_observation_makes_no_step(hosted: Hosted) -> None:
    stamp = hosted.odometry[-1].header.stamp
    hosted.answer(list(ROBOT.rotor_names), [1000.0] * 4)
    hosted.listener.until(lambda: hosted.steps, "a step")
    hosted.sender.publish(command(stamp, list(ROBOT.rotor_names), [0.0] * 4))
    hosted.listener.until(lambda: hosted.node.status()[1]["not answering the last observation"], "the count")
    assert len(hosted.steps) == 1


def test_a_command_without_rotors_switches_them_off(hosted: Hosted) -> None:
    hosted.backend.reset({"position": np.array([0.0, 0.0, 1.0]), "rotor_speed": np.full(4, 1500.0)})
    hosted.node.publish_now()
    hosted.listener.spin(0.2)
    hosted.answer([], [])
    hosted.listener.until(lambda: hosted.steps, "a step")
    reading, sent = hosted.steps[-1]
    assert sent == {} and max(reading.signals["measured_rotor_speed"]) < 1500.0
    assert not hosted.node.status()[1]["flying"]


def test_a_reset_from_python_shows_at_once_on_a_time_that_jumped(hosted: Hosted) -> None:
    before = hosted.odometry[-1].header.stamp
    hosted.backend.reset({"position": np.array([0.5, 0.0, 2.0])})
    hosted.node.publish_now()
    hosted.listener.until(lambda: heights(hosted.odometry)[-1] == 2.0, "the new state")
    after = hosted.odometry[-1].header.stamp
    assert (after.sec - before.sec) * 10**9 + after.nanosec - before.nanosec == RESET_JUMP_NS


def test_the_hook_may_start_another_flight(listener: Listener) -> None:
    hosted = Hosted(listener)

    def reset(reading: Any, sent: Any) -> None:
        hosted.backend.reset({"position": np.array([0.0, 0.0, 3.0])})
        hosted.node.publish_now()

    hosted.node.on_step = reset
    hosted.answer(list(ROBOT.rotor_names), [1000.0] * 4)
    listener.until(lambda: heights(hosted.odometry)[-1] == 3.0, "the new flight")
    listener.spin(0.2)
    assert {round(z, 3) for z in heights(hosted.odometry)} == {round(heights(hosted.odometry)[0], 3), 3.0}
    hosted.close()


@pytest.fixture
def flying(hover_policy: Path, listener: Listener) -> Iterator[dict[str, NodeProcess]]:
    with nodes(
        NodeProcess("robot", start_height_m=1.0, lock_step=True),
        NodeProcess("guard", lock_step=True),
        NodeProcess("policy", policy=hover_policy, goal_position="[0.0, 0.0, 1.0]", lock_step=True),
    ) as processes:
        yield processes


def test_arming_stopping_resetting_and_a_bad_parameter(flying: dict[str, NodeProcess], listener: Listener) -> None:
    odometry, modes = listener.hear(topics.ODOM), listener.hear(topics.GUARD_MODE, "latched", depth=10)
    reasons = listener.hear(topics.GUARD_REASON, "latched", depth=10)
    listener.until(lambda: odometry and modes, "the start")

    for _ in range(20):  # the guard may hear the robot later than this listener
        armed = listener.call(SetBool, topics.ARM, SetBool.Request(data=True))
        if armed.success:
            break
        # or it fell to the floor while unarmed: put it back
        assert listener.call(Trigger, topics.RESET, Trigger.Request()).success
        listener.spin(0.5)
    assert armed.success, armed.message
    listener.until(lambda: modes[-1].data == "policy", "the policy's flight")

    request = SetParameters.Request()
    request.parameters = [_parameter("stale_after_periods", -3.0), _parameter("robot", 1.0), _parameter("policy", 1.0)]
    out_of_range, read_only, no_text = listener.call(SetParameters, "policy/set_parameters", request).results
    assert not out_of_range.successful and "range" in out_of_range.reason
    assert not read_only.successful and "read-only" in read_only.reason
    assert not no_text.successful and "must be text" in no_text.reason
    seen = odometry[-1].header.stamp.sec
    listener.until(lambda: odometry[-1].header.stamp.sec > seen + 1, "a flight that goes on")
    listener.until(lambda: modes[-1].data == "policy", "the policy's flight, late or not")

    goal = ParameterValue(type=ParameterType.PARAMETER_DOUBLE_ARRAY, double_array_value=[0.4, 0.0, 1.0])
    elsewhere = SetParameters.Request(parameters=[Parameter(name="goal_position", value=goal)])
    assert listener.call(SetParameters, "policy/set_parameters", elsewhere).results[0].successful
    listener.until(lambda: odometry[-1].pose.pose.position.x > 0.3, "the flight to the new goal")

    assert listener.call(Trigger, topics.ESTOP, Trigger.Request()).success
    listener.until(lambda: modes[-1].data == "estop", "the emergency stop")
    listener.until(lambda: reasons[-1].data == "requested", "its reason")
    refused = listener.call(SetBool, topics.ARM, SetBool.Request(data=True))
    assert not refused.success and "emergency stop" in refused.message
    listener.until(lambda: heights(odometry)[-1] < 0.1, "the fall")
    assert listener.call(Trigger, topics.CLEAR_ESTOP, Trigger.Request()).success
    listener.until(lambda: modes[-1].data == "disarmed", "clearing")

    assert listener.call(Trigger, topics.RESET, Trigger.Request()).success
    listener.until(lambda: heights(odometry)[-1] > 0.2, "the reset")


def _parameter(name: str, value: float) -> Any:
    return Parameter(name=name, value=ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=value))
