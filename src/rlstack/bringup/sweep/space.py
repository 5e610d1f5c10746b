"""The settings that a sweep varies: where they are in a recipe, and between what."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import yaml

from rlstack import schema
from rlstack.errors import UserError
from rlstack.training.recipe import Recipe, recipe_from_data

Values = Mapping[str, Any]
"""Values by the settings' paths."""

_FIXED = ("name", "task", "robot", "algorithm", "seed", "tracker", "fine_tuned_from", "changes")
"""Fields that make another sweep; the seeds are the sweep's own."""
_FORMS = "give low:high, log:low:high, either with :points at its end, or values a,b,c"


@dataclass(frozen=True)
class Range:
    """A setting that is varied.

    Args:
        path: Its place in the recipe, such as ``algorithm_settings.learning_rate``.
        values: What it may be, if that is listed: values, or the points of a grid.
        low, high: Else its bounds.
        log: Whether it is drawn evenly by its logarithm.
        whole: Whether it is a whole number.
    """

    path: str
    values: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False

    @property
    def name(self) -> str:
        """The last part of the path, for tables."""
        return self.path.rpartition(".")[2]

    @property
    def ends(self) -> tuple[Any, ...]:
        """Values that must be allowed for all to be: the listed ones, or the bounds."""
        return self.values or ((int(self.low), int(self.high)) if self.whole else (self.low, self.high))


def read_ranges(texts: Sequence[str], recipe: Recipe[Any, Any]) -> tuple[Range, ...]:
    """Return the ranges that ``--vary`` gives, each of whose ends the recipe allows.

    Args:
        texts: Each NAME=low:high, NAME=log:low:high, NAME=low:high:points or NAME=a,b,c.
        recipe: What is varied.

    Raises:
        UserError: A setting is unknown or given twice, a range is empty, or the recipe does not allow one of its ends.
    """
    found: dict[str, Range] = {}
    for text in texts:
        one = _read(text, recipe)
        if one.path in found:
            raise UserError(f"--vary: {one.path} is given twice.")
        found[one.path] = one
    for one in found.values():
        for end in one.ends:
            varied(recipe, {one.path: end}, f"--vary: {one.path}={end}")
    return tuple(found.values())


def setting_at(one: Range, share: float) -> Any:
    """Return the value of a setting at a share of its range, 0 to 1, with digits that a reader can use."""
    if one.values:
        return one.values[min(int(share * len(one.values)), len(one.values) - 1)]
    if one.whole and not one.log:  # each as often as the others
        return int(min(math.floor(one.low + share * (one.high + 1.0 - one.low)), one.high))
    value = one.low * (one.high / one.low) ** share if one.log else one.low + share * (one.high - one.low)
    if one.whole:
        return int(min(max(round(value), one.low), one.high))
    return min(max(float(f"{value:.4g}"), one.low), one.high)


def share_of(one: Range, value: Any) -> float:
    """Return where a value is in its setting's range, from 0 to 1."""
    if one.values:
        return one.values.index(value) / (len(one.values) - 1)
    if one.log:
        return math.log(value / one.low) / math.log(one.high / one.low)
    return float((value - one.low) / (one.high - one.low))


def with_fields(recipe: Recipe[Any, Any], fields: Iterable[str]) -> Recipe[Any, Any]:
    """Return a recipe with fields changed, each ``NAME=VALUE``.

    Raises:
        UserError: One is unknown, of another form, or not allowed.
    """
    values = {}
    for given in fields:
        name, equals, text = given.partition("=")
        if not (name and equals and text):
            raise UserError(f"--set {given} is not allowed: give NAME=VALUE, such as steps=500000.")
        values[setting_path(name, recipe, "--set")] = _parsed(text)
    return varied(recipe, values, "--set") if values else recipe


def varied(recipe: Recipe[Any, Any], values: Values, where: str) -> Recipe[Any, Any]:
    """Return a checked recipe with other values; ``where`` names them in errors.

    Raises:
        UserError: The recipe does not allow them.
    """
    data = copy.deepcopy(schema.to_data(recipe))
    for path, value in values.items():
        *parts, last = path.split(".")
        place = data
        for part in parts:
            place = place[part]
        place[last] = value
    return recipe_from_data(data, where)


def setting_path(name: str, recipe: Recipe[Any, Any], option: str) -> str:
    """Return the path of a setting, of which ``name`` may be the end, such as ``learning_rate``.

    Raises:
        UserError: None or several have it, or it is none that may differ within a sweep.
    """
    data = schema.to_data(recipe)
    paths = [path for path, _ in schema.leaves(data)]
    name = name.replace("-", "_")
    matches = [name] if name in paths else [path for path in paths if path.endswith(f".{name}")]
    if len(matches) > 1:
        raise UserError(f"{option}: {name} may be {' or '.join(matches)}: give more of its path.")
    if not matches:
        nearest = get_close_matches(name, {path.rpartition(".")[2] for path in paths})
        raise UserError(
            f"{option}: {recipe.name} has no setting {name}. Nearest: {', '.join(nearest) or 'none'}."
            f" `rlstack train {recipe.name} --help` lists all."
        )
    if matches[0] in _FIXED or matches[0].startswith("selection."):
        raise UserError(
            f"{option}: {matches[0]} is not allowed: all trainings of a sweep share it, so that their figures compare."
            " A recipe file of your own can have another one (`rlstack new recipe`)."
        )
    return matches[0]


def _read(text: str, recipe: Recipe[Any, Any]) -> Range:
    name, equals, given = text.partition("=")
    if not (name and equals and given):
        raise UserError(f"--vary {text} is not allowed: give NAME=RANGE, such as learning_rate=log:1e-4:1e-2.")
    path = setting_path(name, recipe, "--vary")
    now = dict(schema.leaves(schema.to_data(recipe)))[path]
    words = given.removeprefix("log:").split(":")
    log = given.startswith("log:")
    if len(words) == 1 and not log:
        values = tuple(_parsed(word) for word in given.split(","))
        if len(set(map(repr, values))) < 2:
            raise UserError(f"--vary {text}: one value is no range: {_FORMS}.")
        return Range(path, values)
    whole = isinstance(now, int) and not isinstance(now, bool)
    try:
        low, high = float(words[0]), float(words[1])
        points = int(words[2]) if len(words) == 3 else 0
    except (ValueError, IndexError):
        raise UserError(f"--vary {text} is not understood: {_FORMS}.") from None
    if len(words) > 3 or not (math.isfinite(low) and math.isfinite(high) and low < high) or (log and low <= 0.0):
        raise UserError(f"--vary {text}: its low end must be below its high end{', and above 0' if log else ''}.")
    if points and points < 2:
        raise UserError(f"--vary {text}: {points} points are no range: give 2 or more.")
    if not points:
        return Range(path, (), low, high, log, whole)
    shares = [k / (points - 1) for k in range(points)]
    at = [low * (high / low) ** s for s in shares] if log else [low + s * (high - low) for s in shares]
    return Range(path, tuple(dict.fromkeys(round(x) if whole else float(f"{x:.6g}") for x in at)))


def _parsed(text: str) -> Any:
    """Return a value as YAML reads it; a number such as 1e-3, too, which YAML takes for a word."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    if isinstance(found, str):
        for kind in (int, float):
            try:
                return kind(found)
            except ValueError:
                continue
    return found
