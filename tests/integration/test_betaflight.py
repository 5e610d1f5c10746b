"""Betaflight's own firmware flies a released policy: ONNX, topics, guard, driver, rate loop and mixer, our airframe."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from std_srvs.srv import SetBool, Trigger

from rlstack.bringup.sitl import RESET
from rlstack.interfaces import topics
from rlstack.interfaces.messages import pose_message
from tests.support.deployed import Up
from tests.support.firmware import betaflight_firmware
from tests.support.ros import Listener

pytestmark = [pytest.mark.integration, pytest.mark.quiet, pytest.mark.timeout(420)]

ROBOT, GOAL = "racer_rates", (0.8, -0.4, 1.6)
PATIENT = """
/**/guard:
  ros__parameters: {staleness_periods: 10.0}
/**/robot:
  ros__parameters: {command_timeout_periods: 20.0}
"""
"""Tests run beside others, so that commands are late at times."""


@pytest.fixture(autouse=True)
def _in_real_time() -> None:
    """Skip where processes get no real-time priority: beside other tests the firmware is then too late to fly."""
    tried = subprocess.run(
        [sys.executable, "-c", "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(60))"]
    )
    if tried.returncode:
        pytest.skip("needs real-time priority: allow it to this user in limits.conf (rtprio)")


def test_it_reaches_a_goal_and_holds_it_and_falls_when_its_computer_dies(listener: Listener, tmp_path: Path) -> None:
    patient = tmp_path / "patient.yaml"
    patient.write_text(PATIENT, encoding="utf-8")
    heard = listener.hear("odom", "sensor_in", robot=ROBOT)
    poses = listener.hear(topics.EXTERNAL_POSE, "sensor_in", robot=ROBOT)
    modes = listener.hear(topics.GUARD_MODE, "latched", robot=ROBOT)
    goal = listener.node.create_publisher(topics.type_of(topics.GOAL), f"{ROBOT}/goal", topics.quality("latched"))

    def away() -> float:
        p = heard[-1].pose.pose.position
        return math.dist((p.x, p.y, p.z), GOAL)

    with (
        betaflight_firmware() as program,
        Up("--robot", ROBOT, "--firmware", str(program), "--folder", str(tmp_path), verb="sitl") as sitl,
    ):
        sitl.until("flies")
        words = ("--policy", "quadrotor_rates", "--robot", ROBOT, "--backend", "betaflight", "--force")
        with Up("deploy", *words, "--uri", "tcp://127.0.0.1:5761", "--params-file", str(patient)) as up:
            try:
                listener.until(lambda: heard, "odometry", 40.0)
                end = time.monotonic() + 30.0
                answer = SetBool.Response()
                while not answer.success and time.monotonic() < end:  # the firmware does not arm in its first 5 s
                    answer = listener.call(SetBool, f"{ROBOT}/arm", SetBool.Request(data=True))
                    listener.spin(1.0)
                assert answer.success, answer.message
                listener.until(lambda: any(m.data == "policy" for m in modes), "the policy's flight", 40.0)
                goal.publish(pose_message(GOAL, frame="odom"))
                since = math.inf

                def held() -> bool:
                    nonlocal since
                    since = min(since, time.monotonic()) if away() < 0.2 else math.inf
                    return time.monotonic() - since > 2.0

                listener.until(held, f"holding {GOAL} ({modes[-1].data})", 60.0)
            except BaseException:
                up.popen.send_signal(signal.SIGINT)
                up.end()
                print(up.seen)
                raise
            os.kill(up.nodes()["robot"], signal.SIGKILL)
            listener.until(lambda: poses[-1].pose.position.z < 0.2, "the fall", 10.0)
        end = time.monotonic() + 10.0
        while not (back := listener.call(Trigger, f"{ROBOT}/{RESET}", Trigger.Request())).success:
            assert time.monotonic() < end, back.message
            listener.spin(0.1)  # its failsafe stops the motors after 1.5 s
        seen = len(poses)
        listener.until(lambda: len(poses) > seen + 10, "poses")
        p = poses[-1].pose.position
        assert math.hypot(p.x, p.y) < 0.05 and p.z < 0.2, "it is carried back to its start"
