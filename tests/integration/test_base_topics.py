"""A wheeled base behind policy node and guard, over real topics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from std_srvs.srv import SetBool

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.map_messages import OCCUPIED, UNKNOWN, read_map
from rlstack.interfaces.messages import BatteryMessage
from rlstack.interfaces.tf_messages import TfMessage, Transform
from rlstack.interfaces.tf_type import tf_type
from rlstack.nodes.guard import GuardNode
from rlstack.nodes.map import MapNode
from rlstack.nodes.planner import PlannerNode
from rlstack.nodes.policy import PolicyNode
from rlstack.robots import frames
from tests.support.bases import turtlebot, write_driving_policy, write_exploring_policy
from tests.support.rolling import RollingBase
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

ROBOT = turtlebot()


@pytest.fixture(scope="module")
def driving_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_driving_policy(tmp_path_factory.mktemp("policies") / "drive.onnx", ROBOT)


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
    for node in started:
        node.stop()
        listener.executor.remove_node(node)
        node.destroy_node()


def test_a_policy_drives_a_base_to_its_goal_in_lock_step(
    listener: Listener, start: Start, driving_policy: Path
) -> None:
    base = RollingBase(listener, ROBOT, [(1.0, -1.0, 1.2, -0.3)])
    common = {"robot": ROBOT.name, "lock_step": True}
    guard = start(GuardNode, auto_arm=True, **common)
    start(PolicyNode, policy=str(driving_policy), goal_position=(0.8, 0.5, 0.0), **common)
    listener.until(lambda: base.stamp_ns > 8e9, "8 s of driving")
    assert math.dist(base.pose[:2], (0.8, 0.5)) < 0.1
    assert guard.status()[1]["mode"] == "policy" and guard.status()[1]["interventions"] == 0
    driven = np.array([command[1:] for command in base.commands])
    rate = ROBOT.limits.linear_acceleration_m_s2 * 0.1
    assert np.abs(np.diff(driven[:, 0])).max() <= rate + 1e-9
    stamps = [stamp for stamp, *_ in base.commands]
    assert stamps == sorted(stamps) and len(set(np.diff(sorted(set(stamps))))) == 1


def test_a_goal_in_map_is_reached_where_tf_puts_it_in_odom(
    listener: Listener, start: Start, driving_policy: Path
) -> None:
    base = RollingBase(listener, ROBOT)
    common = {"robot": ROBOT.name, "lock_step": True}
    start(GuardNode, auto_arm=True, **common)
    start(PolicyNode, policy=str(driving_policy), **common)
    fixed = listener.node.create_publisher(tf_type(), topics.TF_STATIC, topics.quality("latched"))
    turned = tuple(frames.from_yaw(math.pi / 2).tolist())
    fixed.publish(TfMessage([Transform("map", "odom", (1.0, 0.0, 0.0, *turned))]).data)
    goals = listener.node.create_publisher(topics.type_of(topics.GOAL), topics.GOAL, topics.quality("latched"))
    goal = base.goal(1.0, 0.6)
    goal.header.frame_id = "map"
    goals.publish(goal)
    listener.until(lambda: math.dist(base.pose[:2], (0.6, 0.0)) < 0.1, "the goal")
    begin = base.stamp_ns
    listener.until(lambda: base.stamp_ns > begin + 2e9, "2 s")
    assert math.dist(base.pose[:2], (0.6, 0.0)) < 0.1


def test_a_real_base_waits_to_be_armed_and_stops_where_the_policy_dies(
    listener: Listener, start: Start, driving_policy: Path
) -> None:
    base = RollingBase(listener, ROBOT, lock_step=False)
    guard = start(GuardNode, robot=ROBOT.name)
    speeds: list[float] = []  # as they go out: of two in a millisecond the robot may hear one
    publish = guard._commands.publish
    guard._commands.publish = lambda message: (speeds.append(message.twist.linear.x), publish(message))
    policy = start(PolicyNode, policy=str(driving_policy))
    goals = listener.node.create_publisher(topics.type_of(topics.GOAL), topics.GOAL, topics.quality("command"))
    listener.until(lambda: goals.get_subscription_count() == 1, "a policy that hears goals")
    goals.publish(base.goal(5.0, 0.0))  # as RViz does, from a writer that does not latch
    listener.until(lambda: policy.status()[1]["steps"] > 3, "steps")
    assert base.pose[0] == 0.0
    battery = listener.node.create_publisher(
        topics.type_of(topics.BATTERY), topics.BATTERY, topics.quality("sensor_out")
    )
    listener.until(lambda: battery.get_subscription_count() == 1, "a guard that hears the battery")
    for charge, answer in ((0.05, "the battery is at 5%, below the critical 10%"), (0.8, "armed")):
        battery.publish(BatteryMessage(topics.type_of(topics.BATTERY)()).fill(base.stamp_ns, 11.0, -1.0, charge))
        listener.until(lambda charge=charge: f"{charge:.0%}" in guard.status()[1].get("battery", ""), "the battery")
        response = listener.call(SetBool, topics.ARM, SetBool.Request(data=True))
        assert response.success == (answer == "armed") and answer in response.message
    listener.until(lambda: base.twist[0] > 0.2, "driving")
    policy.stop()
    listener.until(lambda: not base.twist.any(), "a stop")
    assert guard.status()[1]["mode"] == "stop"
    assert "the policy is late" in guard.status()[0]
    assert max(speeds) > 0.2 and max(a - b for a, b in pairwise(speeds)) <= 0.1 + 1e-9


def test_a_base_brakes_for_what_steps_in_its_way_and_stops_where_odometry_jumps(
    listener: Listener, start: Start, driving_policy: Path
) -> None:
    base = RollingBase(listener, ROBOT, lock_step=True)
    common = {"robot": ROBOT.name, "lock_step": True}
    guard = start(GuardNode, auto_arm=True, policy_timeout_s=0.3, **common)
    start(PolicyNode, policy=str(driving_policy), goal_position=(9.0, 0.0, 0.0), **common)
    listener.until(lambda: base.twist[0] > 0.21, "driving")
    wall = base.pose[0] + 0.45
    base.boxes = [(wall, -3.0, wall + 0.1, 3.0)]
    listener.until(lambda: base.twist[0] < 1e-3, "braking")
    assert wall - base.pose[0] > 0.038  # its front
    base.boxes = []
    listener.until(lambda: base.twist[0] > 0.15, "driving on")
    base.jump(1.0)
    listener.until(lambda: guard.status()[1]["mode"] == "disarmed", "the end")
    assert "odometry jumped by 1.0" in guard.status()[1]["reason"]
    assert not base.twist.any()


WALLS = [(0.5, -0.3, 0.6, 0.3), (-1.5, -2.0, 3.0, -1.9), (-1.5, 1.9, 3.0, 2.0)]


def test_a_planner_drives_round_a_wall_and_says_that_it_has_arrived_and_the_map_shows_the_wall(
    listener: Listener, start: Start
) -> None:
    base = RollingBase(listener, ROBOT, WALLS)
    maps = listener.hear(topics.MAP, "latched")
    common = {"robot": ROBOT.name, "lock_step": True}
    start(MapNode, robot=ROBOT.name, rate_hz=10.0)
    guard = start(GuardNode, auto_arm=True, **common)
    options = '{"grid": {"cells": 120}}'
    planner = start(PlannerNode, goal_position=(1.0, 0.1, 0.0), options=options, **common)
    listener.until(lambda: planner.status()[1]["status"] == "arrived", "arriving")
    assert math.dist(base.pose[:2], (1.0, 0.1)) < 0.15
    assert guard.status()[1]["interventions"] == 0
    assert all(not (0.45 < x < 0.65 and abs(y) < 0.33) for x, y, _ in base.poses), "it went through the wall"
    listener.until(lambda: maps, "a map")
    occupancy = read_map(maps[-1])

    def state(x: float, y: float) -> int:
        column, row = np.floor((np.array([x, y]) - occupancy.origin_m) / occupancy.resolution_m).astype(int)
        return int(occupancy.cells[row, column])

    listener.until(lambda: read_map(maps[-1]).frame == topics.MAP_FRAME, "the frame map")
    assert OCCUPIED in (state(0.48, 0.0), state(0.52, 0.0))
    assert state(0.2, 0.0) == 0 and state(2.0, 2.6) == UNKNOWN


def test_a_goal_that_no_way_leads_to_is_said_to_be_unreachable_in_time(listener: Listener, start: Start) -> None:
    around = [(0.8, -0.9, 0.9, 0.9), (1.9, -0.9, 2.0, 0.9), (0.8, -0.9, 2.0, -0.8), (0.8, 0.8, 2.0, 0.9)]
    base = RollingBase(listener, ROBOT, [*WALLS[1:], *around, (-1.6, -2.0, -1.5, 2.0), (3.0, -2.0, 3.1, 2.0)])
    common = {"robot": ROBOT.name, "lock_step": True}
    start(GuardNode, auto_arm=True, **common)
    options = '{"grid": {"cells": 120}, "goal": {"unreachable_s": 1.0, "patience_s": 10.0}}'
    planner = start(PlannerNode, goal_position=(1.4, 0.0, 0.0), options=options, **common)
    listener.until(lambda: planner.status()[1]["status"] in ("unreachable", "stuck"), "giving up")
    assert 1e-9 * base.stamp_ns < 120.0
    assert "no path to the goal" in planner.status()[0] or "no nearer" in planner.status()[0]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"planner": "astar"}, "Unknown planner 'astar'.*Nearest: astar_dwa"),
        ({"options": "{"}, "is not JSON"),
        ({"options": '{"goal": {"tolerance": 1}}'}, "tolerance_m"),
        ({"robot": "crazyflie"}, "wheeled base"),
    ],
)
def test_planners_that_cannot_be_are_refused(start: Start, given: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        start(PlannerNode, **{"robot": ROBOT.name, **given})


def test_a_driver_of_plain_twists_gets_them(listener: Listener, start: Start, driving_policy: Path) -> None:
    base = RollingBase(listener, ROBOT, lock_step=False, plain=True)
    start(GuardNode, robot=ROBOT.name, auto_arm=True, cmd_vel_type="Twist")
    start(PolicyNode, policy=str(driving_policy), goal_position=(5.0, 0.0, 0.0))
    listener.until(lambda: base.pose[0] > 0.05, "driving")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cmd_vel_type": "Twist", "lock_step": True}, "cmd_vel_type: Twist is not allowed in lock step"),
        ({"fallback": "dwaa"}, "Unknown fallback 'dwaa'.*Nearest: dwa"),
        ({"linear_velocity_m_s": 2.0}, "wider than robot"),
        ({"robot": "turtlebot"}, "Unknown robot 'turtlebot'.*turtlebot3_burger"),
    ],
)
def test_settings_that_make_no_sense_are_refused(start: Start, given: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        start(GuardNode, **{"robot": ROBOT.name, **given})


def test_a_policy_that_names_waypoints_is_no_driver(start: Start, tmp_path: Path) -> None:
    policy = write_exploring_policy(tmp_path / "p.onnx", ROBOT)
    with pytest.raises(UserError, match=f"rlstack up deploy --robot {ROBOT.name} --policy {policy}"):
        start(PolicyNode, policy=str(policy))
