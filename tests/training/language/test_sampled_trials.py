"""Sampled trials by rollout workers: whose chunks come back, by which policy, and what happens if a worker dies."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rlstack import schema
from rlstack.errors import UserError
from rlstack.robots import load_robot
from rlstack.training import rollout_fleet, run
from rlstack.training.algorithms.vla_grpo import VLAGRPO, VLAGRPOSettings
from rlstack.training.algorithms.vla_ppo import VLAPPO, VLAPPOSettings
from rlstack.training.algorithms.vla_rejection import VLARejection, VLARejectionSettings
from rlstack.training.algorithms.vla_sft import VLASFT
from rlstack.training.language.rollouts import Chunks, beside
from rlstack.training.recipe import recipe_from_data
from rlstack.training.rollout_worker import WorkerPlan
from rlstack.training.run_files import RECIPE
from rlstack.training.run_folder import save_checkpoint
from rlstack.training.worker_pool import LocalPool
from tests.support.worker_pools import Inside
from tests.training.test_vla import SFT, SMALL, environment, pretrained

WORKERS = 2


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        pytest.param(VLAPPO, VLAPPOSettings(rollout=2, warm_up=0, network=SMALL), id="ppo"),
        pytest.param(VLAGRPO, VLAGRPOSettings(group=2, least_success=0.0, network=SMALL), id="grpo"),
        pytest.param(VLARejection, VLARejectionSettings(network=SMALL), id="rejection"),
    ],
)
def test_each_worker_moves_its_share_by_the_newest_policy(
    algorithm: type, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def worker(plan: WorkerPlan) -> Any:
        assert (plan.robots, plan.threads) == (2, 1)
        return algorithm(settings, environment(2))

    pool = Inside(worker)
    pool.dying = {1}
    monkeypatch.setattr(rollout_fleet, "LocalPool", lambda *given: pool)
    (tmp_path / RECIPE).write_text("")
    one = algorithm(replace(settings, workers=WORKERS, pretrained=pretrained(tmp_path / "before")), environment(4))
    one.open(tmp_path)
    collected: list[Chunks] = []
    collect = one.trials.collect
    monkeypatch.setattr(one.trials, "collect", lambda *a, **b: collected.append(collect(*a, **b)) or collected[-1])
    for k in range(2):
        acts = {name: weight.clone() for name, weight in one.policy.state_dict().items()}
        scalars = one.iterate(0.5 * k).scalars
        assert scalars["train/episodes"] == collected[-1].done.sum()
        first, second = pool.acted[k + 1]
        found = collected[-1]
        assert torch.equal(found.action, torch.cat([first.action, second.action], dim=1))
        assert torch.equal(found.last_privileged, torch.cat([first.last_privileged, second.last_privileged]))
        for worker in pool.workers.values():
            torch.testing.assert_close(worker.policy.state_dict(), acts)
    assert [number for number, _ in pool.orders] == [0, 1, 1, 0, 1], "the one that died acts again"
    assert one.worker_figures().keys() == {"workers/age_updates", "workers/waited", "workers/replaced"}
    assert one.state_dict()["iterations"] == 2
    one.close()


def test_episodes_that_end_earlier_count_nothing_after_it(tmp_path: Path) -> None:
    one = VLAPPO(VLAPPOSettings(network=SMALL), environment(2))
    long, short = one.rollouts.collect(3), one.rollouts.collect(2)
    both = beside([short, long])
    assert both.action.shape[:2] == (3, 4) and both.seen.images.shape[:2] == (3, 4)
    assert both.inside[2, :2].sum() == 0.0 and not both.done[2, :2].any()
    assert torch.equal(both.inside[:, 2:], long.inside) and torch.equal(both.reward[:2, :2], short.reward)
    assert len(both.flat()["privileged"]) == 12 and "last_privileged" not in both.flat()


def recipe(pretrained: str, workers: int) -> Any:
    settings = {"network": schema.to_data(SMALL), "rollout": 2, "warm_up": 0, "batch": 16, "epochs": 1}
    return recipe_from_data(
        {
            "name": "workers",
            "task": "table_push",
            "robot": "panda",
            "algorithm": "vla_ppo",
            "envs": 4,
            "steps": 128,
            "threads": 1,
            "task_settings": {"episode_s": 1.0, "ends": True},
            "algorithm_settings": {**settings, "pretrained": pretrained, "workers": workers},
            "selection": {"episodes": 2, "after": 1.0},
        },
        "test",
    )


@pytest.mark.integration
def test_a_worker_is_killed_and_the_run_ends_with_all_its_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: list[LocalPool] = []
    monkeypatch.setattr(rollout_fleet, "LocalPool", lambda *given: pools.append(LocalPool(*given)) or pools[-1])
    killed: list[int] = []

    def kill(progress: Any) -> None:
        if progress.steps >= 32 and not killed:
            process = pools[0]._workers[1].process
            killed.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

    begun = run_of(tmp_path)
    result = run.start(recipe(begun, WORKERS), tmp_path / "run", kill)
    assert killed and result.finished and result.steps == 128 and not pools[0]._workers


def test_what_workers_cannot_share_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"workers: 3 is not allowed with envs: 4"):
        VLAPPO(VLAPPOSettings(network=SMALL, workers=3), environment(4))
    with pytest.raises(UserError, match=r"group: 4 is not allowed.*\(envs: 4\) of each process"):
        VLAGRPO(VLAGRPOSettings(network=SMALL, workers=2, group=4), environment(4))


def run_of(folder: Path) -> str:
    """Return a run of the ordinary Panda whose policy has learned nothing."""
    task = recipe("", 0).task_settings
    robot = load_robot("panda")
    torch.manual_seed(0)
    one = VLASFT(SFT, task.environment(robot, task.pipeline(robot), 1, "cpu", 0))
    save_checkpoint(folder / "before", {"algorithm": one.state_dict()})
    return str(folder / "before")
