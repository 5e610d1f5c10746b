"""The action of the train node: a goal starts training, feedback tells of it, cancelling saves a checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rlstack.errors import UserError
from rlstack.interfaces.training_messages import PACKAGE
from rlstack.nodes.train import TrainNode
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

SCENE = """
import os, sys
from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rlstack_msgs.action import Train
from rlstack.nodes.train_action import NAME
from tests.support.ros import Listener, NodeProcess, nodes

listener = Listener()
listener.executor.general_period_s = 0.05
client = ActionClient(listener.node, Train, NAME)
heard = []


def send(**fields):
    told = lambda message: heard.append(message.feedback)
    sent = client.send_goal_async(Train.Goal(**fields), feedback_callback=told)
    listener.until(sent.done, "an answer")
    return sent.result()


with nodes(NodeProcess("train", start=False)) as processes:
    listener.until(client.server_is_ready, "the action")
    assert not send(recipe="quadrotor_hover").accepted, "it names no folder"
    long = ["steps=50000000", "envs=128", "selection.episodes=8"]
    goal = send(recipe="quadrotor_hover", out=sys.argv[1], overrides=long)
    assert goal.accepted and not send(out=sys.argv[1]).accepted, "one goal at a time"
    listener.until(lambda: heard, "feedback")
    assert heard[0].steps > 0 and heard[0].total_steps >= 50000000
    goal.cancel_goal_async()
    found = goal.get_result_async()
    listener.until(found.done, "a result")
    assert found.result().status == GoalStatus.STATUS_CANCELED
    print(found.result().result.message)
    assert processes["train"].wait() == 2
    assert "Traceback" not in processes["train"].output
os._exit(0)
"""


def test_a_goal_starts_training_and_cancelling_it_saves_a_checkpoint(with_rlstack_msgs: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-u", "-c", textwrap.dedent(SCENE), str(run)],
        env={**os.environ, "PYTHONPATH": with_rlstack_msgs},
        capture_output=True,
        text=True,
        timeout=140,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"Training was stopped before its end; `rlstack train --resume {run}` goes on.\n"
    assert list(run.glob("checkpoint*"))


@pytest.mark.skipif(PACKAGE.is_installed(), reason="this environment has rlstack_msgs")
def test_without_the_actions_type_waiting_for_a_goal_is_refused(listener: Listener) -> None:
    node = TrainNode({"start": False}, context=listener.context)
    with pytest.raises(
        UserError, match=r"start:=false waits for a goal, but .* `python -m rlstack.interfaces.training"
    ):
        node.start()
    node.destroy_node()
