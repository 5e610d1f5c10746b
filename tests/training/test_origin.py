"""Fine-tuning: what a run starts with, what it says of it, and what it refuses."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rlstack.errors import UserError
from rlstack.policies import load_policy
from rlstack.robots.spec import robot_files
from rlstack.training import run
from rlstack.training.algorithms.rlpd import RLPD, RLPDSettings
from rlstack.training.command import parse_recipe
from rlstack.training.origin import SCHEDULE_FROM, read_origin
from rlstack.training.recipe import load_recipe, recipe_from_data
from rlstack.training.run_folder import load_checkpoint, recipe_of
from rlstack.verification.training_evaluation import Evaluation
from tests.support.learning import small_apg_data, small_recipe
from tests.support.reaching import Reaching
from tests.training.conftest import Trained


def recipe(**changes: Any) -> Any:
    return recipe_from_data(small_apg_data(**changes), "small.yaml")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run by gradients of one iteration."""
    folder = tmp_path_factory.mktemp("origin") / "first"
    run.start(recipe(steps=64 * 8, selection={"after": 1.0}), folder)
    return folder


def heavier(folder: Path) -> str:
    """Write the file of a crazyflie with a third more mass, and return its path."""
    own = robot_files()["crazyflie"].read_text()
    text = re.sub(r"mass_kg: 0.027 ", "mass_kg: 0.035 ", own).replace("name: crazyflie\n", "name: heavier\n")
    (folder / "heavier.yaml").write_text(text)
    return str(folder / "heavier.yaml")


@pytest.mark.parametrize("file", [False, True])
def test_the_new_run_begins_with_the_policys_own_function(first: Path, tmp_path: Path, file: bool) -> None:
    made = run._Run(recipe(seed=9), tmp_path / "second")
    made.start_from(read_origin(str(first / "policy.onnx" if file else first), "apg"))
    old = run._Run(recipe_of(first), first)
    actor = old.algorithm.actor()
    actor.load_state_dict(load_checkpoint(first)["best"]["actor"])
    seen = torch.randn(50, old.algorithm.actor().layers[0].in_features)
    wanted, found = actor(seen, {})[0], made.algorithm.actor()(seen, {})[0]
    assert (found - wanted).abs().max() < 1e-5
    assert not torch.equal(made.algorithm.policy.scale, torch.ones_like(made.algorithm.policy.scale))


def test_a_fine_tuned_run_tells_where_it_comes_from_and_is_never_worse(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[float] = []
    worse: list[int] = []
    iterate = run.ALGORITHMS.load("apg").iterate

    def watched(self: Any, done: float) -> Any:
        begun.append(done)
        return iterate(self, done)

    def worse_each_time(self: Any, policy: Any) -> Evaluation:
        worse.append(len(worse))
        return Evaluation(0.5, (-worse[-1],), {"loss": float(worse[-1])})

    monkeypatch.setattr(run.ALGORITHMS.load("apg"), "iterate", watched)
    monkeypatch.setattr(run.Evaluator, "evaluate", worse_each_time)
    settings = recipe(robot=heavier(tmp_path), fine_tuned_from=str(first), steps=2 * 64 * 8)
    result = run.start(settings, tmp_path / "second")
    assert begun == [SCHEDULE_FROM, SCHEDULE_FROM + 0.5 * (1.0 - SCHEDULE_FROM)]
    assert result.evaluations[0]["step"] == 0 and result.evaluations[-1]["step"] == 1024
    assert result.evaluation == {"loss": 0.0}  # that of what it started with
    contract, own = load_policy(result.policy).contract, load_policy(first / "policy.onnx")
    (ancestor,) = contract.training["lineage"]
    assert ancestor["sha256"] == own.sha256 and (ancestor["robot"], ancestor["steps"]) == ("crazyflie", 512)
    assert json.loads((tmp_path / "second" / "lineage.json").read_text()) == [ancestor]
    assert recipe_of(tmp_path / "second").fine_tuned_from == str(first)
    again = run.export(tmp_path / "second", tmp_path / "again.onnx")
    assert load_policy(again).contract.training["lineage"] == [ancestor]
    grandchild = read_origin(str(tmp_path / "second"), "apg").lineage()
    assert [one["robot"] for one in grandchild] == ["heavier", "crazyflie"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"algorithm_settings": {"hidden": [8]}},
            r"another network: algorithm_settings.hidden is \[16\] there and \[8\]",
        ),
        (
            {"algorithm_settings": {"network": "gru"}},
            "another network: algorithm_settings.network is mlp there and gru",
        ),
        (
            {"task_settings": {"observation": {"action_history": 3}}},
            "another observation: task_settings.observation.action_history is 2 there and 3 here",
        ),
        ({"task_settings": {"rate_hz": 25.0}}, "acts at 20 Hz, and the recipe at 25 Hz"),
    ],
)
def test_weights_that_mean_something_else_are_refused(first: Path, tmp_path: Path, changes: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        run.start(recipe(fine_tuned_from=str(first), **changes), tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_what_weights_cannot_be_taken_from_is_refused(first: Path, mlp: Trained, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a policy for the task quadrotor_hover, not for quadrotor_tracking"):
        run.start(replace(load_recipe("quadrotor_tracking"), fine_tuned_from=str(first)), tmp_path / "second")
    with pytest.raises(UserError, match="was trained by apg, whose networks are others than those of ppo"):
        run.start(replace(small_recipe(), fine_tuned_from=str(first)), tmp_path / "second")
    with pytest.raises(UserError, match=r"policy.onnx is a policy file, which has no critics, and ppo needs them"):
        read_origin(str(mlp.folder / "policy.onnx"), "ppo")
    with pytest.raises(
        UserError, match=r"cannot start from another run's weights; these can: apg, h2o, ppo, rlpd, ro2o, sac, wsrl"
    ):
        read_origin(str(first), "bc")
    with pytest.raises(UserError, match=r"is not a run: it has no checkpoint.pt"):
        read_origin(str(tmp_path), "apg")
    with pytest.raises(UserError, match=r"Unknown policy .* 'hovr'"):
        read_origin("hovr", "apg")


def test_ppo_takes_over_policy_and_critic(mlp: Trained, tmp_path: Path) -> None:
    made = run._Run(replace(small_recipe(), seed=8), tmp_path / "second")
    made.start_from(read_origin(str(mlp.folder), "ppo"))
    learner, state = made.algorithm.learner, load_checkpoint(mlp.folder)["algorithm"]["learner"]
    for own, kept in ((learner.actor, "actor_state_dict"), (learner.critic, "critic_state_dict")):
        assert all(torch.equal(tensor, state[kept][name]) for name, tensor in own.state_dict().items())
    assert learner.optimizer.state_dict()["state"] == {}


def test_replayed_algorithms_take_over_their_networks_and_act_by_them(tmp_path: Path) -> None:
    settings = RLPDSettings(hidden=(8,), batch=8, warm_up=200, demonstrations=1, critics=2, pretraining=50)
    torch.manual_seed(4)
    old = RLPD(settings, Reaching())
    torch.manual_seed(5)
    made = RLPD(settings, Reaching())
    made.start_from(old.actor().state_dict(), old.state_dict())
    made.open(tmp_path)
    for name, tensor in made.learner.actor.state_dict().items():
        assert torch.equal(tensor, old.learner.actor.state_dict()[name])  # and no cloning came after it
    again = RLPD(settings, Reaching())
    again.load_state_dict(made.state_dict())
    assert again._able


def test_a_released_policy_takes_a_share_of_the_recipes_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual, words = load_recipe("quadrotor_hover").steps, ["--from", "quadrotor_hover", "--robot", heavier(tmp_path)]
    found = parse_recipe("quadrotor_hover", words).recipe
    assert (found.steps, found.fine_tuned_from) == (round(0.2 * usual), "quadrotor_hover")
    assert "Fine-tuning takes 1,088,000 steps by default, 20% of the recipe's" in capsys.readouterr().err
    assert parse_recipe("quadrotor_hover", [*words, "--steps", "640"]).recipe.steps == 640
    origin = read_origin("quadrotor_hover", "apg")
    origin.check(found, found.task_settings.pipeline(found.task_settings.reference(run.load_robot(found.robot))))
