"""What is refused, and that no code in a file is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.cli import main
from rlstack.errors import UserError
from rlstack.importers import SOURCES
from rlstack.importers.mapping import NetworkSettings
from tests.support.imported import SIZE, drawn, mapping, observed


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
