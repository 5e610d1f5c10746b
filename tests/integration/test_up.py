"""`rlstack up` with real nodes: flights, refusals, and what happens when any process dies."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from rlstack import cli
from rlstack.bringup.verification_check import file_sha256
from rlstack.interfaces import topics
from rlstack.interfaces.map_messages import UNKNOWN, read_map
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.world import load_world
from tests.policies.test_people import write_wary_policy
from tests.support.bases import turtlebot, write_exploring_policy
from tests.support.deployed import Up, gone
from tests.support.policies import write_hover_policy
from tests.support.records import write_record

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]

FLOWN = {"robot": "crazyflie", "robot_sha256": load_quadrotor("crazyflie").sha256}


@pytest.fixture(scope="module")
def policy(tmp_path_factory) -> Path:
    """A good hover policy with a passing record."""
    path = write_hover_policy(tmp_path_factory.mktemp("policy") / "policy.onnx", load_quadrotor("crazyflie"))
    flown = {"mujoco": {"flown_in": "mujoco (topics)"}}
    record = {"sha256": file_sha256(path), **FLOWN, "passed": True, "backends": flown}
    write_record(path, record)
    return path


@pytest.fixture
def up(policy) -> Iterator:
    with ExitStack() as started:
        yield lambda *words: started.enter_context(Up("deploy", "--policy", str(policy), *words))


def test_it_takes_off_and_hovers_at_its_goal(up, tmp_path):
    figures = tmp_path / "figures.json"
    flight = up("--goal", "0.3", "-0.2", "1.2", "--seconds", "4", "--lock-step", "--json", str(figures))
    flight.until("takeoff -> policy")
    nodes = list(flight.nodes().values())
    assert len(nodes) == 3
    assert flight.end() == 0, flight.seen
    assert "Distance from the goal: " in flight.seen
    flown = re.search(r"Flew (\d+\.\d) s", flight.seen)
    assert flown is not None and 4.0 <= float(flown[1]) < 34.0  # in lock step time runs on until the signal has come
    data = json.loads(figures.read_text())
    assert data["mode"] == "policy" and data["error_m"] < 0.1
    assert gone(nodes)


def test_two_robots_in_a_world_fly_above_their_starts(up, tmp_path):
    figures = tmp_path / "figures.json"
    flight = up("--count", "2", "--world", "room:2", "--seconds", "5", "--lock-step", "--json", str(figures))
    flight.until("[crazyflie2.guard]: takeoff -> policy")
    nodes = list(flight.nodes().values())
    assert flight.end() == 0, flight.seen
    assert re.search(r"2 (takeoff|policy)  at most \d\.\d+ m from the goal", flight.seen)  # a line a second
    robots = json.loads(figures.read_text())["robots"]
    assert set(robots) == {"crazyflie1", "crazyflie2"}
    assert all(robot["mode"] == "policy" and robot["error_m"] < 0.1 for robot in robots.values()), robots
    assert re.search(r"crazyflie2: Flew ([5-9]|[1-3]\d)\.\d s", flight.seen)
    assert gone(nodes)


def test_a_policy_that_senses_people_gets_a_people_node(tmp_path):
    policy = write_wary_policy(tmp_path / "policy.onnx")
    words = ("--robot", "turtlebot3_burger", "--world", "clutter:1000003", "--force")
    with Up("deploy", "--policy", str(policy), *words) as drive:
        drive.until("disarmed -> policy")  # it steps only on what the people node sends
        nodes = drive.nodes()
        assert set(nodes) == {"robot", "guard", "policy", "people"}
        os.kill(nodes["people"], signal.SIGKILL)
        drive.until("people was ended by SIGKILL: the rest goes on (people are no longer tracked")
        drive.until("policy -> stop")
        drive.interrupt(nodes)


def test_a_policy_for_exploration_is_led_and_says_where_it_goes(tmp_path, listener):
    policy = write_exploring_policy(tmp_path / "policy.onnx", turtlebot())
    space = "turtlebot3_burger"
    goals, maps = (listener.hear(topic, "latched", depth=100, robot=space) for topic in (topics.GOAL, topics.MAP))
    words = ("--robot", space, "--world", "clutter:1000003", "--with-map", "--lock-step", "--force")
    with Up("deploy", "--policy", str(policy), *words) as drive:
        drive.until("disarmed -> policy")
        nodes = drive.nodes()
        assert set(nodes) == {"robot", "guard", "planner", "map"}
        listener.until(lambda: len(goals) > 3 and len(maps) > 3, "goals and maps")
        assert drive.interrupt(nodes) == 130
    first, last = (read_map(maps[k]).cells for k in (0, -1))
    assert (last != UNKNOWN).sum() > (first != UNKNOWN).sum() > 1000
    inside = load_world("clutter:1000003").floor_map.size_m
    places = np.array([[goal.pose.position.x, goal.pose.position.y] for goal in goals])
    assert {goal.header.frame_id for goal in goals} == {"odom"} and (np.abs(places) <= 0.5 * np.array(inside)).all()
    assert (np.diff([stamp_to_ns(goal.header.stamp) for goal in goals]) > 0).all()


def hears_signals(pid: int) -> bool:
    """Return whether a process has a handler of its own for SIGTERM, as nodes have once they run."""
    caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


def test_simulate_starts_the_robots_alone_and_ends_with_a_signal():
    with Up("simulate", "--count", "2", "--start-height-m", "1") as flight:
        flight.until("/crazyflie2: odom")
        end = time.monotonic() + 30.0
        while list(nodes := flight.nodes()) != ["robot"] and time.monotonic() < end:  # one just forked has another name
            time.sleep(0.05)
        assert list(nodes) == ["robot"]
        while not hears_signals(nodes["robot"]) and time.monotonic() < end:  # until then Python says where it was
            time.sleep(0.05)
        assert flight.interrupt(nodes) == 130


def test_a_policy_that_dies_leaves_the_guard_flying(up):
    flight = up("--lock-step")  # faster than real time, in which others here fly
    flight.until("takeoff -> policy")
    nodes = flight.nodes()
    os.kill(nodes["policy"], signal.SIGKILL)
    flight.until("policy -> hover")
    flight.until("policy was ended by SIGKILL: the rest goes on (the guard flies its fallback and then lands)")
    assert set(flight.nodes()) == {"robot", "guard"}
    flight.until("-> disarmed:")
    # A machine so busy that observations stay away makes the guard stop the motors before it has landed.
    assert "land -> disarmed: landed" in flight.seen or "-> disarmed: no valid observation" in flight.seen, flight.seen
    flight.popen.send_signal(signal.SIGINT)
    assert flight.end() == 128 + signal.SIGKILL
    assert "rlstack: policy was ended by SIGKILL" in flight.seen
    assert gone(list(nodes.values()))


def test_a_policy_that_ends_before_the_flight_ends_everything(up):
    flight = up("--no-arm")
    flight.until("s  disarmed  ")
    nodes = flight.nodes()
    os.kill(nodes["policy"], signal.SIGKILL)
    assert flight.end() == 128 + signal.SIGKILL
    assert "rlstack: policy was ended by SIGKILL" in flight.seen
    assert gone(list(nodes.values()))


@pytest.mark.parametrize("node", ["robot", "guard"])
def test_a_robot_or_guard_that_dies_ends_everything(up, node):
    flight = up()
    flight.until("disarmed -> takeoff")
    nodes = flight.nodes()
    os.kill(nodes[node], signal.SIGKILL)
    assert flight.end() == 128 + signal.SIGKILL
    assert f"rlstack: {node} was ended by SIGKILL, so everything was stopped:" in flight.seen
    assert gone(list(nodes.values()))


def test_nothing_outlives_an_up_that_is_killed(up):
    flight = up()
    flight.until("disarmed -> takeoff")
    nodes = flight.nodes()
    flight.popen.kill()
    assert gone(list(nodes.values()))


def test_a_signal_ends_everything_cleanly(up):
    flight = up()  # Ctrl-C: where a policy explores
    flight.until("disarmed -> takeoff")
    nodes = flight.nodes()
    flight.popen.send_signal(signal.SIGTERM)
    assert flight.end() == 143
    assert "Traceback" not in flight.seen and "killed" not in flight.seen
    assert gone(list(nodes.values()), 0.1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--robot", "crazyfly"], "Unknown robot 'crazyfly'. Nearest: crazyflie"),
        (["--backend", "mujocco"], "Unknown backend 'mujocco'. Nearest: mujoco"),
        (["--world", "warehous"], "Unknown world 'warehous'. Nearest: warehouse"),
        (["--count", "0"], "0 robots are not allowed"),
        (["--goal", "0", "0", "nan"], "The goal [0.0, 0.0, nan] is not allowed"),
        (["--seconds", "0"], "--seconds 0.0 is not allowed"),
        (["--policy", "none.onnx"], "The policy none.onnx does not exist"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(policy, words, said, capsys):
    given = [] if "--policy" in words else ["--policy", str(policy)]
    assert cli.main(["up", "deploy", *given, *words]) == 2
    assert said in capsys.readouterr().err


def test_an_unproven_policy_is_refused_unless_forced_and_a_simulator_may_be_left_disarmed(tmp_path, capsys):
    path = write_hover_policy(tmp_path / "policy.onnx", load_quadrotor("crazyflie"))
    assert cli.main(["up", "deploy", "--policy", str(path)]) == 2
    assert "has not been verified" in capsys.readouterr().err
    write_record(path, {"sha256": file_sha256(path), **FLOWN, "passed": False})
    assert cli.main(["up", "deploy", "--policy", str(path)]) == 2
    assert "did not pass its verification" in capsys.readouterr().err
    with Up("deploy", "--policy", str(path), "--force", "--no-arm", "--seconds", "2") as flight:
        assert flight.end() == 0, flight.seen
    assert "Flew 2." in flight.seen and "s  disarmed  " in flight.seen
    assert "takeoff" not in flight.seen and "-> policy" not in flight.seen
