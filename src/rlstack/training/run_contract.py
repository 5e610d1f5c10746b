"""What a run's policy file says about where it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlstack import schema
from rlstack.robots import RobotSpec
from rlstack.training.export import PolicyGraph, make_contract
from rlstack.training.origin import observed
from rlstack.training.recipe import Recipe


def contract_of(
    recipe: Recipe[Any, Any],
    robot: RobotSpec,
    graph: PolicyGraph,
    steps: int,
    figures: Mapping[str, Any],
    lineage: Sequence[Mapping[str, Any]],
) -> Any:
    """Return the contract of a policy that a run has learned.

    Args:
        recipe: The run's.
        robot: Its robot.
        graph: The policy.
        steps: Steps after which it was the policy.
        figures: Of its evaluation on held-out starts.
        lineage: Runs that it was fine-tuned from; empty: none.
    """
    task = recipe.task_settings
    training = {
        # with the task's regions for this robot, which may not be those of the recipe
        "recipe": schema.to_data(replace(recipe, task_settings=task.fitted(robot))),
        "seed": recipe.seed,
        "algorithm": recipe.algorithm,
        "steps": steps,
        "observation": observed(graph.pipeline),
        **({"lineage": list(lineage)} if lineage else {}),
    }
    evaluation = {"held_out_seed": recipe.selection.seed, **figures}
    facts = {"training": training, "evaluation": evaluation}
    return make_contract(recipe.name, recipe.task, task, robot, graph, **facts)
