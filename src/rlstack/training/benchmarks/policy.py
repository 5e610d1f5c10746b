"""A policy file's figures on held-out starts, and its latency for one robot."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.policies import load_policy
from rlstack.tasks import TASKS
from rlstack.training.benchmarks.timing import latency
from rlstack.verification.flight_score import score_flights
from rlstack.verification.flight_trials import rollout
from rlstack.verification.runner import Steppable
from rlstack.verification.scores import plain

REPORT_SEED = 20_261_121
"""Seed of the test starts, apart from those of training and of policy selection."""

SCORES = ("episodes", "success", "within_0_1", "lost", "error_m", "recover_s", "excursion_max_m")


def measure(file: str, episodes: int, calls: int) -> dict[str, Any]:
    """Return ``held_out`` figures and the ``latency`` of one step for one robot.

    Args:
        file: The policy file.
        episodes: Number of starts.
        calls: Number of timed steps.
    """
    policy = load_policy(Path(file))
    robot = load_quadrotor(policy.contract.robot)
    task = TASKS.load(policy.contract.task)()
    found = held_out(policy, task, robot, episodes)
    state = task.held_out(np.random.default_rng(REPORT_SEED), 1, robot, disturbances=False)
    # one robot near the goal; the graph's time does not depend on values
    inputs = {port.name: np.zeros(port.sized({})) for port in policy.contract.inputs}
    inputs.update({name: state.state[name][0] for name in inputs if name in state.state})
    for name in inputs:
        if name.endswith("orientation"):
            inputs[name] = np.array([0.0, 0.0, 0.0, 1.0])
    policy.reset()
    return {"held_out": found, "latency": latency(lambda: policy.step(inputs), calls)}


def held_out(policy: Steppable, task: Any, robot: Quadrotor, episodes: int) -> dict[str, Any]:
    """Evaluate ``episodes`` held-out starts with the task's own disturbances; figures that are not finite are None."""
    starts = task.held_out(np.random.default_rng(REPORT_SEED), episodes, robot, disturbances=False)
    begin = time.process_time()
    flown = rollout(policy, starts, robot, task.criteria.duration_s, noise_seed=REPORT_SEED)
    score = score_flights(flown, task.criteria)
    figures = {name: plain(score[name]) for name in SCORES}
    return {**figures, "cpu_s": time.process_time() - begin}
