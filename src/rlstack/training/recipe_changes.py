"""Settings of an algorithm that change in mid-run: a recipe's ``changes``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import yaml

from rlstack import schema
from rlstack.errors import UserError
from rlstack.training import ALGORITHMS

_FORM = "give SHARE:NAME=VALUE, such as 0.5:learning_rate=1e-4, with a share of the steps between 0 and 1"


@dataclasses.dataclass(frozen=True)
class Change:
    """One change.

    Args:
        after: Share of the run's steps before it.
        name: The setting of the algorithm.
        value: What it is from then on.
    """

    after: float
    name: str
    value: Any

    def __str__(self) -> str:
        return f"{self.after:.6g}:{self.name}={self.value:.6g}" if isinstance(self.value, float) else self._other()

    def _other(self) -> str:
        text = str(self.value).lower() if isinstance(self.value, bool) else self.value
        return f"{self.after:.6g}:{self.name}={text}"


def read_change(text: str, where: str) -> Change:
    """Return the change that a recipe gives as ``SHARE:NAME=VALUE``.

    Raises:
        UserError: It is of another form; ``where`` begins the sentence.
    """
    share, _, change = text.partition(":")
    name, equals, value = change.partition("=")
    try:
        after = float(share)
        if name and equals and value and 0.0 < after < 1.0:
            return Change(after, name.strip(), yaml.safe_load(value))
    except (ValueError, yaml.YAMLError):
        pass
    raise UserError(f"{where}: changes: {text!r} is not understood: {_FORM}.")


def changeable_in_run(algorithm: str, settings: Any) -> tuple[str, ...]:
    """Return the settings that an algorithm can change in mid-run; none where another process or a person learns."""
    by_hand = getattr(getattr(settings, "intervener", None), "kind", "") == "hand"
    alone = not (by_hand or getattr(settings, "apart", False) or getattr(settings, "processes", 1) > 1)
    return tuple(getattr(ALGORITHMS.load(algorithm), "changeable", ())) if alone else ()


def read_changes(texts: Sequence[str], algorithm: str, settings: Any, where: str) -> tuple[Change, ...]:
    """Return a recipe's changes in their order.

    Args:
        texts: As in the recipe.
        algorithm, settings: Of the recipe.
        where: Begins the sentence of an error.

    Raises:
        UserError: One is of another form, names a setting that cannot change in mid-run, or has a value that is not
            allowed.
    """
    found = tuple(sorted((read_change(text, where) for text in texts), key=lambda one: one.after))
    able = changeable_in_run(algorithm, settings) if found else ()
    for k, one in enumerate(found):
        if one.name not in able:
            raise UserError(
                f"{where}: changes: the algorithm {algorithm} cannot change {one.name} in mid-run. It can change:"
                f" {', '.join(able) or 'nothing'}."
            )
        changed_settings(settings, found[: k + 1], f"{where}: changes")
    return found


def changed_settings(settings: Any, changes: Sequence[Change], where: str = "changes") -> Any:
    """Return settings after some changes.

    Raises:
        UserError: A value is not allowed.
    """
    data = schema.to_data(settings) | {one.name: one.value for one in changes}
    return schema.load(type(settings), data, where)


def iteration_of(share: float, iterations: int) -> int:
    """Return after which of a run's iterations a share of them is done."""
    return math.ceil(share * iterations - 1e-9)
