"""The report of a drill: a table, JSON and a chart."""

from __future__ import annotations

import io
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rlstack.bringup.drill.answers import ROBOT_OFF, Repeat, worst
from rlstack.bringup.drill.running import FaultResult
from rlstack.text_table import aligned

_HEADINGS = ("fault", "answer", "time", "worst excursion", "passed")
_MOST = 58


def table(results: Sequence[FaultResult]) -> str:
    """Return the table: each fault with the guard's answer, the longest time to it, and the worst excursion."""
    rows = [_HEADINGS, *(_row(result) for result in results if result.repeats)]
    lines = aligned(rows)
    failures = [
        f"{result.fault.name}: {why} ({count} of {len(result.repeats)}); expected: {expected(result)}"
        for result in results
        for why, count in Counter(repeat.why for repeat in result.repeats if repeat.why).most_common(3)
    ]
    repeats = sum(len(result.repeats) for result in results)
    passed = sum(result.passed for result in results)
    return "\n".join([*lines, "", *failures, *([""] if failures else []), f"{passed} of {repeats} repeats passed."])


def expected(result: FaultResult) -> str:
    """Return the safe answer of a fault with its time limit."""
    return result.answer.text(result.limit_s)


def _row(result: FaultResult) -> tuple[str, ...]:
    answers = Counter(repeat.answer for repeat in result.repeats)
    answer = " or ".join(name for name, _ in answers.most_common(2) if name)
    reason = next((repeat.reason for repeat in result.repeats if repeat.reason), "")
    named = f"{answer}: {reason}" if reason else answer
    times = [repeat.answer_s for repeat in result.repeats if repeat.answer_s is not None]
    figures = [(*name.rsplit(" ", 1), value) for name, value in worst(result.repeats).items()]
    excursion = ", ".join(f"{name} {value:.2f} {unit}" for name, unit, value in figures)
    return (
        result.fault.name,
        named if len(named) <= _MOST else named[: _MOST - 1] + "…",
        f"{1e3 * max(times):.0f} ms" if times else "-",
        excursion or "-",
        f"{result.passed}/{len(result.repeats)}" + ("" if result.passed == len(result.repeats) else " FAILED"),
    )


def as_data(results: Sequence[FaultResult], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything for JSON."""
    return {
        **about,
        "passed": all(result.passed == len(result.repeats) for result in results),
        "faults": {
            result.fault.name: {
                "fault": result.fault.text,
                "expected": expected(result),
                "limit_s": result.limit_s,
                "passed": result.passed,
                "repeats": [repeat.as_data() for repeat in result.repeats],
            }
            for result in results
        },
    }


def chart(results: Sequence[FaultResult], title: str, excursion: str) -> bytes:
    """Return a picture (PNG): for each fault the guard's modes over time in its worst repeat, and the excursion."""
    from matplotlib.figure import Figure

    shown = [(result, _shown(result)) for result in results if result.repeats]
    modes = list(dict.fromkeys([*(mode for _, repeat in shown for _, mode in repeat.modes), ROBOT_OFF]))
    colours = {mode: _COLOURS.get(mode, _OTHERS[k % len(_OTHERS)]) for k, mode in enumerate(modes)}
    figure = Figure(figsize=(11.0, 0.42 * len(shown) + 1.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[3, 1])
    end = max(_end(repeat) for _, repeat in shown)
    labelled: set[str] = set()
    for row, (result, repeat) in enumerate(shown):
        off = [] if repeat.robot_off_s is None or repeat.answer != ROBOT_OFF else [(repeat.robot_off_s, ROBOT_OFF)]
        spans = [*repeat.modes, *off, (_end(repeat), "")]
        for (begin, mode), (until, _) in itertools.pairwise(spans):
            left.barh(
                row,
                max(until - max(begin, _BEFORE_S), 0.0),
                left=max(begin, _BEFORE_S),
                height=0.7,
                color=colours[mode],
                label=None if mode in labelled else mode,
            )
            labelled.add(mode)
        if result.limit_s is not None:
            left.plot([result.limit_s] * 2, [row - 0.45, row + 0.45], color=_DARK, linewidth=1.5)
        failed = result.passed < len(result.repeats)
        path = [(t, x) for t, x in repeat.path if t >= 0.0]
        if path:
            right.barh(row, max(x for _, x in path), height=0.7, color=_FAILED if failed else _NEUTRAL)
        if failed:
            left.text(end, row, f" {result.passed}/{len(result.repeats)}", va="center", color=_FAILED, fontsize=8)
    left.axvline(0.0, color=_DARK, linewidth=0.8, linestyle=":")
    left.set_yticks(range(len(shown)), [result.fault.text for result, _ in shown], fontsize=8)
    left.set_ylim(len(shown) - 0.4, -0.6)
    left.set_xlim(_BEFORE_S, end * 1.08)
    left.set_xlabel("time from the fault, s (bar: limit)")
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=6, frameon=False, fontsize=8)
    right.set_xlabel(excursion)
    figure.suptitle(title, fontsize=10)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    return picture.getvalue()


_BEFORE_S = -0.2
_FAILED, _DARK, _NEUTRAL = "#b3261e", "#333333", "#adb5bd"
_COLOURS = {"policy": "#4c956c", "disarmed": "#6c757d", "estop": "#b3261e", "takeoff": "#90be6d", ROBOT_OFF: "#3d405b"}
_OTHERS = ("#f4a261", "#e9c46a", "#d98324", "#c8963e")


def _shown(result: FaultResult) -> Repeat:
    """Return the repeat to show: a failed one, or else the slowest."""
    return max(result.repeats, key=lambda repeat: (bool(repeat.why), repeat.answer_s or 0.0))


def _end(repeat: Repeat) -> float:
    return max([repeat.modes[-1][0] + 0.2, *(t for t, _ in repeat.path[-1:]), repeat.robot_off_s or 0.0])
