"""Rollout workers: whose steps are stored, by which policy, who waits for whom, and what is lost with one that dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.data.replay import ReplayReader
from rlstack.errors import UserError
from rlstack.training import rollout_fleet, run
from rlstack.training.algorithm import NotFinite
from rlstack.training.algorithms import sac
from rlstack.training.algorithms.hil_serl import HILSERL, HILSERLSettings
from rlstack.training.algorithms.rlif import RLIF, RLIFSettings
from rlstack.training.algorithms.rlpd import RLPD, RLPDSettings
from rlstack.training.algorithms.sac import SAC, SACSettings
from rlstack.training.algorithms.wsrl import WSRL, WSRLSettings
from rlstack.training.intervention_strategies import IntervenerSettings
from rlstack.training.learner_process import LearnerProcess
from rlstack.training.recipe import recipe_from_data
from rlstack.training.rollout_fleet import RolloutFleet
from rlstack.training.rollout_worker import Block, Order, Refused, WorkerPlan
from rlstack.training.run_files import RECIPE
from rlstack.training.worker_pool import Arrived, LocalPool, Lost
from tests.support.reaching import Reaching
from tests.support.worker_pools import Inside


class ByHand:
    """Workers that answer when the test says so."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.orders: dict[int, Order] = {}
        self.answers: list[tuple[int, Arrived]] = []

    def start(self, number: int, plan: WorkerPlan) -> None:
        self.started.append(number)
        self.orders.pop(number, None)

    def give(self, number: int, order: Order) -> None:
        assert number not in self.orders
        self.orders[number] = order

    def answer(self, number: int) -> None:
        self.answers.append((number, Block(self.orders.pop(number).version, None, 0.0)))

    def arrived(self, numbers: Sequence[int], timeout_s: float) -> list[tuple[int, Arrived]]:
        came, self.answers = self.answers, []
        return came

    def why(self, number: int) -> str:
        return "no memory."

    def close(self) -> None:
        pass


def fleet_of(pool: Any, count: int = 2, staleness: int = 10) -> RolloutFleet:
    return RolloutFleet(pool, count, staleness, lambda number: WorkerPlan("", 1, 1, number))


def give(fleet: RolloutFleet, version: int) -> None:
    fleet.give(version, {"w": torch.zeros(1)}, None)


def test_the_others_wait_for_a_worker_whose_policy_is_too_old() -> None:
    pool = ByHand()
    fleet = fleet_of(pool)
    give(fleet, 5)
    assert {n: (order.version, order.weights is not None) for n, order in pool.orders.items()} == {
        0: (5, True),
        1: (5, True),
    }
    pool.answer(0)
    assert [number for number, _ in fleet.arrived(15, 0.0, 9)] == [0]
    give(fleet, 15)  # the other one's policy is ten updates old, as old as it may be
    assert pool.orders[0].version == 15
    pool.answer(0)
    fleet.arrived(16, 0.0, 9)
    give(fleet, 16)
    assert 0 not in pool.orders
    pool.answer(1)
    fleet.arrived(16, 0.0, 9)
    give(fleet, 16)
    assert [pool.orders[number].version for number in (0, 1)] == [16, 16]
    assert fleet.figures()["workers/age_updates"] == pytest.approx((10 + 1 + 11) / 3)
    for number in (0, 1):
        pool.answer(number)
    assert len(fleet.arrived(16, 0.0, 1)) == 1 and len(fleet.arrived(16, 0.0, 1)) == 1, "one after the other"
    give(fleet, 16)
    assert all(order.weights is None for order in pool.orders.values()), "they have them"


def test_a_worker_that_dies_is_started_again_but_not_for_ever() -> None:
    pool = ByHand()
    fleet = fleet_of(pool)
    for deaths in range(3):
        give(fleet, 1)
        assert pool.orders[1].weights is not None, "a new process has none"
        pool.answers.append((1, Lost()))
        if deaths < 2:
            assert fleet.arrived(1, 0.0, 9) == []
    with pytest.raises(UserError, match=r"Rollout worker 1 died 3 times without a step: no memory\."):
        fleet.arrived(1, 0.0, 9)
    assert pool.started == [0, 1, 1, 1] and fleet.replaced == 2


@pytest.mark.parametrize(("finite", "kind"), [(True, UserError), (False, NotFinite)])
def test_what_a_worker_refuses_ends_the_run(finite: bool, kind: type) -> None:
    pool = ByHand()
    fleet = fleet_of(pool)
    give(fleet, 1)
    pool.answers.append((0, Refused("the term is not finite", finite)))
    with pytest.raises(UserError, match="the term is not finite") as caught:
        fleet.arrived(1, 0.0, 9)
    assert type(caught.value) is kind


SMALL = {"hidden": (16,), "batch": 32, "warm_up": 64, "updates": 0.5, "critics": 2}
SMALL |= {"hindsight": 0.0, "apart": True, "lead": 1, "workers": 2}
ALGORITHMS = [
    pytest.param(SAC, SACSettings(**SMALL), id="sac"),
    pytest.param(RLPD, RLPDSettings(demonstrations=4, **SMALL), id="rlpd"),
    pytest.param(WSRL, WSRLSettings(demonstrations=4, pretraining=2, **SMALL), id="wsrl"),
    pytest.param(HILSERL, HILSERLSettings(demonstrations=4, **SMALL), id="hil_serl"),
    pytest.param(RLIF, RLIFSettings(demonstrations=4, **SMALL), id="rlif"),
]


@pytest.mark.integration
@pytest.mark.parametrize(("algorithm", "settings"), ALGORITHMS)
def test_every_step_is_stored_once_with_its_policys_version(
    algorithm: type, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = replace(settings, apart=False, workers=0)
    pool = Inside(lambda plan: algorithm(alone, Reaching(4, plan.seed % 1000)))
    monkeypatch.setattr(rollout_fleet, "LocalPool", lambda *given: pool)
    (tmp_path / RECIPE).write_text("")
    torch.manual_seed(0)
    one = algorithm(settings, Reaching(8))
    one.open(tmp_path)
    for k in range(6):
        pool.dying = {0} if k == 3 else set()
        result = one.iterate(0.1 * k)
    assert one._steps == len(one._experience) == 6 * 64
    assert one.fleet.replaced == 1
    buffer = one._experience.buffer
    index = buffer.indices()
    held = buffer.gather(index)
    moved = held["next_observation"][:, :2] - held["observation"][:, :2]
    np.testing.assert_allclose(moved, 0.1 * np.clip(held["action"], -1.0, 1.0), atol=1e-5)
    versions = held["version"].reshape(8, -1)
    assert (np.diff(versions, axis=1) >= 0).all() and versions[:, 0].max() == 0 < versions.max()
    assert versions.max() <= one.learner_process.updates
    assert result.scalars["workers/replaced"] == 1.0
    if isinstance(one, HILSERL):
        assert 0.0 < result.scalars["train/intervened"] <= 1.0
        assert len(one.interventions) > 0
    one.close()
    learned = one.learner.critics.arrays()[0].clone()
    assert torch.equal(learned, torch.load(tmp_path / "learner/state.pt")["learner"]["critics"]["weights.0"])
    # what comes next goes on with these files
    state = one.state_dict()
    for store in one._buffers().values():
        store.close()
    if getattr(one, "replay", None) is not None:
        one.replay.prior.close()
    again = algorithm(settings, Reaching(8))
    again.load_state_dict(state)
    again.open(tmp_path)
    again.iterate(0.7)
    assert again._steps == len(again._experience) == 7 * 64
    again.close()


def reach(workers: int) -> dict[str, Any]:
    learning = {"hidden": [16], "batch": 32, "warm_up": 64, "updates": 0.25, "hindsight": 0.5}
    return {
        "name": "workers",
        "task": "arm_reach",
        "robot": "panda",
        "algorithm": "sac",
        "envs": 8,
        "steps": 2048,
        "threads": 1,
        "task_settings": {"rewards": "sparse"},
        "algorithm_settings": {**learning, "apart": True, "workers": workers},
        "selection": {"episodes": 8, "after": 1.0},
    }


@pytest.mark.integration
def test_a_worker_and_the_learner_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[LocalPool] = []
    learners: list[LearnerProcess] = []
    monkeypatch.setattr(rollout_fleet, "LocalPool", lambda *given: pools.append(LocalPool(*given)) or pools[-1])
    monkeypatch.setattr(sac, "LearnerProcess", lambda *given: learners.append(LearnerProcess(*given)) or learners[-1])
    killed: list[int] = []
    nice: list[int] = []

    def kill(progress: Any) -> None:
        if progress.steps > 512 * (1 + len(killed)) and len(killed) < 2:
            process = pools[0]._workers[1].process if not killed else learners[0]._process
            nice.append(os.getpriority(os.PRIO_PROCESS, process.pid) - os.getpriority(os.PRIO_PROCESS, 0))
            killed.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

    result = run.start(recipe_from_data(reach(2), "test"), tmp_path / "run", kill)
    assert len(killed) == 2 and result.finished and result.steps == 2048
    assert nice[0] > nice[1] == 0, "workers give way to the learner"
    assert result.cpu_seconds > 1.0 and not pools[0]._workers, "all have ended"
    reader = ReplayReader(tmp_path / "run" / "replay")
    assert len(reader) == 2048
    assert reader.gather(reader.indices())["version"].max() > 0


@pytest.mark.integration
def test_workers_are_actors_of_a_ray_cluster(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    result = run.start(recipe_from_data(reach(2), "test"), tmp_path / "run", ray="local")
    assert result.finished and len(ReplayReader(tmp_path / "run" / "replay")) == 2048


def test_what_workers_cannot_do_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="workers: 2 is not allowed without apart: true"):
        SACSettings(workers=2)
    with pytest.raises(ValueError, match=r"workers: 2 is not allowed with intervener\.kind: hand"):
        HILSERLSettings(workers=2, apart=True, intervener=IntervenerSettings(kind="hand", teleop="keyboard"))
    torch.manual_seed(0)
    with pytest.raises(UserError, match="workers: 3 is not allowed with envs: 8"):
        SAC(SACSettings(workers=3, apart=True), Reaching(8)).open(tmp_path)
    with pytest.raises(UserError, match="--ray: this training has no rollout workers"):
        run.start(recipe_from_data(reach(0), "test"), tmp_path / "run", ray="local")
    assert not (tmp_path / "run").exists()
