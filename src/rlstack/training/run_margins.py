"""Margins of the reality grid of a run's best policy: how far robot, signals and commands may depart.

They are those of `rlstack verify` in the batch simulator, of the policy alone, on trials that the run's held-out seed
draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rlstack.errors import unknown_name
from rlstack.policies import load_policy
from rlstack.robots import RobotSpec, load_robot
from rlstack.sim.vector import BATCH
from rlstack.training.algorithm import Actor
from rlstack.training.export import PolicyGraph, make_contract
from rlstack.training.recipe import Recipe
from rlstack.verification.reality import Axis, Margin
from rlstack.verification.reality_runner import RealityGrid
from rlstack.verification.request import Request
from rlstack.verification.training_evaluation import verification_of


def check_margins(recipe: Recipe[Any, Any]) -> None:
    """Refuse margins that the recipe's task does not have.

    Raises:
        UserError: One is unknown; the nearest are named.
    """
    if not recipe.selection.margins:
        return
    task = recipe.task_settings
    robot = task.reference(load_robot(recipe.robot))
    contract = make_contract(
        recipe.name, recipe.task, task, robot, PolicyGraph(task.pipeline(robot), Actor(), task.inputs)
    )
    request = _request(recipe, robot, SimpleNamespace(path=Path(), sha256="", contract=contract), episodes=1)
    known = [axis.key for axis in verification_of(task, robot.kind)(request).axes()]
    for name in recipe.selection.margins:
        if name not in known:
            raise unknown_name("margin", name, known)


def margins_of(recipe: Recipe[Any, Any], robot: RobotSpec, policy: Path) -> dict[str, float]:
    """Return the margins that the recipe's selection names, in each axis's unit.

    A policy that does not succeed often enough where nothing departs has none: it counts as one whose margin lies as
    far on the other side of the nominal value as the farthest one that is searched.

    Args:
        recipe: The run's recipe.
        robot: Its robot.
        policy: The policy file.
    """
    grid = RealityGrid(_request(recipe, robot, load_policy(policy, robot=robot)), baselines=False)
    grid.run(workers=1)  # as many threads as the recipe has
    found = grid.result()
    return {} if found is None else {one.axis.key: _number(one.axis, one.policy) for one in found.axes}


def _number(axis: Axis, margin: Margin) -> float:
    return margin.margin if margin.margin is not None else round(2.0 * axis.nominal - axis.farthest, 12)


def _request(recipe: Recipe[Any, Any], robot: RobotSpec, loaded: Any, episodes: int | None = None) -> Request:
    margins: Sequence[str] = recipe.selection.margins
    return Request.of_policy(
        loaded,
        robot,
        recipe.robot,
        task=recipe.task_settings,
        episodes=episodes,
        seed=recipe.selection.seed,
        names=(BATCH,),
        margins=tuple(margins),
    )
