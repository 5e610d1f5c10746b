"""``NavigateToPose`` of a deployed policy: feedback, result, refusal, preemption and cancellation."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SCENE = """
import os, sys
from action_msgs.msg import GoalStatus
from nav2_msgs.action import NavigateToPose
from rclpy.action import ActionClient
from std_srvs.srv import SetBool
from rlstack.interfaces.messages import pose_message
from tests.support.ros import Listener, NodeProcess, nodes

listener = Listener()
listener.executor.general_period_s = 0.05
client = ActionClient(listener.node, NavigateToPose, "navigate_to_pose")
heard = []


def send(x, y, z):
    goal = NavigateToPose.Goal(pose=pose_message([x, y, z]))
    sent = client.send_goal_async(goal, feedback_callback=lambda message: heard.append(message.feedback))
    listener.until(sent.done, "an answer")
    assert sent.result().accepted
    return sent.result()


def result(handle):
    found = handle.get_result_async()
    listener.until(found.done, "a result")
    return found.result().status, found.result().result


with nodes(
    NodeProcess("robot", noise_seed=-1, lock_step=True),
    NodeProcess("guard", lock_step=True),
    NodeProcess("policy", policy=sys.argv[1], goal_position="[0.0, 0.0, 1.0]", lock_step=True),
    NodeProcess("goal_action"),
):
    listener.until(client.server_is_ready, "the action")
    status, told = result(send(0.3, 0.0, 1.2))
    while "refused" not in told.error_msg:  # its guard and policy are starting
        assert status == GoalStatus.STATUS_ABORTED
        status, told = result(send(0.3, 0.0, 1.2))
    assert status == GoalStatus.STATUS_ABORTED and told.error_code == 1, told
    print(told.error_msg)

    for _ in range(50):
        if listener.call(SetBool, "arm", SetBool.Request(data=True)).success:
            break
        listener.spin(0.2)
    status, told = result(send(0.3, 0.0, 1.2))
    assert status == GoalStatus.STATUS_SUCCEEDED and told.error_code == 0, (status, told)
    assert any(0.0 < feedback.distance_remaining < 1.5 for feedback in heard), heard
    assert heard[-1].current_pose.header.frame_id == "odom" and heard[-1].navigation_time.nanosec > 0

    first = send(0.7, 0.0, 1.2)
    second = send(-0.2, 0.0, 1.2)
    status, told = result(first)
    assert status == GoalStatus.STATUS_ABORTED
    print(told.error_msg)
    second.cancel_goal_async()
    status, told = result(second)
    assert status == GoalStatus.STATUS_CANCELED
    print(told.error_msg)
os._exit(0)
"""


@pytest.mark.integration
def test_goals_of_an_action_are_followed_refused_replaced_and_cancelled(
    with_nav2_msgs: str, hover_policy: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-u", "-c", textwrap.dedent(SCENE), str(hover_policy)],
        env={**os.environ, "PYTHONPATH": with_nav2_msgs},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    refused, replaced, cancelled = done.stdout.splitlines()
    assert refused.startswith("refused: the guard is in the mode disarmed") and refused.endswith("arm the robot first")
    assert replaced == "a newer goal replaced it"
    assert cancelled.startswith("It holds its position, ")
