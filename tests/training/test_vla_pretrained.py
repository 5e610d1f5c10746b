"""Supervised fine-tuning of a policy that sees already, by demonstrations of one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.demonstrations.recording import Choice, record
from rlstack.errors import UserError
from rlstack.policies import load_policy
from rlstack.robots import load_robot
from rlstack.sim.visual_randomization import AppearanceRange
from rlstack.tasks.catalog.table_push import TablePushTask
from rlstack.tasks.core.image_streams import CameraRange
from rlstack.training.algorithms.vla_sft import VLASFT, VLASFTSettings
from rlstack.training.export import PolicyGraph, export_policy, make_contract
from rlstack.training.language.network_settings import NetworkSettings
from rlstack.training.recipe import load_recipe
from rlstack.training.run_folder import save_checkpoint
from tests.support.arms import small_panda

PANDA = small_panda(16)
TASK = TablePushTask(episode_s=4.0, pictures=CameraRange(look=AppearanceRange(shadows=0.0)))
SEES = NetworkSettings(channels=(8, 8), points=2, looks=3, width=16, heads=2, layers=0, decoder_layers=0)
SEEN = VLASFTSettings(network=SEES, head="regression", batch=16, looking=0.0, shift=0, brightness=0.0, demonstrations=1)


@pytest.fixture(autouse=True)
def few_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlstack.tasks.manipulator.environment.STARTS", 32)


def environment() -> Any:
    torch.manual_seed(0)
    return TASK.environment(PANDA, TASK.pipeline(PANDA), 1, "cpu", 0)


@pytest.fixture
def own(tmp_path: Path) -> VLASFTSettings:
    """Settings with a run to go on from, whose policy has learned nothing, and a demonstration."""
    torch.manual_seed(7)
    before = VLASFT(SEEN, environment())
    save_checkpoint(tmp_path / "before", {"algorithm": before.state_dict()})
    record(tmp_path / "shown", "table_push", TASK, PANDA, lambda station: Choice(station.expert()), 1, seed=2)
    from_run = {"pretrained": str(tmp_path / "before"), "fixed_eyes": True}
    return replace(SEEN, dataset=(str(tmp_path / "shown"),), labels=0.0, **from_run)


def test_learns_to_act_from_demonstrations_and_sees_as_before(own: VLASFTSettings, tmp_path: Path) -> None:
    one = VLASFT(own, environment())
    one.check()
    assert one.policy.grounded is not None
    begun = {name: tensor.clone() for name, tensor in one.policy.state_dict().items()}
    saved = torch.load(tmp_path / "before" / "checkpoint.pt", weights_only=True)["algorithm"]["learner"]["actor"]
    assert all(torch.equal(begun[name], saved[name]) for name in begun), "normalisation too"
    eyes = [parameter.clone() for parameter in one.policy.grounded.eyesight()]
    one.open(tmp_path / "run")
    first = one.iterate(0.1).scalars["loss/actions"]
    for _ in range(5):
        last = one.iterate(0.5).scalars["loss/actions"]
    assert last < first and all(map(torch.equal, one.policy.grounded.eyesight(), eyes))

    # a run that goes on has its own policy
    other = VLASFT(replace(own, pretrained=str(tmp_path / "gone")), environment())
    other.load_state_dict(one.state_dict())
    other.open(tmp_path / "run")
    torch.testing.assert_close(other.policy.state_dict(), one.policy.state_dict())

    # its file sees
    graph = PolicyGraph(TASK.pipeline(PANDA), one.actor(), TASK.inputs)
    contract = make_contract("own", "table_push", TASK, PANDA, graph, training={}, evaluation={})
    export_policy(graph, contract, PANDA, tmp_path / "policy.onnx")
    assert "scene_image" in {port.name for port in load_policy(tmp_path / "policy.onnx", robot=PANDA).contract.inputs}


def test_refuses_what_cannot_see_and_what_is_not_there(own: VLASFTSettings, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="pretrained: is empty: name the folder of a run on this task"):
        VLASFT(replace(own, pretrained=""), environment()).check()
    few = load_recipe("table_push_few")
    task, arm = few.task_settings, load_robot(few.robot)
    with pytest.raises(UserError, match=r"pretrained: is empty: .*; begin with `rlstack train table_push_perception"):
        VLASFT(few.algorithm_settings, task.environment(arm, task.pipeline(arm), 1, "cpu", 0)).check()
    with pytest.raises(ValueError, match=r"network\.looks: 3 is not allowed with dataset, .*; or go on from a policy"):
        replace(own, fixed_eyes=False)
    with pytest.raises(UserError, match=r"gone does not exist: .* begin with `rlstack train table_push"):
        VLASFT(replace(own, pretrained=str(tmp_path / "gone")), environment()).check()
    with pytest.raises(UserError, match="fixed_eyes: true is not allowed with shift"):
        VLASFT(replace(own, shift=1), environment())


def test_the_recipe_goes_on_from_the_released_policy() -> None:
    own = load_recipe("table_push_own")
    task, arm = own.task_settings, load_robot(own.robot)
    settings = replace(own.algorithm_settings, dataset=("shown",))
    one = VLASFT(settings, task.environment(arm, task.pipeline(arm), 1, "cpu", 0))
    one.check()
    seen = one.policy.seen(torch.from_numpy(np.zeros((1, task.pipeline(arm).size), np.float32)))
    assert torch.isfinite(one.policy.planned(seen)).all()
