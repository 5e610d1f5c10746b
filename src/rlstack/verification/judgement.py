"""Judgement of scores by their bounds: which figures miss theirs, in sentences."""

from __future__ import annotations

from rlstack.tasks.bounds import Bounds
from rlstack.verification.scores import Figure, Score, wilson


def judge(score: Score, bounds: Bounds) -> list[str]:
    """Return a sentence for each figure that misses its bound; empty: the score passes.

    Raises:
        ValueError: A bound names a figure that the score lacks.
    """
    if unknown := set(bounds.limits) - set(score.by_key):
        raise ValueError(f"bounds for figures that the score does not have: {sorted(unknown)}")
    reasons = []
    for figure in score.figures:
        if (limit := bounds.limits.get(figure.key)) is None or reached(figure, bounds):
            continue
        required = requirement(figure, bounds)
        if figure.value is None:
            reasons.append(f"{figure.title} was not measured, but {required} is required.")
        elif figure.key == "episodes":
            reasons.append(f"{figure.text} episodes are too few: at least {limit:,.0f} are required.")
        else:
            shown = figure.text
            if shown == figure.text_of(limit):  # a near miss must not look like a pass
                shown = repr(figure.value)
            reasons.append(f"{figure.title} is {shown}, but {required} is required.")
    return reasons


def reached(figure: Figure, bounds: Bounds) -> bool:
    """Return whether a figure reaches its bound; a missing one does not.

    In a sample a share reaches it if the better end of its Wilson 95% interval does.
    """
    limit, value, least = bounds.limits[figure.key], figure.value, bounds.is_least(figure.key)
    if value is None:
        return False
    if bounds.sample and figure.unit == "share":
        low, high = wilson(round(value * bounds.episodes), bounds.episodes)
        value = high if least else low
    return value >= limit if least else value <= limit


def requirement(figure: Figure, bounds: Bounds) -> str:
    """Return a figure's bound in words, such as ``at least 95.0%``."""
    words = f"{'at least' if bounds.is_least(figure.key) else 'at most'} {figure.text_of(bounds.limits[figure.key])}"
    return words + (" within the sample's 95% interval" if bounds.sample and figure.unit == "share" else "")
