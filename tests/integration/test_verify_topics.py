"""Flights over real topics: policy and guard as processes, MuJoCo in lock step, against the batch simulator."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from rlstack import cli
from rlstack.bringup.episode_runner import run_episodes
from rlstack.bringup.verification_check import file_sha256, require_verification
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.kinds.quadrotor.verification_topics import FlightRecorder
from rlstack.policies import load_policy, write_policy
from rlstack.robots import load_robot
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks import TASKS
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.verification.flight_trials import rollout
from tests.support.policies import write_constant_policy, write_hover_policy

pytestmark = pytest.mark.integration

ROBOT = load_quadrotor("crazyflie")
HOVER = np.full(4, ROBOT.hover_speed_rad_s)


@pytest.fixture(scope="module")
def policy(tmp_path_factory) -> Path:
    path = write_hover_policy(tmp_path_factory.mktemp("policy") / "policy.onnx", ROBOT)
    write_policy(onnx.load(path), replace(load_policy(path).contract, task="quadrotor_hover"), path)
    return path


def scenario(offsets) -> Scenario:
    """Upright starts at ``offsets`` (N, 3) m from the goal, the robot as in its file."""
    offsets = np.atleast_2d(np.array(offsets, dtype=float))
    count = len(offsets)
    goal = np.tile([0.0, 0.0, 2.5], (count, 1))
    return Scenario(
        state={
            "position": goal + offsets,
            "orientation": np.tile([0.0, 0.0, 0.0, 1.0], (count, 1)),
            "linear_velocity": np.zeros((count, 3)),
            "angular_velocity": np.zeros((count, 3)),
            "rotor_speed": np.tile(HOVER, (count, 1)),
        },
        goal_position=goal,
        goal_yaw=np.zeros(count),
        perturbation=Perturbation.none(count),
        labels=np.full(count, "none"),
    )


def node_processes() -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes().split(b"\0")
                environment = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            domain = f"ROS_DOMAIN_ID={os.environ['ROS_DOMAIN_ID']}".encode()
            if b"rlstack.nodes.policy" in command and domain in environment:
                found.append(int(folder.name))
    return found


def test_every_episode_starts_afresh_and_time_does_not_matter(policy):
    # The hover policy's state is the rotors' speed: left over from another flight it would show in the commands.
    same = scenario([[0.2, 0.0, 0.0], [-0.3, 0.2, 0.1], [0.2, 0.0, 0.0]])
    flown = run_episodes(FlightRecorder, policy, same, ROBOT, duration_s=1.0, seed=None)
    assert flown.position.shape == (101, 3, 3)
    np.testing.assert_array_equal(flown.position[0], same.state["position"])
    np.testing.assert_array_equal(flown.command[:-1, 0], flown.command[:-1, 2])
    np.testing.assert_array_equal(flown.position[:, 0], flown.position[:, 2])
    assert np.isnan(flown.command[-1]).all() and np.isfinite(flown.command[:-1]).all()
    assert flown.interventions is not None and flown.interventions.tolist() == [0, 0, 0]
    assert flown.latency_s.shape == (300,) and (flown.latency_s > 0.0).all()
    assert node_processes() == []


def test_it_flies_what_the_batch_simulator_flies_to_each_goal(policy):
    task = TASKS.load("quadrotor_hover")()
    goals = np.array([[0.0, 0.0, 2.5], [0.5, 0.0, 2.5], [0.0, 0.5, 3.0], [0.0, 0.0, 2.5]])
    flights = task.held_out(np.random.default_rng(5), 4, ROBOT).shifted(goals)
    np.testing.assert_array_equal(flights.goal_position, goals)
    over_topics = run_episodes(FlightRecorder, policy, flights, ROBOT, duration_s=1.0, seed=None)
    quiet = replace(ROBOT, sensors={})  # no noise
    batch = rollout(load_policy(policy), flights, quiet, 1.0)
    apart = np.linalg.norm(over_topics.position - batch.position, axis=-1)
    assert apart.max() < 0.02
    # The guard's rate limit, from the hover speed, is the one difference between the two on purpose.
    most = ROBOT.limits.rotor_acceleration_rad_s2 / ROBOT.control_rate_hz
    allowed = np.clip(batch.command[0], HOVER - most, HOVER + most)
    np.testing.assert_allclose(over_topics.command[0], allowed, rtol=1e-5, atol=1e-2)
    np.testing.assert_allclose(over_topics.linear_velocity[0], flights.state["linear_velocity"], atol=1e-12)


def test_the_guard_watches_and_its_takeovers_are_counted(tmp_path):
    full = write_constant_policy(tmp_path / "full.onnx", ROBOT, np.full(4, ROBOT.rotor_model.speed_max_rad_s))
    flown = run_episodes(FlightRecorder, full, scenario(np.zeros((1, 3))), ROBOT, duration_s=1.0, seed=None)
    assert flown.position[-1, 0, 2] > 3.0  # limits are open: climbing is the policy's own affair
    assert flown.interventions is not None and flown.interventions.tolist() == [0]


def test_a_node_that_ends_is_said_with_its_words(tmp_path):
    with pytest.raises(UserError, match=r"policy node ended during the trials; its last log lines: .*does not exist"):
        run_episodes(FlightRecorder, tmp_path / "none.onnx", scenario(np.zeros((1, 3))), ROBOT)
    assert node_processes() == []


def test_verify_writes_the_proof_that_deployment_asks_for(policy, tmp_path, capsys):
    figures = tmp_path / "figures.json"
    words = ["verify", str(policy), "--backends", "batch,mujoco", "--episodes", "2", "--json", str(figures)]
    words += ["--margins", "none"]
    status = cli.main(words)
    shown = capsys.readouterr().out
    data = json.loads(figures.read_text())
    assert status == (0 if data["passed"] else 1)
    assert data["sha256"] == file_sha256(policy)
    assert data["backends"]["batch"]["episodes"] == 2
    assert list(data["backends"]) == ["batch", "batch, calm", "mujoco", "mujoco (topics)"]
    flown = data["backends"]["mujoco (topics)"]
    assert flown["episodes"] == 2
    assert flown["latency_p50_ms"] > 0.0
    assert {"success", "error_m", "lost", "recover_s"} <= flown.keys()
    assert json.loads((policy.parent / "verify.json").read_text()) == data
    assert str(policy.parent / "report.html") in shown and (policy.parent / "report.html").is_file()
    # whatever it is worth, two episodes are too few
    assert not data["passed"] and "Not passed: batch: 2 episodes are too few" in shown
    with pytest.raises(UserError, match="did not pass its verification"):
        require_verification(policy, load_robot(data["robot"]))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--backends", "mujocco"], "Unknown backend 'mujocco'. Nearest: mujoco"),
        (["--backends", ","], "No backend was given"),
        (["--episodes", "0"], "0 episodes are not allowed"),
        (["--robot", "crazyfly"], "Unknown robot 'crazyfly'. Nearest: crazyflie"),
    ],
)
def test_verify_refuses_bad_input_before_it_flies(policy, words, said, capsys):
    assert cli.main(["verify", str(policy), *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("to_all", [True, False])
def test_ctrl_c_ends_the_flights_quietly_and_leaves_nothing(policy, to_all):
    # of 8 episodes of 10 s, each of two processes flies half
    command = [sys.executable, "-m", "rlstack", "verify", str(policy), "--backends", "mujoco", "--episodes", "8"]
    command += ["--margins", "none"]
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, **pipes, text=True, start_new_session=True)
    while len(node_processes()) < 1:
        assert process.poll() is None
        time.sleep(0.1)
    time.sleep(1.0)
    if to_all:  # as a terminal does
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    record = json.loads((policy.parent / "verify.json").read_text())  # with the column that was complete
    assert list(record["backends"]) == ["mujoco"] and "mujoco (topics)" in record["incomplete"] and not record["passed"]
    assert node_processes() == []
