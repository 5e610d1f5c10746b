"""The transfer table: drivers in rows, simulators in columns, with confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlstack.text_table import aligned
from rlstack.verification.scores import Figure, Score, plain


@dataclass(frozen=True)
class TransferTable:
    """Scores by driver and column; a driver may be missing in some columns.

    The table contains the figures in each score's ``compared``.
    """

    scores: Mapping[str, Mapping[str, Score]]

    @property
    def columns(self) -> list[str]:
        """The columns, in order of first appearance."""
        return list(dict.fromkeys(name for row in self.scores.values() for name in row))

    @property
    def rows(self) -> dict[str, dict[str, list[str]]]:
        """By the title of a figure, then by driver: its text in each column."""
        scores = [score for row in self.scores.values() for score in row.values()]
        titles = dict.fromkeys(score.figure(key).fine_title for score in scores for key in score.compared)
        texts = {who: {name: _texts(score) for name, score in row.items()} for who, row in self.scores.items()}
        return {
            title: {who: [row.get(name, {}).get(title, "-") for name in self.columns] for who, row in texts.items()}
            for title in titles
        }

    def text(self) -> str:
        """Format the table for a terminal."""
        lines = []
        for title, drivers in self.rows.items():
            lines.append([f"{title} [95%]", *self.columns])
            lines += [[f"  {who}", *texts] for who, texts in drivers.items()]
        return "\n".join(aligned(lines))

    def to_json(self) -> dict[str, Any]:
        """Return plain data; infinite or missing values are None."""
        return {who: {name: _entry(score) for name, score in row.items()} for who, row in self.scores.items()}


def _texts(score: Score) -> dict[str, str]:
    found = [score.figure(key) for key in score.compared]
    return {figure.fine_title: figure.fine_text for figure in found}


def _entry(score: Score) -> dict[str, Any]:
    found = [score.figure(key) for key in score.compared]
    return {"episodes": score["episodes"]} | {figure.key: _estimate(figure) for figure in found}


def _estimate(figure: Figure) -> dict[str, float | None] | None:
    if figure.value is None or figure.interval is None:
        return None
    low, high = figure.interval
    return {"value": plain(figure.value), "low": plain(low), "high": plain(high)}
