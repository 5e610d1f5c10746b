"""The report as one HTML page that needs nothing outside itself: no scripts, no fonts, no network."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from rlstack.evaluation.disagreement import LIMIT_M, LIMIT_RAD
from rlstack.evaluation.flown import describe_disturbances, describe_paths, describe_starts
from rlstack.evaluation.metrics import Figure, figures, judged, requirement
from rlstack.evaluation.plots import Plot
from rlstack.evaluation.transfer import Cell
from rlstack.policies.contract import Contract, Port

if TYPE_CHECKING:
    from rlstack.evaluation.report import Verification

_FIRST = ("episodes", "success", "within_0_1", "lost", "error_m", "rmse_m", "recover_s")
"""What a reader wants to know first; the other figures follow in their own order."""

_COMPARED = ("success", "within_0_1", "lost", "error_m", "rmse_m", "recover_s", "command_change_rad_s")
"""What the policy and the classical controllers are compared by."""

_STYLE = """
:root { color-scheme: light; --ink: #1f2328; --soft: #57606a; --line: #d8dee4; --good: #116a3c; --bad: #a3123a; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; background: #fff; color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.35rem; margin: .2rem 0 .8rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
p { margin: .4rem 0; }
.verdict { padding: .9rem 1.1rem; border-radius: .5rem; border: 2px solid; }
.verdict strong { display: block; font-size: 2.2rem; line-height: 1.15; letter-spacing: .02em; }
.verdict ul { margin: .4rem 0 0; padding-left: 1.2rem; }
.passed { border-color: var(--good); background: #eef8f1; } .passed strong, .ok { color: var(--good); }
.failed { border-color: var(--bad); background: #fdf1f3; } .failed strong, .short { color: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--ink); } tbody th { font-weight: 500; }
td small, th small { display: block; color: var(--soft); font-weight: 400; }
.main td { font-weight: 600; } .main td small { font-weight: 400; }
.figures th:first-child { width: 40%; } .disturbances th:first-child { min-width: 11rem; }
.disturbances td { white-space: nowrap; }
figure { margin: 1.2rem 0 1.8rem; } figure img { width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .92rem; }
dt { font-weight: 600; margin-top: .6rem; } dd { margin: 0; }
pre { background: #f6f8fa; padding: .7rem .9rem; border-radius: .4rem; white-space: pre-wrap; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: .88em; }
.hash { overflow-wrap: anywhere; }
@media print { body { max-width: none; padding: 0; font-size: 11pt; } figure, tr, .verdict { break-inside: avoid; }
  figure img { max-height: 20cm; width: auto; max-width: 100%; }
  h2, h3 { break-after: avoid; } .scroll { overflow: visible; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""


def render(verification: Verification, pictures: Sequence[Plot]) -> str:
    """Return the page; everything that comes from outside is escaped."""
    v = verification
    title = f"{v.contract.name} on {v.contract.robot}: {'passed' if v.passed else 'failed'}"
    body = "\n".join(
        [
            f"<h1>Verification of {escape(v.contract.name)} for {escape(v.contract.robot)}</h1>",
            _verdict(v),
            *_section("Figures", _figures(v)),
            *_section("From simulator to simulator", _transfer(v)),
            *_section("Beside classical controllers", _compared(v)),
            *_section("What was flown", _flown(v)),
            *_section("Flights", [_picture(picture) for picture in pictures]),
            *_section("The policy", _policy(v.contract, v.sha256)),
            *_section("How each figure is defined", _definitions(v)),
            *_section("Do it again", _again(v)),
        ]
    )
    # The policy keeps even a mistake in here from fetching anything.
    guard = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{guard}">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _section(title: str, parts: Iterable[str]) -> list[str]:
    content = list(parts)
    return [f"<h2>{escape(title)}</h2>", *content] if content else []


def _verdict(v: Verification) -> str:
    if v.passed:
        told = []
        for name, score in v.scores.items():
            c = score.criteria
            told.append(
                f"{name}: {100 * score.success:.1f}% of {score.episodes:,} flights stay within {c.radius_m:g} m"
                f" from second {c.from_s:g} to second {c.to_s:g}, {100 * score.lost:.1f}% are lost."
            )
        return f'<div class="verdict passed"><strong>Passed</strong>{_list(told)}</div>'
    return f'<div class="verdict failed"><strong>Failed</strong>{_list(v.failures)}</div>'


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
    head = ["", *(f"{escape(name)}<small>{escape(v.episodes[name].backend)}</small>" for name in v.scores)]
    yield _table(head, rows[: len(_FIRST)], "figures main")
    yield "<h3>More figures</h3>"
    yield _table(head, rows[len(_FIRST) :], "figures")


def _value(v: Verification, name: str, figure: Figure, column: Mapping[str, float | None]) -> str:
    number = column[figure.key]
    text = escape(figure.text(number))
    if figure.key == "success":
        low, high = column["success_low"] or 0.0, column["success_high"] or 0.0
        text += f"<small>95% interval {100 * low:.1f} to {100 * high:.1f}%</small>"
    asked = getattr(v.thresholds[name], figure.key, None)
    if asked is None or (figure.key == "episodes" and asked <= 1):
        return text
    reached = judged(figure, number, asked)
    mark, word = ("ok", "&#10003;") if reached else ("short", "&#10007;")
    return f'<span class="{mark}">{text}</span><small>{word} {escape(requirement(figure, asked))}</small>'


def _transfer(v: Verification) -> Iterator[str]:
    columns = v.transfer.simulators
    if not columns:
        return
    yield (
        "<p>Rows: what flew; columns: where. Share of flights that succeed, median distance from the goal, and effort"
        " (mean change of a rotor's command from one control period to the next), each with its 95% interval.</p>"
    )
    rows = [[escape(who), *(_cell(row.get(name)) for name in columns)] for who, row in v.transfer.cells.items()]
    yield _table(["", *map(escape, columns)], rows, "disturbances")
    if v.disagreements:
        limits = f"{1e3 * LIMIT_M:g} mm and {math.degrees(LIMIT_RAD):g} degree"
        yield (
            "<h3>Where the simulators disagree</h3><p>The commands of some flights, replayed without any feedback in"
            f" each simulator; under {limits} they agree. The cause is found by elimination: finer steps, then a term"
            " of the physics taken out of both.</p>"
        )
        yield _list(d.sentence() for d in v.disagreements)


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
            f" {escape(v.episodes[backend].backend)}. They are here to compare with: no threshold is asked of them.</p>"
        )
        yield _table(
            head, [[escape(titles[key]), *(escape(text[key]) for text in texts)] for key in _COMPARED], "figures"
        )


def _flown(v: Verification) -> Iterator[str]:
    for name, scenario in v.scenarios.items():
        score, flights = v.scores[name], v.episodes[name]
        yield (
            f"<h3>{escape(name)}: {escape(flights.backend)}</h3>"
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
        yield _table(["disturbance", "flights", "success", "lost", "position error"], rows, "disturbances")


def _picture(picture: Plot) -> str:
    data = base64.b64encode(picture.png).decode()
    return (
        f"<h3>{escape(picture.title)}</h3><figure>"
        f'<img alt="{escape(picture.title)}: {escape(picture.caption)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(picture.caption)}</figcaption></figure>"
    )


def _policy(contract: Contract, sha256: str) -> Iterator[str]:
    yield _pairs(
        {
            "name": contract.name,
            "task": contract.task,
            "robot": contract.robot,
            "control rate": f"{contract.rate_hz:g} Hz",
            "SHA-256 of the file": sha256,
            "made by": f"rlstack {contract.code_version}",
        }
    )
    head = ["name", "shape", "unit", "frame", "topic and field"]
    yield "<h3>Inputs</h3>"
    yield _table(head, [_port(port) for port in contract.inputs])
    yield "<h3>Outputs</h3>"
    yield _table([*head, "range"], [[*_port(port), escape(_range(port))] for port in contract.outputs])
    if contract.state:
        yield "<h3>Recurrent state</h3>"
        yield _table(["name", "shape"], [[escape(s.name), escape(str(list(s.shape)))] for s in contract.state])
    for title, values in (("Trained for", contract.envelope), ("Training", contract.training)):
        if values:
            yield f"<h3>{title}</h3>"
            yield _pairs(values)


def _port(port: Port) -> list[str]:
    names = f"<small>{escape(', '.join(port.element_names))}</small>" if port.element_names else ""
    return [
        f"<code>{escape(port.name)}</code>{names}",
        escape(str(list(port.shape))),
        escape(port.unit),
        escape(port.frame),
        f"<code>{escape(port.topic)}</code><small>{escape(port.type)}: {escape(port.field)}</small>",
    ]


def _range(port: Port) -> str:
    limits = list(dict.fromkeys(zip(port.minimum, port.maximum)))
    return ", ".join(f"{low:g} to {high:g}" for low, high in limits)


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
        yield _pairs(v.provenance)


def _by_key(items: Iterable[tuple[Figure, float | None]]) -> Iterator[tuple[str, float | None]]:
    return ((figure.key, number) for figure, number in items)


def _list(sentences: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(s)}</li>' for s in sentences)}</ul>"


def _pairs(values: Mapping[str, Any]) -> str:
    rows = [[escape(key), f'<span class="hash">{escape(text)}</span>'] for key, text in _flatten(values)]
    return _table([], rows)


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, item in values.items():
        if isinstance(item, Mapping):
            yield from _flatten(item, f"{prefix}{key}.")
        elif isinstance(item, (list, tuple)):
            yield f"{prefix}{key}", ", ".join(map(str, item))
        else:
            yield f"{prefix}{key}", f"{item:g}" if isinstance(item, float) else str(item)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], css: str = "") -> str:
    """Return a table of cells that are HTML already; the first of each row is its heading."""
    top = f"<thead><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr></thead>" if head else ""
    body = "".join(f"<tr><th>{row[0]}</th>{''.join(f'<td>{cell}</td>' for cell in row[1:])}</tr>" for row in rows)
    name = f' class="{css}"' if css else ""
    return f'<div class="scroll"><table{name}>{top}<tbody>{body}</tbody></table></div>'
