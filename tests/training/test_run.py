"""Whole runs of the real thing, small: what they leave, how they stop, how they go on, what breaks them."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils._pytree import tree_flatten_with_path
from torch.utils.tensorboard import SummaryWriter

from rlstack import schema
from rlstack.data.replay import ReplayBuffer, ReplayReader, ReplaySpec, fields
from rlstack.errors import UserError
from rlstack.kinds.quadrotor import verification
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies import load_policy
from rlstack.sim.batch_quadrotor.layout import STATE
from rlstack.tasks.quadrotor.environment import QuadrotorEnvironment
from rlstack.training import run
from rlstack.training.algorithm import NotFinite
from rlstack.training.algorithms.ppo import PPO
from rlstack.training.recipe import recipe_from_data
from rlstack.training.run_folder import load_checkpoint, new_folder, recipe_of
from rlstack.verification import training_evaluation
from tests.support.learning import small_recipe
from tests.training.conftest import Trained

CLOCKS = ("seconds", "cpu_seconds", "evaluation_cpu_seconds", "evaluations")


def assert_same(one: Any, other: Any) -> None:
    """Assert that two checkpoints hold the same bits, but for the clocks."""
    first, second = (dict(tree_flatten_with_path(state)[0]) for state in (one, other))
    assert first.keys() == second.keys() and len(first) > 50
    for path, value in first.items():
        if getattr(path[0], "key", None) in CLOCKS:
            continue
        same = torch.equal(value, second[path]) if isinstance(value, torch.Tensor) else value == second[path]
        assert same, path


def learned(recipe: Any, folder: Path, iterations: int) -> run._Run:
    """Return a run after so many iterations, without the evaluation and export of its end."""
    made = run._Run(recipe, folder)
    with SummaryWriter(str(folder)) as writer:
        for _ in range(iterations):
            made._iterate(writer)
    return made


def test_a_run_leaves_everything_in_its_folder(trained: Trained) -> None:
    folder, result = trained.folder, trained.result
    names = {path.name for path in folder.iterdir()}
    assert {"recipe.yaml", "checkpoint.pt", "training.json", "policy.onnx"} <= names
    assert any(name.startswith("events.out.tfevents") for name in names)
    assert not any(name.endswith(".tmp") for name in names)
    assert result.finished and result.steps == 4 * 64 * 8
    assert result.policy == folder / "policy.onnx"
    figures = json.loads((folder / "training.json").read_text())
    assert figures["finished"] is True and figures["steps"] == result.steps
    assert figures["evaluation"] == result.evaluation
    assert 0.0 < result.evaluation_cpu_seconds < result.cpu_seconds and result.setup_cpu_seconds > 0.0
    assert [row["step"] for row in figures["evaluations"]] == [1024, 1536, 2048]
    learning = [row["cpu_seconds"] for row in figures["evaluations"]]
    assert learning == sorted(learning) and 0.0 < learning[-1] < result.cpu_seconds
    assert recipe_from_data(yaml.safe_load((folder / "recipe.yaml").read_text()), "it") == recipe_of(folder)


def test_steps_beyond_those_of_the_iterations_are_in_its_figures() -> None:
    made = object.__new__(run._Run)
    made.iteration, made.algorithm = 3, SimpleNamespace(steps_per_iteration=64)  # type: ignore[assignment]
    assert made._steps() == 192
    made.algorithm.extra_steps = 40  # type: ignore[attr-defined]
    assert made._steps() == 232


def test_the_policy_file_says_where_it_comes_from(trained: Trained) -> None:
    contract = load_policy(trained.result.policy).contract
    recipe = recipe_of(trained.folder)
    assert (contract.name, contract.task, contract.robot) == ("small", "quadrotor_hover", "crazyflie")
    assert contract.training["seed"] == 3 and contract.training["algorithm"] == "ppo"
    assert contract.training["recipe"]["envs"] == 64
    names = [term.name for term in recipe.task_settings.pipeline(load_quadrotor("crazyflie")).table()]
    assert [line.split(":")[0] for line in contract.training["observation"]] == names
    assert contract.evaluation["episodes"] == 8 and contract.evaluation["held_out_seed"] == 11
    assert contract.rate_hz == 20.0


def test_progress_counts_up_to_the_end(trained: Trained) -> None:
    told = trained.progress
    assert [p.steps for p in told] == [512, 1024, 1536, 2048]
    assert all(p.total_steps == 2048 and p.steps_per_s > 0.0 for p in told)
    assert [p.success is None for p in told] == [True, False, False, False]  # evaluated from half way on
    assert told[-1].seconds_left == 0.0 and told[0].seconds_left > 0.0
    assert [p.seconds for p in told] == sorted(p.seconds for p in told)


def scalars(folder: Path) -> dict[str, list[int]]:
    """Return the steps of every TensorBoard scalar of a run."""
    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [e.step for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_scalars_are_readable(trained: Trained) -> None:
    steps = scalars(trained.folder)
    terms = {f"reward/{name}" for name in recipe_of(trained.folder).task_settings.reward_terms()}
    assert {"train/reward_per_s", "train/lost_share", "loss/value", "evaluation/success", *terms} <= set(steps)
    assert steps["train/reward_per_s"] == [512, 1024, 1536, 2048]
    assert steps["evaluation/success"] == [1024, 1536, 2048]


def test_a_folder_that_exists_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"{tmp_path} exists already .*`rlstack train --resume {tmp_path}`"):
        run.start(small_recipe(), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device": "cuda:9"}, "no device 'cuda:9'|CUDA needs Warp"),
        ({"robot": "nowhere.yaml"}, "Cannot read the robot file"),
        ({"envs": 1, "algorithm_settings": {"minibatches": 9}}, "1 robots make at most 8 minibatches"),
        ({"envs": 4, "algorithm_settings": {"minibatches": 5, "network": "gru"}}, "4 robots make at most 4"),
    ],
)
def test_what_cannot_begin_leaves_no_folder(tmp_path: Path, changes: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        run.start(small_recipe(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_folders_are_numbered(tmp_path: Path) -> None:
    assert new_folder("hover", tmp_path) == tmp_path / "hover-001"
    for name in ("hover-001", "hover-007", "hover-x", "hover-2-009"):
        (tmp_path / name).mkdir()
    assert new_folder("hover", tmp_path) == tmp_path / "hover-008"


# ---- stopping and going on


def test_ctrl_c_saves_and_exports_and_the_run_goes_on_as_if_nothing_had_been(mlp: Trained, tmp_path: Path) -> None:
    recipe = recipe_of(mlp.folder)

    def stop(progress: run.Progress) -> None:
        if progress.steps == 1024:
            raise KeyboardInterrupt

    folder = tmp_path / "run"
    result = run.start(recipe, folder, stop)
    assert not result.finished and result.steps == 1024
    assert load_policy(result.policy).contract.training["steps"] == 1024
    assert load_checkpoint(folder)["iteration"] == 2
    load_seconds = load_checkpoint(folder)["seconds"]
    told: list[run.Progress] = []
    result = run.resume(folder, told.append)
    assert result.finished and [p.steps for p in told] == [1536, 2048]
    assert told[0].seconds > load_seconds  # the clock goes on too
    assert_same(load_checkpoint(folder), load_checkpoint(mlp.folder))
    assert scalars(folder) == scalars(mlp.folder)
    policies = [load_policy(r.policy) for r in (result, mlp.result)]
    assert schema.to_data(policies[0].contract) | {"sha256": ""} == schema.to_data(policies[1].contract) | {
        "sha256": ""
    }
    inputs = {port.name: np.full(port.shape, 0.3) for port in policies[0].contract.inputs}
    for _ in range(3):
        found, expected = (policy.step(inputs)["rotor_speed"] for policy in policies)
        np.testing.assert_array_equal(found, expected)


def test_ctrl_c_in_the_middle_of_an_iteration_waits_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = small_recipe()
    whole = learned(recipe, tmp_path / "whole", 2)
    whole.save()
    step, calls = QuadrotorEnvironment.step, 0

    def interrupted(self: QuadrotorEnvironment, action: torch.Tensor) -> Any:
        nonlocal calls
        calls += 1
        if calls == 8 + 3:  # in the second iteration
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, action)

    monkeypatch.setattr(QuadrotorEnvironment, "step", interrupted)
    monkeypatch.setattr(run._Run, "_finish", lambda self: self.save())
    run.start(recipe, tmp_path / "run")
    assert calls == 16
    assert_same(load_checkpoint(tmp_path / "run"), load_checkpoint(tmp_path / "whole"))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step, calls = QuadrotorEnvironment.step, 0

    def interrupted(self: QuadrotorEnvironment, action: torch.Tensor) -> Any:
        nonlocal calls
        calls += 1
        if calls in (11, 12):
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, action)

    monkeypatch.setattr(QuadrotorEnvironment, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.start(small_recipe(), tmp_path / "run")
    assert calls < 13
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_recurrent_run_goes_on_to_the_bit(tmp_path: Path) -> None:
    recipe = small_recipe(algorithm_settings={"network": "gru"})
    whole = learned(recipe, tmp_path / "whole", 3)
    whole.save()
    part = learned(recipe, tmp_path / "part", 1)
    part.save()
    resumed = run._Run(recipe, tmp_path / "part")
    resumed.load(load_checkpoint(tmp_path / "part"))
    with SummaryWriter(str(tmp_path / "part")) as writer:
        for _ in range(2):
            resumed._iterate(writer)
    resumed.save()
    assert_same(load_checkpoint(tmp_path / "part"), load_checkpoint(tmp_path / "whole"))


def rates(made: run._Run) -> set[float]:
    """Return what PPO learns at."""
    learner = made.algorithm.learner  # type: ignore[attr-defined]
    return {learner.learning_rate, *(group["lr"] for group in learner.optimizer.param_groups)}


def test_a_learning_rate_that_was_changed_since_is_gone_on_at(tmp_path: Path) -> None:
    recipe = small_recipe()
    made = learned(recipe, tmp_path / "run", 2)
    adapted = rates(made)
    assert len(adapted) == 1 and adapted != {recipe.algorithm_settings.learning_rate}
    made.save()
    state = load_checkpoint(tmp_path / "run")

    def resumed(recipe: Any, state: dict[str, Any]) -> run._Run:
        again = run._Run(recipe, tmp_path / "run")
        again.load(state)
        return again

    assert rates(resumed(recipe, state)) == adapted  # the recipe is as it was
    lower = replace(recipe, algorithm_settings=replace(recipe.algorithm_settings, learning_rate=2e-5))
    changed = resumed(lower, state)
    assert rates(changed) == {2e-5}
    changed.save()
    del state["algorithm"]["learning_rate"]  # as earlier versions saved it
    assert rates(resumed(lower, state)) == adapted
    assert rates(resumed(lower, load_checkpoint(tmp_path / "run"))) == {2e-5}


def test_nobody_else_trains_in_a_runs_folder_until_it_ends(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    told: list[str] = []

    def meanwhile(progress: run.Progress) -> None:
        with pytest.raises(UserError) as refused:
            run.resume(folder)
        told.append(str(refused.value))
        if progress.steps < 1024:
            raise KeyboardInterrupt

    run.start(small_recipe(steps=1024), folder, meanwhile)
    assert run.resume(folder, meanwhile).finished
    assert len(told) == 2
    assert all(sentence.startswith(f"Another process trains in {folder}: ") for sentence in told)


@pytest.mark.parametrize("ends", [UserError("The disk is full."), KeyboardInterrupt(), RuntimeError("a mistake")])
def test_a_run_that_breaks_lets_go_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: BaseException
) -> None:
    def broken(self: PPO, done: float) -> dict[str, float]:
        raise ends

    with monkeypatch.context() as patch:
        patch.setattr(PPO, "iterate", broken)
        with pytest.raises(type(ends)):
            run.start(small_recipe(steps=1), tmp_path / "run")
        with pytest.raises(type(ends)):
            run.resume(tmp_path / "run")
    assert run.resume(tmp_path / "run").finished


def test_another_seed_is_another_run(mlp: Trained, tmp_path: Path) -> None:
    recipe = replace(recipe_of(mlp.folder), seed=4)
    made = learned(recipe, tmp_path / "run", 1)
    again = learned(replace(recipe, seed=5), tmp_path / "other", 1)
    weights = [run_.algorithm.actor().state_dict() for run_ in (made, again)]
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_checkpoint_that_does_not_fit_its_recipe_is_refused(mlp: Trained, tmp_path: Path) -> None:
    for name in ("checkpoint.pt", "recipe.yaml"):
        (tmp_path / name).write_bytes((mlp.folder / name).read_bytes())
    data = yaml.safe_load((tmp_path / "recipe.yaml").read_text())
    data["algorithm_settings"]["hidden"] = [5]
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(data))
    for action in (run.resume, run.export):
        with pytest.raises(UserError, match=r"does not fit the recipe\.yaml beside it"):
            action(tmp_path)


def test_checkpoints_are_of_what_one_could_go_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is due after every iteration, and kept once the next has gone well; the third one breaks."""
    monkeypatch.setattr(run, "CHECKPOINT_EVERY_S", 0.0)
    recipe = small_recipe()
    expected = learned(recipe, tmp_path / "expected", 1)
    expected.save()
    algorithm = type(expected.algorithm)
    iterate, calls = algorithm.iterate, 0

    def breaking(self: Any, done: float) -> dict[str, float]:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise NotFinite("The test is not finite")
        return iterate(self, done)

    monkeypatch.setattr(algorithm, "iterate", breaking)
    folder = tmp_path / "run"
    with pytest.raises(UserError, match=r"stopped at step 1024: The test is not finite"):
        run.start(recipe, folder)
    assert_same(load_checkpoint(folder), load_checkpoint(tmp_path / "expected"))


def test_what_is_no_run_cannot_go_on(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no checkpoint\.pt"):
        run.resume(tmp_path)
    with pytest.raises(UserError, match=r"has no recipe\.yaml"):
        recipe_of(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"), [(b"envs: [", "is not valid YAML"), (b"\xff\xfe", "line 1 is not UTF-8 text")]
)
def test_a_slip_in_a_runs_recipe_is_said(mlp: Trained, tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "checkpoint.pt").write_bytes((mlp.folder / "checkpoint.pt").read_bytes())
    (tmp_path / "recipe.yaml").write_bytes(content)
    for action in (run.resume, run.export, recipe_of):
        with pytest.raises(UserError, match=rf"he recipe {tmp_path / 'recipe.yaml'}:? {said}"):
            action(tmp_path)


# ---- set-up

STEP = ReplaySpec(fields(x=((), "float32")), fields(y=((), "float32")), 10)


def sets_up(monkeypatch: pytest.MonkeyPatch, steps: int = 0, ends: BaseException | None = None) -> None:
    """Have PPO keep a replay buffer with so many steps in its folder, and then end like that."""

    class Keeping(PPO):
        def open(self, folder: Path) -> None:
            with ReplayBuffer(folder / "demonstrations", STEP) as buffer:
                if not len(buffer):
                    buffer.begin({"x": 0.0})
                    for _ in range(steps):
                        buffer.add({"y": 1.0}, {"x": 1.0})
            if ends is not None:
                raise ends

    monkeypatch.setattr(run, "ALGORITHMS", SimpleNamespace(load=lambda name: Keeping))


@pytest.mark.parametrize("ends", [UserError("Of another robot."), KeyboardInterrupt(), RuntimeError("a mistake")])
def test_what_ends_in_its_set_up_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: BaseException
) -> None:
    sets_up(monkeypatch, ends=ends)
    with pytest.raises(type(ends), match=rf"^{ends}$"):
        run.start(small_recipe(), tmp_path / "runs" / "run")
    assert list((tmp_path / "runs").iterdir()) == []


def test_what_was_demonstrated_is_kept_and_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, folder = small_recipe(steps=1), tmp_path / "run"
    sets_up(monkeypatch, steps=3, ends=UserError("The disk is full."))
    with pytest.raises(
        UserError, match=rf"^The disk is full\. The data so far are kept: .*`rlstack train --resume {folder}`\.$"
    ):
        run.start(recipe, folder)
    assert len(ReplayReader(folder / "demonstrations")) == 3
    with pytest.raises(UserError, match=r"^The disk is full\.$"):  # what was not made by this call stays
        run.resume(folder)
    sets_up(monkeypatch, steps=9)
    monkeypatch.setattr(run._Run, "_finish", lambda self: self.save())
    run.resume(folder)
    assert len(ReplayReader(folder / "demonstrations")) == 3
    learned(recipe, tmp_path / "whole", 1).save()
    assert_same(load_checkpoint(folder), load_checkpoint(tmp_path / "whole"))


def test_a_run_that_learned_does_not_begin_again_without_its_checkpoint(mlp: Trained, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_bytes((mlp.folder / "recipe.yaml").read_bytes())
    (tmp_path / "events.out.tfevents.1").touch()
    with pytest.raises(UserError, match=r"has no checkpoint\.pt"):
        run.resume(tmp_path)


def test_a_folder_that_another_run_takes_meanwhile_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, made = tmp_path / "run", run._Run

    def slow(*arguments: Any) -> run._Run:
        folder.mkdir()
        return made(*arguments)

    monkeypatch.setattr(run, "_Run", slow)
    with pytest.raises(UserError, match="exists already and is never overwritten"):
        run.start(small_recipe(), folder)
    assert list(folder.iterdir()) == []


# ---- the best, not the last


def test_the_best_by_evaluation_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of three evaluations is made to look best; its weights are what is exported."""
    recipe, seen = small_recipe(), []
    ranks = iter([(0.1, 0.0, -1.0), (0.9, 0.0, -1.0), (0.9, 0.0, -2.0)])
    monkeypatch.setattr(
        training_evaluation.Evaluator, "evaluate", lambda *_: training_evaluation.Evaluation(0.5, next(ranks), {})
    )
    made = run._Run(recipe, tmp_path)
    evaluate = made._evaluate

    def watched() -> None:
        evaluate()
        seen.append((made._steps(), made.algorithm.actor().state_dict()))

    monkeypatch.setattr(made, "_evaluate", watched)
    with SummaryWriter(str(tmp_path)) as writer:
        for _ in range(4):
            made._iterate(writer)
    assert [step for step, _ in seen] == [1024, 1536, 2048]
    assert made.best["step"] == 1536
    for name, weights in seen[1][1].items():
        assert torch.equal(made.best["actor"][name], weights)
    assert any(not torch.equal(weights, seen[2][1][name]) for name, weights in seen[1][1].items())


def test_staying_close_comes_before_being_closer(monkeypatch: pytest.MonkeyPatch) -> None:
    def rank(success: float, lost: float, near: float, error: float) -> tuple[float, ...]:
        return evaluation(monkeypatch, success, lost, near, error).rank

    assert rank(0.9, 0.0, 0.1, 0.5) > rank(0.8, 0.0, 0.9, 0.1)
    assert rank(0.9, 0.0, 0.1, 0.5) > rank(0.95, 0.06, 0.9, 0.1)  # a loss counts as much as a success
    assert rank(0.9, 0.0, 0.5, 0.2) > rank(0.9, 0.0, 0.4, 0.1)
    assert rank(0.9, 0.0, 0.5, 0.1) > rank(0.9, 0.0, 0.5, 0.2)


def evaluation(
    monkeypatch: pytest.MonkeyPatch, success: float, lost: float, near: float, error: float
) -> training_evaluation.Evaluation:
    """Return the evaluation of flights with such shares and such a median error."""

    def shares(share: float) -> np.ndarray:
        return np.arange(100) < round(100 * share)

    result = SimpleNamespace(
        success=shares(success), lost=shares(lost), close=shares(near), error_m=np.full(100, error)
    )
    monkeypatch.setattr(verification, "rollout", lambda *_, **__: np.zeros(100))
    monkeypatch.setattr(verification, "outcome", lambda *_: result)
    made = training_evaluation.Evaluator(small_recipe().task_settings, load_quadrotor("crazyflie"), 2, 1)
    return made.evaluate(SimpleNamespace())


def test_figures_that_no_file_can_hold_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "error_m" not in evaluation(monkeypatch, 0.0, 1.0, 0.0, float("inf")).figures
    figures = {"episodes": 100, "success": 0.0, "within_0_1": 0.0, "lost": 1.0, "error_m": 0.5}
    assert evaluation(monkeypatch, 0.0, 1.0, 0.0, 0.5).figures == figures


# ---- what breaks


def test_a_reward_that_is_not_finite_stops_with_the_step_and_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first reward term, whatever it is, becomes NaN in the ninth step, which is the second iteration's first."""
    task = type(small_recipe().task_settings)
    whole = task.reward_terms
    name = next(iter(small_recipe().task_settings.reward_terms()))

    def terms(self: Any) -> Any:
        weight, term = whole(self)[name]
        left = lambda view: 0.42 - view.state[:, STATE["elapsed"].start]  # noqa: E731
        return {**whole(self), name: (weight, lambda view: term(view) + left(view).sqrt())}

    monkeypatch.setattr(task, "reward_terms", terms)
    folder = tmp_path / "run"
    with pytest.raises(UserError, match=rf"stopped at step 512: The reward term '{name}' is not finite") as stopped:
        run.start(small_recipe(), folder)
    assert f"Lower learning_rate in {folder / 'recipe.yaml'}" in str(stopped.value)
    assert not (folder / "policy.onnx").exists()
    assert load_checkpoint(folder)["iteration"] == 0


@pytest.mark.parametrize("at", [3, 8], ids=["inside the rollout", "at its end"])
def test_an_observation_that_is_not_finite_stops_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    observe, calls = QuadrotorEnvironment.observe, 0

    def spoiled(self: QuadrotorEnvironment) -> tuple[torch.Tensor, torch.Tensor]:
        nonlocal calls
        calls += 1
        actor, critic = observe(self)
        if calls == 1 + at:  # the first is before the first step
            term = next(t for t in self.pipeline.table() if t.name == "linear_velocity")
            actor[7, term.start + 1] = float("nan")
        return actor, critic

    monkeypatch.setattr(QuadrotorEnvironment, "observe", spoiled)
    with pytest.raises(UserError, match=r"stopped at step 0: The actor's observation term 'linear_velocity' is not"):
        run.start(small_recipe(), tmp_path / "run")


def test_a_privileged_observation_that_is_not_finite_stops_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe = QuadrotorEnvironment.observe

    def spoiled(self: QuadrotorEnvironment) -> tuple[torch.Tensor, torch.Tensor]:
        actor, critic = observe(self)
        critic[2, next(t.start for t in self.critic_table() if t.name == "mass")] = float("inf")
        return actor, critic

    monkeypatch.setattr(QuadrotorEnvironment, "observe", spoiled)
    with pytest.raises(UserError, match=r"The critic's observation term 'mass' is not finite"):
        run.start(small_recipe(), tmp_path / "run")


def test_a_critic_that_is_not_finite_is_named(tmp_path: Path) -> None:
    made = learned(small_recipe(), tmp_path / "run", 1)
    with torch.no_grad():
        for parameter in made.algorithm.learner.critic.parameters():  # type: ignore[attr-defined]
            parameter.mul_(float("nan"))
    with (
        SummaryWriter(str(tmp_path / "run")) as writer,
        pytest.raises(UserError, match=r"stopped at step 512: The critic's value is not finite"),
    ):
        made._iterate(writer)


def test_a_policy_that_is_not_finite_is_named(tmp_path: Path) -> None:
    made = learned(small_recipe(), tmp_path / "run", 1)
    with torch.no_grad():
        made.algorithm.learner.actor.mlp[-1].bias[2] = float("nan")  # type: ignore[attr-defined]
    with (
        SummaryWriter(str(tmp_path / "run")) as writer,
        pytest.raises(UserError, match=r"stopped at step 512: The policy's action is not finite"),
    ):
        made._iterate(writer)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"epochs": 1, "minibatches": 1}, "An update left weights of the policy that are not finite"),
        ({"epochs": 2, "minibatches": 2}, "(An update left weights of the policy|The surrogate loss is) .*not finite"),
    ],
    ids=["one step", "several steps"],
)
def test_an_update_that_breaks_stops_with_what_broke(tmp_path: Path, settings: dict, said: str) -> None:
    made = learned(small_recipe(algorithm_settings=settings), tmp_path / "run", 1)
    made.algorithm.learner.value_loss_coef = float("nan")  # type: ignore[attr-defined]
    made.algorithm.learner.max_grad_norm = float("nan")  # type: ignore[attr-defined]
    with (
        SummaryWriter(str(tmp_path / "run")) as writer,
        pytest.raises(UserError, match=rf"stopped at step 512: {said}"),
    ):
        made._iterate(writer)


def test_a_policy_that_broke_without_a_word_is_found_by_its_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoiled(self: Any, inputs: Any, state: Any) -> Any:
        command, after = step(self, inputs, state)
        return command * float("nan"), after

    step = run.PolicyGraph.step
    monkeypatch.setattr(run.PolicyGraph, "step", spoiled)
    with pytest.raises(
        UserError, match=r"stopped at step \d+: The policy's command on held-out starts .*learning_rate"
    ):
        run.start(small_recipe(), tmp_path / "run")
