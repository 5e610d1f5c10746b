"""The stages of the Meta-World benchmark: they go on where they were interrupted, and leave figures and a report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rlstack.errors import UserError
from rlstack.training.metaworld import bench as module
from rlstack.training.metaworld import learning, reinforcing, robots
from rlstack.training.metaworld.bench import Options, bench
from rlstack.training.metaworld.demonstrations import Demonstrations, Recording, record
from rlstack.training.metaworld.learning import Learned, learn, load_policy
from rlstack.training.metaworld.report import report_of, summarise
from rlstack.training.metaworld.suite import SUITES, Suite
from rlstack.training.metaworld.trials import run_trials
from tests.training.metaworld.conftest import Simulator

TASKS = {"reach": "Reach a goal position", "push": "Push the puck to a goal"}
SUITE = Suite(TASKS, 2)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "SETTINGS", replace(learning.SETTINGS, batch=4))
    monkeypatch.setattr(reinforcing, "SETTINGS", replace(reinforcing.SETTINGS, batch=8, epochs=1))
    monkeypatch.setattr(reinforcing, "_SHOWN", 4)


def quiet(*progress: object) -> None: ...


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, simulator: Simulator) -> Simulator:
    monkeypatch.setitem(SUITES, "metaworld-mt10", SUITE)
    monkeypatch.setattr(module, "Workers", lambda package, python, count: simulator)
    return simulator


def test_an_interrupted_benchmark_goes_on_and_reports(small: Simulator, tmp_path: Path) -> None:
    options = Options("metaworld-mt10", demonstrations=1, trials=2, steps=40)

    def stop(stage: str, done: int, count: int) -> None:
        if (stage, done) == ("trials", 1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench(options, tmp_path, Path("python"), 1, stop)
    assert len(json.loads((tmp_path / "trials.json").read_text())["tasks"]) == 1
    small.asked.clear()
    results = bench(options, tmp_path, Path("python"), 1, quiet)
    assert "record" not in small.asked and results["learning"]["updates"] == 2
    assert set(results["tasks"]) == {"reach", "push"}
    assert json.loads((tmp_path / "results.json").read_text())["tasks"] == results["tasks"]
    text = (tmp_path / "report.md").read_text()
    assert "| SmolVLA, 0.45 B | | | | | 57.3 |" in text and "not comparable" in text
    with pytest.raises(UserError, match=r"begun with trials 2, not 3"):
        bench(Options("metaworld-mt10", demonstrations=1, trials=3, steps=40), tmp_path, Path("python"), 1, quiet)


def test_ppo_goes_on_from_the_supervised_policy_and_is_reported(
    small: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reinforcing, "SETTINGS", replace(reinforcing.SETTINGS, rollout=4, warm_up=1))
    options = Options("metaworld-mt10", demonstrations=1, trials=2, steps=40)
    before = bench(options, tmp_path, Path("python"), 1, quiet)
    assert "reinforced" not in before
    small.asked.clear()

    def stop(stage: str, done: int, count: int) -> None:
        if (stage, done) == ("reinforcement", 1):
            raise KeyboardInterrupt

    options = replace(options, reinforce=2, episode=16)
    with pytest.raises(KeyboardInterrupt):
        bench(options, tmp_path, Path("python"), 1, stop)
    after = bench(options, tmp_path, Path("python"), 1, quiet)["reinforced"]
    assert "record" not in small.asked and after["iterations"] == len(after["curve"]) == 2
    assert after["episodes"] >= 4 and set(after["tasks"]) == {"reach", "push"}
    assert [one["iterations"] for one in after["validated"]] == [0, 2]
    text = (tmp_path / "report.md").read_text()
    assert "| this one, and PPO |" in text and "| task | group | success | after PPO |" in text


def test_robots_begin_trials_of_their_own_and_rewards_tell_success_from_time(simulator: Simulator) -> None:
    both = robots.Robots(simulator, SUITE, list(TASKS), 0, 16)  # type: ignore[arg-type]
    simulator._hands["reach"][0], simulator._hands["push"][0] = 0.0, -1.0
    ahead = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(2, 8, 4)
    result = both.chunk_step(ahead)
    assert result.done.tolist() == result.success.tolist() == [True, False] and result.steps.tolist() == [8.0, 8.0]
    assert result.reward.tolist() == [-7.0, -8.0] and result.achieved[0, 0] > 0.05
    assert both.privileged()[:, -3].tolist() == [0.0, 0.5], "the share of the time that has passed"
    assert both.observe()[0].shape == (2, both.pipeline.table()[-1].start + both.pipeline.table()[-1].size)
    late = both.chunk_step(0.0 * ahead)
    assert late.done.tolist() == [False, True] and not late.success.any() and late.timed_out.tolist() == [False, True]


def test_tasks_that_are_left_out_are_told_apart_all_the_same(simulator: Simulator) -> None:
    push = robots.Robots(simulator, SUITE, ["push"], 0, 16)  # type: ignore[arg-type]
    assert push.count == 1 and push.privileged()[0, -2:].tolist() == [0.0, 1.0] and push.privileged_size == 16
    assert push.chunk_step(torch.zeros(1, 8, 4)).done.tolist() == [False] and set(simulator._hands) == {"push"}


def test_tasks_are_practised_that_do_not_always_succeed() -> None:
    assert reinforcing.practised({"a": 0.0, "b": 0.4, "c": 1.0}) == ["a", "b"]
    assert reinforcing.practised({"c": 1.0}) == ["c"]


@pytest.mark.parametrize(("successes", "kept"), [((0.9, 0.5, 0.2), 0), ((0.5, 0.9, 0.9), 1)])
def test_the_policy_is_kept_that_is_best_on_other_layouts_than_the_trials(
    small: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, successes: tuple[float, ...], kept: int
) -> None:
    monkeypatch.setattr(reinforcing, "SETTINGS", replace(reinforcing.SETTINGS, rollout=2, warm_up=0))
    monkeypatch.setattr(reinforcing, "_VALIDATED_EVERY", 1)
    shares, asked = iter(successes), []

    def validated(workers: Any, policy: Any, tasks: Any, seeds: Any, steps: int, keep: Any) -> None:
        asked.append(seeds)
        share = next(shares)
        for task in tasks:
            keep(task, [share])

    monkeypatch.setattr(reinforcing, "run_trials", validated)
    options = Options("metaworld-mt10", demonstrations=1, trials=1, steps=16, reinforce=2, episode=16)
    results = bench(options, tmp_path, Path("python"), 1, quiet)
    far = results["reinforced"]
    assert far["kept"] == kept and [one["success"] for one in far["validated"]] == pytest.approx(successes)
    assert all(set(seeds).isdisjoint(range(1_000_000, 1_000_002)) for seeds in asked)
    policy, after = load_policy(SUITE, tmp_path), reinforcing.load_reinforced(SUITE, tmp_path)
    same = [torch.equal(a, b) for a, b in zip(policy.state_dict().values(), after.state_dict().values())]
    assert all(same) == (kept == 0)
    assert kept or far["tasks"] == results["tasks"]
    eyes = zip(policy.network.eyesight(), after.network.eyesight())  # type: ignore[operator]
    assert all(torch.equal(a, b) for a, b in eyes)


def test_too_few_minutes_are_refused_and_demonstrations_kept(small: Simulator, tmp_path: Path) -> None:
    options = Options("metaworld-mt10", demonstrations=1, minutes=1e-6)
    with pytest.raises(UserError, match=r"--minutes 1e-06 is not enough"):
        bench(options, tmp_path, Path("python"), 1, quiet)
    assert len(list((tmp_path / "demonstrations").iterdir())) == 4


def test_an_expert_that_seldom_succeeds_is_named(
    simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Simulator.record
    monkeypatch.setattr(Simulator, "record", lambda *given: {**whole(*given), "found": 0})
    with pytest.raises(UserError, match=r"reach: the expert succeeded in 0 of 2 episodes.*Lower --stray"):
        record(simulator, TASKS, tmp_path, Recording(1, 8, 0.5, 400, 0), quiet)  # type: ignore[arg-type]


def test_of_chunks_with_noise_only_the_first_action_teaches(simulator: Simulator, tmp_path: Path) -> None:
    record(simulator, TASKS, tmp_path, Recording(1, 8, 0.5, 400, 0), quiet)  # type: ignore[arg-type]
    assert simulator.strays.shape == (24, 50, 8, 4) and (simulator.strays[..., -1] == 0.0).all()
    noisy = (simulator.strays != 0.0).any(axis=(2, 3))
    assert 0.4 < noisy.mean() < 0.6
    assert (simulator.taught[..., 1:].all(axis=-1) == ~noisy).all() and simulator.taught[..., 0].all()
    shown = Demonstrations(tmp_path, TASKS, learning.make_policy(SUITE))
    lesson = shown.lesson(torch.arange(len(shown)))
    assert lesson.inside[3:].tolist() == simulator.taught[0, :3].tolist()
    assert lesson.known and lesson.known.places is not None and lesson.known.places.shape == (6, 1, 3, 2)


def test_learning_that_was_interrupted_ends_with_the_same_policy(
    simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "_EVERY_S", -1.0)
    policies = []
    for folder, stops in ((tmp_path / "whole", False), (tmp_path / "stopped", True)):
        record(simulator, TASKS, folder, Recording(1, 8, 0.0, 400, 0), quiet)  # type: ignore[arg-type]

        def stop(done: int, count: int) -> None:
            if done == 1:
                raise KeyboardInterrupt

        if stops:
            with pytest.raises(KeyboardInterrupt):
                learn(SUITE, folder, 0, 3, float("inf"), stop)
        far = learn(SUITE, folder, 0, 3, float("inf"), quiet)
        assert far.updates == 3 and far.curve and far.curve[-1]["actions"] > 0.0
        policies.append(load_policy(SUITE, folder).state_dict())
    assert all(torch.equal(part, policies[1][name]) for name, part in policies[0].items())


def test_trials_are_of_each_task_and_seed_and_end_with_success(simulator: Simulator) -> None:
    class Ahead(torch.nn.Module):
        """Moves along x, at most 0.16 m in 16 steps."""

        def forward(self, features: Any) -> Any:
            return torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(len(features), 8, 4)

    policy = learning.make_policy(SUITE)
    policy.head = Ahead()  # type: ignore[assignment]
    found: dict[str, list[bool]] = {}
    run_trials(simulator, policy, TASKS, range(4), 16, found.__setitem__)  # type: ignore[arg-type]
    assert found == {task: [True, True, True, True] for task in TASKS}
    run_trials(simulator, policy, TASKS, range(4), 8, found.__setitem__)  # type: ignore[arg-type]
    assert found == {task: [True, False, True, False] for task in TASKS}


def test_a_report_names_deviations_and_group_means() -> None:
    options = {"suite": "metaworld-mt50", "seed": 3, "demonstrations": 50, "trials": 10, "steps": 500, "stray": 0.2}
    tried = {task: [task != "push"] * 10 for task in SUITES["metaworld-mt50"].sentences}
    figures = {"found": 50, "tried": 60, "steps": 5000, "cpu_s": 8.0, "chunks": 600}
    results = summarise(
        {**options, "updates": 7},
        {"metaworld": "3.1.1", "mujoco": "3.3.0"},
        dict.fromkeys(tried, figures),
        Learned(7, 1.0, 2.0, [{"updates": 7, "cpu_s": 1.0, "actions": 0.5, "labels": 0.2}], True),
        tried,
        9.0,
    )
    text = report_of(results)
    assert "| this one, supervised | 100.0% | 100.0% | 83.3% | 100.0% | **95.8%** |" in text
    for said in ("126 x 126", "noise of 0.2", "positions of objects and goal", "One seed (3)", "400 s, learning 1 s"):
        assert said in text, said
    assert "not comparable" not in text
