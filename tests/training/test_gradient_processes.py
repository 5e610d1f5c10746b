"""Training by gradients in several processes: the same weights in all, by what all robots have seen."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.training import run
from rlstack.training.algorithm import NotFinite
from rlstack.training.algorithms.apg import APG
from rlstack.training.elsewhere import device_of
from rlstack.training.gradient_averaging import Group
from rlstack.training.recipe import recipe_from_data
from tests.support.learning import small_apg_data


def recipe(processes: int, **changes: Any) -> Any:
    data = small_apg_data(**changes)
    data["algorithm_settings"] = {**data.get("algorithm_settings", {}), "processes": processes}
    return recipe_from_data(data, "small.yaml")


def learners(folder: Path) -> list[APG]:
    """Return two learners with the same networks and other robots, whose gradients are not clipped."""
    made = []
    for seed in (1, 2):
        one = run._Run(recipe(1, seed=seed, algorithm_settings={"max_gradient_norm": 1e9}), folder).algorithm
        assert isinstance(one, APG)
        made.append(one)
    made[1].join({"policy": made[0].policy.state_dict(), "optimiser": made[0].optimiser.state_dict()})
    return made


def gradients(one: APG) -> list[Tensor]:
    return [each.grad.clone() for each in one.policy.parameters() if each.grad is not None]


def test_all_learn_by_the_mean_of_their_gradients(tmp_path: Path) -> None:
    alone = learners(tmp_path)
    rewards = [one.iterate(0.0).reward_per_s for one in alone]
    mean = [(a + b) / 2.0 for a, b in zip(*(gradients(one) for one in alone))]
    assert not torch.equal(gradients(alone[0])[0], gradients(alone[1])[0])
    made = learners(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        for one, group in zip(made, pool.map(lambda rank: Group(tmp_path / "store", rank, 2), range(2))):
            one.averaged = group

        def iterate() -> list[float]:
            return [result.reward_per_s for result in pool.map(lambda one: one.iterate(0.0), made)]

        assert iterate() == pytest.approx([sum(rewards) / 2.0] * 2, rel=1e-5)
        torch.testing.assert_close(gradients(made[0]), mean)
        for _ in range(2):
            assert all(map(torch.equal, *(one.policy.parameters() for one in made)))
            iterate()
        made[1].environment.state[0] = torch.nan  # of one robot of the second process
        with pytest.raises(NotFinite):
            list(pool.map(lambda one: one.iterate(0.0), made))


@pytest.mark.integration
def test_a_process_that_is_killed_ends_the_run_which_is_resumed(tmp_path: Path) -> None:
    def kill(progress: run.Progress) -> None:
        (child,) = children()
        os.kill(child, signal.SIGKILL)

    with pytest.raises(UserError, match="Process 1 of the training exited unexpectedly: it said nothing"):
        run.start(recipe(2, steps=4096), tmp_path / "run", kill)
    told: list[run.Progress] = []
    result = run.resume(tmp_path / "run", told.append)
    assert result.finished and [progress.steps for progress in told] == [1024, 2048, 3072, 4096], "of both processes"


def children() -> list[int]:
    """Return the processes that this one has started."""
    listed = [file.read_text() for file in Path("/proc/self/task").glob("*/children")]
    found = []
    for pid in (int(word) for text in listed for word in text.split()):
        if b"gradient_processes" in Path(f"/proc/{pid}/cmdline").read_bytes():
            found.append(pid)
    return found


def test_each_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [device_of("cuda", rank) for rank in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert device_of("cpu", 1) == "cpu"
