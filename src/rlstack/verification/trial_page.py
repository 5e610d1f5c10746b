"""The report of a :class:`rlstack.verification.trials.TrialVerification` as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from rlstack.verification.drive_page import left_out
from rlstack.verification.html import document, listing, pairs, picture, policy, section, table
from rlstack.verification.metrics import Figure, judged, requirement
from rlstack.verification.trials import TrialColumn, TrialVerification


def render(verification: TrialVerification) -> str:
    """Return the page; everything that comes from outside is escaped."""
    v, name = verification, verification.contract.name
    told = "passed" if v.passed else "failed"
    films = [one for one in v.pictures if one.kind == "gif"]
    body = "\n".join(
        [
            f"<h1>Verification of {escape(name)} for {escape(v.robot.name)}</h1>",
            _verdict(v),
            *section("Figures", _figures(v)),
            *section("Beside classical planners", _compared(v)),
            *section("From place to place", _transfer(v)),
            *section("What was tried", _tried(v)),
            *section("Examples", [picture(one) for one in films]),
            *section("Pictures", [picture(one) for one in v.pictures if one not in films]),
            *section("The policy", policy(v.contract, v.sha256)),
            *section("How each figure is defined", _definitions(v)),
            *section("Do it again", [f"<pre>{escape(v.command)}</pre>" if v.command else "", pairs(v.provenance)]),
        ]
    )
    return document(f"{name} on {v.robot.name}: {told}", body)


def shown(v: TrialVerification) -> list[list[str]]:
    """Return the rows of the table for a terminal: a heading and a figure a row, a column each."""
    known = _known(v)
    texts = [{f.key: f.text(number) for f, number in column.score.figures()} for column in v.columns.values()]
    return [["", *v.columns], *([f.title, *(text.get(key, "-") for text in texts)] for key, f in known.items())]


def _known(v: TrialVerification) -> dict[str, Figure]:
    """Return every figure that a column has, those first that a reader wants first."""
    found = {f.key: f for column in v.columns.values() for f, _ in column.score.figures()}
    return {**{key: found[key] for key in v.first if key in found}, **found}


def _verdict(v: TrialVerification) -> str:
    if not v.passed:
        return f'<div class="verdict failed"><strong>Failed</strong>{listing(v.failures)}</div>'
    reached = []
    for name, column in v.columns.items():
        figures = {f.key: f"{f.title} {f.text(number)}" for f, number in column.score.figures()}
        reached.append(f"{name}: {', '.join(figures[key] for key in list(v.first)[:4] if key in figures)}.")
    return f'<div class="verdict passed"><strong>LimitedCommand</strong>{listing([*reached, v.worth])}</div>'


def _figures(v: TrialVerification) -> Iterator[str]:
    rows = []
    for key, figure in _known(v).items():
        rows.append([escape(figure.title), *(_value(column, key) for column in v.columns.values())])
    head = ["", *(f"{escape(name)}<small>{escape(c.simulator)}</small>" for name, c in v.columns.items())]
    yield table(head, rows[: len(v.first)], "figures main")
    if len(rows) > len(v.first):
        yield "<h3>More figures</h3>"
        yield table(head, rows[len(v.first) :], "figures")


def _value(column: TrialColumn, key: str) -> str:
    for figure, number in column.score.figures():
        if figure.key != key:
            continue
        text = escape(figure.text(number))
        bounds = column.bounds
        limit = None if bounds is None else bounds.limits.get(key)
        if bounds is None or limit is None or (key == "episodes" and limit <= 1):
            return text
        mark, word = ("ok", "&#10003;") if judged(figure, number, bounds) else ("short", "&#10007;")
        return f'<span class="{mark}">{text}</span><small>{word} {escape(requirement(figure, bounds))}</small>'
    return "-"


def _compared(v: TrialVerification) -> Iterator[str]:
    for name, column in v.columns.items():
        if not column.theirs:
            continue
        scores = {v.contract.name: column.score, **column.theirs}
        texts = [{f.key: f.text(number) for f, number in score.figures()} for score in scores.values()]
        rows = [[escape(f.title), *(escape(text.get(f.key, "-")) for text in texts)] for f, _ in column.score.figures()]
        yield f"<h3>{escape(name)}</h3>"
        yield table(["", *map(escape, scores)], rows, "figures")


def _transfer(v: TrialVerification) -> Iterator[str]:
    columns = v.transfer.simulators
    if len(columns) < 2:
        return
    yield "<p>Rows: who; columns: where; with 95% intervals.</p>"
    rows = []
    for who, row in v.transfer.cells.items():
        for what in dict.fromkeys(what for cell in row.values() for what in cell.texts()):
            texts = [row[name].texts().get(what, "-") if name in row else "-" for name in columns]
            rows.append([f"{escape(who)}<small>{escape(what)}</small>", *map(escape, texts)])
    yield table(["", *map(escape, columns)], rows, "disturbances")


def _tried(v: TrialVerification) -> Iterator[str]:
    rows = [[escape(name), escape(column.told)] for name, column in v.columns.items()]
    yield table(["", "what"], rows, "figures")
    if v.told:
        yield f"<p>{escape(v.told)}</p>"
    if v.settings:
        yield f"<p>{escape(v.settings)}</p>"
    yield from left_out(v)


def _definitions(v: TrialVerification) -> Iterator[str]:
    items = (f"<dt>{escape(f.title)}</dt><dd>{escape(f.definition)}</dd>" for f in _known(v).values())
    yield f"<dl>{''.join(items)}</dl>"
