"""Bundles that rlstack writes answer in LEAPP's own runtime as the policy files do, and can be imported again."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from rlstack.cli import main
from rlstack.policies import load_policy
from rlstack.policies.inference import Policy
from rlstack.policies.leapp import write_leapp
from rlstack.robots import frames, load_robot

# looked for, not imported: that takes 2.6 s of every process that collects these tests
pytestmark = pytest.mark.skipif(find_spec("leapp") is None, reason="leapp is not installed")

POINTS = 3


def walk(policy: Policy, steps: int) -> list[dict[str, np.ndarray]]:
    """Return inputs that change slowly."""
    rng = np.random.default_rng(2)
    waves = {
        port.name: (rng.uniform(1.0, 4.0, port.sized({"points": POINTS})), rng.uniform(0.0, 6.0, 1))
        for port in policy.contract.inputs
    }
    rows = []
    for step in range(steps):
        row = {name: 0.4 * np.sin(rate * step / 50.0 + phase) for name, (rate, phase) in waves.items()}
        if "path_time" in row:
            row["path_time"] = np.arange(POINTS) - 0.5 + 0.2 * np.sin(step / 9.0)
        for name in row:
            if name.endswith("orientation"):
                row[name] = frames.normalise(row[name] + np.array([0.0, 0.0, 0.0, 1.0]))
        rows.append(row)
    return rows


@pytest.mark.parametrize(
    ("name", "robot", "sizes"),
    [("arm_pick_place", "", {}), ("quadrotor_foundation", "crazyflie", {"points": POINTS})],
)
def test_a_bundle_gives_the_commands_of_the_policy(tmp_path: Path, name: str, robot: str, sizes: Any) -> None:
    import leapp

    chosen = load_robot(robot) if robot else None
    policy = load_policy(name, robot=chosen)
    bundle = write_leapp(name, tmp_path, robot=chosen, sizes=sizes)
    runtime = leapp.InferenceManager(str(bundle.description))
    assert runtime.inputs == [f"policy/{port.name}" for port in policy.contract.inputs]
    output = policy.contract.outputs[0]
    low, high = output.limits
    seen, worst = [], 0.0
    for number, row in enumerate(walk(policy, 80)):
        if number == 50:  # a second episode
            policy.reset()
            runtime.reset()
        tensors = {f"policy/{key}": torch.tensor(value[None], dtype=torch.float32) for key, value in row.items()}
        given = runtime.run_policy(tensors)[f"policy/{output.name}"][0].numpy()
        seen.append(policy.step(row)[output.name])
        worst = max(worst, float(np.max(np.abs(given - seen[-1]) / (high - low))))
    assert (np.std(seen, axis=0) > 0.0).all()
    assert worst < 1e-5


def test_what_is_exported_is_imported_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original = load_policy("quadrotor_hover")
    assert main(["export", "quadrotor_hover", "--format", "leapp", "--out", str(tmp_path / "bundle")]) == 0
    file = Path(capsys.readouterr().out.splitlines()[0])
    about = yaml.safe_load(file.read_text())["models"]["policy"]
    rotors = about["outputs"][0]["element_names"][-1]
    assert about["inputs"][0]["topic"] and about["outputs"][0]["unit"] == "rad/s"
    mapping = {
        "task": "quadrotor_hover",
        "rate_hz": original.contract.rate_hz,
        "observation": [{"signal": port.name, "input": port.name} for port in reversed(original.contract.inputs)],
        "action": {"signal": "rotor_speed", "names": rotors},
    }
    (tmp_path / "mapping.yaml").write_text(yaml.safe_dump(mapping))
    words = ["--map", str(tmp_path / "mapping.yaml"), "--robot", "crazyflie", "--out", str(tmp_path / "again.onnx")]
    assert main(["import", "--from", "leapp", str(file), *words]) == 0, capsys.readouterr().err
    again = load_policy(tmp_path / "again.onnx", robot=load_robot("crazyflie"))
    low, high = original.contract.outputs[0].limits
    for row in walk(original, 80):
        difference = again.step(row)["rotor_speed"] - original.step(row)["rotor_speed"]
        assert np.max(np.abs(difference) / (high - low)) < 1e-5
