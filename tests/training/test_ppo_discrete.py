from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies import load_policy
from rlstack.robots import load_robot
from rlstack.sim.grids.simulator import Sites
from rlstack.sim.grids.terrain import Terrain
from rlstack.tasks.catalog.base_exploration import ExplorationObservation, ExplorationTask
from rlstack.tasks.catalog.quadrotor_hover import HoverTask
from rlstack.tasks.wheeled_base.exploration.setting import ExplorationSetting
from rlstack.training import run
from rlstack.training.algorithms.ppo_discrete import DiscretePPO, DiscretePPOSettings
from rlstack.training.networks import multiplies_halves
from rlstack.training.recipe import Recipe, Selection
from rlstack.verification.exploration_trials import explore_grids

SMALL = ExplorationTask(
    expedition=ExplorationSetting(terrain=Terrain(side=11, obstacles=3), range_cells=2, rays=16, steps=100),
    observation=ExplorationObservation(near=3, sight=5, way_cells=2),
    longest=60,
)
SETTINGS = DiscretePPOSettings(rollout=16, minibatches=4, hidden=(64,), critic_hidden=(64,), learning_rate=1e-3)
ROBOT = load_robot("turtlebot3_burger")


def learner(seed: int = 0, count: int = 64, half: bool = False) -> DiscretePPO:
    torch.manual_seed(seed)
    environment = SMALL.environment(ROBOT, SMALL.pipeline(ROBOT), count, "cpu", seed)
    return DiscretePPO(replace(SETTINGS, half=half), environment)


@pytest.mark.parametrize("half", [False, True])
def test_it_goes_on_exactly_from_its_state(half: bool) -> None:
    one, other = learner(half=half), learner(half=half)
    one.iterate(0.0)
    state = one.state_dict()
    before = one.iterate(0.5).logged()
    other.load_state_dict(state)
    assert other.iterate(0.5).logged() == before
    for mine, theirs in zip(one.actor().parameters(), other.actor().parameters()):
        assert torch.equal(mine, theirs)


def test_halves_round_and_the_policy_stays_whole() -> None:
    whole, half = learner(), learner(half=True)
    assert half._half == multiplies_halves(torch.device("cpu"))
    seen, everything = whole.environment.observe()
    judged = zip(half._judge(*half._halved(seen, everything)), whole._judge(seen, everything))
    for mine, theirs in ((a.exp(), b.exp()) for a, b in judged):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine, theirs, atol=0.05, rtol=0.0)
    half.iterate(0.0)
    assert {parameter.dtype for parameter in half.actor().parameters()} == {torch.float32}


def test_choices_that_are_not_open_are_never_taken() -> None:
    algorithm = learner()
    for _ in range(3):
        scalars = algorithm.iterate(0.0).logged()
        assert scalars["reward/lost"] == 0.0
        assert scalars["train/lost_share"] == 0.0


def test_an_untrained_policy_follows_the_prior() -> None:
    torch.manual_seed(0)
    task = replace(SMALL, observation=ExplorationObservation(near=3, sight=5, way_cells=20, worth=True))
    environment = task.environment(ROBOT, task.pipeline(ROBOT), 64, "cpu", 0)
    algorithm = DiscretePPO(replace(SETTINGS, prior=5.0), environment)
    row = next(row for row in environment.pipeline.table() if row.name == "worth")
    seen = environment.observe()[0]
    favoured = seen[:, row.start : row.start + 4]
    chosen = algorithm.actor()(seen, {})[0].argmax(dim=1, keepdim=True)
    assert favoured.any(dim=1).sum() > 32
    assert favoured.gather(1, chosen)[favoured.any(dim=1)].all()
    for _ in range(2):
        assert algorithm.iterate(0.0).logged()["reward/lost"] == 0.0
    with pytest.raises(UserError, match=r"prior: 5 is not allowed: no term .* \(near, far, way, blocked\)"):
        DiscretePPO(replace(SETTINGS, prior=5.0), learner().environment)


def test_tasks_without_choices_are_refused() -> None:
    task, robot = HoverTask(), load_quadrotor("crazyflie")
    environment = task.environment(robot, task.pipeline(robot), 4, "cpu", 0)
    with pytest.raises(UserError, match="Use the algorithm ppo"):
        DiscretePPO(SETTINGS, environment)


def test_a_run_learns_and_its_policy_file_explores_as_the_training_policy(tmp_path: Path) -> None:
    recipe = Recipe(
        name="small",
        task="base_exploration",
        robot="turtlebot3_burger",
        algorithm="ppo_discrete",
        steps=20_000,
        envs=64,
        selection=Selection(episodes=30, every=1.0, after=1.0),
        task_settings=SMALL,
        algorithm_settings=SETTINGS,
    )
    result = run.start(recipe, tmp_path / "run")
    assert result.evaluation["crashed"] == 0.0
    policy = load_policy(result.policy, robot=ROBOT)
    assert [port.name for port in policy.contract.inputs] == list(SMALL.inputs)
    sites = SMALL.expedition.held_out(recipe.selection.seed, 30)
    explored = explore_grids(policy, SMALL.expedition, sites)
    assert float(explored.time_beyond(0.9).mean()) == pytest.approx(result.evaluation["steps_to_90"])
    assert float(explored.coverage[:, 30].mean()) > _wandered(sites) + 0.1


def _wandered(sites: Sites) -> float:
    """Mean coverage after 30 random moves."""
    worlds, rng = SMALL.expedition.worlds(len(sites)), np.random.default_rng(0)
    worlds.place(np.arange(len(sites)), sites.occupied, sites.start)
    for _ in range(30):
        worlds.move(np.where(worlds.allowed(), rng.random((len(sites), 4)), -1.0).argmax(axis=1))
    return float((worlds.known() / sites.total).mean())
