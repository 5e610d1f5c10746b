"""Find a robot's parameters from recordings, with an interval for each, or why they cannot be told."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError, unknown_name
from rlstack.identification.fit import MOST_ITERATIONS, Fit, fit
from rlstack.identification.gap import Gap, gap_of
from rlstack.identification.motion_model import (
    COMMANDS,
    Z90,
    Estimate,
    KindIdentification,
    MotionModel,
    Parameter,
    Windows,
)
from rlstack.identification.recorded import SHORTEST_S, Recorded, read_recording
from rlstack.identification.sensors import sensor_estimates
from rlstack.identification.shooting import CYCLE_S, HELD_OUT_S, Shooting, kept_windows, windows_of
from rlstack.kinds import find_kind
from rlstack.progress import OnStage
from rlstack.robots import RobotSpec

LEAST_MOTION_S = 5.0
"""Least time in free motion under commands."""

_MOST_UNEXPLAINED = 0.5
"""Largest share of the motion's variance that a fit may leave."""

_FAR = 1.0
"""Half widths of its interval by which an estimate may be off the file's value, if it is too rough to replace it: all
others are fitted to what the file has for it, and a value that the interval excludes would draw them with it."""

_MOVES = 30.0
"""Motion within a segment over the sensor's noise above which it must be explained: a hover need not be."""


@dataclass(frozen=True)
class Identification:
    """A robot as its recordings tell it.

    Args:
        robot: The robot file that it started from.
        recordings: The recordings.
        model: Its model.
        estimates: Of all parameters, by name.
        fit: The last fit.
        windows: Its windows.
        before: Prediction errors from commands on held-out windows with the file's values.
        after: The same with the estimates.
        moving_s: Recorded time that was fitted.
        seconds: What it took, CPU-seconds of this process.
        driven: Errors before and after of the prediction from what the fit was driven by; None: from commands, too.
    """

    robot: RobotSpec
    recordings: tuple[Recorded, ...]
    model: MotionModel
    estimates: Mapping[str, Estimate]
    fit: Fit
    windows: Windows
    before: Gap
    after: Gap
    moving_s: float
    seconds: float
    driven: tuple[Gap, Gap] | None = None

    @property
    def gaps(self) -> dict[str, Gap]:
        """The prediction errors by what they are, for reports: those of the fit first."""
        if self.driven is None:
            return {"before": self.before, "after": self.after}
        pairs = (self.model.driven_by, self.driven), (COMMANDS, (self.before, self.after))
        return {f"{when}, from {what}": gap for what, pair in pairs for when, gap in zip(("before", "after"), pair)}

    @property
    def values(self) -> Array:
        """(P,) the new value of every parameter."""
        return np.array([estimate.value for estimate in self.estimates.values()])

    @cached_property
    def sensors(self) -> dict[str, Estimate]:
        """What the recordings tell of the sensors, by name."""
        kind: KindIdentification = find_kind(self.robot.kind).load("identification")
        found = sensor_estimates(self.robot, self.model, self.values, self.windows, self.fit, self.recordings)
        return found | {one.parameter.name: one for one in kind.sensors(self.robot, self.recordings, self.estimates)}

    @property
    def notes(self) -> list[str]:
        """Sentences on the recordings, by bag, and on what else they tell."""
        said = [f"{recorded.path}: {note}" for recorded in self.recordings for note in recorded.notes]
        return said + self.model.notes(self.values)


def read_all(
    robot: RobotSpec, bags: Sequence[Any], namespace: str = "", shortest_s: float = SHORTEST_S
) -> list[Recorded]:
    """Read what a robot's identification needs from bags of at least so many seconds.

    Raises:
        UserError: The robot cannot be identified, or see :func:`rlstack.identification.recorded.read_recording`.
    """
    kind: KindIdentification = find_kind(robot.kind).load("identification")
    kind.check(robot)
    how: dict[str, Any] = {"reference": kind.signals[0], "names": kind.names(robot), "optional": kind.optional}
    how |= {"readers": kind.readers(robot), "shortest_s": shortest_s}
    return [read_recording(bag, kind.signals, namespace=namespace, **how) for bag in bags]


def gap_report(robot: RobotSpec, recordings: Sequence[Recorded], known: Mapping[str, float]) -> tuple[MotionModel, Gap]:
    """Return how far a robot file's prediction from commands is from its recordings, over the whole of them."""
    kind: KindIdentification = find_kind(robot.kind).load("identification")
    model = kind.model(robot, recordings)
    values, _, _ = starting_point(model, known)
    return model, gap_of(model.by_commands(), values, list(recordings), held_out=False)


def check(robot: RobotSpec, recordings: Sequence[Recorded], known: Mapping[str, float]) -> dict[str, Gap]:
    """Return how far a robot file's predictions are from its recordings, by what they are; that from commands last."""
    model, gap = gap_report(robot, recordings, known)
    if model.driven_by == COMMANDS:
        return {robot.name: gap}
    values, _, _ = starting_point(model, known)
    driven = gap_of(model, values, list(recordings), held_out=False)
    return {f"{robot.name}, from {model.driven_by}": driven, f"{robot.name}, from {COMMANDS}": gap}


def identify(
    robot: RobotSpec,
    recordings: Sequence[Recorded],
    known: Mapping[str, float] | None = None,
    progress: Callable[[str], None] | None = None,
    least_s: float = LEAST_MOTION_S,
    segments_s: Sequence[float] = (),
    whole: bool = False,
    on_stage: OnStage | None = None,
) -> Identification:
    """Estimate a robot's parameters.

    Args:
        robot: The robot file to start from.
        recordings: From :func:`read_all`.
        known: Values that were measured otherwise, by the parameters' names.
        progress: Called with a sentence on each stage.
        least_s: Least time in free motion under commands; a hover tells thrust over mass within less.
        segments_s: Lengths of the segments, one fit after the other; empty: the kind's.
        whole: Whether all time is fitted and compared, as of recordings of some seconds; nothing is held out then.
        on_stage: Called with the steps of each fit, which mostly ends before the last one.

    Raises:
        UserError: A known parameter does not exist, the recordings have too little free motion, or the robot's model
            cannot explain them.
    """
    began = time.process_time()
    kind: KindIdentification = find_kind(robot.kind).load("identification")
    kind.check(robot)
    model = kind.model(robot, recordings)
    values, fixed, free = starting_point(model, known or {})
    file = np.array([parameter.value for parameter in model.parameters])
    lengths = all_lengths = tuple(segments_s) or kind.segments_s
    fitted, compared = (None, None) if whole else (False, True)
    windows = kept_windows(model, windows_of(list(recordings), model.topic, lengths[-1], held_out=fitted))
    moving_s = len(windows) * lengths[-1]
    if moving_s < least_s:
        raise UserError(
            f"{', '.join(str(one.path) for one in recordings)}: {moving_s:.1f} s are in free motion under commands, and"
            f" at least {least_s:g} s are needed: record {model.parameters[-1].manoeuvre}."
        )
    centre, estimated = file.copy(), values.copy()
    found, pieces = None, windows
    reasons: dict[int, str] = {}
    widths: dict[int, float] = {}
    together: dict[int, float] = {}
    while True:
        for length in lengths:
            pieces = kept_windows(model, windows_of(list(recordings), model.topic, length, held_out=fitted))
            problem = Shooting(model, pieces, estimated, free)
            if progress is not None:
                progress(f"{len(pieces)} segments of {length:g} s, {len(free)} parameters")
            inward = np.array([float(model.parameters[k].inward(centre[k])) for k in free])
            step = _counting(on_stage, f"steps with segments of {length:g} s, at most")
            found = fit(problem, problem.start, model.states(pieces), inward, step)
            estimated = problem.values(found.parameters)
        assert found is not None
        for other in () if widths or reasons else model.alternatives(estimated):
            problem = Shooting(other, pieces, estimated, free)
            if progress is not None:
                progress(f"the same from {other.driven_by}")
            step = _counting(on_stage, f"steps from {other.driven_by}, at most")
            trial = fit(problem, problem.start, other.states(pieces), inward, step)
            if _left(model, trial) < _left(model, found):
                model, found, estimated = other, trial, problem.values(trial.parameters)
        halves = dict(zip(free, half_widths(model, free, found.deviation).tolist()))
        lengths = all_lengths[-1:]
        if widths:  # a fit without what is not told: intervals allow for that, and for how far it drew the others
            at = {k: float(model.parameters[k].inward(estimated[k])) for k in halves}
            halves = {k: max(half, widths[k] + abs(at[k] - together.get(k, at[k]))) for k, half in halves.items()}
        partners = [] if widths else _in_proportion(model, halves, estimated)
        estimated = _scaled(model, partners, estimated, values)
        untold = partners or _untold(model, halves, estimated)
        estimated[untold] = values[untold]
        absurd = [] if partners else _impossible(model, {k: halves[k] for k in free if k not in untold}, estimated)
        if untold := untold + absurd:
            names = {model.parameters[k].name for k in untold}
            untold += [k for k in halves if model.parameters[k].needs in names and k not in untold]
            reasons |= {k: _reason(model, k, halves[k], absurd=k in absurd, scale=k in partners) for k in untold}
            estimated[untold] = values[untold]
            free = [k for k in free if k not in untold]
        if not partners:
            widths = {k: widths.get(k, halves[k]) for k in free}
            if absurd:  # what no robot has drew the others
                together = {}
            elif not together:
                together = {k: float(model.parameters[k].inward(estimated[k])) for k in free}
        if not untold:
            break
        if not free:
            raise UserError(
                "The recording tells nothing of the robot's parameters: it hardly moves. Record"
                f" {model.parameters[1].manoeuvre}."
            )
    assert found is not None
    if (share := _unexplained(model, pieces, found)) > _MOST_UNEXPLAINED:
        raise UserError(
            f"{robot.name}'s model, with whatever numbers, leaves {100.0 * min(share, 1.0):.0f}% of the recorded motion"
            " unexplained: the recording is of a robot of another kind, or of one that fell, touched something or was"
            " pushed most of the time, or its commands are not those that the robot obeyed."
        )
    estimates = _estimates(model, widths, estimated, values, fixed, reasons)
    by_commands = model.by_commands()
    before, after = (gap_of(by_commands, at, list(recordings), held_out=compared) for at in (values, estimated))
    driven = None
    if by_commands is not model:
        was, now = (gap_of(model, at, list(recordings), held_out=compared) for at in (values, estimated))
        driven = was, now
    if (driven or (before, after))[1].worse_than((driven or (before, after))[0]):
        predicted = "motion" if whole else "held-out motion"
        raise UserError(
            f"The best fit predicts the {predicted} no better than {robot.name} does: the recording is of a robot"
            " that its model does not describe, or of one that something else moved (wind, contact, a hand)."
        )
    used_s = float(found.kept.sum()) * lengths[-1]
    taken = time.process_time() - began
    gaps: dict[str, Any] = {"before": before, "after": after, "driven": driven}
    return Identification(
        robot, tuple(recordings), model, estimates, found, pieces, moving_s=used_s, seconds=taken, **gaps
    )


def _counting(on_stage: OnStage | None, stage: str) -> Callable[[int], None] | None:
    """Return what tells the number of each step of a fit."""
    return None if on_stage is None else lambda number: on_stage(stage, number, MOST_ITERATIONS)


def _left(model: MotionModel, found: Fit) -> float:
    """Return the logarithm of what a fit leaves, beside what the model is driven by."""
    return sum(
        float(channel.width * np.log(noise))
        for channel, noise in zip(model.channels, found.noise)
        if channel.name not in model.measured_inputs
    )


def _unexplained(model: MotionModel, windows: Windows, found: Fit) -> float:
    """Return the largest share of a channel's motion, within windows and of their variance, that the fit leaves.

    Motion that hardly exceeds the sensor's noise does not count.
    """
    worst = 0.0
    for channel, noise in zip(model.channels, found.noise):
        measured = model.recorded(windows).get(channel.name)
        if measured is None:
            continue
        moved = float(np.nanmedian(np.abs(measured - measured[:, :1]))) * 1.4826
        if moved > _MOVES * channel.noise:
            worst = max(worst, float(noise / moved) ** 2)
    return worst


def starting_point(model: MotionModel, known: Mapping[str, float]) -> tuple[Array, set[int], list[int]]:
    """Return where a fit begins.

    Returns:
        The file's values (P,), with the known and the observed ones in place; the indices of the known ones; the
        indices of those that are fitted.

    Raises:
        UserError: A known parameter does not exist, or cannot have that value.
    """
    names = [parameter.name for parameter in model.parameters]
    values = np.array([one.value if one.observed is None else one.observed for one in model.parameters])
    fixed: set[int] = set()
    for name, value in known.items():
        if name not in names:
            raise unknown_name("parameter for --known", name, names)
        k = names.index(name)
        parameter = model.parameters[k]
        if not np.isfinite(value) or (parameter.logarithmic and value <= 0.0) or value < parameter.least:
            above = "above 0" if parameter.logarithmic else f"at least {parameter.least:g}"
            raise UserError(f"--known {name}={value:g} is not allowed: must be {above} {parameter.unit}.".strip())
        values[k] = value
        fixed.add(k)
    return values, fixed, [k for k, one in enumerate(model.parameters) if k not in fixed and not one.given]


def half_widths(model: MotionModel, free: Sequence[int], deviation: Array) -> Array:
    """Return the half widths (free,) of the 90% intervals of parameters with standard deviations ``deviation``."""
    floor = np.array([model.parameters[k].floor for k in free])
    return np.asarray(Z90 * np.hypot(deviation, floor))


def _in_proportion(model: MotionModel, halves: Mapping[int, float], estimated: Array) -> list[int]:
    """Return the parameters that cannot be told apart from another one, which is then told in proportion to them.

    Those whose interval excludes the file's value are told, if roughly. A factor's interval is one of its logarithm:
    where the other one may be larger by as much as the file's value is, that is not excluded.
    """
    names = [parameter.name for parameter in model.parameters]
    found = []
    for wide in (k for k, half in halves.items() if half > model.parameters[k].needed and model.parameters[k].alike):
        partner = names.index(model.parameters[wide].alike)
        if partner not in halves or partner in found:
            continue
        ratio = model.parameters[partner].value / max(float(estimated[partner]), 1e-12)
        factors = model.parameters[wide].logarithmic and not model.parameters[partner].logarithmic and ratio > 0.0
        alike = factors and abs(np.log(ratio)) < _FAR * halves[wide]
        if alike or _off(model, partner, estimated) < _FAR * halves[partner]:
            found.append(partner)
    return found


def _scaled(model: MotionModel, partners: Sequence[int], estimated: Array, values: Array) -> Array:
    """Return the estimates, with those in proportion to ``partners`` scaled to what the file has for these.

    The next fit starts near its end then, and not from an armature twice as large under drives as strong as before.
    """
    found = estimated.copy()
    for k in partners:
        if estimated[k] > 0.0 and values[k] > 0.0:
            with_it = [_partner(model, parameter) == model.parameters[k].name for parameter in model.parameters]
            found[with_it] *= values[k] / estimated[k]
    return found


def _off(model: MotionModel, k: int, estimated: Array) -> float:
    """Return how far a parameter's estimate is from the file's value: of the logarithm, or in the unit."""
    parameter = model.parameters[k]
    return abs(float(parameter.inward(estimated[k]) - parameter.inward(parameter.value)))


def _partner(model: MotionModel, parameter: Parameter) -> str:
    """Return the name of the parameter to which one is in proportion, by itself or by what it needs; empty: none."""
    needed = next((one for one in model.parameters if one.name == parameter.needs), parameter)
    return parameter.alike or (needed.alike if needed.alike != parameter.name else "")


def _untold(model: MotionModel, halves: Mapping[int, float], estimated: Array) -> list[int]:
    """Return the parameters whose interval is too wide, unless the file's value is far outside it.

    A number that is known to be wrong is no better than one that is known roughly, and would spoil the others.
    """
    wide = [k for k, half in halves.items() if half > model.parameters[k].needed]
    return [k for k in wide if _off(model, k, estimated) < _FAR * halves[k]]


def _impossible(model: MotionModel, halves: Mapping[int, float], estimated: Array) -> list[int]:
    """Return the parameters whose best fit no robot has: the rough ones, or else the roughest.

    Errors in what a model is driven by make its response seem smaller than it is, far beyond any interval.
    """
    names = model.impossible(estimated)
    among = [k for k in halves if model.parameters[k].name in names]
    rough = [k for k in among if halves[k] > model.parameters[k].needed]
    return rough or sorted(among, key=lambda k: halves[k] / model.parameters[k].needed)[-1:]


def _reason(model: MotionModel, k: int, half: float, *, absurd: bool, scale: bool) -> str:
    parameter, share = model.parameters[k], float(np.expm1(half))
    if absurd:
        return f"no robot has what fits best: record {parameter.manoeuvre}, or give it: --known {parameter.name}=VALUE"
    partner = next((one.name for one in model.parameters if one.alike == parameter.name), "")
    if half <= parameter.needed and scale:
        return f"{partner} is told in proportion to it only, and its interval holds the file's value"
    if half <= parameter.needed and parameter.needs:
        return f"it is not told without {parameter.needs}, which this recording does not tell"
    wide = f"{100.0 * share:.0f}%" if parameter.logarithmic else f"{half:.2g} {parameter.unit}".strip()
    most = f"{100.0 * parameter.needed:.0f}%" if parameter.logarithmic else f"{parameter.needed:.2g} {parameter.unit}"
    beside = f" apart from {partner}" if partner else ""
    told = f"tells it{beside} to {wide} only (at most {most.strip()} are wanted)"
    if parameter.logarithmic and share > 1.0:
        told = f"does not tell it{beside}"
    return f"the recording {told}: record {parameter.manoeuvre}, or give it: --known {parameter.name}=VALUE"


def _estimates(
    model: MotionModel,
    halves: Mapping[int, float],
    estimated: Array,
    values: Array,
    fixed: set[int],
    reasons: Mapping[int, str],
) -> dict[str, Estimate]:
    unseen = [k for k, one in enumerate(model.parameters) if one.given and one.observed is None and k not in fixed]
    scale = unseen[0] if unseen else None
    estimates = {}
    for k, parameter in enumerate(model.parameters):
        if k in fixed:
            estimates[parameter.name] = Estimate(parameter, float(values[k]), None, "known")
        elif parameter.observed is not None:
            seen = parameter.observed
            estimates[parameter.name] = Estimate(parameter, seen, (seen, seen), "told", parameter.given)
        elif k in halves:
            at = float(parameter.inward(estimated[k]))
            low, high = (float(parameter.outward(at + sign * halves[k])) for sign in (-1.0, 1.0))
            why, partner = "", _partner(model, parameter)
            if partner and any(model.parameters[j].name == partner for j in reasons):
                why = f"in proportion to {partner}, which is the file's"
            elif scale is not None and parameter.unit.startswith(("kg", "N")):
                why = f"in proportion to {model.parameters[scale].name}, which is the file's"
            estimates[parameter.name] = Estimate(parameter, float(estimated[k]), (low, high), "told", why)
        else:
            why = reasons.get(k) or parameter.given
            estimates[parameter.name] = Estimate(parameter, float(values[k]), None, "kept", why)
    return estimates


def described_split() -> str:
    """Return how the recordings are split, for reports."""
    return f"the last {HELD_OUT_S:g} s of every {CYCLE_S:g} s are held out"
