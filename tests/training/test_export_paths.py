"""A policy that follows a path, from torch to the file: the number of points stays free."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies import contract_for, load_policy
from rlstack.tasks.core.pipeline import Pipeline, Tensors, Term, to_body
from rlstack.training.algorithm import Actor
from rlstack.training.export import TOLERANCE, PolicyGraph, compare, export_policy

ROBOT = load_quadrotor("crazyflie")
INPUTS = ("position", "orientation", "path_time", "path_position")


class Ahead(Term):
    """Where the path is now and half a second later, seen from the body."""

    name, size, unit, meaning = "ahead", 6, "m", "path now and in 0.5 s, in base_link"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        time, position = inputs["path_time"], inputs["path_position"]
        seen = []
        for ahead_s in (0.0, 0.5):
            share = ((ahead_s - time[:, :-1]) / (time[:, 1:] - time[:, :-1])).clamp(0.0, 1.0)
            due = position[:, 0] + (share.unsqueeze(-1) * (position[:, 1:] - position[:, :-1])).sum(dim=1)
            seen.append(to_body(inputs["rotation"], due - inputs["position"]))
        return torch.cat(seen, dim=-1)


class Linear(Actor):
    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.layer = nn.Linear(inputs, 4)

    def forward(self, observation: Tensor, memory: object) -> tuple[Tensor, dict[str, Tensor]]:
        return torch.tanh(self.layer(observation)), {}


def test_a_path_policy_is_exported_for_any_number_of_points(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = ROBOT.rotor_model
    pipeline = Pipeline([Ahead()], "rotor_speed", [model.speed_min_rad_s] * 4, [model.speed_max_rad_s] * 4)
    graph = PolicyGraph(pipeline, Linear(pipeline.size), INPUTS)
    contract = contract_for(ROBOT, INPUTS, ["rotor_speed"], name="path", task="quadrotor_tracking")
    file = tmp_path / "policy.onnx"
    export_policy(graph, contract, ROBOT, file)
    assert compare(graph, contract, file, ROBOT, observations=300, seed=5) <= TOLERANCE

    policy = load_policy(file, robot=ROBOT)
    whole = np.linspace(-1.0, 4.0, 51)
    place = np.stack([np.sin(whole), np.cos(whole), whole], axis=-1)
    here = {"position": np.zeros(3), "orientation": np.array([0.0, 0.0, 0.0, 1.0])}
    command = policy.step({**here, "path_time": whole, "path_position": place})["rotor_speed"]
    for part in (slice(5, 40), slice(10, 16)):  # what lies before now and beyond 0.5 s does not count
        found = policy.step({**here, "path_time": whole[part], "path_position": place[part]})["rotor_speed"]
        np.testing.assert_allclose(found, command, rtol=1e-4)


class Sided(Ahead):
    """Decides in Python, by a value of the input: tracing would take the side of the example for ever."""

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        seen = super().observe(inputs, memory)
        return seen if bool(seen[0, 0] > 0.0) else -seen


def test_a_value_that_tracing_would_freeze_is_refused(tmp_path: Path) -> None:
    model = ROBOT.rotor_model
    pipeline = Pipeline([Sided()], "rotor_speed", [model.speed_min_rad_s] * 4, [model.speed_max_rad_s] * 4)
    graph = PolicyGraph(pipeline, Linear(pipeline.size), INPUTS)
    contract = contract_for(ROBOT, INPUTS, ["rotor_speed"], name="path", task="quadrotor_tracking")
    with pytest.raises(UserError, match=r"test_export_paths\.py, line \d+, makes a Python value of a tensor"):
        export_policy(graph, contract, ROBOT, tmp_path / "policy.onnx")
    assert not (tmp_path / "policy.onnx").exists()
