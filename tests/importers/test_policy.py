"""Policies of other libraries, made by those libraries, become policy files that answer as they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from rlstack.cli import main
from rlstack.errors import UserError
from rlstack.importers import SOURCES
from rlstack.importers.mapping import NetworkSettings
from rlstack.importers.policy import TOLERANCE
from rlstack.policies import load_policy
from rlstack.robots import frames, load_robot

OBSERVATION: list[Any] = [
    {"signal": "goal_position", "relative_to": "position", "frame": "base_link", "scale": 0.5},
    {"signal": "orientation", "form": "quaternion_wxyz"},
    "linear_velocity",
    {"signal": "angular_velocity", "scale": [0.1, -0.1, -0.1], "clip": [-5.0, 5.0]},
    "previous_action",
]
SIZE = 3 + 4 + 3 + 3 + 4


def mapping(folder: Path, **changes: Any) -> Path:
    """Write the mapping of a quadrotor's policy with 17 observations and 4 actions."""
    data: dict[str, Any] = {
        "task": "quadrotor_hover",
        "rate_hz": 100,
        "observation": OBSERVATION,
        "action": {"signal": "rotor_speed", "names": rotors(), "to_limits": True},
        "network": {"activation": "elu"},
        **changes,
    }
    path = folder / "mapping.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def rotors() -> list[str]:
    """Return the Crazyflie's rotors, in another order than the robot file's."""
    from rlstack.interfaces.kind_signals import element_names

    return list(reversed(element_names(load_robot("crazyflie"))["rotors"]))


def observed(row: dict[str, np.ndarray], previous: np.ndarray) -> np.ndarray:
    """Return the observation of one robot, in numpy, as its trainer would have made it."""
    q = row["orientation"]
    return np.concatenate(
        (
            0.5 * frames.rotate_inverse(q, row["goal_position"] - row["position"]),
            q[[3, 0, 1, 2]],
            row["linear_velocity"],
            np.clip(row["angular_velocity"] * [0.1, -0.1, -0.1], -5.0, 5.0),
            previous,
        )
    )


def drawn(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return random inputs of one robot."""
    names = ("goal_position", "position", "linear_velocity", "angular_velocity")
    return {n: rng.normal(0.0, 0.5, 3) for n in names} | {"orientation": frames.normalise(rng.normal(size=4))}


def fly(folder: Path, source: str, file: Path, own: Any, steps: int = 1000, **changes: Any) -> None:
    """Import a file, and compare its steps with the library's own forward, with the recording as proof."""
    out, rng = folder / "policy.onnx", np.random.default_rng(1)
    chosen = mapping(folder, **changes)
    rows, observations, actions = [drawn(rng) for _ in range(steps)], [], []
    previous = np.zeros(4)
    for row in rows:
        observations.append(observed(row, previous))
        actions.append(own(observations[-1]))
        previous = np.clip(actions[-1], -1.0, 1.0)
    recording: dict[str, Any] = {n: np.stack([row[n] for row in rows]) for n in rows[0]}
    np.savez(folder / "obs.npz", **recording, observation=observations, action=actions)
    words = ["import", "--from", source, str(file), "--map", str(chosen), "--robot", "crazyflie", "--out", str(out)]
    assert main([*words, "--recorded", str(folder / "obs.npz")]) == 0
    policy = load_policy(out, robot=load_robot("crazyflie"))
    policy.reset()
    low, high = policy.contract.outputs[0].limits
    order = [policy.contract.outputs[0].element_names.index(n) for n in rotors()]
    worst = 0.0
    for row, action in zip(rows, actions):
        wanted = np.empty(4)
        wanted[order] = low[order] + (np.clip(action, -1.0, 1.0) + 1.0) / 2.0 * (high - low)[order]
        worst = max(worst, float(np.max(np.abs(policy.step(row)["rotor_speed"] - wanted) / (high - low))))
    assert worst < TOLERANCE


@pytest.mark.parametrize("kind", ["mlp", "gru", "lstm"])
def test_a_checkpoint_of_rsl_rl(tmp_path: Path, kind: str) -> None:
    models = pytest.importorskip("rsl_rl.models")
    from tensordict import TensorDict

    torch.manual_seed(0)
    example = TensorDict({"policy": torch.zeros(1, SIZE)}, batch_size=[1])
    settings: dict[str, Any] = {"hidden_dims": [32, 16], "activation": "elu", "obs_normalization": True}
    if kind == "mlp":
        actor = models.MLPModel(example, {"actor": ["policy"]}, "actor", 4, **settings)
    else:
        settings |= {"rnn_type": kind, "rnn_hidden_dim": 24, "rnn_num_layers": 2}
        actor = models.RNNModel(example, {"actor": ["policy"]}, "actor", 4, **settings)
    actor.update_normalization(TensorDict({"policy": torch.randn(500, SIZE) * 2 + 1}, batch_size=[500]))
    actor.eval()
    torch.save({"actor_state_dict": actor.state_dict(), "iter": 1, "infos": None}, tmp_path / "model.pt")

    def own(observation: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            given = TensorDict({"policy": torch.tensor(observation[None], dtype=torch.float32)}, batch_size=[1])
            return actor(given)[0].numpy().astype(float)

    fly(tmp_path, "rsl_rl", tmp_path / "model.pt", own, steps=1000)


def test_a_model_of_stable_baselines3(tmp_path: Path) -> None:
    library, gymnasium = pytest.importorskip("stable_baselines3"), pytest.importorskip("gymnasium")
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    class World(gymnasium.Env):  # type: ignore[misc,name-defined]
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (SIZE,))
        action_space = gymnasium.spaces.Box(-1.0, 1.0, (4,))

        def reset(self, **_: Any) -> Any:
            return np.zeros(SIZE, np.float32), {}

    worlds = VecNormalize(DummyVecEnv([World]))
    worlds.obs_rms.update(np.random.default_rng(0).normal(1.0, 2.0, (500, SIZE)))
    keywords = {"policy_kwargs": {"activation_fn": torch.nn.ELU}}
    model = library.PPO("MlpPolicy", worlds, seed=0, device="cpu", **keywords)
    model.save(tmp_path / "model.zip")
    worlds.save(str(tmp_path / "vecnormalize.pkl"))

    def own(observation: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            seen = torch.tensor(worlds.normalize_obs(observation[None]), dtype=torch.float32)
            return model.policy.get_distribution(seen).distribution.mean[0].numpy().astype(float)

    network, steps = {"statistics": "vecnormalize.pkl"}, 1000
    fly(tmp_path, "stable_baselines3", tmp_path / "model.zip", own, steps, network=network)


def simple(folder: Path, inputs: int = SIZE, outputs: int = 4) -> Path:
    """Write a small checkpoint in rsl_rl's form."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(inputs, 8), torch.nn.ELU(), torch.nn.Linear(8, outputs))
    torch.save({"actor_state_dict": {f"mlp.{n}": w for n, w in net.state_dict().items()}}, folder / "model.pt")
    return folder / "model.pt"


@pytest.mark.parametrize(
    ("changes", "inputs", "outputs", "said"),
    [
        ({}, 18, 4, "has 17 numbers.*takes 18"),
        ({}, SIZE, 5, "17 numbers.*|gives 5"),
        ({"observation": ["postion"]}, SIZE, 4, "'postion'"),
        ({"observation": ["measured_rotor_speed"]}, SIZE, 4, "names is missing"),
        ({"observation": [{"signal": "position", "scale": [1.0, 2.0]}]}, SIZE, 4, "has 2 numbers, but the term has 3"),
        ({"network": {}}, SIZE, 4, "weights only, not the activation"),
        ({"action": {"signal": "rotor_speed", "names": ["a"]}}, SIZE, 4, "'a'"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: Any, inputs: int, outputs: int, said: str
) -> None:
    import re

    words = ["--map", str(mapping(tmp_path, **changes)), "--robot", "crazyflie", "--out", str(tmp_path / "p.onnx")]
    assert main(["import", "--from", "rsl_rl", str(simple(tmp_path, inputs, outputs)), *words]) == 2
    assert re.search(said, capsys.readouterr().err)
    assert not (tmp_path / "p.onnx").exists()


def test_a_mapping_that_makes_another_observation_than_the_recorded_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = drawn(np.random.default_rng(0))
    wrong = observed(row, np.zeros(4))
    wrong[8] += 0.01
    recording: dict[str, Any] = {**{n: v[None] for n, v in row.items()}, "observation": wrong[None]}
    np.savez(tmp_path / "obs.npz", **recording)
    words = ["--map", str(mapping(tmp_path)), "--robot", "crazyflie", "--out", str(tmp_path / "p.onnx")]
    words += ["--recorded", str(tmp_path / "obs.npz")]
    assert main(["import", "--from", "rsl_rl", str(simple(tmp_path)), *words]) == 2
    assert "element 8 (linear_velocity[1])" in capsys.readouterr().err
    assert not (tmp_path / "p.onnx").exists()


def test_no_code_in_a_file_is_run(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"actor_state_dict": Bomb()}, tmp_path / "model.pt")
    with pytest.raises(UserError, match="never runs code"):
        SOURCES.load("rsl_rl")(tmp_path / "model.pt", NetworkSettings(activation="elu"), tmp_path)
    from rlstack.importers.sources.stable_baselines3 import _statistics

    (tmp_path / "v.pkl").write_bytes(__import__("pickle").dumps(Bomb()))
    with pytest.raises(UserError, match="no statistics of VecNormalize"):
        _statistics(tmp_path / "v.pkl", 3)
    assert not (tmp_path / "ran").exists()
