"""Steps that are stored elsewhere: a rollout worker lists what it would write, and the owner of the files writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rlstack.data.replay import ReplayBuffer, ReplaySpec
from rlstack.training.algorithm import RolloutTotals

Arrays = dict[str, np.ndarray]


class Written(NamedTuple):
    """A write to a replay buffer.

    Attributes:
        where: Folder of the buffer in a run's folder.
        lanes: (n,) lanes.
        made: Fields of the transitions (n, ...); None: episodes begin.
        seen: Fields of the observations (n, ...) that follow, or that begin the episodes.
    """

    where: str
    lanes: np.ndarray
    made: Arrays | None
    seen: Arrays

    @property
    def steps(self) -> int:
        """Number of transitions."""
        return 0 if self.made is None else len(self.lanes)


class HowToAct(NamedTuple):
    """What a worker that fills replay buffers needs to know, beside its policy.

    Attributes:
        steps: Of all robots so far, on which a warm-up depends.
        done: Completed share of the run, 0 to 1.
        able: Whether the policy acts in the warm-up, too.
    """

    steps: int
    done: float
    able: bool


class Acted(NamedTuple):
    """What came of a worker's steps.

    Attributes:
        written: What is to be stored.
        totals: Of the steps.
        figures: Further figures of theirs, each the sum of the steps' means over the robots.
    """

    written: list[Written]
    totals: RolloutTotals
    figures: dict[str, float]


class ReplayJournal:
    """What a worker has written since it was last asked, to all of its buffers, in order."""

    def __init__(self) -> None:
        self.entries: list[Written] = []

    def buffer(self, where: str, spec: ReplaySpec) -> ReplayBuffer:
        """Return a buffer that lists what is written to it, and holds nothing."""
        return _Listed(self, where, spec)

    def taken(self) -> list[Written]:
        """Return the entries, and forget them."""
        entries, self.entries = self.entries, []
        return entries


def write(entries: Sequence[Written], buffers: Mapping[str, ReplayBuffer], first_lane: int) -> None:
    """Write a journal's entries into the buffers by their folders, its lane 0 to ``first_lane``."""
    for one in entries:
        buffer, lanes = buffers[one.where], one.lanes + first_lane
        if one.made is None:
            buffer.begin_lanes(one.seen, lanes)
        else:
            buffer.add_lanes(one.made, one.seen, lanes)


class _Listed(ReplayBuffer):
    def __init__(self, journal: ReplayJournal, where: str, spec: ReplaySpec) -> None:
        self._journal, self._where, self._spec = journal, where, spec

    @property
    def spec(self) -> ReplaySpec:
        return self._spec

    def __len__(self) -> int:
        return 0

    def begin_lanes(self, observations: Mapping[str, Any], lanes: Sequence[int] | np.ndarray) -> np.ndarray:
        return self._list(lanes, None, observations)

    def add_lanes(
        self, transitions: Mapping[str, Any], observations: Mapping[str, Any], lanes: Sequence[int] | np.ndarray
    ) -> np.ndarray:
        return self._list(lanes, transitions, observations)

    def close(self) -> None:
        """There are no files."""

    def _list(
        self, lanes: Sequence[int] | np.ndarray, made: Mapping[str, Any] | None, seen: Mapping[str, Any]
    ) -> np.ndarray:
        numbers = np.array(lanes, np.int64)
        # copies: arrays may be those of the simulator, which goes on
        copied = None if made is None else {name: np.array(values) for name, values in made.items()}
        entry = Written(self._where, numbers, copied, {name: np.array(values) for name, values in seen.items()})
        self._journal.entries.append(entry)
        return numbers
