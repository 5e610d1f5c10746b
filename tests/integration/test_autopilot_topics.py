"""Autopilots over real topics: their drivers behind the guard, flown by a controller that commands rates and thrust."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from std_srvs.srv import SetBool, Trigger

from rlstack.interfaces import topics
from rlstack.interfaces.backend import Announcing, Reading
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.interfaces.rates_messages import RatesMessage
from rlstack.nodes.guard import GuardNode
from rlstack.nodes.policy import PolicyNode
from rlstack.nodes.robot import RobotNode
from rlstack.policies import load_policy
from tests.support.checkout import ROOT
from tests.support.peers.crazyflie import CrazyfliePeer
from tests.support.peers.mavlink import AUTO_LAND, Px4
from tests.support.rates_pilot import rates_to
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

GOAL = (0.4, -0.3, 1.2)
PATIENT = {"staleness_periods": 100.0, "observation_timeout_s": 2.0}  # all of it runs in one process
Start = Callable[..., Any]


@pytest.fixture
def start(listener: Listener) -> Iterator[Start]:
    """Return a function that starts a node in this process."""
    started: list[Any] = []

    def begin(kind: Any, **overrides: Any) -> Any:
        node = kind(overrides=overrides, context=listener.context)
        listener.executor.add_node(node)
        started.append(node)
        node.start()
        return node

    yield begin
    for node in reversed(started):
        node.stop()
        listener.executor.remove_node(node)
        node.destroy_node()


class Pilot:
    """Answers each odometry with the rates and the thrust that lead to :data:`GOAL`."""

    def __init__(self, listener: Listener) -> None:
        topic = topics.POLICY_PREFIX + topics.RATES_COMMAND
        self._publisher = listener.node.create_publisher(topics.type_of(topic), topic, topics.quality("command"))
        self._message = RatesMessage()
        self.at = np.full(3, np.inf)
        self.late_s: list[float] = []
        listener.node.create_subscription(
            topics.type_of(topics.ODOM), topics.ODOM, self.answer, topics.quality("sensor_in")
        )

    def answer(self, odometry: Any) -> None:
        pose, twist = odometry.pose.pose, odometry.twist.twist
        self.at = np.array([pose.position.x, pose.position.y, pose.position.z])
        stamp = stamp_to_ns(odometry.header.stamp)
        self.late_s.append(time.time() - stamp / 1e9)
        signals = {
            "position": self.at,
            "orientation": np.array([getattr(pose.orientation, axis) for axis in "xyzw"]),
            "linear_velocity": np.array([getattr(twist.linear, axis) for axis in "xyz"]),
        }
        self._publisher.publish(self._message.fill(stamp, rates_to(Reading(0.0, signals), GOAL)["rates_thrust"]))


class Hand:
    """Publishes commands that answer observations of a given age.

    Args:
        listener: Whose node publishes.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener, self._message = listener, RatesMessage()
        kind = topics.type_of(topics.RATES_COMMAND)
        quality = topics.quality("command")
        self._publisher = listener.node.create_publisher(kind, topics.RATES_COMMAND, quality)

    def fly(self, until: Callable[[], object]) -> None:
        """Hover, a command every 10 ms."""
        for _ in range(1000):
            self._publisher.publish(self._message.fill(time.time_ns(), np.array([0.0, 0.0, 0.0, 9.81])))
            self._listener.spin(0.01)
            if until():
                return
        raise AssertionError("it does not fly")

    def off(self, age_s: float) -> None:
        """Tell "off" in answer to an observation of this age."""
        self._publisher.publish(self._message.fill_off(time.time_ns() - int(1e9 * age_s)))
        self._listener.spin(0.3)


def test_in_the_air_silence_and_a_blind_off_leave_it_to_its_failsafe_and_an_off_that_sees_stops_it(
    listener: Listener, start: Start
) -> None:
    """The autopilot lands it; a guard that has died, or a link that was lost for a moment, is no reason to fall."""
    pytest.importorskip("pymavlink")
    with Px4() as peer:
        node = start(RobotNode, robot=peer.robot.name, backend="mavlink", uri=peer.uri, command_timeout_periods=100.0)
        hand = Hand(listener)
        listener.until(lambda: node.robots[0].reading is not None, "observations", 20.0)
        peer.airframe.position[2] = 3.0
        hand.fly(until=lambda: peer.armed and node.status()[1]["flying"])
        peer.airframe.position[2], peer.airframe.velocity = 3.0, [0.0, 0.0, 0.0]
        hand.off(age_s=0.5)
        assert peer.armed and not node.status()[1]["flying"] and "left to the failsafe of PX4" in node.status()[0]
        hand.fly(until=lambda: node.status()[1]["flying"])
        peer.airframe.position[2], peer.airframe.velocity = 3.0, [0.0, 0.0, 0.0]
        listener.until(lambda: not node.status()[1]["flying"], "silence")
        assert peer.armed
        listener.until(lambda: peer.mode == AUTO_LAND, "its failsafe")
        assert peer.armed and peer.airframe.position[2] > 0.5
        hand.off(age_s=0.0)
        listener.until(lambda: not peer.armed, "the stop")


def test_an_emergency_stop_counts_although_nothing_is_seen(listener: Listener, start: Start) -> None:
    """As where the estimate is lost in flight and the link is not; a node that ends then leaves it to its failsafe."""
    pytest.importorskip("pymavlink")
    with Px4() as peer:
        robot = peer.robot.name
        node = start(RobotNode, robot=robot, backend="mavlink", uri=peer.uri, command_timeout_periods=100.0)
        guard = start(GuardNode, robot=robot)
        hand = Hand(listener)
        listener.until(lambda: guard.guard.in_a_row > 5, "observations", 20.0)
        peer.airframe.position[2] = 3.0
        hand.fly(until=lambda: peer.armed and node.status()[1]["flying"])
        peer.lost = True
        listener.spin(0.3)
        peer.airframe.position[2], peer.airframe.velocity = 3.0, [0.0, 0.0, 0.0]
        hand.off(age_s=0.5)
        assert peer.armed and "left to the failsafe" in node.status()[0]
        node.robots[0].end()
        listener.spin(0.2)
        assert peer.armed, "its failsafe is not cut off"
        assert listener.call(Trigger, topics.ESTOP, Trigger.Request()).success
        listener.until(lambda: not peer.armed, "the stop", 3.0)
        assert not peer.airframe.on_ground


def test_each_measurement_is_published_once_as_it_comes_and_none_without_one(listener: Listener, start: Start) -> None:
    pytest.importorskip("pymavlink")
    with Px4() as peer:
        node = start(RobotNode, robot=peer.robot.name, backend="mavlink", uri=peer.uri)
        heard = listener.hear(topics.ODOM, "sensor_in")
        listener.until(lambda: len(heard) > 30, "odometry", 20.0)
        stamps = [stamp_to_ns(message.header.stamp) for message in heard]
        assert stamps == sorted(set(stamps)), "none twice"
        peer.lose_link()
        listener.spin(0.2)
        count = len(heard)
        listener.spin(0.3)
        assert len(heard) == count, "an old measurement is not published again"
        assert isinstance(node.robots[0].backend, Announcing)


def test_a_robot_node_that_ends_in_flight_leaves_it_to_its_failsafe(listener: Listener, start: Start) -> None:
    pytest.importorskip("pymavlink")
    with Px4() as peer:
        node = start(RobotNode, robot=peer.robot.name, backend="mavlink", uri=peer.uri, command_timeout_periods=100.0)
        listener.until(lambda: node.robots[0].reading is not None, "observations", 20.0)
        peer.airframe.position[2] = 3.0
        Hand(listener).fly(until=lambda: peer.armed and node.status()[1]["flying"])
        peer.airframe.position[2], peer.airframe.velocity = 3.0, [0.0, 0.0, 0.0]
        node.stop()
        assert peer.armed and not peer.airframe.on_ground


@pytest.mark.parametrize(("backend", "kind"), [("mavlink", Px4), ("crazyflie", CrazyfliePeer)])
def test_it_takes_off_flies_to_a_goal_and_stops_in_an_emergency(
    listener: Listener, start: Start, backend: str, kind: Any
) -> None:
    if backend == "mavlink":
        pytest.importorskip("pymavlink")
    with kind() as peer:
        robot = peer.robot.name
        start(RobotNode, robot=robot, backend=backend, uri=peer.uri, command_timeout_periods=100.0)
        guard = start(GuardNode, robot=robot, **PATIENT)
        pilot = Pilot(listener)
        listener.until(lambda: guard.guard.in_a_row > 20, "observations", 20.0)
        assert not peer.powered
        answer = listener.call(SetBool, topics.ARM, SetBool.Request(data=True))
        assert answer.success, answer.message
        listener.until(lambda: str(guard.guard.mode) == "policy", "the flight", 30.0)
        listener.until(lambda: np.linalg.norm(pilot.at - GOAL) < 0.1, "the goal", 30.0)
        listener.spin(0.5)
        assert np.linalg.norm(np.array(peer.airframe.position) - GOAL) < 0.15
        assert str(guard.guard.mode) == "policy"
        assert 0.0 < sorted(pilot.late_s)[len(pilot.late_s) // 2] < 0.1, "stamps are of this machine's clock"
        assert listener.call(Trigger, topics.ESTOP, Trigger.Request()).success
        listener.until(lambda: not peer.powered, "the stop", 5.0)


@pytest.mark.parametrize(("backend", "kind"), [("mavlink", Px4), ("crazyflie", CrazyfliePeer)])
def test_the_released_policy_of_a_racer_flies_each_autopilot(
    listener: Listener, start: Start, backend: str, kind: Any
) -> None:
    """It commands rates and thrust per mass, so it flies an X500 of 2 kg and a Crazyflie, too."""
    if backend == "mavlink":
        pytest.importorskip("pymavlink")
    policy = load_policy(ROOT / "policies" / "quadrotor_rates" / "policy.onnx")
    with kind() as peer:
        robot = peer.robot.name
        start(RobotNode, robot=robot, backend=backend, uri=peer.uri, command_timeout_periods=100.0)
        guard = start(GuardNode, robot=robot, **PATIENT)
        start(lambda **given: PolicyNode(policy, **given), goal_position=GOAL)
        listener.until(lambda: guard.guard.in_a_row > 20, "observations", 20.0)
        answer = listener.call(SetBool, topics.ARM, SetBool.Request(data=True))
        assert answer.success, answer.message
        listener.until(lambda: str(guard.guard.mode) == "policy", "the flight", 30.0)

        def away() -> float:
            return float(np.linalg.norm(np.array(peer.airframe.position) - GOAL))

        listener.until(lambda: away() < 0.1, "the goal", 30.0)
        listener.spin(1.0)
        assert away() < 0.15 and str(guard.guard.mode) == "policy"
