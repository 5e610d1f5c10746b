"""Shipped recipes learn what they promise: `pytest -m learning`, seconds to minutes; five seeds: docs/results.md."""

import numpy as np
import pytest

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies import load_policy
from rlstack.tasks import TASKS
from rlstack.tasks.quadrotor import environment
from rlstack.training import run
from rlstack.training.command import parse_recipe
from rlstack.verification.flight_score import score_flights
from rlstack.verification.flight_trials import rollout
from tests.support.benchmarks import load_benchmark


@pytest.mark.learning
@pytest.mark.timeout(900)
def test_the_hover_recipe_reaches_its_target(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "POOL_SIZE", 65_536)  # other tests of this folder make do with few starts
    recipe = parse_recipe("quadrotor_hover", ["--seed", "11"]).recipe
    result = run.start(recipe, tmp_path / "run")
    robot = load_quadrotor("crazyflie")
    task = TASKS.load("quadrotor_hover")()
    starts = task.held_out(np.random.default_rng(2_024), 1000, robot, disturbances=False)
    policy = load_policy(result.policy, robot=robot)
    flown = score_flights(rollout(policy, starts, robot, task.criteria.duration_s), task.criteria)
    assert flown["success"] >= 0.99 and flown["within_0_1"] >= 0.99
    assert flown["lost"] == 0.0


@pytest.mark.learning
@pytest.mark.timeout(1800)
def test_the_crowdnav_recipe_reaches_its_target(tmp_path):
    pytest.importorskip("pyrvo")
    recipe = parse_recipe("base_crowd_crowdnav", ["--seed", "11"]).recipe
    result = run.start(recipe, tmp_path / "run")
    crowdnav = load_benchmark("crowdnav")
    figures = crowdnav.cross(load_policy(result.policy), *crowdnav.walks(crowdnav.published_starts())).figures()
    assert figures["success"] >= 0.98 and figures["time_s"] <= 11.0
