"""What a sweep was asked for; it is kept in its folder, and a sweep goes on with the same plan only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlstack.bringup.sweep.space import Range, varied
from rlstack.bringup.sweep.study import Prune, Search
from rlstack.errors import UserError
from rlstack.files import write_atomically, write_json
from rlstack.robots import load_robot
from rlstack.training.recipe import Recipe, read_recipe, recipe_to_yaml
from rlstack.training.run_result import RUN_FIGURES

PLAN, RECIPE = "plan.json", "swept.yaml"  # not as in a run, which a sweep is not
TUNING_SEED, TEST_SEED = 1_000_000, 2_000_000
"""First seeds of trials and of tests: no training by `--seed` of usual size shares one."""
MARGIN = "margin."
"""Before the name of a margin of the reality grid, as a figure."""
MEAN = "mean."
"""Before the name of a figure: its mean over all evaluations of a training, which tells how soon it rose."""
_COMPARED = re.compile(r"([\w.](?:[\w. +]*[\w.])?)\s*(<=|>=)\s*([-+.\deE]+)")


@dataclass(frozen=True)
class Constraint:
    """A bound of a figure, which the best trial must keep.

    Args:
        figure: Its name, of the evaluation or of the training, such as ``cpu_seconds``.
        most: Whether it is an upper bound.
        bound: The bound.
    """

    figure: str
    most: bool
    bound: float

    def over(self, value: float) -> float:
        """Return by how much a figure is beyond it; 0 or less: within."""
        return value - self.bound if self.most else self.bound - value

    def __str__(self) -> str:
        return f"{self.figure}{'<=' if self.most else '>='}{self.bound:g}"


def read_constraint(text: str) -> Constraint:
    """Return the constraint that ``--constraint`` gives, such as ``cpu_seconds<=30``.

    Raises:
        UserError: It is of another form.
    """
    found = _COMPARED.fullmatch(text.strip())
    try:
        if found:
            return Constraint(found[1], found[2] == "<=", float(found[3]))
    except ValueError:
        pass
    raise UserError(f"--constraint {text} is not understood: give FIGURE<=NUMBER or FIGURE>=NUMBER.")


@dataclass(frozen=True)
class Plan:
    """A sweep.

    Args:
        recipe: What is trained, with the fields that all trainings share.
        ranges: What is varied.
        search, prune: How; see :class:`rlstack.bringup.sweep.study.Study`.
        trials: How many; a sweep that goes on may have more.
        seeds: Trainings of each trial.
        tests: Trainings of the best settings, and of the recipe as it is, with seeds that no trial had.
        window: Trials drawn at a time: a trial's settings follow from the outcomes of all but so many before it.
        figure: What is compared, as in training.json's evaluation.
        lower: Whether less of it is better.
        constraints: Bounds that the best trial keeps.
        seed: Of what is drawn.
        population: Members of a population, which ``pbt`` and ``pb2`` have.
        generations: Parts of a training between which its members are compared.
    """

    recipe: Recipe[Any, Any]
    ranges: tuple[Range, ...]
    search: Search
    prune: Prune
    trials: int
    seeds: int
    tests: int
    window: int
    figure: str
    lower: bool
    constraints: tuple[Constraint, ...]
    seed: int
    population: int = 0
    generations: int = 0

    def tuned(self, values: Mapping[str, Any], seed: int, selection: int = 0) -> Recipe[Any, Any]:
        """Return a training's recipe.

        Args:
            values: The varied settings, by path.
            seed: Of the training.
            selection: Added to the seed of the held-out starts.
        """
        held_out = self.recipe.selection.seed + selection
        return varied(self.recipe, {**values, "seed": seed, "selection.seed": held_out}, "The sweep's recipe")

    def value(self, figures: Sequence[Mapping[str, Any]]) -> float:
        """Return the mean of the figure over finished trainings (their training.json).

        Raises:
            UserError: They have none of that name.
        """
        return sum(figure(one, self.figure) for one in figures) / len(figures)

    def over(self, figures: Sequence[Mapping[str, Any]]) -> list[float]:
        """Return by how much the mean of each constrained figure is beyond its bound."""
        return [
            constraint.over(sum(figure(one, constraint.figure) for one in figures) / len(figures))
            for constraint in self.constraints
        ]

    def kept(self) -> dict[str, Any]:
        """Return it as plain data, but for the recipe."""
        data = {name: part for name, part in vars(self).items() if name != "recipe"}
        data |= {"ranges": [asdict(one) for one in self.ranges], "constraints": [asdict(c) for c in self.constraints]}
        return dict(json.loads(json.dumps(data)))


def figure(figures: Mapping[str, Any], name: str) -> float:
    """Return a figure of a finished training: of its best policy's evaluation or margins, or of the training itself.

    Raises:
        UserError: There is none.
    """
    found = figure_if_any(figures, name)
    if found is None:
        own = [key for key, one in figures.items() if isinstance(one, (int, float)) and not isinstance(one, bool)]
        others = [*figures.get("evaluation", {}), *_margins(figures), *own]
        raise UserError(f"A training has no figure {name}. It has: {', '.join(others)}.")
    return found


def figure_if_any(figures: Mapping[str, Any], name: str) -> float | None:
    """Return the same; None if there is none, such as the error of a policy that never came close."""
    if name.startswith(MEAN):
        own = [one.get(name.removeprefix(MEAN)) for one in figures.get("evaluations", ())]
        return sum(own) / len(own) if own and None not in own else None
    found = {**figures, **figures.get("evaluation", {}), **_margins(figures)}.get(name)
    return None if isinstance(found, bool) or not isinstance(found, (int, float)) else float(found)


def _margins(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{MARGIN}{key}": margin for key, margin in figures.get("margins", {}).items()}


def check_figures(recipe: Recipe[Any, Any], names: Iterable[str]) -> None:
    """Refuse figures that no training of a recipe has.

    Those of a task that does not declare what its evaluations tell are known after a training only.

    Raises:
        UserError: One is unknown; all known ones are named.
    """
    from rlstack.verification.training_evaluation import evaluated_figures  # imports simulators

    known = evaluated_figures(recipe.task_settings, load_robot(recipe.robot).kind)
    if not known:
        return
    for name in names:
        own, bare = (() if name.startswith(MEAN) else RUN_FIGURES), name.removeprefix(MEAN)
        if not name.startswith(MARGIN) and bare not in (*known, *own):
            raise UserError(
                f"No training of {recipe.name} has a figure {name}. Its evaluations have {', '.join(known)}, each also"
                f" as {MEAN}NAME, its mean over a training; the training itself has {', '.join(RUN_FIGURES)}; and there"
                f" are margins, such as {MARGIN}NAME."
            )


def with_margins(recipe: Recipe[Any, Any], figures: Iterable[str]) -> Recipe[Any, Any]:
    """Return a recipe whose runs measure the margins among the figures.

    Raises:
        UserError: The task has no such margin.
    """
    named = [name.removeprefix(MARGIN) for name in figures if name.startswith(MARGIN)]
    if not named:
        return recipe
    from rlstack.training.run_margins import check_margins  # imports simulators

    wanted = [*dict.fromkeys([*recipe.selection.margins, *named])]
    measuring = varied(recipe, {"selection.margins": wanted}, "The sweep's recipe")
    check_margins(measuring)
    return measuring


def write_plan(folder: Path, plan: Plan) -> None:
    """Write a new sweep's plan into its folder."""
    write_atomically(folder / RECIPE, recipe_to_yaml(plan.recipe))
    write_json(folder / PLAN, plan.kept())


def read_plan(folder: Path) -> Plan:
    """Return the plan of the sweep in a folder.

    Raises:
        UserError: There is none, or it is damaged.
    """
    if not (folder / PLAN).is_file():
        raise UserError(f"{folder} is no sweep: it has no {PLAN}.")
    try:
        data = json.loads((folder / PLAN).read_text(encoding="utf-8"))
        data["ranges"] = tuple(Range(**{**one, "values": tuple(one["values"])}) for one in data["ranges"])
        data["constraints"] = tuple(Constraint(**one) for one in data["constraints"])
        return Plan(recipe=read_recipe(folder / RECIPE), **data)
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{folder / PLAN} is damaged ({error}): begin a new sweep.") from error
