"""A policy made by torch's exporter, through the file and back, against the module itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlstack.policies import load_policy, write_policy
from tests.policies.graphs import INPUTS, SIZES, crazyflie, gru_contract, mlp_contract, random_inputs

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.GRUCell(13, 32)
        self.head = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ELU(), torch.nn.Linear(32, 4))

    def forward(self, position, orientation, linear_velocity, angular_velocity, hidden):
        hidden = self.cell(torch.cat([position, orientation, linear_velocity, angular_velocity], dim=-1), hidden)
        return torch.clamp(0.5 * (self.head(hidden) + 1.0), 0.0, 1.0) * 2272.6, hidden


class Feedforward(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Linear(13, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4), torch.nn.Tanh()
        )

    def forward(self, position, orientation, linear_velocity, angular_velocity):
        x = torch.cat([position, orientation, linear_velocity, angular_velocity], dim=-1)
        return (0.5 * (self.body(x) + 1.0)) * 2272.6


def export(module: torch.nn.Module, example: dict[str, torch.Tensor], outputs: list[str]):
    batch = torch.export.Dim("batch")
    program = torch.onnx.export(
        module,
        tuple(example.values()),
        dynamo=True,
        external_data=False,
        dynamic_shapes=tuple({0: batch} for _ in example),
        input_names=list(example),
        output_names=outputs,
        verbose=False,
    )
    return program.model_proto


def test_gru_policy_round_trips_over_a_sequence(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Recurrent().eval()
    example = {n: torch.zeros(2, SIZES[n]) for n in INPUTS} | {"state.hidden": torch.zeros(2, 32)}
    graph = export(module, example, ["rotor_speed", "next_state.hidden"])
    path = tmp_path / "policy.onnx"
    write_policy(graph, gru_contract(state={"hidden": (32,)}), path)
    assert b"stack_trace" not in path.read_bytes() and __file__.encode() not in path.read_bytes()
    policy = load_policy(path, robot=crazyflie())
    for batch in (1, 4):
        policy.reset(batch)
        hidden = torch.zeros(batch, 32)
        for seed in range(50):
            inputs = random_inputs(seed, batch)
            with torch.no_grad():
                expected, hidden = module(*(torch.tensor(inputs[n], dtype=torch.float32) for n in INPUTS), hidden)
            found = policy.step(inputs)["rotor_speed"]
            np.testing.assert_allclose(found / 2272.6, expected.numpy() / 2272.6, atol=1e-5)


def test_mlp_policy_equals_the_module_on_a_thousand_observations(tmp_path: Path) -> None:
    torch.manual_seed(1)
    module = Feedforward().eval()
    write_policy(
        export(module, {n: torch.zeros(2, SIZES[n]) for n in INPUTS}, ["rotor_speed"]),
        mlp_contract(),
        tmp_path / "policy.onnx",
    )
    policy = load_policy(tmp_path / "policy.onnx")
    inputs = random_inputs(0, 1000)
    policy.reset(1000)
    with torch.no_grad():
        expected = module(*(torch.tensor(inputs[n], dtype=torch.float32) for n in INPUTS)).numpy()
    np.testing.assert_allclose(policy.step(inputs)["rotor_speed"] / 2272.6, expected / 2272.6, atol=1e-5)
