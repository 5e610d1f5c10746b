"""Whether a policy can be adapted in flight: the one check of a deployment before it starts, and of who adapts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlstack.errors import UserError
from rlstack.identification.kind_adaptation import KindAdaptation
from rlstack.kinds import find_kind
from rlstack.policies import Policy
from rlstack.robots import RobotSpec
from rlstack.training.recipe import Recipe, recipe_from_data

_SHARE = 0.06
"""Share of the recipe's steps that are learned in flight: a third of what fine-tuning takes elsewhere."""


def adaptable(policy: Policy, robot: RobotSpec) -> tuple[Recipe[Any, Any], KindAdaptation]:
    """Return the recipe that a policy is fine-tuned with, and how a flight tells what its robot is.

    Raises:
        UserError: The robot or the policy cannot be adapted in flight.
    """
    kind: KindAdaptation = find_kind(robot.kind).load("adaptation")
    kind.check(robot)
    data = policy.contract.training.get("recipe")
    if policy.contract.family or not isinstance(data, Mapping):
        why = "is for a family of robots" if policy.contract.family else "was not trained by rlstack"
        raise UserError(f"{policy.path} {why}, and cannot be adapted in flight: leave adapt out.")
    recipe = recipe_from_data(dict(data), f"{policy.path}: recipe")
    return replace(recipe, steps=max(1, round(_SHARE * recipe.steps))), kind
