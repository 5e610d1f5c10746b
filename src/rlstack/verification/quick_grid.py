"""A proof within seconds: the required margins of the reality grid alone, few trials each, many of them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from rlstack.sim.vector import BATCH
from rlstack.verification.reality import Axis, AxisResult, Margin, Point, Reality, with_margins
from rlstack.verification.request import Request
from rlstack.verification.runner import take
from rlstack.verification.task_verification import TaskVerification
from rlstack.verification.training_evaluation import verification_of

Figures = Mapping[str, Any]

TRIALS = 64
"""Trials at each required value: three of them may fail where 95% must succeed."""


class Elsewhere(Protocol):
    """Another process that flies some of the conditions meanwhile."""

    def begin(self, request: Request, keys: Sequence[str]) -> None:
        """Begin :func:`quick_figures`."""

    def figures(self) -> Mapping[str, Figures]:
        """Return its figures.

        Raises:
            UserError: It has failed.
        """


def quick_grid(request: Request, elsewhere: Elsewhere | None = None) -> Reality:
    """Return whether a policy holds the required margins of its task, by few trials in the batch simulator.

    Nothing is searched: each axis is tried at its required value only, in trials that may be shorter. Conditions run
    at the same time where the kind can do that. The kind may ask for less, see
    :attr:`TaskVerification.quick_margins`.

    Args:
        request: The request; its ``episodes`` are the trials at each value, and its ``margins`` the axes; None: all.
        elsewhere: Flies every second axis meanwhile.

    Raises:
        UserError: The policy's command is not finite, or it is for another robot.
    """
    verifier, axes = _prepared(request)
    keys = list(axes)
    if elsewhere is not None:
        elsewhere.begin(request, keys[1::2])
        keys = keys[::2]
    try:
        found = _flown(verifier, axes, keys)
    finally:  # an answer that nobody takes would be that of the next proof
        others = {} if elsewhere is None else elsewhere.figures()
    found = {**others, **found}
    return Reality(
        axes=tuple(_result(axis, found[""], found[axis.key], verifier.enough) for axis in axes.values()),
        simulator=BATCH,
        trials=request.episodes or TRIALS,
        baseline_trials=0,
        enough=verifier.enough,
    )


def quick_figures(request: Request, keys: Sequence[str]) -> dict[str, Figures]:
    """Return the figures of some axes of :func:`quick_grid` at their required values by key; empty: nominal ones."""
    return _flown(*_prepared(request), keys)


def _prepared(request: Request) -> tuple[TaskVerification, dict[str, Axis]]:
    """Return the verification, and the axes with required margins by key."""
    make = verification_of(request.task, request.robot.kind)
    count = request.episodes or TRIALS
    verifier: TaskVerification = make(replace(request, names=(BATCH,), episodes=count, quick=True))
    required = {**getattr(verifier.task, "margins", {}), **verifier.quick_margins}
    axes = [axis for axis in with_margins(verifier.axes(), required) if axis.required is not None]
    return verifier, {axis.key: axis for axis in axes if request.margins is None or axis.key in request.margins}


def _flown(verifier: TaskVerification, axes: Mapping[str, Axis], keys: Sequence[str]) -> dict[str, Figures]:
    """Return the figures of the nominal conditions, and of axes at their required values."""
    nominal = verifier.conditions(take(verifier.trials, 0, verifier.request.episodes or TRIALS))
    tried = {"": nominal}
    for key in keys:
        required = axes[key].required
        assert required is not None
        tried[key] = axes[key].apply(required, nominal)
    flown = verifier.run_together(list(tried.values()))
    return {key: _figures(verifier, record) for key, record in zip(tried, flown)}


def _figures(verifier: TaskVerification, record: Any) -> Figures:
    score = verifier.score(record, {})
    data = score.to_json()
    names = ("success", *(key for key in verifier.reality_figures if key in score.by_key))
    return {key: data[key] for key in names}


def _result(axis: Axis, nominal: Figures, there: Figures, enough: float) -> AxisResult:
    assert axis.required is not None
    points = tuple(_point(value, at) for value, at in ((axis.nominal, nominal), (axis.required, there)))
    holds = [point.success >= enough for point in points]
    margin = None if not holds[0] else axis.required if holds[1] else axis.nominal
    return AxisResult(axis, Margin(margin, all(holds), points))


def _point(value: float, figures: Figures) -> Point:
    return Point(value, float(figures["success"] or 0.0), {k: v for k, v in figures.items() if k != "success"})
