"""The report as one self-contained HTML page, without external scripts, fonts or network access.

Its film is shown at once. The page with the trials in 3D is part of it as data, and begins when it is seen, where the
browser has WebGL; elsewhere, and on paper, the film stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.policies.contract import Port
from rlstack.verification.html_page import rendered
from rlstack.verification.judgement import reached, requirement
from rlstack.verification.reality_plots import REALITY
from rlstack.verification.report import FILM_NAME, PAGE_NAME, Column, Verification
from rlstack.verification.scores import Figure

_TEMPLATE = Path(__file__).with_name("page.html.jinja")


def write_report(folder: str | Path, verification: Verification) -> Path:
    """Write report.html, its plots and the record into ``folder`` and return the page's path.

    Every file is written atomically, and the record last, so that it never appears without the rest. Files of an
    earlier report are replaced.

    Raises:
        UserError: Jinja2 is missing, or a file cannot be written.
    """
    try:
        text = json.dumps(verification.to_json(), indent=2, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UserError(f"The provenance cannot be written as JSON ({error}): give plain, finite values.") from error
    page = render(verification)
    for picture in verification.pictures:
        write_atomically(Path(folder) / picture.file, picture.png)
    if verification.replay.film:
        write_atomically(Path(folder) / FILM_NAME, verification.replay.film)
    write_atomically(Path(folder) / PAGE_NAME, page)
    write_atomically(Path(folder) / verification.record_name, text + "\n")
    return Path(folder) / PAGE_NAME


def render(verification: Verification) -> str:
    """Return the page; the template escapes all its values.

    Raises:
        UserError: Jinja2 is not installed.
    """
    v = verification
    first = [figure for figure in v.figures.values() if figure.key in v.first]
    return rendered(
        _TEMPLATE,
        {"pairs": _pairs, "span": _span},
        requirement=_requirement,
        interval=_interval,
        v=v,
        first=first,
        more=[figure for figure in v.figures.values() if figure.key not in v.first],
        moving=[one for one in v.pictures if one.kind == "gif"][int(bool(v.replay.film)) :],
        still=[one for one in v.pictures if one.kind != "gif" and one.name != REALITY],
        reality=next((one for one in v.pictures if one.name == REALITY), None),
        compared={name: _compared(v, column) for name, column in v.columns.items() if column.baselines},
        grouped={
            name: {v.name: column.score, **column.baselines}
            for name, column in v.columns.items()
            if column.score.groups
        },
    )


def _requirement(column: Column, key: str) -> tuple[bool, str] | None:
    """Return whether a figure of a column reaches its bound, and the bound in words; None: it has no bound."""
    limit = None if column.bounds is None else column.bounds.limits.get(key)
    if column.bounds is None or limit is None or (key == "episodes" and limit <= 1):
        return None
    figure = column.score.figure(key)
    return reached(figure, column.bounds), requirement(figure, column.bounds)


def _interval(figure: Figure) -> str:
    if figure.interval is None:
        return ""
    low, high = (figure.text_of(end) for end in figure.interval)
    return f"95% interval {low} to {high}"


def _compared(v: Verification, column: Column) -> list[tuple[str, list[str]]]:
    """Return the figures of all drivers in a column: the title, then a text for each."""
    scores = [column.score.by_key, *(score.by_key for score in column.baselines.values())]
    titles = {key: figure.title for score in scores for key, figure in score.items()}
    return [(title, [score[key].text if key in score else "-" for score in scores]) for key, title in titles.items()]


def _pairs(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield names and values of nested data as text."""
    for key, item in values.items():
        if isinstance(item, Mapping):
            yield from _pairs(item, f"{prefix}{key}.")
        elif isinstance(item, (list, tuple)):
            yield f"{prefix}{key}", ", ".join(map(str, item))
        else:
            yield f"{prefix}{key}", f"{item:g}" if isinstance(item, float) else str(item)


def _span(port: Port) -> str:
    limits = dict.fromkeys(zip(port.minimum, port.maximum))
    return ", ".join(f"{low:g} to {high:g}" for low, high in limits)
