"""The report as one HTML page that needs nothing outside itself: no scripts, no fonts, no network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from rlstack.verification.disagreement import LIMIT_M, LIMIT_RAD
from rlstack.verification.flown import describe_disturbances, describe_paths, describe_starts
from rlstack.verification.html import document, listing, pairs, picture, policy, section, table
from rlstack.verification.metrics import Figure, figures, judged, requirement
from rlstack.verification.plots import Plot
from rlstack.verification.transfer import Cell

if TYPE_CHECKING:
    from rlstack.verification.report import Verification

_FIRST = ("episodes", "success", "within_0_1", "lost", "error_m", "rmse_m", "recover_s")
"""What a reader wants to know first; the other figures follow in their own order."""

_COMPARED = ("success", "within_0_1", "lost", "error_m", "rmse_m", "recover_s", "command_change_rad_s")
"""What the policy and the classical controllers are compared by."""


def render(verification: Verification, pictures: Sequence[Plot]) -> str:
    """Return the page; everything that comes from outside is escaped."""
    v = verification
    title = f"{v.contract.name} on {v.contract.robot}: {'passed' if v.passed else 'failed'}"
    body = "\n".join(
        [
            f"<h1>Verification of {escape(v.contract.name)} for {escape(v.contract.robot)}</h1>",
            _verdict(v),
            *section("Figures", _figures(v)),
            *section("From simulator to simulator", _transfer(v)),
            *section("Beside classical controllers", _compared(v)),
            *section("What was flown", _flown(v)),
            *section("Flights", [picture(one) for one in pictures]),
            *section("The policy", policy(v.contract, v.sha256)),
            *section("How each figure is defined", _definitions(v)),
            *section("Do it again", _again(v)),
        ]
    )
    return document(title, body)


def _verdict(v: Verification) -> str:
    if v.passed:
        told = []
        for name, score in v.scores.items():
            c = score.criteria
            told.append(
                f"{name}: {100 * score.success:.1f}% of {score.episodes:,} flights stay within {c.radius_m:g} m"
                f" from second {c.from_s:g} to second {c.to_s:g}, {100 * score.lost:.1f}% are lost."
            )
        return f'<div class="verdict passed"><strong>LimitedCommand</strong>{listing(told)}</div>'
    return f'<div class="verdict failed"><strong>Failed</strong>{listing(v.failures)}</div>'


def _figures(v: Verification) -> Iterator[str]:
    if not v.scores:
        return
    columns = {name: dict(_by_key(score.figures())) for name, score in v.scores.items()}
    first = figures(next(iter(v.scores.values())))
    known = {figure.key: figure for figure in first}
    rows = []
    for key in [*_FIRST, *(key for key in known if key not in (*_FIRST, "success_low", "success_high"))]:
        cells = [_value(v, name, known[key], columns[name]) for name in columns]
        rows.append([escape(known[key].title), *cells])
    head = ["", *(f"{escape(name)}<small>{escape(v.episodes[name].simulator)}</small>" for name in v.scores)]
    yield table(head, rows[: len(_FIRST)], "figures main")
    yield "<h3>More figures</h3>"
    yield table(head, rows[len(_FIRST) :], "figures")


def _value(v: Verification, name: str, figure: Figure, column: Mapping[str, float | None]) -> str:
    number = column[figure.key]
    text = escape(figure.text(number))
    if figure.key == "success":
        low, high = column["success_low"] or 0.0, column["success_high"] or 0.0
        text += f"<small>95% interval {100 * low:.1f} to {100 * high:.1f}%</small>"
    bounds = v.bounds[name]
    limit = None if bounds is None else bounds.limits.get(figure.key)
    if bounds is None or limit is None or (figure.key == "episodes" and limit <= 1):
        return text
    reached = judged(figure, number, bounds)
    mark, word = ("ok", "&#10003;") if reached else ("short", "&#10007;")
    return f'<span class="{mark}">{text}</span><small>{word} {escape(requirement(figure, bounds))}</small>'


def _transfer(v: Verification) -> Iterator[str]:
    columns = v.transfer.simulators
    if not columns:
        return
    yield (
        "<p>Rows: what flew; columns: where. Share of flights that succeed, median distance from the goal, and effort"
        " (mean change of a rotor's command from one control period to the next), each with its 95% interval.</p>"
    )
    rows = [[escape(who), *(_cell(row.get(name)) for name in columns)] for who, row in v.transfer.cells.items()]
    yield table(["", *map(escape, columns)], rows, "disturbances")
    if v.disagreements:
        limits = f"{1e3 * LIMIT_M:g} mm and {math.degrees(LIMIT_RAD):g} degree"
        yield (
            "<h3>Where the simulators disagree</h3><p>The commands of some flights, replayed without any feedback in"
            f" each simulator; under {limits} they agree. The cause is found by elimination: finer steps, then a term"
            " of the physics taken out of both.</p>"
        )
        yield listing(d.sentence() for d in v.disagreements)


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    s, e, f = cell.success, cell.error_m, cell.effort_rad_s
    effort = "" if f is None else f"{f.value:.0f} rad/s<small>{f.low:.0f} to {f.high:.0f}</small>"
    return (
        f"{100 * s.value:.1f}%<small>{100 * s.low:.1f} to {100 * s.high:.1f}%</small>"
        f"{1e3 * e.value:.1f} mm<small>{1e3 * e.low:.1f} to {1e3 * e.high:.1f}</small>{effort}"
    )


def _compared(v: Verification) -> Iterator[str]:
    for backend, theirs in v.baselines.items():
        columns = {v.contract.name: v.scores[backend], **theirs}
        texts = [{figure.key: figure.text(number) for figure, number in s.figures()} for s in columns.values()]
        titles = {figure.key: figure.title for figure in figures(v.scores[backend])}
        kinds = ["the policy", *["baseline, not judged"] * len(theirs)]
        head = ["", *(f"{escape(name)}<small>{kind}</small>" for name, kind in zip(columns, kinds))]
        yield (
            f"<p>Controllers that were not learned, with the numbers of the robot file, on the same flights in the"
            f" {escape(v.episodes[backend].simulator)}. They are here to compare with: no bound is asked of them.</p>"
        )
        yield table(
            head, [[escape(titles[key]), *(escape(text[key]) for text in texts)] for key in _COMPARED], "figures"
        )


def _flown(v: Verification) -> Iterator[str]:
    for name, scenario in v.scenarios.items():
        score, flights = v.scores[name], v.episodes[name]
        yield (
            f"<h3>{escape(name)}: {escape(flights.simulator)}</h3>"
            f"<p>{len(flights):,} flights of {flights.time_s[-1]:g} s at {flights.rate_hz:g} Hz, starting"
            f" {escape(describe_starts(scenario))}.{escape(describe_paths(scenario))}</p>"
        )
        described = describe_disturbances(scenario, v.robot)
        rows = []
        for label, group in score.by_label.items():
            interval = f"<small>{100 * group.success_low:.1f} to {100 * group.success_high:.1f}%</small>"
            rows.append(
                [
                    f"{escape(label)}<small>{escape(described.get(label, ''))}</small>",
                    f"{group.episodes:,}",
                    f"{100 * group.success:.1f}%{interval}",
                    f"{100 * group.lost:.1f}%",
                    escape(Figure("", "", "m", "").text(group.error_m)),
                ]
            )
        yield table(["disturbance", "flights", "success", "lost", "position error"], rows, "disturbances")


def _definitions(v: Verification) -> Iterator[str]:
    for score in list(v.scores.values())[:1]:
        moving = any(flights.moving for flights in v.episodes.values())
        due = " (the point of the path that is due at that moment)" if moving else ""
        yield (
            f"<p>Distance is between the robot's centre of mass and the goal{due}; a position that is not finite is"
            " infinitely far. Percentiles are taken from the sorted values without interpolation.</p>"
        )
        items = (f"<dt>{escape(f.title)}</dt><dd>{escape(f.definition)}</dd>" for f in figures(score))
        yield f"<dl>{''.join(items)}</dl>"


def _again(v: Verification) -> Iterator[str]:
    if v.command:
        yield f"<pre>{escape(v.command)}</pre>"
    if v.provenance:
        yield pairs(v.provenance)


def _by_key(items: Iterable[tuple[Figure, float | None]]) -> Iterator[tuple[str, float | None]]:
    return ((figure.key, number) for figure, number in items)
