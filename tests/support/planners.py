"""A policy that plans chunks, for tests: it has learned nothing, but looks at all that it gets."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from rlstack.policies import write_policy
from rlstack.robots import RobotSpec
from rlstack.tasks.catalog.arm_reach import ReachTask
from rlstack.training.algorithm import PlanningActor
from rlstack.training.export import PolicyGraph, make_contract, to_onnx

TASK = ReachTask()


class Planner(PlanningActor):
    """Plans chunks that depend on the observation, and are larger than an action may be here and there."""

    def __init__(self, columns: int, chunk: int, actions: int, noisy: bool = False) -> None:
        super().__init__(chunk, actions)
        self.noise = (chunk, actions) if noisy else ()
        weights = torch.randn(columns, chunk * actions, generator=torch.Generator().manual_seed(0))
        self.register_buffer("weights", 0.5 * weights)

    weights: Tensor

    def plan(self, observation: Tensor, noise: Tensor | None = None) -> Tensor:
        planned = (observation @ self.weights).reshape(-1, self.chunk, self.actions)
        return planned if noise is None else planned + noise


def write_planning_policy(path: Path, robot: RobotSpec, chunk: int, noisy: bool = False) -> Path:
    """Write a policy of :data:`TASK` that plans so many steps, and may add noise to them."""
    pipeline = TASK.pipeline(robot)
    graph = PolicyGraph(pipeline, Planner(pipeline.size, chunk, pipeline.action_size, noisy), TASK.inputs)
    contract = make_contract("planner", "arm_reach", TASK, robot, graph)
    write_policy(to_onnx(graph, contract), contract, path)  # exporting would try it on 1,000 inputs
    return path
