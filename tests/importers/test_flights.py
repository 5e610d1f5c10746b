"""Networks of other libraries, saved by them and imported, fly to their goals and drive to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import nn

from rlstack.cli import main
from rlstack.policies import load_policy
from rlstack.policies.inference import Policy
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.quadrotor.sampling import Starts
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.verification.flight_outcome import outcome
from rlstack.verification.flight_trials import rollout
from rlstack.verification.navigation_trials import drive
from tests.support.bases import turtlebot
from tests.support.drives import course_of, room
from tests.support.pilot import HIDDEN, SIZE, TERMS, fill_layers, fill_pilot
from tests.support.robots import crazyflie

pytest.importorskip("llvmlite")

ROTORS = ["m3", "m1", "m4", "m2"]


def imported(folder: Path, source: str, file: Path, robot: Any, **mapping: Any) -> Policy:
    """Import a file with a mapping, and load the policy file."""
    (folder / "mapping.yaml").write_text(yaml.safe_dump(mapping))
    words = [str(file), "--map", str(folder / "mapping.yaml"), "--robot", robot.name, "--out", str(folder / "p.onnx")]
    assert main(["import", "--from", source, *words]) == 0
    return load_policy(folder / "p.onnx", robot=robot)


def fly(policy: Policy, simulator: str, count: int) -> None:
    """Start tilted, turning and moving up to a metre and a half from goals, and be within 2 cm of them after 4 s."""
    robot, rng = crazyflie(), np.random.default_rng(3)
    starts = Starts(position_m=0.5, tilt_rad=0.6, settled_share=0.0).sample(rng, count, robot)
    goals, still = rng.uniform(-0.5, 0.5, (count, 3)), Perturbation.none(count)
    scenario = Scenario(starts, goals, np.zeros(count), still, np.full(count, "still air")).shifted(
        np.array([0.0, 0.0, 2.0])
    )
    flights = rollout(policy, scenario, robot, 8.0, simulator=simulator, noise_seed=2)
    assert np.median(flights.error_m[0]) > 0.4
    assert outcome(flights, SuccessCriteria(radius_m=0.02, from_s=4.0)).success.all(), flights.error_m[400:].max(axis=0)


@pytest.mark.parametrize(("simulator", "count"), [("batch", 20), ("mujoco", 2)])
def test_an_actor_of_rsl_rl_flies(tmp_path: Path, simulator: str, count: int) -> None:
    models = pytest.importorskip("rsl_rl.models")
    pytest.importorskip(simulator if simulator != "batch" else "llvmlite")
    from tensordict import TensorDict

    example = TensorDict({"policy": torch.zeros(1, SIZE)}, batch_size=[1])
    actor = models.RNNModel(
        example, {"actor": ["policy"]}, "actor", 4, hidden_dims=[16, HIDDEN], rnn_type="gru", rnn_hidden_dim=HIDDEN
    )
    fill_pilot(actor.rnn.rnn, [layer for layer in actor.mlp if isinstance(layer, nn.Linear)], crazyflie(), ROTORS)
    torch.save({"actor_state_dict": actor.state_dict(), "iter": 1, "infos": None}, tmp_path / "model_1.pt")
    policy = imported(
        tmp_path,
        "rsl_rl",
        tmp_path / "model_1.pt",
        crazyflie(),
        task="quadrotor_hover",
        rate_hz=100,
        observation=TERMS,
        action={"signal": "rotor_speed", "names": ROTORS, "to_limits": True},
        network={"activation": "elu"},
    )
    fly(policy, simulator, count)


@pytest.mark.filterwarnings("ignore")
def test_a_leapp_bundle_with_raw_signals_and_a_state_that_starts_at_hover_flies(tmp_path: Path) -> None:
    pytest.importorskip("leapp")
    from tests.support.leapp_bundle import write_pilot

    file = write_pilot(tmp_path, crazyflie(), ROTORS)
    signals = ("goal_position", "position", "orientation", "linear_velocity", "angular_velocity")
    terms = [{"signal": name, "input": f"robot_{name}"} for name in signals]
    terms[2]["form"] = "quaternion_wxyz"
    policy = imported(
        tmp_path,
        "leapp",
        file,
        crazyflie(),
        task="quadrotor_hover",
        rate_hz=100,
        observation=terms,
        action={"signal": "rotor_speed", "names": ROTORS},
    )
    assert {state.name for state in policy.contract.state} == {"hidden_in", "started"}
    fly(policy, "batch", 20)


def test_an_actor_of_stable_baselines3_drives(tmp_path: Path) -> None:
    library, gymnasium = pytest.importorskip("stable_baselines3"), pytest.importorskip("gymnasium")
    robot = turtlebot()

    class World(gymnasium.Env):  # type: ignore[misc,name-defined]
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
        action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))

        def reset(self, **_: Any) -> Any:
            return np.zeros(2, np.float32), {}

    keywords = {"net_arch": [8, 6], "activation_fn": nn.ReLU}
    model = library.PPO("MlpPolicy", World(), device="cpu", policy_kwargs=keywords)
    hidden = [layer for layer in model.policy.mlp_extractor.policy_net if isinstance(layer, nn.Linear)]
    fill_layers([*hidden, model.policy.action_net], np.diag([2.0, 2.0]))  # faster ahead, and turn to where it is
    model.save(tmp_path / "model.zip")
    way = {"signal": "goal_position", "relative_to": "position", "frame": "base_link", "elements": [0, 1]}
    policy = imported(
        tmp_path,
        "stable_baselines3",
        tmp_path / "model.zip",
        robot,
        task="base_navigation",
        rate_hz=10,
        observation=[{**way, "clip": [-1.0, 1.0]}],
        action={"signal": "twist", "to_limits": True},
    )
    goals = ((1.3, 0.9), (1.0, -1.2), (0.3, 1.3), (-1.2, -0.8))
    maps = [replace(room(k), goal=np.array([*goal, 0.0]), shortest_m=1.5) for k, goal in enumerate(goals)]
    drives = drive(policy, course_of(robot, maps, 30.0), robot, rate_hz=10.0, arrival_m=0.1, name="sb3")
    assert drives.ending.tolist() == ["arrived"] * len(goals)
