"""Sentences to a simulated quadrotor and a base with their released policies, over real topics in lock step."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from rlstack import cli
from rlstack.interfaces import topics
from rlstack.policies import find_policy
from rlstack.robots import load_robot
from tests.support.arms import write_posture_policy
from tests.support.ros import Listener, NodeProcess, heights, nodes

pytestmark = pytest.mark.integration

LOCK = {"lock_step": True}


def test_a_quadrotor_does_what_a_sentence_says(listener: Listener, tmp_path: Path) -> None:
    places = tmp_path / "places.yaml"
    places.write_text("places: {corner: [0.3, 0.0, 0.8]}\n")
    policy = find_policy("quadrotor_hover")
    reports, odometry = listener.hear(topics.AGENT_REPORT, "event", depth=50), listener.hear(topics.ODOM, depth=1)
    sentences = listener.node.create_publisher(
        topics.type_of(topics.AGENT_SENTENCE), topics.AGENT_SENTENCE, topics.quality("event")
    )

    def said(sentence: str) -> list[str]:
        del reports[:]
        sentences.publish(topics.type_of(topics.AGENT_SENTENCE)(data=sentence))
        ends = ("Done.", "Stopped", "Nothing", "The robot is not heard")
        listener.until(lambda: reports and reports[-1].data.startswith(ends), f"the end of '{sentence}'")
        return [report.data for report in reports]

    with nodes(
        NodeProcess("robot", noise_seed=-1, **LOCK),
        NodeProcess("guard", **LOCK),
        NodeProcess("policy", policy=policy, goal_position="[0.0, 0.0, 0.8]", **LOCK),
        NodeProcess("agent", policy=policy, places=places),
    ):
        listener.until(lambda: sentences.get_subscription_count() > 0 and odometry, "the agent and the robot")
        while (told := said("take off, fly to 9 0 1"))[-1].startswith("The robot is not heard"):
            pass
        assert told[-1].startswith("Nothing was done: Step 2, go to 9.00 0.00 1.00 m: it is outside the geofence")

        told = said("take off, fly to the corner, wait 1 second, come back and land")
        assert told[0].startswith("The plan: 1 take off; 2 go to the place 'corner'; 3 wait 1 s; 4 come back to the")
        assert told[1:] == [
            "1 of 5: take off",
            "2 of 5: go to the place 'corner'",
            "3 of 5: wait 1 s",
            "4 of 5: come back to the start",
            "5 of 5: land",
            "Done.",
        ]
        assert max(heights(odometry)) > 0.7 and heights(odometry)[-1] < 0.1
        assert max(message.pose.pose.position.x for message in odometry) > 0.2
        assert abs(odometry[-1].pose.pose.position.x) < 0.15


def test_a_base_does_what_a_sentence_says(_ros_environment: None, capsys: pytest.CaptureFixture[str]) -> None:
    with nodes(
        NodeProcess("robot", robot="turtlebot3_burger", noise_seed=-1, **LOCK),
        NodeProcess("guard", robot="turtlebot3_burger", **LOCK),
        NodeProcess("policy", policy=find_policy("base_navigation"), goal_position="[0.0, 0.0, 0.0]", **LOCK),
    ):
        end = time.monotonic() + 60.0
        while (status := cli.main(["agent", "arm, go 0.5 m forward, then rest"])) and time.monotonic() < end:
            capsys.readouterr()  # its nodes are starting: they are not heard yet, or the guard has no scan yet
        out = "".join(capsys.readouterr())
        assert status == 0 and "3 of 3: come to rest and disarm" in out, out
        status = cli.main(["agent", "fly 1 m up"])
        out = "".join(capsys.readouterr())
        assert status == 2 and "Step 1, go 1.00 m up: it is disarmed: begin with 'arm'" in out, out


def test_an_arm_is_given_an_instruction_before_it_is_armed(
    listener: Listener, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    panda = load_robot("panda")
    rest = np.array([drive.rest for drive in panda.drives])
    names = ("joint_position", "instruction")
    words = ("push", "the", "red", "block", "left")
    policy = write_posture_policy(tmp_path / "told.onnx", panda, rest, inputs=names, words=words)  # type: ignore[arg-type]
    told = listener.hear(topics.INSTRUCTION, "latched", robot="panda")

    def run(*command: str) -> tuple[int, str]:
        return cli.main(list(command)), "".join(capsys.readouterr())

    inside = "__ns:=/panda"
    with nodes(
        NodeProcess("robot", inside, robot="panda", noise_seed=-1, **LOCK),
        NodeProcess("guard", inside, robot="panda", **LOCK),
        NodeProcess("policy", inside, policy=policy, **LOCK),
    ):
        end = time.monotonic() + 60.0
        while "waits for an instruction" not in (refused := run("arm"))[1] and time.monotonic() < end:
            pass  # its nodes are starting
        assert refused == (
            1,
            "panda: not armed: the policy waits for an instruction, and nothing moves before it has one:"
            ' `rlstack agent "arm, ..."` gives it one and arms\n',
        )
        status, out = run("status")
        assert status == 1 and "  instruction    none yet\n" in out and "  goal " not in out, out
        assert '  to do          say what it is to do: `rlstack agent "arm, ..."`\n' in out, out
        status, out = run("goto", "0.2", "0", "0.1")
        assert status == 1 and out.endswith('takes no goals, but instructions: rlstack agent "...".\n'), out

        status, out = run("agent", "arm, push the red block left for 1 second, rest")
        assert status == 0 and '2 of 3: do "push the red block left" for 1 s' in out, out
        assert out.endswith("panda: Time is up; nothing measures whether it did what it was told.\n"), out
        listener.until(lambda: told and told[-1].data == "push the red block left", "the instruction")
        status, out = run("status")
        assert "  instruction    push the red block left\n" in out and "  to do          `rlstack arm` arms it" in out
        assert cli.main(["agent", "push the green block left"]) == 2
        assert (
            "'green' in 'push the green block left' is none of the policy's. Nearest: red, " in capsys.readouterr().out
        )
