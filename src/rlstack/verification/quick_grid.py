"""A proof within seconds: the required margins of the reality grid alone, few trials each, many of them at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlstack.sim.vector import BATCH
from rlstack.verification.departures import NOMINAL
from rlstack.verification.reality import Axis, AxisResult, Conditions, Margin, Point, Reality, with_margins
from rlstack.verification.request import Request
from rlstack.verification.runner import take
from rlstack.verification.task_verification import TaskVerification
from rlstack.verification.training_evaluation import verification_of

TRIALS = 64
"""Trials at each required value: three of them may fail where 95% must succeed."""


def quick_grid(request: Request) -> Reality:
    """Return whether a policy holds the required margins of its task, by few trials in the batch simulator.

    Nothing is searched: each axis is tried at its required value only, in trials that may be shorter. Conditions that
    differ in the robots alone run together. The kind may ask for less, see :attr:`TaskVerification.quick_margins`.

    Args:
        request: The request; its ``episodes`` are the trials at each value, and its ``margins`` the axes; None: all.

    Raises:
        UserError: The policy's command is not finite, or it is for another robot.
    """
    count = request.episodes or TRIALS
    make = verification_of(request.task, request.robot.kind)
    verifier: TaskVerification = make(replace(request, names=(BATCH,), episodes=count, quick=True))
    required = {**getattr(verifier.task, "margins", {}), **verifier.quick_margins}
    axes = [axis for axis in with_margins(verifier.axes(), required) if axis.required is not None]
    axes = [axis for axis in axes if request.margins is None or axis.key in request.margins]
    nominal = verifier.conditions(take(verifier.trials, 0, count))
    tried: dict[str, Conditions] = {"": nominal}
    for axis in axes:
        assert axis.required is not None
        tried[axis.key] = axis.apply(axis.required, nominal)
    together = [key for key, one in tried.items() if one.departures == NOMINAL and one.robot is nominal.robot]
    found: dict[str, Mapping[str, Any]] = {}
    joined = replace(nominal, trials=type(nominal.trials).joined([tried[key].trials for key in together]))
    record = verifier.run_under(joined, None)
    for number, key in enumerate(together):
        found[key] = _figures(verifier, record.take(slice(number * count, (number + 1) * count)))
    for key in tried.keys() - found.keys():
        found[key] = _figures(verifier, verifier.run_under(tried[key], None))
    return Reality(
        axes=tuple(_result(axis, found[""], found[axis.key], verifier.enough) for axis in axes),
        simulator=BATCH,
        trials=count,
        baseline_trials=0,
        enough=verifier.enough,
    )


def _figures(verifier: TaskVerification, record: Any) -> Mapping[str, Any]:
    score = verifier.score(record, {})
    data = score.to_json()
    names = ("success", *(key for key in verifier.reality_figures if key in score.by_key))
    return {key: data[key] for key in names}


def _result(axis: Axis, nominal: Mapping[str, Any], there: Mapping[str, Any], enough: float) -> AxisResult:
    assert axis.required is not None
    points = tuple(_point(value, at) for value, at in ((axis.nominal, nominal), (axis.required, there)))
    holds = [point.success >= enough for point in points]
    margin = None if not holds[0] else axis.required if holds[1] else axis.nominal
    return AxisResult(axis, Margin(margin, all(holds), points))


def _point(value: float, figures: Mapping[str, Any]) -> Point:
    return Point(value, float(figures["success"] or 0.0), {k: v for k, v in figures.items() if k != "success"})
