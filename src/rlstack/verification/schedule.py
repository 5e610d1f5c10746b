"""The schedule of a verification: numbers of trials, its parts, how far it is, and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlstack.view.recording import ReplayedTrial

OnColumn = Callable[[str, Sequence[tuple[str, str]], Sequence[ReplayedTrial]], None]
"""Takes a column's name, titles and values of its figures, and trials of it."""
PRIOR_S = 5.0
"""Weight of the expected times against the measured ones at the beginning."""


@dataclass(frozen=True)
class Counts:
    """Default numbers of trials.

    Args:
        batch: In the batch simulator.
        engines: In process in every other simulator.
        topics: Over topics, in the first simulator.
        topics_elsewhere: Over topics in each further simulator; None: as in the first.
        besides: In further columns of the batch simulator; None: as in the first.
        baselines: Trials of baselines in the batch simulator, the first ones; None: all.
        baselines_in_engines: Likewise in every other simulator; 0: none, and relative figures are not judged there.
        reality: At each value of an axis of the reality grid.
        reality_baselines: Likewise of baselines, the first ones; None: all.
    """

    batch: int
    engines: int
    topics: int
    topics_elsewhere: int | None = None
    besides: int | None = None
    baselines: int | None = None
    baselines_in_engines: int | None = None
    reality: int = 100
    reality_baselines: int | None = None

    @property
    def most(self) -> int:
        """The largest number of trials of a policy."""
        return max(self.batch, self.engines, self.topics)


@dataclass(frozen=True)
class Seconds:
    """Expected wall time on two processors, s; measured times correct it from the first trials on.

    Args:
        batch: A trial of the policy in the batch simulator.
        engines: Likewise in another simulator, in process.
        topics: Likewise over topics.
        baselines: A trial of a baseline in the batch simulator.
        baselines_in_engines: Likewise in another simulator.
        reality: One margin of the policy; a baseline's takes ``reality_baselines``.
        start: Starting the nodes.
        report: Plots, film and replay.
    """

    batch: float = 0.01
    engines: float = 0.2
    topics: float = 1.0
    baselines: float = 0.01
    baselines_in_engines: float = 0.2
    reality: float = 1.5
    reality_baselines: float = 1.5
    start: float = 6.0
    report: float = 10.0


@dataclass(frozen=True)
class Part:
    """A part of a verification: its name, and its expected wall time in s."""

    name: str
    expected_s: float


@dataclass(frozen=True)
class Progress:
    """How far a verification is.

    Args:
        part: Name of the present part.
        done: Its trials so far, or margins.
        count: Its trials in all.
        elapsed_s: Time since the start.
        left_s: Estimate of the time to the end.
    """

    part: str
    done: int
    count: int
    elapsed_s: float
    left_s: float


class Schedule:
    """Keeps the parts of a verification, and reports progress with an estimate.

    Args:
        parts: All parts, in any order.
        report: Called with every progress.
        clock: Returns the time, s.
    """

    def __init__(
        self, parts: Sequence[Part], report: Callable[[Progress], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._expected = {part.name: part.expected_s for part in parts}
        self._report, self._clock = report, clock
        self._begun = self._part_begun = self._last = clock()
        self._done = 0.0
        """Expected time of the finished parts, s."""
        self._part, self._share = "", 0.0

    def __call__(self, part: str, done: int, count: int) -> None:
        """Note how many of the trials of a part are done."""
        if part != self._part:
            self.begin(part)
        self._share, self._last = done / max(count, 1), self._clock()
        self._report(Progress(part, done, count, self._clock() - self._begun, self.left_s))

    def begin(self, part: str) -> None:
        """Begin a part, which ends the one before."""
        self._done += self._expected.pop(self._part, 0.0)
        self._part, self._part_begun, self._share = part, self._last, 0.0

    @property
    def left_s(self) -> float:
        """The estimated time to the end, s: by the expected times, as far off as they have been, and in a part
        increasingly by its own pace."""
        now, mine = self._clock(), self._expected.get(self._part, 0.0)
        done = self._done + self._share * mine
        slower = (now - self._begun + PRIOR_S) / (done + PRIOR_S)
        rest = sum(expected for name, expected in self._expected.items() if name != self._part)
        by_plan = slower * mine * (1.0 - self._share)
        if self._share <= 0.0:
            return slower * rest + by_plan
        by_pace = (now - self._part_begun) * (1.0 - self._share) / self._share
        return slower * rest + self._share * by_pace + (1.0 - self._share) * by_plan
