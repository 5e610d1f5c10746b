"""Something that happened in a recording, at a place of its timeline."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

Lane = Literal["guard", "commands", "inputs", "range"]
"""Row of the timeline: what the guard did, faults of commands, of inputs, and where the policy was not trained."""


@dataclass(frozen=True)
class Event:
    """Something that happened.

    Args:
        lane: Its row.
        start_s: When it began, since the bag began.
        end_s: When it ended.
        title: What it is, in a few words.
        text: The whole sentence.
        bad: Whether it is a fault or an intervention.
    """

    lane: Lane
    start_s: float
    end_s: float
    title: str
    text: str
    bad: bool = True


def joined(events: Iterable[Event], apart_s: float) -> list[Event]:
    """Return events of one title that follow each other closely as one, with the text of the first."""
    found: list[Event] = []
    for event in sorted(events, key=lambda one: (one.lane, one.title, one.start_s)):
        last = found[-1] if found else None
        if last and (last.lane, last.title) == (event.lane, event.title) and event.start_s - last.end_s <= apart_s:
            found[-1] = replace(last, end_s=max(last.end_s, event.end_s))
        else:
            found.append(event)
    return sorted(found, key=lambda one: one.start_s)
