"""What fine-tuning goes on from: a policy file for each algorithm; other robots, tasks and forms are refused."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from rlstack.errors import UserError
from rlstack.policies import write_policy
from rlstack.tasks.manipulator.table_task import ActionShift
from rlstack.training.algorithms.vla_dagger import VLADAgger, VLADAggerSettings
from rlstack.training.algorithms.vla_dsrl import VLADSRL, VLADSRLSettings
from rlstack.training.algorithms.vla_grpo import VLAGRPO, VLAGRPOSettings
from rlstack.training.algorithms.vla_ppo import VLAPPO, VLAPPOSettings
from rlstack.training.algorithms.vla_rejection import VLARejection, VLARejectionSettings
from rlstack.training.algorithms.vla_sft import VLASFT
from rlstack.training.export import PolicyGraph, to_onnx
from rlstack.training.language.network_settings import NetworkSettings
from rlstack.training.origin import read_origin
from rlstack.training.recipe import Recipe, recipe_to_yaml
from rlstack.training.run_contract import contract_of
from rlstack.training.run_files import CHECKPOINT, POLICY, RECIPE
from rlstack.training.run_folder import save_checkpoint
from tests.training.test_vla import PANDA, SFT, TASK, environment, few_starts

__all__ = ["few_starts"]

SIGHTED = NetworkSettings(channels=(8, 8), points=2, looks=3, composed=True, width=16, layers=0, decoder_layers=0)
POINTS = replace(SIGHTED, points=4)
SHIFTED = replace(TASK, action_shift=ActionShift(yaw_rad=0.5236, gain=0.7))
UNUSED = ("head.log_std", "head.noise.weight", "head.noise.bias", "network.camera_place", "network.mixed_norm")
"""Of samples, which no file has, and of layers of which this network has none."""


def run_of(folder: Path, head: Any, task: Any) -> VLASFT:
    """Write a run of vla_sft whose policy has learned nothing, with its policy file; return its algorithm."""
    folder.mkdir(exist_ok=True)
    settings = replace(SFT, head=head, network=SIGHTED)
    one = VLASFT(settings, environment(1))
    with torch.no_grad():  # unlike what a new network begins with
        for weight in one.policy.parameters():
            weight.mul_(1.3).add_(0.01)
    recipe: Recipe[Any, Any] = Recipe(
        name="before",
        task="table_push",
        robot="panda",
        algorithm="vla_sft",
        task_settings=task,
        algorithm_settings=settings,
    )
    (folder / RECIPE).write_text(recipe_to_yaml(recipe))
    save_checkpoint(folder, {"algorithm": one.state_dict()})
    graph = PolicyGraph(task.pipeline(PANDA), one.actor(), task.inputs)
    contract = contract_of(recipe, PANDA, graph, 0, {}, [])
    write_policy(to_onnx(graph, contract), contract, folder / POLICY)
    return one


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any, Any], tuple[Path, VLASFT]]:
    """Return the run of a head and a task, and its algorithm; each is made once."""

    @cache
    def one(head: Any, task: Any) -> tuple[Path, VLASFT]:
        folder = tmp_path_factory.mktemp("runs") / "before"
        return folder, run_of(folder, head, task)

    return one


@pytest.fixture
def run(made: Any) -> Path:
    folder: Path = made("regression", TASK)[0]
    return folder


EYES: Any = {"head": "regression", "network": SIGHTED, "fixed_eyes": True, "blind": 1.0}
SEEING: Any = {"head": "regression", "network": SIGHTED}


@pytest.mark.parametrize(
    ("algorithm", "settings", "before", "after"),
    [
        (VLAPPO, VLAPPOSettings(**EYES), TASK, SHIFTED),
        pytest.param(VLARejection, VLARejectionSettings(**SEEING), TASK, SHIFTED, marks=pytest.mark.slow),
        pytest.param(VLADSRL, VLADSRLSettings(network=SIGHTED, hidden=(16,)), TASK, SHIFTED, marks=pytest.mark.slow),
        pytest.param(VLAGRPO, VLAGRPOSettings(**EYES, group=2), TASK, SHIFTED, marks=pytest.mark.slow),
        pytest.param(VLADAgger, VLADAggerSettings(**SEEING), TASK, TASK, marks=pytest.mark.slow),
        pytest.param(VLADAgger, VLADAggerSettings(**SEEING), SHIFTED, TASK, marks=pytest.mark.slow),
        pytest.param(VLAPPO, VLAPPOSettings(**EYES), SHIFTED, SHIFTED, marks=pytest.mark.slow),
    ],
    ids=["ppo", "rejection", "dsrl", "grpo", "dagger", "dagger-of-shifted", "ppo-of-shifted"],
)
def test_goes_on_from_a_policy_file(algorithm: Any, settings: Any, before: Any, after: Any, made: Any) -> None:
    folder, sft = made(settings.head, before)
    first = sft.policy.state_dict()
    one = algorithm(replace(settings, pretrained=str(folder / POLICY)), environment(2, after))
    new = {name: tensor.clone() for name, tensor in one.policy.state_dict().items()}
    one.load_pretrained()
    mine, learned = one.policy.state_dict(), 0
    for name, tensor in first.items():
        if not name.startswith(UNUSED):
            assert torch.equal(tensor, mine[name]), name
            learned += not torch.equal(tensor, new[name])
    assert learned > 30
    assert one.policy.fixed_eyes == getattr(settings, "fixed_eyes", False)
    assert one.environment.task.action_shift == after.action_shift, "the run's own"


PPO = VLAPPOSettings(head="regression", network=SIGHTED)


@cache
def robots() -> Any:
    return environment(1)


@pytest.fixture(scope="module", autouse=True)
def no_robots_left() -> Iterator[None]:
    """Release their renderer before Python shuts down."""
    yield
    robots.cache_clear()


def opened(pretrained: Path | str, settings: Any = PPO, algorithm: Any = VLAPPO) -> None:
    algorithm(replace(settings, pretrained=str(pretrained)), robots()).load_pretrained()


def changed(run: Path, folder: Path, **recipe: str) -> Path:
    """Return a copy of a run whose recipe has some lines of other text."""
    shutil.copytree(run, folder)
    text = (folder / RECIPE).read_text()
    for name, value in recipe.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"{name}:")]
        text = text.replace(line, f"{name}: {value}")
    (folder / RECIPE).write_text(text)
    return folder


def test_another_robots_run_is_refused_whose_network_would_fit(run: Path, tmp_path: Path) -> None:
    other = changed(run, tmp_path / "other", robot="so100")
    told = r"other is of so100, and this run is for panda: give --robot so100, or begin with `rlstack train table_push`"
    with pytest.raises(UserError, match=told):
        opened(other)
    with pytest.raises(UserError, match="is of so100, and this run is for panda"):
        opened(other, VLADAggerSettings(head="regression", network=SIGHTED), VLADAgger)
    # the same robot by a file that is gone; another task that says the same; no recipe
    opened(changed(run, tmp_path / "own", robot=str(tmp_path / "panda.yaml")))
    opened(changed(run, tmp_path / "task", task="my_push"))
    bare = changed(run, tmp_path / "bare")
    (bare / RECIPE).unlink()
    opened(bare)


def test_a_run_that_acts_by_other_observations_is_refused_whose_tensors_fit(run: Path, tmp_path: Path) -> None:
    whole = replace(SIGHTED, sees_apart=True, offsets=6)
    few = replace(whole, acts_without=("tool_position",))
    one, folder = VLASFT(replace(SFT, head="regression", network=few), environment(1)), tmp_path / "few"
    shutil.copytree(run, folder)
    save_checkpoint(folder, {"algorithm": one.state_dict()})
    data = yaml.safe_load((folder / RECIPE).read_text())
    data["algorithm_settings"]["network"] |= {"sees_apart": True, "offsets": 6, "acts_without": ["tool_position"]}
    (folder / RECIPE).write_text(yaml.safe_dump(data))
    opened(folder, replace(PPO, network=few))
    told = r"its network.acts_without is \['tool_position'\], and this recipe's is \[\]: give .*-without tool_position"
    with pytest.raises(UserError, match=told):
        opened(folder, replace(PPO, network=whole))
    del data["algorithm_settings"]["network"]["acts_without"]  # a run of before there was such a setting
    (folder / RECIPE).write_text(yaml.safe_dump(data))
    with pytest.raises(UserError, match=r"its network.acts_without is \[\], and this recipe's is \['tool_position'\]"):
        opened(folder, replace(PPO, network=few))
    opened(folder, replace(PPO, network=whole))


def test_says_what_does_not_fit_and_which_run_does(run: Path, tmp_path: Path) -> None:
    begin = r"begin with `rlstack train table_push"
    suite = changed(run, tmp_path / "suite", task="table_suite")
    held = torch.load(suite / CHECKPOINT, weights_only=True)
    held["algorithm"]["learner"]["actor"]["tokeniser.codes"] += 1.0
    save_checkpoint(suite, held)
    (tmp_path / "empty").mkdir()
    shutil.copytree(run, tmp_path / "exported", ignore=shutil.ignore_patterns(CHECKPOINT))
    tokens, longer, more = (replace(PPO, **one) for one in ({"head": "tokens"}, {"chunk": 5}, {"network": POINTS}))
    for given, settings, told in (
        (suite, PPO, rf"suite is of table_suite, and this is table_push: {begin}`"),
        ("gone", PPO, rf"pretrained: gone does not exist: name a run's folder or a policy file, or {begin}`"),
        ("arm_reach", PPO, rf"arm_reach.policy.onnx is of arm_reach, and this is table_push: {begin}`"),
        (tmp_path / "empty", PPO, rf"empty has no checkpoint.pt, so that it is no run's folder: .* or {begin}`"),
        (tmp_path / "exported", PPO, r"has no checkpoint.pt.*: name its policy file, .*exported/policy.onnx"),
        (
            run,
            tokens,
            r"its head is regression, and this recipe's is tokens: give --algorithm-settings.head regression",
        ),
        (run, tokens, rf"or {begin} --algorithm-settings.head tokens`"),
        (run, more, r"its network.points is 2, and this recipe's is 4: give --algorithm-settings.network.points 2"),
        (
            run / POLICY,
            longer,
            r"onnx does not fit: its chunk is 4, and this recipe's is 5: give --algorithm-settings.chunk 4",
        ),
        ("", PPO, rf"is empty: name the folder of a run .*{begin}`"),
    ):
        with pytest.raises(UserError, match=told):
            opened(given, settings)
    told = rf"its head is regression, and this recipe's is flow: {begin} --algorithm-settings.head flow`"
    with pytest.raises(UserError, match=told):
        opened(run, VLADSRLSettings(network=SIGHTED), VLADSRL)


@pytest.mark.slow
def test_files_of_other_forms_are_refused(run: Path) -> None:
    with pytest.raises(UserError, match=r"its network.points is 2, and this recipe's is 4: give"):
        opened(run / POLICY, replace(PPO, network=POINTS))
    with pytest.raises(UserError, match=r"its network.sharpness is 1.0, and this recipe's is 2.0: give"):
        opened(run / POLICY, replace(PPO, network=replace(SIGHTED, sharpness=2.0)))
    with pytest.raises(UserError, match=r"its head is regression, and this recipe's is flow: begin"):
        opened(run / POLICY, VLADSRLSettings(network=SIGHTED), VLADSRL)


def test_from_names_the_setting_of_algorithms_that_have_one() -> None:
    with pytest.raises(
        UserError, match=r"--from: vla_ppo .*: give --algorithm-settings.pretrained runs/a in its place"
    ):
        read_origin("runs/a", "vla_ppo")
    assert "pretrained" in {one.name for one in dataclasses.fields(VLAPPO.Settings)}
