"""The commands that operate a robot, on a simulated Crazyflie in lock step."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlstack import cli
from tests.support.ros import NodeProcess, nodes

pytestmark = pytest.mark.integration


@pytest.fixture
def flying(hover_policy: Path, _ros_environment: None) -> Iterator[None]:
    common = {"lock_step": True}
    inside = "__ns:=/fleet/cf1"
    with nodes(
        NodeProcess("robot", inside, noise_seed=-1, **common),
        NodeProcess("guard", inside, **common),
        NodeProcess("policy", inside, policy=hover_policy, goal_position="[0.0, 0.0, 1.0]", **common),
    ):
        yield


def test_a_robot_is_armed_sent_watched_and_stopped(flying: None, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> tuple[int, str, str]:
        status = cli.main(words)
        said = capsys.readouterr()
        return status, said.out, said.err

    end = time.monotonic() + 60.0
    while (armed := run("arm", "cf1"))[0] != 0 and time.monotonic() < end:  # its nodes are starting
        pass
    assert armed[0] == 0 and armed[1].startswith("fleet/cf1: "), armed

    status, out, err = run("goto", "0.3", "-0.2", "1.2", "--wait", "--timeout", "60")
    lines = out.splitlines()
    assert status == 0 and err == "", (out, err)
    assert lines[0] == "fleet/cf1: goes to 0.30 -0.20 1.20 m in odom"
    assert lines[-1].startswith("fleet/cf1: there after ")

    status, out, err = run("goto", "0.3", "-0.1")
    assert status == 0 and out == "fleet/cf1: goes to 0.30 -0.10 1.20 m in odom\n", "at the height of the goal before"

    status, out, err = run("status", "--json")
    state = json.loads(out)["/fleet/cf1"]
    assert status == 0 and (state["robot"], state["kind"], state["mode"]) == ("crazyflie", "quadrotor", "policy")
    assert state["armed"] and state["distance_m"] < 0.2
    assert state["goal"] == pytest.approx([0.3, -0.1, 1.2]) and len(state["policy"]["sha256"]) == 64
    assert state["observations"]["topic"] == "odom" and state["observations"]["rate_hz"] > 10.0
    assert not state["publishers"] and not state["malformed"] and not state["warnings"]

    status, out, err = run("goto", "9", "0", "1")
    assert (status, out) == (1, "")
    assert err.startswith("fleet/cf1: A goal was refused: it is outside the geofence"), err
    assert "nearest goal inside is [3, 0, 1]." in err

    status, out, err = run("estop")
    assert status == 0 and out.startswith("fleet/cf1: Motors off."), (out, err)
    status, out, err = run("goto", "0", "0", "1")
    assert status == 1 and "nothing was sent: the guard is in the mode estop (requested" in err
    assert "rlstack estop --clear" in err
    status, out, _ = run("status")
    assert status == 1 and "  mode           estop: requested" in out and "to do" in out

    assert run("estop", "--clear", "--robot", "cf1")[0] == 0
    assert run("disarm") == (0, "fleet/cf1: Disarmed.\n", "")
    assert run("arm", "cf2")[::2] == (2, "rlstack: No robot 'cf2' is there. Robots: /fleet/cf1.\n")
