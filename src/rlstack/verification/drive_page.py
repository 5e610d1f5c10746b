"""The report of a base's verification as one HTML page that needs nothing outside itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from rlstack.verification.drive_cell import DriveCell
from rlstack.verification.drive_score import DriveGroup, DriveScore, figures
from rlstack.verification.html import document, listing, pairs, picture, policy, section, table
from rlstack.verification.metrics import Figure, judged, requirement
from rlstack.verification.plots import Plot

if TYPE_CHECKING:
    from rlstack.verification.drive_report import Column, DriveVerification

FIRST = ("episodes", "success", "collided", "timed_out", "gave_up", "lead", "time_s", "time_ratio", "path_ratio")
"""What a reader wants to know first; the other figures follow in their own order."""

_HIDDEN = ("success_low", "success_high")
"""Shown beside the success."""


def render(verification: DriveVerification, pictures: Sequence[Plot]) -> str:
    """Return the page; everything that comes from outside is escaped."""
    v = verification
    told = "passed" if v.passed else "failed"
    films = [one for one in pictures if one.kind == "gif"]
    body = "\n".join(
        [
            f"<h1>Verification of {escape(v.name)} for {escape(v.robot.name)}</h1>",
            _verdict(v),
            *section("Figures", _figures(v)),
            *section("Beside classical planners", _compared(v)),
            *section("By class of map", _by_class(v)),
            *section("From simulator to simulator", _transfer(v)),
            *section("What was driven", _driven(v)),
            *section("Examples", [picture(one) for one in films]),
            *section("Drives", [picture(one) for one in pictures if one not in films]),
            *section("The policy", [] if v.contract is None else policy(v.contract, v.sha256)),
            *section("How each figure is defined", _definitions(v)),
            *section("Do it again", [f"<pre>{escape(v.command)}</pre>" if v.command else "", pairs(v.provenance)]),
        ]
    )
    return document(f"{v.name} on {v.robot.name}: {told}", body)


def _verdict(v: DriveVerification) -> str:
    if not v.passed:
        return f'<div class="verdict failed"><strong>Failed</strong>{listing(v.failures)}</div>'
    told = [
        f"{name}: {100 * c.score.success:.1f}% of {c.score.episodes:,} ways end at the goal without contact,"
        f" {100 * c.score.collided:.1f}% in contact."
        for name, c in v.columns.items()
    ]
    word = "LimitedCommand" if v.contract is not None else "Driven"
    return f'<div class="verdict passed"><strong>{word}</strong>{listing(told)}</div>'


def _figures(v: DriveVerification) -> Iterator[str]:
    if not v.columns:
        return
    known = {figure.key: figure for figure in figures(next(iter(v.columns.values())).score)}
    keys = [*FIRST, *(key for key in known if key not in (*FIRST, *_HIDDEN))]
    rows = []
    for key in keys:
        rows.append([escape(known[key].title), *(_value(column, known[key]) for column in v.columns.values())])
    head = ["", *(f"{escape(name)}<small>{escape(c.drives.simulator)}</small>" for name, c in v.columns.items())]
    yield table(head, rows[: len(FIRST)], "figures main")
    yield "<h3>More figures</h3>"
    yield table(head, rows[len(FIRST) :], "figures")


def _value(column: Column, figure: Figure) -> str:
    score = column.score
    number = getattr(score, figure.key)
    text = _text(score, figure)
    bounds = column.bounds
    limit = None if bounds is None else bounds.limits.get(figure.key)
    if bounds is None or limit is None or (figure.key == "episodes" and limit <= 1):
        return text
    reached = judged(figure, number, bounds)
    mark, word = ("ok", "&#10003;") if reached else ("short", "&#10007;")
    return f'<span class="{mark}">{text}</span><small>{word} {escape(requirement(figure, bounds))}</small>'


def _text(score: DriveScore, figure: Figure) -> str:
    text = escape(figure.text(getattr(score, figure.key)))
    return text + _interval(score) if figure.key == "success" else text


def _interval(shown: DriveScore | DriveGroup) -> str:
    return f"<small>95% interval {100 * shown.success_low:.1f} to {100 * shown.success_high:.1f}%</small>"


def _compared(v: DriveVerification) -> Iterator[str]:
    for name, column in v.columns.items():
        if not column.baselines:
            continue
        known = {f.key: f for f in figures(column.score)}
        head = [f"{escape(v.name)}<small>is judged</small>"]
        head += [f"{escape(who)}<small>{_role(who, column)}</small>" for who in column.baselines]
        keys = [key for key in known if key not in (*_HIDDEN, "lead", "lead_high", "time_ratio", "paired")]
        scores = [column.score, *column.theirs.values()]
        rows = [[escape(known[key].title), *(_text(score, known[key]) for score in scores)] for key in keys]
        beside = [column.against(who) for who in column.baselines]
        rows += [
            [f"{escape(known[key].title)}, {escape(v.name)} over each", "", *(_text(one, known[key]) for one in beside)]
            for key in ("lead", "time_ratio", "paired")
        ]
        many = {len(drives) for drives in column.baselines.values()}
        fewer = "" if many == {len(column.drives)} else f" They drive the first {min(many):,} of these ways."
        if len(column.here) < len(column.all):
            fewer += " They drive in process."
        yield (
            f"<h3>{escape(name)}</h3><p>Planners with the same scans and odometry, tuned on training maps, over the"
            f" same ways.{fewer}</p>"
        )
        yield table(["", *head], rows, "figures")


def _role(who: str, column: Column) -> str:
    return "is compared with" if who == column.reference else "planner, not judged"


def _by_class(v: DriveVerification) -> Iterator[str]:
    for name, column in v.columns.items():
        drivers = {column.drives.driver: column.score, **column.theirs}
        kinds = list(column.score.by_label)
        rows = [
            [escape(kind), f"{column.score.by_label[kind].episodes:,}", *(_class(s, kind) for s in drivers.values())]
            for kind in kinds
        ]
        if len(v.columns) > 1:
            yield f"<h3>{escape(name)}</h3>"
        yield table(["map", "ways", *map(escape, drivers)], rows, "disturbances")


def _class(score: DriveScore, kind: str) -> str:
    group = score.by_label.get(kind)
    if group is None:
        return "-"
    time = "" if group.time_s is None else f", {group.time_s:.1f} s"
    return f"{100 * group.success:.1f}%<small>{100 * group.collided:.1f}% in contact{time}</small>" + _interval(group)


def _transfer(v: DriveVerification) -> Iterator[str]:
    columns = v.transfer.simulators
    if len(columns) < 2:
        return
    yield (
        "<p>Rows: who drove; columns: where. Share that succeeds, share in contact, and mean time to the goal, each"
        " with its 95% interval.</p>"
    )
    rows = [[escape(who), *(_cell(row.get(name)) for name in columns)] for who, row in v.transfer.cells.items()]
    yield table(["", *map(escape, columns)], rows, "disturbances")


def _cell(cell: DriveCell | None) -> str:
    if cell is None:
        return "-"
    s, c, t = cell.success, cell.collided, cell.time_s
    time = "" if t is None else f"{t.value:.1f} s<small>{t.low:.1f} to {t.high:.1f}</small>"
    return (
        f"{100 * s.value:.1f}%<small>{100 * s.low:.1f} to {100 * s.high:.1f}%</small>"
        f"{100 * c.value:.1f}% in contact<small>{100 * c.low:.1f} to {100 * c.high:.1f}%</small>{time}"
    )


def _driven(v: DriveVerification) -> Iterator[str]:
    rows = []
    for name, column in v.columns.items():
        pool, limit_s = column.course.pool, column.course.limit_s
        seeds = [drawn.seed for drawn in pool.maps]
        rows.append(
            [
                f"{escape(name)}<small>{escape(column.drives.simulator)}</small>",
                f"{len(pool):,}",
                escape(", ".join(dict.fromkeys(column.course.kinds.tolist()))),
                f"{pool.difficulty.min():.2g} to {pool.difficulty.max():.2g}",
                f"{min(seeds):,} to {max(seeds):,}",
                f"{pool.shortest_m.min():.1f} to {pool.shortest_m.max():.1f} m",
                f"{limit_s.min():.0f} to {limit_s.max():.0f} s",
            ]
        )
    yield table(["", "ways", "maps", "difficulty", "seeds", "shortest way", "time allowed"], rows, "disturbances")
    yield f"<p>{escape(v.told)}</p>"
    yield from left_out(v)


def left_out(v: Any) -> Iterator[str]:
    """Yield what a verification is worth, and which simulators could not hold it."""
    yield f"<p><strong>{escape(v.worth)}</strong></p>"
    if v.left_out:
        yield table(["left out", "because"], [[escape(n), escape(why)] for n, why in v.left_out.items()], "figures")


def _definitions(v: DriveVerification) -> Iterator[str]:
    for column in list(v.columns.values())[:1]:
        items = (f"<dt>{escape(f.title)}</dt><dd>{escape(f.definition)}</dd>" for f in figures(column.score))
        yield f"<dl>{''.join(items)}</dl>"


def shown(columns: Mapping[str, Column]) -> list[list[str]]:
    """Return the rows of the table for a terminal: a heading and a figure a row, a column each."""
    titles = {f.key: f.title for column in columns.values() for f in figures(column.score)}
    keys = [*FIRST, "spl", "clearance_m", "jerk_m_s3", "interventions", "latency_p50_ms", "latency_p99_ms", "wall_s"]
    texts = [{f.key: f.text(number) for f, number in column.score.figures()} for column in columns.values()]
    return [["", *columns], *([titles[key], *(text[key] for text in texts)] for key in keys)]
