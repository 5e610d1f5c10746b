"""Actors of stable-baselines3, made and saved by it, become policy files that answer as they do."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.importers import SOURCES
from rlstack.importers.mapping import NetworkSettings
from tests.support.imported import SIZE, fly

library = pytest.importorskip("stable_baselines3")
gymnasium = pytest.importorskip("gymnasium")


class World(gymnasium.Env):  # type: ignore[misc,name-defined]
    """Has the spaces of the mapped observation and action, and nothing else."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (SIZE,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (4,))

    def reset(self, **_: Any) -> Any:
        return np.zeros(SIZE, np.float32), {}


def test_a_model_of_ppo_with_the_statistics_of_its_observations(tmp_path: Path) -> None:
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    worlds = VecNormalize(DummyVecEnv([World]))
    worlds.obs_rms.update(np.random.default_rng(0).normal(1.0, 2.0, (500, SIZE)))
    model = library.PPO("MlpPolicy", worlds, seed=0, device="cpu", policy_kwargs={"activation_fn": torch.nn.ELU})
    model.save(tmp_path / "model.zip")
    worlds.save(str(tmp_path / "vecnormalize.pkl"))

    def own(observation: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            seen = torch.tensor(worlds.normalize_obs(observation[None]), dtype=torch.float32)
            return model.policy.get_distribution(seen).distribution.mean[0].numpy().astype(float)

    fly(tmp_path, "stable_baselines3", tmp_path / "model.zip", own, network={"statistics": "vecnormalize.pkl"})


@pytest.mark.parametrize("algorithm", ["SAC", "TD3"])
def test_a_squashed_actor(tmp_path: Path, algorithm: str) -> None:
    keywords = {"net_arch": [24, 16]}
    model = getattr(library, algorithm)(
        "MlpPolicy", World(), seed=0, device="cpu", policy_kwargs=keywords, buffer_size=1
    )
    with torch.no_grad():
        for weight in model.actor.parameters():  # so that tanh bends
            weight *= 3.0
    model.save(tmp_path / "model.zip")
    fly(
        tmp_path,
        "stable_baselines3",
        tmp_path / "model.zip",
        lambda o: model.predict(o, deterministic=True)[0],
        network={},
    )


def test_an_actor_that_explores_by_states_is_refused(tmp_path: Path) -> None:
    model = library.SAC(
        "MlpPolicy", World(), use_sde=True, policy_kwargs={"net_arch": [8]}, buffer_size=1, device="cpu"
    )
    model.save(tmp_path / "model.zip")
    with pytest.raises(UserError, match="use_sde"):
        SOURCES.load("stable_baselines3")(tmp_path / "model.zip", NetworkSettings(), tmp_path)


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("policy.pth", bytes(range(256)) * 8)
        archive.writestr("data", "{}")
    whole = path.read_bytes()
    begins = 30 + len("policy.pth")  # after the header of its first file
    for damaged in (
        whole[:begins] + b"\xff" * 16 + whole[begins + 16 :],
        whole.replace(b"PK\x03\x04\x14\x00\x00", b"PK\x03\x04\x14\x00\x01").replace(
            b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"
        ),  # marked as encrypted
    ):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="is no model of stable-baselines3"):
            SOURCES.load("stable_baselines3")(path, NetworkSettings(), tmp_path)


def test_a_model_of_images_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive, archive.open("policy.pth", "w") as file:
        torch.save({"q_net.features_extractor.cnn.0.weight": torch.zeros(1)}, file)
    with zipfile.ZipFile(tmp_path / "model.zip", "a") as archive:
        archive.writestr("data", json.dumps({}))
    with pytest.raises(UserError, match=r"no actor of PPO, A2C, SAC, TD3 or DDPG.*q_net"):
        SOURCES.load("stable_baselines3")(tmp_path / "model.zip", NetworkSettings(), tmp_path)
