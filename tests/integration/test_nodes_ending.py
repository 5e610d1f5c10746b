"""Nodes end cleanly when they are asked to, and with one sentence when they cannot work."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rlstack.interfaces import topics
from rlstack.kinds.quadrotor.spec import load_quadrotor
from tests.support.policies import write_constant_policy
from tests.support.ros import Listener, NodeProcess, nodes

pytestmark = pytest.mark.integration


ASKED_TO_END = {"int": [signal.SIGINT], "term": [signal.SIGTERM], "often": [signal.SIGINT, signal.SIGTERM] * 50}


@pytest.mark.parametrize("signals", ASKED_TO_END.values(), ids=list(ASKED_TO_END))
def test_a_signal_ends_every_node_with_status_0_and_nothing_to_say(
    signals: list[int], hover_policy: Path, listener: Listener
) -> None:
    modes = listener.hear(topics.GUARD_MODE, "latched")
    with nodes(
        NodeProcess("robot", start_height_m=1.0, lock_step=True),
        NodeProcess("guard", lock_step=True, auto_arm=True),
        NodeProcess("policy", policy=hover_policy, goal_position="[0.0, 0.0, 1.0]", lock_step=True),
    ) as processes:
        listener.until(lambda: modes and modes[-1].data == "policy", "the policy's flight")
        for number in signals:
            for process in processes.values():
                process.signal(number)
        for process in processes.values():
            assert process.wait() == 0, process.output
            assert "Traceback" not in process.output and "While stopping" not in process.output
            assert "terminate called" not in process.output


@contextmanager
def airborne(policy: Path, listener: Listener) -> Iterator[dict[str, NodeProcess]]:
    """Three nodes, the policy flying at 0.5 m; in lock step, so that a busy machine does not end the flight."""
    modes = listener.hear(topics.GUARD_MODE, "latched", depth=10)
    odometry = listener.hear(topics.ODOM)
    with nodes(
        NodeProcess("robot", start_height_m=0.5, lock_step=True, rest_within_s=60.0),
        NodeProcess("guard", auto_arm=True, lock_step=True),
        NodeProcess("policy", policy=policy, goal_position="[0.0, 0.0, 0.5]", lock_step=True),
    ) as processes:
        listener.until(lambda: modes and modes[-1].data == "policy", "the policy's flight")
        armed = len(odometry)
        listener.until(lambda: len(odometry) > armed + 10, "some steps of it")  # the robot has had its first command
        yield processes


def test_ctrl_c_in_flight_lands_the_robot_and_then_ends_every_node(hover_policy: Path, listener: Listener) -> None:
    with airborne(hover_policy, listener) as processes:
        for process in processes.values():
            process.signal(signal.SIGINT)
        listener.until(lambda: all(p.process.poll() is not None for p in processes.values()), "the end of every node")
        assert [process.wait() for process in processes.values()] == [0, 0, 0]
        said = processes["guard"].output
    assert "-> land: asked to end by SIGINT. Press Ctrl-C again to switch off now." in said
    assert "land -> disarmed: landed (asked to end by SIGINT)" in said
    odometry = listener.heard[topics.ODOM]
    assert odometry[-1].pose.pose.position.z < 0.05, "the robot node ends after the landing"
    assert min(message.twist.twist.linear.z for message in odometry) > -1.0, "it has not fallen"


def test_a_second_signal_in_flight_switches_off_at_once(hover_policy: Path, listener: Listener) -> None:
    modes = listener.hear(topics.GUARD_MODE, "latched", depth=10)
    with airborne(hover_policy, listener) as processes:
        processes["guard"].signal(signal.SIGTERM)
        listener.until(lambda: modes[-1].data == "land", "the landing")
        processes["guard"].signal(signal.SIGQUIT)
        assert processes["guard"].wait() == 0
        said = processes["guard"].output
    assert "-> land: asked to end by SIGTERM. Send it again to switch off now." in said
    assert "land -> disarmed: the guard was stopped" in said


ENDING = """
import os, signal, sys, threading
from rlstack.nodes.guard import main
threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
status = main([])
threads = [open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")]
print(status, sorted(name for name in threads if name.startswith("dds.")))
"""


def test_a_node_that_has_ended_leaves_no_threads_to_deadlock_at_exit() -> None:
    ended = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=60)
    # the watchdog of Fast DDS's shared memory is there once for the process
    assert (ended.stdout.strip(), ended.stderr) == ("0 ['dds.shm.wdog']", "")


def test_a_topic_that_does_not_come_ends_the_policy_node(hover_policy: Path) -> None:
    with nodes(NodeProcess("policy", "__ns:=/cf1", policy=hover_policy, topic_timeout_s=1.0)) as processes:
        assert processes["policy"].wait() == 2
        said = processes["policy"].output
    assert "Traceback" not in said
    assert "The topic /cf1/odom (nav_msgs/msg/Odometry) did not come within 1 s: nothing publishes it" in said
    assert "The topic /cf1/goal (geometry_msgs/msg/PoseStamped) did not come" in said
    assert "goal_position" in said


def test_a_topic_of_another_type_is_named(hover_policy: Path, listener: Listener) -> None:
    listener.node.create_publisher(topics.type_of(topics.IMU), topics.ODOM, topics.quality("sensor_out"))
    process = NodeProcess("policy", policy=hover_policy, topic_timeout_s=3.0, goal_position="[0.0, 0.0, 1.0]")
    with nodes(process):
        assert process.wait() == 2
        assert "its publisher sends sensor_msgs/msg/Imu; remap odom" in process.output


def test_a_policy_for_another_robot_ends_the_policy_node(tmp_path: Path) -> None:
    policy = write_constant_policy(tmp_path / "other.onnx", replace(load_quadrotor("crazyflie"), name="heavy"), 1000.0)
    with nodes(NodeProcess("policy", policy=policy, robot="crazyflie")) as processes:
        assert processes["policy"].wait() == 2
        said = processes["policy"].output
    assert "is a policy for the robot 'heavy', not for 'crazyflie'" in said and "Traceback" not in said


@pytest.mark.parametrize(
    "kind, parameters, words",
    [
        ("robot", {"backend": "mujcoo"}, "Unknown backend 'mujcoo'. Nearest: mujoco"),
        ("robot", {"robot": "crazyfly"}, "Unknown robot 'crazyfly'. Nearest: crazyflie"),
        ("robot", {"real_time_factor": -1.0}, "real_time_factor: -1.0 is not allowed: must be between 0.01 and 100"),
        ("guard", {"tilt_rad": 3.0}, "tilt_rad: 3.0 is wider than robot 'crazyflie' allows"),
        ("policy", {}, "The policy node needs a policy file"),
        ("policy", {"policy": "/nowhere/policy.onnx"}, "/nowhere/policy.onnx"),
    ],
)
def test_a_bad_parameter_ends_a_node_with_one_sentence(kind: str, parameters: dict[str, object], words: str) -> None:
    with nodes(NodeProcess(kind, **parameters)) as processes:
        assert processes[kind].wait() == 2
        said = processes[kind].output
    assert words in said
    assert len(said.strip().splitlines()) == 1, said


def test_limits_may_be_wider_when_that_is_asked_for(listener: Listener) -> None:
    modes = listener.hear(topics.GUARD_MODE, "latched")
    with nodes(NodeProcess("guard", tilt_rad=3.0, allow_wider=True)):
        listener.until(lambda: modes and modes[-1].data == "disarmed", "the start")
