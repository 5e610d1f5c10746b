"""What a task declares of its evaluations during training."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from rlstack.robots import load_robot
from rlstack.training.algorithm import Actor
from rlstack.training.export import PolicyGraph, TorchPolicy, make_contract
from rlstack.training.recipe import load_recipe
from rlstack.verification.training_evaluation import Evaluator, evaluated_figures


class _Zero(Actor):
    def __init__(self, actions: int) -> None:
        super().__init__()
        self.actions = actions

    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return torch.zeros(len(observation), self.actions), {}


@pytest.mark.parametrize(
    "name",
    [
        *("quadrotor_hover", "base_racing", "base_crowd", "base_exploration", "arm_push", "quadruped_stand"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("base_navigation", "base_landmark", "table_push")),
    ],
)
def test_a_task_declares_all_figures_of_its_evaluations(name: str) -> None:
    recipe = load_recipe(name)
    task = recipe.task_settings
    robot = task.reference(load_robot(recipe.robot))
    pipeline = task.pipeline(robot)
    graph = PolicyGraph(pipeline, _Zero(pipeline.action_size), task.inputs)
    policy = TorchPolicy(graph, make_contract(recipe.name, recipe.task, task, robot, graph), robot)
    declared = evaluated_figures(task, robot.kind)
    found = Evaluator(task, robot, 2, 1).evaluate(policy).figures
    assert found and not set(found) - set(declared)
    # all policies have all but the figures of successes, and of kinds of trials that were not drawn
    assert {one for one in declared if not one.startswith("success_")} - set(found) <= {"error_m", "time_s"}
