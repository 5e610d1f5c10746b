"""The Nav2 adapter against a stand-in for Nav2's action server, with messages that rosidl makes here."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap

import pytest

from rlstack.errors import UserError
from rlstack.interfaces import nav2_messages
from rlstack.nodes.nav2 import navigate_to_pose

HERE = importlib.util.find_spec("nav2_msgs") is not None


@pytest.mark.skipif(HERE, reason="this environment has nav2_msgs")
def test_without_nav2s_messages_it_says_what_to_do() -> None:
    with pytest.raises(UserError, match=r"ros-jazzy-nav2-msgs .* `python -m rlstack.interfaces.nav2_messages`"):
        navigate_to_pose()


def test_the_action_is_described_as_in_jazzy() -> None:
    goal, result, feedback = nav2_messages.PACKAGE.text.split("---\n")
    assert goal == "geometry_msgs/PoseStamped pose\nstring behavior_tree\n"
    assert result == "uint16 error_code\nstring error_msg\n"
    assert feedback.splitlines()[-2:] == ["int16 number_of_recoveries", "float32 distance_remaining"]


SCENE = """
import math, threading, time
import rclpy
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from nav2_msgs.action import NavigateToPose
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.nodes.nav2 import Nav2Node
from tests.support.ros import Listener

listener = Listener()
seen = []


class Standin:
    '''Drives nowhere: succeeds, aborts or takes its time as the goal's x says.'''

    def __init__(self):
        self.server = ActionServer(
            listener.node, NavigateToPose, "navigate_to_pose", self.execute, goal_callback=self.judge,
            cancel_callback=lambda goal: CancelResponse.ACCEPT,
        )

    def judge(self, goal):
        seen.append((goal.pose.header.frame_id, goal.pose.pose.position.x, goal.behavior_tree))
        return GoalResponse.REJECT if goal.pose.pose.position.x < 0.0 else GoalResponse.ACCEPT

    def execute(self, goal):
        x = goal.request.pose.pose.position.x
        goal.publish_feedback(NavigateToPose.Feedback(distance_remaining=x, number_of_recoveries=2))
        if x > 5.0:
            goal.abort()
            return NavigateToPose.Result(error_code=208, error_msg="no valid path found")
        goal.succeed()
        return NavigateToPose.Result()


def start(**overrides):
    node = Nav2Node(overrides, context=listener.context)
    listener.executor.add_node(node)
    node.start()
    return node


def status(node):
    return node.status()[1]["status"]


def goal(x, frame="map"):
    message = topics.type_of(topics.GOAL)()
    message.header.frame_id = frame
    message.pose.position.x, message.pose.orientation.w = x, 1.0
    return message


late = start(server_timeout_s=0.3, goal_position=(1.0, 0.0, 0.0))
try:
    listener.until(lambda: False, "nothing", 2.0)
except UserError as error:
    print(error)
late.stop(); listener.executor.remove_node(late); late.destroy_node()

standin = Standin()
node = start(goal_position=(1.5, 2.0, 0.0), behavior_tree="tree.xml")
listener.until(lambda: status(node) == "arrived", "arriving", 20.0)
assert seen[-1] == ("odom", 1.5, "tree.xml"), seen
assert node.status()[1]["recoveries"] == 2 and node.status()[0] == ""
goals = listener.node.create_publisher(topics.type_of(topics.GOAL), topics.GOAL, topics.quality("latched"))
listener.until(lambda: goals.get_subscription_count() == 2, "a node that hears goals")
for x, wanted in ((9.0, "unreachable"), (2.0, "arrived"), (-1.0, "refused")):
    goals.publish(goal(x))
    listener.until(lambda: status(node) == wanted, wanted, 20.0)
    print(node.status()[0] or wanted)
bad = goal(math.nan)
goals.publish(bad)
listener.spin(0.3)
assert status(node) == "refused" and len(seen) == 4 + 0, seen
assert seen[1][0] == "map"
node.stop(); listener.executor.remove_node(node); node.destroy_node()
print("done", flush=True)
import os; os._exit(0)
"""


@pytest.mark.integration
def test_goals_go_through_the_action_and_what_becomes_of_them_is_said(with_nav2_msgs: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCENE)],
        env={**os.environ, "PYTHONPATH": with_nav2_msgs},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "navigate_to_pose did not come within 0.3 s" in lines[0]
    assert lines[1] == "unreachable: no valid path found"
    assert lines[2] == "arrived" and lines[3].startswith("refused: Nav2 does not take the goal")
    assert lines[-1] == "done"
