"""The reality grid: how far robot, signals and commands may depart from the nominal trials before a policy fails.

An :class:`Axis` departs in one thing, such as the age of observations. Its *margin* is the largest departure at which
the policy still succeeds in enough of the trials, found by bisection on the same trials with the same seeds. An axis
with a required margin is judged, one without is informational. A kind of robot declares its axes in
``kinds/<kind>/verification_reality.py``, and its :class:`rlstack.verification.task_verification.TaskVerification`
returns them from ``axes``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rlstack.errors import unknown_name
from rlstack.verification.departures import NOMINAL, Departures

SUCCESS = 0.95
"""Share of the trials that must succeed within a margin, unless a task asks for another."""

REFINEMENTS = 2
"""Bisections of an axis, besides the required and the farthest value."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Trials, and what departs in them.

    Args:
        trials: N trials, as the task draws them.
        robot: The simulated robot; drivers keep the numbers of the robot file.
        departures: Departures of signals and commands.
        options: Further options of the function that runs the trials.
    """

    trials: Any
    robot: Any
    departures: Departures = NOMINAL
    options: Mapping[str, Any] = field(default_factory=dict)

    def departing(self, **changes: Any) -> Conditions:
        """Return conditions in which fields of the departures have other values."""
        return replace(self, departures=replace(self.departures, **changes))


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One departure, from its nominal value to the farthest that is searched.

    Args:
        key: Its name in verify.json and in a task's ``margins``.
        title: Its name for readers.
        unit: An SI unit; ``share`` (displayed as a percentage) or ``x`` (a factor).
        nominal: Value of the nominal trials, where nothing departs.
        farthest: Farthest value searched, above or below ``nominal``.
        required: Least margin of a policy that passes; None: informational.
        reason: Why that margin, or why the axis is shown; with the source of its figures.
        apply: Returns the conditions at a value; called with the value and the nominal conditions.
        resolution: Values are multiples of this, counted from ``nominal``.
        values: All values, from the nominal to the farthest, where only some are possible; ``resolution`` is then 0.
    """

    key: str
    title: str
    unit: str
    nominal: float
    farthest: float
    required: float | None
    reason: str
    apply: Callable[[float, Conditions], Conditions]
    resolution: float = 0.0
    values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.nominal == self.farthest or (self.resolution > 0.0) == bool(self.values):
            raise ValueError(f"{self.key}: give two ends, and either a resolution or values")
        if self.required is not None and not 0.0 <= self.share(self.required) <= 1.0:
            raise ValueError(f"{self.key}: {self.required:g} is not from {self.nominal:g} to {self.farthest:g}")

    def share(self, value: float) -> float:
        """Return how far a value is: 0 at the nominal one, 1 at the farthest."""
        return (value - self.nominal) / (self.farthest - self.nominal)

    def text(self, value: float) -> str:
        """Return a value with its unit, for readers."""
        if self.unit == "s" and abs(self.farthest) < 1.0:
            return f"{round(1000.0 * value, 3):g} ms"
        if self.unit == "share":
            return f"{round(100.0 * value, 3):g}%"
        return f"x{round(value, 4):g}" if self.unit == "x" else f"{round(value, 4):g} {self.unit}".rstrip()

    def between(self, near: float, far: float) -> float | None:
        """Return the value half way between two, a multiple of the resolution; None: there is none between them."""
        if self.values:
            inside = [one for one in self.values if self.share(near) < self.share(one) < self.share(far)]
            return inside[(len(inside) - 1) // 2] if inside else None
        first, last = (round(abs(value - self.nominal) / self.resolution) for value in (near, far))
        middle = (first + last) // 2
        if middle in (first, last):
            return None
        return round(self.nominal + math.copysign(middle * self.resolution, self.farthest - self.nominal), 12)


def late(key: str, title: str, *, farthest: float, required: float | None, resolution: float, reason: str) -> Axis:
    """Return the axis of a delay or jitter, s; ``key`` is a field of :class:`Departures`."""
    return Axis(
        key=key,
        title=title,
        unit="s",
        nominal=0.0,
        farthest=farthest,
        required=required,
        reason=reason,
        apply=lambda value, c: c.departing(**{key: value}),
        resolution=resolution,
    )


def lost_messages(*, farthest: float, required: float | None, resolution: float, reason: str) -> Axis:
    """Return the axis of the share of messages that are lost."""
    return Axis(
        key="lost_messages_share",
        title="Lost messages",
        unit="share",
        nominal=0.0,
        farthest=farthest,
        required=required,
        reason=reason,
        apply=lambda value, c: c.departing(lost=value),
        resolution=resolution,
    )


def control_rate(rate_hz: float, *, required: float | None, reason: str) -> Axis:
    """Return the axis of the driver's rate: whole shares of the policy's, down to a quarter."""
    return Axis(
        key="control_rate_hz",
        title="Control rate",
        unit="Hz",
        nominal=rate_hz,
        farthest=rate_hz / 4.0,
        required=required,
        reason=reason,
        apply=lambda value, c: c.departing(period=round(rate_hz / value)),
        values=tuple(rate_hz / n for n in (1, 2, 3, 4)),
    )


@dataclass(frozen=True)
class Point:
    """The results at one value of an axis.

    Args:
        value: The value.
        success: Share of the trials that succeed.
        figures: Further figures of the trials by key; None where they are not finite.
    """

    value: float
    success: float
    figures: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Margin:
    """The margin of one driver on one axis.

    Args:
        margin: Largest departure with enough success; None: there is not enough at the nominal value.
        open_ended: Whether it is the farthest value searched, so that the margin may be larger.
        points: The values tried, in order of their distance from the nominal one, which comes first.
    """

    margin: float | None
    open_ended: bool
    points: tuple[Point, ...]

    def text(self, axis: Axis) -> str:
        """The margin for readers."""
        if self.margin is None:
            return "none"
        if self.margin == axis.nominal:
            tried = [point.value for point in self.points[1:]]
            return f"under {axis.text(tried[0])}" if tried else axis.text(self.margin)
        return axis.text(self.margin) + (" or more" if self.open_ended else "")

    def reaches(self, axis: Axis, value: float) -> bool:
        """Return whether the margin reaches a value."""
        return self.margin is not None and axis.share(self.margin) >= axis.share(value) - 1e-9

    def at(self, value: float) -> Point | None:
        """Return the results at a value; None: it was not tried."""
        return next((point for point in self.points if math.isclose(point.value, value, abs_tol=1e-12)), None)


def find_margin(
    axis: Axis,
    nominal: Point,
    evaluate: Callable[[float], Point],
    enough: float = SUCCESS,
    refinements: int = REFINEMENTS,
) -> Margin:
    """Return the margin of a driver: the required value first, then the farthest, then bisection between.

    Args:
        axis: The axis.
        nominal: The results of the nominal trials.
        evaluate: Runs the trials at a value.
        enough: Share of the trials that must succeed.
        refinements: Most bisections.
    """
    points = {nominal.value: nominal}

    def holds(value: float) -> bool:
        points[value] = evaluate(value)
        return points[value].success >= enough

    def found(margin: float | None, open_ended: bool = False) -> Margin:
        return Margin(margin, open_ended, tuple(sorted(points.values(), key=lambda one: axis.share(one.value))))

    first = axis.farthest if axis.required is None else axis.required
    enough_there = first == axis.nominal or holds(first)
    if nominal.success < enough:
        return found(None)
    near, far = (first, axis.farthest) if enough_there else (axis.nominal, first)
    if near == axis.farthest or (enough_there and holds(far)):
        return found(axis.farthest, open_ended=True)
    for _ in range(refinements):
        value = axis.between(near, far)
        if value is None:
            break
        near, far = (value, far) if holds(value) else (near, value)
    return found(near)


@dataclass(frozen=True)
class AxisResult:
    """Margins of the policy and of the classical baselines on one axis."""

    axis: Axis
    policy: Margin
    baselines: Mapping[str, Margin] = field(default_factory=dict)

    @property
    def judged(self) -> bool:
        """Whether a margin is required."""
        return self.axis.required is not None

    @property
    def passed(self) -> bool:
        """Whether the required margin is reached, or none is required."""
        return self.axis.required is None or self.policy.reaches(self.axis, self.axis.required)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        axis = self.axis
        return {
            "title": axis.title,
            "unit": axis.unit,
            "nominal": axis.nominal,
            "farthest": axis.farthest,
            "required": axis.required,
            "reason": axis.reason,
            "judged": self.judged,
            "passed": self.passed if self.judged else None,
            **_margin_json(self.policy),
            "baselines": {who: _margin_json(theirs) for who, theirs in self.baselines.items()},
        }


@dataclass(frozen=True, kw_only=True)
class Reality:
    """The reality grid of one policy.

    Args:
        axes: Results by axis, in the kind's order.
        simulator: Where the trials ran.
        trials: Trials of the policy at each value.
        baseline_trials: Trials of the baselines at each value, the first of the same.
        enough: Share of the trials that must succeed within a margin.
        missing: Titles of judged axes that were not measured.
    """

    axes: tuple[AxisResult, ...]
    simulator: str
    trials: int
    baseline_trials: int
    enough: float = SUCCESS
    missing: tuple[str, ...] = ()

    @property
    def failures(self) -> list[str]:
        """A sentence for each required margin that is not reached or not measured."""
        short = [self._short(one) for one in self.axes if not one.passed]
        if self.missing:
            short.append(f"Reality: these required margins were not measured: {', '.join(self.missing).lower()}.")
        return short

    @property
    def baselines(self) -> list[str]:
        """Names of the baselines."""
        return list(dict.fromkeys(who for one in self.axes for who in one.baselines))

    def _short(self, one: AxisResult) -> str:
        axis, required = one.axis, one.axis.required
        assert required is not None
        point = one.policy.at(required)
        there = "" if point is None else f", with {100.0 * point.success:.1f}% success at {axis.text(required)}"
        return (
            f"Reality: {axis.title.lower()}: the margin is {one.policy.text(axis)}, but {axis.text(required)} is"
            f" required{there} ({axis.reason})."
        )

    def rows(self, name: str) -> list[list[str]]:
        """Return the rows of a table: axis, required margin, margins of the policy called ``name`` and baselines."""
        rows = [["Margin of", "required", name, *self.baselines, ""]]
        for one in self.axes:
            axis = one.axis
            required = "-" if axis.required is None else axis.text(axis.required)
            theirs = (one.baselines.get(who) for who in self.baselines)
            verdict = ("passed" if one.passed else "NOT PASSED") if one.judged else "not judged"
            texts = ["-" if margin is None else margin.text(axis) for margin in theirs]
            rows.append([axis.title, required, one.policy.text(axis), *texts, verdict])
        return rows

    def to_json(self) -> dict[str, Any]:
        """Return plain data for verify.json."""
        return {
            "simulator": self.simulator,
            "trials": self.trials,
            "baseline_trials": self.baseline_trials,
            "success": self.enough,
            "passed": not self.failures,
            "not_measured": list(self.missing),
            "axes": {one.axis.key: one.to_json() for one in self.axes},
        }


def with_margins(axes: Sequence[Axis], margins: Mapping[str, float | None]) -> tuple[Axis, ...]:
    """Return axes with a task's own required margins; None makes an axis informational.

    Raises:
        UserError: There is no axis of a name.
    """
    known = [axis.key for axis in axes]
    for key in margins:
        if key not in known:
            raise unknown_name("margin (the task's trials cannot vary it)", key, known)
    return tuple(replace(axis, required=margins[axis.key]) if axis.key in margins else axis for axis in axes)


def _margin_json(margin: Margin) -> dict[str, Any]:
    return {
        "margin": margin.margin,
        "open_ended": margin.open_ended,
        "values": [{"value": p.value, "success": p.success, **p.figures} for p in margin.points],
    }
