"""Policies of skrl, made and saved by it, become policy files that answer as they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.importers import SOURCES
from rlstack.importers.mapping import NetworkSettings
from tests.support.imported import SIZE, fly

pytest.importorskip("skrl")
gymnasium = pytest.importorskip("gymnasium")

SEEN, GIVEN = gymnasium.spaces.Box(-np.inf, np.inf, (SIZE,)), gymnasium.spaces.Box(-1.0, 1.0, (4,))


def agent(form: str) -> Any:
    """Return an agent as Isaac Lab's runner makes it: its policy shared with the value, or alone and squashed."""
    from skrl.agents.torch.ppo import PPO, PPO_CFG
    from skrl.resources.preprocessors.torch import RunningStandardScaler
    from skrl.utils.model_instantiators.torch import deterministic_model, gaussian_model, shared_model

    torch.manual_seed(0)
    spaces = {"observation_space": SEEN, "state_space": SEEN, "action_space": GIVEN, "device": "cpu"}
    chain = [{"name": "net", "input": "OBSERVATIONS", "layers": [32, 16], "activations": "elu"}]
    if form == "shared":
        parts = [{"network": chain, "output": "ACTIONS"}, {"network": chain, "output": "ONE"}]
        policy = value = shared_model(**spaces, roles=["policy", "value"], parameters=parts)
    else:
        policy = gaussian_model(**spaces, network=chain, output="tanh(ACTIONS)")
        value = deterministic_model(**spaces, network=chain, output="ONE")
    for role, model in (("policy", policy), ("value", value)):
        model.init_state_dict(role=role)
    scaled = {
        "observation_preprocessor": RunningStandardScaler,
        "observation_preprocessor_kwargs": {"size": SEEN, "device": "cpu"},
        "state_preprocessor": RunningStandardScaler,
        "state_preprocessor_kwargs": {"size": SEEN, "device": "cpu"},
    }
    made = PPO(models={"policy": policy, "value": value}, memory=None, cfg=PPO_CFG(**scaled), **spaces)
    made._observation_preprocessor(torch.randn(500, SIZE) * 0.5 + 0.2, train=True)
    made._state_preprocessor(torch.randn(500, SIZE) - 3.0, train=True)  # the critic's: not the policy's
    return made


@pytest.mark.parametrize("form", ["shared", "squashed"])
def test_a_checkpoint_of_skrl(tmp_path: Path, form: str) -> None:
    made = agent(form)
    made.save(str(tmp_path / "agent.pt"))

    def own(observation: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            seen = made._observation_preprocessor(torch.tensor(observation[None], dtype=torch.float32))
            return made.policy.act({"observations": seen, "states": seen}, role="policy")[1]["mean_actions"][0].numpy()

    network = {"activation": "elu"} | ({"output_activation": "tanh"} if form == "squashed" else {})
    fly(tmp_path, "skrl", tmp_path / "agent.pt", own, network=network)


def written(folder: Path, steps: dict[str, tuple[int, int]], **more: Any) -> Path:
    """Write a checkpoint in the form of release 1.4, whose layers have these sizes."""
    weights = {}
    for name, (taken, given) in steps.items():
        weights |= {f"{name}.weight": torch.ones(given, taken), f"{name}.bias": torch.zeros(given)}
    torch.save({"policy": weights, **more}, folder / "agent.pt")
    return folder / "agent.pt"


def test_the_scaler_of_release_1_is_the_policys(tmp_path: Path) -> None:
    scaler = {"running_mean": torch.tensor([1.0, 2.0]), "running_variance": torch.tensor([4.0, 9.0])}
    file = written(tmp_path, {"net_container.0": (2, 3), "policy_layer": (3, 1)}, state_preprocessor=scaler)
    step = SOURCES.load("skrl")(file, NetworkSettings(activation="relu"), tmp_path).start()
    assert step(np.array([3.0, 5.0])) == pytest.approx(3.0 * (1.0 + 1.0))


@pytest.mark.parametrize(
    ("steps", "more", "activation", "said"),
    [
        ({}, {}, "elu", "0 chains"),
        ({"a_container.0": (2, 3), "b_container.0": (3, 3)}, {}, "elu", "2 chains.*a_container.*export ONNX"),
        ({"net_container.0": (2, 3), "policy_layer": (4, 1)}, {}, "elu", "policy_layer takes 4.*gives 3"),
        ({"net_container.0": (2, 3)}, {}, "elux", "'elux' is unknown"),
        ({"net_container.0": (2, 3)}, {}, "", "weights only, not the activation"),
        ({"net_container.0": (2, 3)}, {"state_preprocessor": {"mean": 1.0}}, "elu", "RunningStandardScaler"),
        ({"net_container.0": (2, 3), "lstm.weight_hh_l0": (2, 2)}, {}, "elu", "recurrent"),
        (
            {"net_container.0": (2, 3)},
            {"state_preprocessor": {"running_mean": torch.zeros(5), "running_variance": torch.ones(5)}},
            "elu",
            "of 5 numbers, but the policy takes 2",
        ),
    ],
)
def test_what_is_not_read_is_refused(tmp_path: Path, steps: Any, more: Any, activation: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        SOURCES.load("skrl")(written(tmp_path, steps, **more), NetworkSettings(activation=activation), tmp_path)


def test_a_checkpoint_of_another_library_is_refused(tmp_path: Path) -> None:
    torch.save({"actor_state_dict": {}}, tmp_path / "agent.pt")
    with pytest.raises(UserError, match=r"no policy of skrl\. It has actor_state_dict"):
        SOURCES.load("skrl")(tmp_path / "agent.pt", NetworkSettings(), tmp_path)
