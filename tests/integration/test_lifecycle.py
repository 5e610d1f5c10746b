"""The lifecycle of every node: released and configured again, and what an error leaves."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

rclpy = pytest.importorskip("rclpy")

from lifecycle_msgs.msg import State, Transition  # noqa: E402
from lifecycle_msgs.srv import ChangeState, GetState  # noqa: E402
from rclpy.lifecycle import TransitionCallbackReturn  # noqa: E402

from rlstack.nodes.executor import ControlExecutor  # noqa: E402
from rlstack.nodes.runtime import ManagedNode, prepare_environment  # noqa: E402
from rlstack.nodes.shutdown import shut_down  # noqa: E402
from rlstack.policies import find_policy  # noqa: E402
from tests.support.checkout import ROOT  # noqa: E402
from tests.support.ros import Listener, NodeProcess, nodes  # noqa: E402

pytestmark = pytest.mark.integration

NODES: dict[str, dict[str, Any]] = {
    "robot": {"world": "room:3", "robot": "turtlebot3_burger"},
    "policy": {"policy": str(find_policy("quadrotor_hover")), "goal_position": (0.0, 0.0, 1.0)},
    "guard": {"auto_arm": True},
    "planner": {"goal_position": (1.0, 0.0, 0.0)},
    "nav2": {},
    "map": {},
    "people": {},
    "odometry": {"source": "flow"},
    "train": {"out": "OUT"},
    "perception": {},
    "teleop": {"device": "joy"},
    "teleop_arm": {},
    "record": {"out": "OUT"},
}


def node_class(name: str) -> type[ManagedNode]:
    """Return the class of the node's module."""
    found = [c for c in vars(importlib.import_module(f"rlstack.nodes.{name}")).values() if isinstance(c, type)]
    return next(c for c in found if issubclass(c, ManagedNode) and getattr(c, "NAME", "") == name)


@pytest.fixture
def context(_ros_environment: None) -> Iterator[Any]:
    prepare_environment()
    made = rclpy.Context()
    rclpy.init(context=made)
    yield made


def held(node: Any) -> dict[str, list[str]]:
    """Return what a node has on the graph, and its timers."""
    return {
        "publishers": sorted(entity.topic_name for entity in node.publishers),
        "subscriptions": sorted(entity.topic_name for entity in node.subscriptions),
        "services": sorted(entity.srv_name for entity in node.services),
        "clients": sorted(entity.srv_name for entity in node.clients),
        "timers": ["" for _ in node.timers],
    }


@pytest.mark.parametrize("name", list(NODES))
def test_a_node_that_is_cleaned_up_holds_nothing_and_starts_again(name: str, context: Any, tmp_path: Path) -> None:
    overrides = {key: str(tmp_path / "out") if value == "OUT" else value for key, value in NODES[name].items()}
    made = node_class(name)(overrides={**overrides, "autostart": False}, context=context)
    try:
        unconfigured, seen = held(made), []
        for _ in range(2):
            for trigger in (made.trigger_configure, made.trigger_activate):
                done = trigger() == TransitionCallbackReturn.SUCCESS
                if isinstance(getattr(made.failure, "__cause__", None), ImportError):
                    pytest.skip(str(made.failure))
                assert done, made.failure
            seen.append(held(made))
            assert made.active and seen[-1] != unconfigured
            for trigger in (made.trigger_deactivate, made.trigger_cleanup):
                assert trigger() == TransitionCallbackReturn.SUCCESS, made.failure
            assert not made.active and held(made) == unconfigured
        assert seen[0] == seen[1]
        assert made.trigger_shutdown() == TransitionCallbackReturn.SUCCESS
    finally:
        made.stop()
        shut_down(made)


BROKEN = """
import sys
from std_srvs.srv import Trigger
from rlstack.nodes import robot

class Broken(robot.RobotNode):
    def configure(self):
        super().configure()
        self.server(Trigger, "break", self._break)

    def _break(self, request, response):
        raise ZeroDivisionError("the driver has a bug")

    def deactivate(self):
        super().deactivate()
        print("disarmed", flush=True)

sys.exit(Broken.main())
"""


@pytest.mark.parametrize("autostart", [False, True])
def test_an_error_in_a_callback_stops_a_node_safely(
    autostart: bool, listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from std_srvs.srv import Trigger

    (tmp_path / "broken_robot.py").write_text(BROKEN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with nodes(NodeProcess("robot", module="broken_robot", autostart=autostart)) as processes:
        process = processes["robot"]

        def change(number: int) -> bool:
            request = ChangeState.Request(transition=Transition(id=number))
            return bool(listener.call(ChangeState, "/robot/change_state", request).success)

        if not autostart:
            assert change(Transition.TRANSITION_CONFIGURE) and change(Transition.TRANSITION_ACTIVATE)
        client = listener.node.create_client(Trigger, "/break")
        listener.until(client.service_is_ready, "the node")
        client.call_async(Trigger.Request())
        if autostart:
            assert process.wait() == 1
        else:
            state = State.PRIMARY_STATE_UNCONFIGURED
            listener.until(
                lambda: listener.call(GetState, "/robot/get_state", GetState.Request()).current_state.id == state,
                "error processing",
            )
            assert change(Transition.TRANSITION_CONFIGURE) and change(Transition.TRANSITION_ACTIVATE)
            assert change(Transition.TRANSITION_DEACTIVATE)
        said = process.output
        assert "the driver has a bug" in said and "disarmed" in said.splitlines()
        assert "the node is unconfigured" in said


def test_diagnostics_are_named_so_that_an_aggregator_groups_them_by_robot(context: Any) -> None:
    from diagnostic_msgs.msg import DiagnosticArray

    rules = yaml.safe_load((ROOT / "config" / "diagnostics.yaml").read_text())["/**"]["ros__parameters"]
    assert rules["crazyflie"]["type"] == "diagnostic_aggregator/GenericAnalyzer"
    made = node_class("map")(overrides={"autostart": False}, context=context, namespace="/crazyflie")
    hearing = rclpy.create_node("aggregator", context=context)
    heard: list[Any] = []
    hearing.create_subscription(DiagnosticArray, "/diagnostics", heard.append, 10)
    executor = ControlExecutor(context=context)
    executor.add_node(made)
    executor.add_node(hearing)
    end = time.monotonic() + 20.0
    executor.spin_while(lambda: not heard and time.monotonic() < end)
    (status,) = heard[0].status
    assert status.name == "crazyflie/map" and status.hardware_id == "crazyflie"
    assert status.name.startswith(tuple(rules["crazyflie"]["startswith"]))
    executor.shutdown()
    shut_down(made, hearing)
