"""Whose commands a robot node obeys, with real publishers of other nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import rclpy

from rlstack.interfaces import topics
from rlstack.interfaces.backend import BACKENDS
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.nodes import runtime
from rlstack.nodes.robot import RobotNode
from rlstack.nodes.shutdown import shut_down
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

ROBOT = load_quadrotor("crazyflie")
JOINTS = topics.type_of(topics.ROTOR_COMMAND)


class Commander:
    """A node of its own in the network, with a publisher of commands."""

    def __init__(self, name: str, namespace: str) -> None:
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node(name, namespace=namespace, context=self.context, enable_rosout=False)
        self.publisher = self.node.create_publisher(JOINTS, f"/cf/{topics.ROTOR_COMMAND}", topics.quality("command"))

    def send(self) -> None:
        message = JOINTS(name=list(ROBOT.rotor_names), velocity=[1000.0] * 4)
        message.header.stamp.sec = 1_000_000  # of no earlier episode
        self.publisher.publish(message)

    def close(self) -> None:
        shut_down(self.node)


class Robot:
    """A robot node in this process, and the nodes that command it."""

    def __init__(self, listener: Listener, source: str) -> None:
        self.listener, self.commanders = listener, [Commander("guard", "/cf"), Commander("joystick", "/other")]
        self.node = RobotNode(
            BACKENDS.load("mujoco")(ROBOT, noise_seed=None),
            overrides={"command_source": source},
            context=listener.context,
            namespace="/cf",
        )
        listener.executor.add_node(self.node)
        self.node.start()
        self.warnings: list[str] = []
        self.node.warn = lambda sentence, key="": self.warnings.append(sentence)
        for one in self.commanders:
            listener.until(lambda one=one: one.publisher.get_subscription_count() == 1, "discovery")
        # a publisher's node is told by another message than the publisher itself
        listener.until(lambda: {"guard", "joystick"} <= self.publishing(), "the names of the nodes")

    def publishing(self) -> set[str]:
        return {info.node_name for info in self.node.get_publishers_info_by_topic(f"/cf/{topics.ROTOR_COMMAND}")}

    def figures(self) -> Any:
        return self.node.status()[1]

    def send(self, one: Commander, times: int = 1) -> None:
        for _ in range(times):
            one.send()
            self.listener.spin(0.06)

    def close(self) -> None:
        for one in self.commanders:
            one.close()
        self.node.stop()
        self.listener.executor.remove_node(self.node)
        self.node.destroy_node()


@pytest.fixture
def robot(listener: Listener, request: pytest.FixtureRequest) -> Iterator[Robot]:
    made = Robot(listener, request.param)
    yield made
    made.close()


@pytest.mark.parametrize("robot", ["guard"], indirect=True)
def test_a_robot_obeys_the_guard_alone_and_says_who_else_tried(robot: Robot) -> None:
    guard, joystick = robot.commanders
    robot.send(guard, 3)
    obeyed = robot.figures()["commands"]
    assert obeyed > 0
    robot.send(joystick, 3)
    assert robot.figures()["commands"] == obeyed and robot.figures()["dropped, of others"] >= 3
    assert any("from /other/joystick, and this robot obeys /cf/guard alone" in said for said in robot.warnings)
    assert "/other/joystick" in robot.node.status()[0]
    robot.send(guard)
    assert robot.figures()["commands"] == obeyed + 1


@pytest.mark.parametrize("robot", ["guard"], indirect=True)
def test_of_two_nodes_of_the_guards_name_one_is_obeyed_until_it_is_silent(robot: Robot) -> None:
    guard, second = robot.commanders[0], Commander("guard", "/cf")
    robot.commanders.append(second)
    robot.listener.until(lambda: second.publisher.get_subscription_count() == 1, "discovery")
    robot.send(guard, 3)
    obeyed = robot.figures()["commands"]
    robot.send(second)
    assert robot.figures()["commands"] == obeyed and "two nodes are called /cf/guard" in robot.warnings[-1]
    time.sleep(0.5)  # as if the first had died
    robot.send(second, 2)
    assert robot.figures()["commands"] == obeyed + 2


@pytest.mark.parametrize("robot", [""], indirect=True)
def test_without_a_source_anyone_commands_and_two_are_named(robot: Robot) -> None:
    guard, joystick = robot.commanders
    for _ in range(3):
        robot.send(guard)
        robot.send(joystick)
    assert robot.figures()["commands"] == 6 and robot.figures()["dropped, of others"] == 0
    assert any("come from /cf/guard and /other/joystick" in said for said in robot.warnings)


def test_where_publishers_cannot_be_told_apart_only_a_single_one_is_obeyed(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "why_unknown", lambda node: "another middleware")
    robot = Robot(listener, "guard")
    try:
        robot.send(robot.commanders[0], 2)
        assert robot.figures()["commands"] == 0 and "/cf/guard and /other/joystick publish there" in robot.warnings[-1]
        robot.commanders.pop().close()
        robot.listener.until(lambda: listener.node.count_publishers("/cf/cmd/rotors") == 1, "the other's end")
        robot.send(robot.commanders[0], 2)
        assert robot.figures()["commands"] == 2
    finally:
        robot.close()
