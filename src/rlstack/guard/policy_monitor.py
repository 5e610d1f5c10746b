"""Monotonic time, and monitoring of a policy's commands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

SLACK_S = 1e-6
"""Tolerance for times that were summed or rounded to nanoseconds."""

FURTHEST_S = 1e11
"""Times beyond this (3,000 years) are invalid, like NaN."""


class Clock:
    """Monotonic time from any source.

    Args:
        jitter_s: Steps back of at most this much are waited out; a longer one means that the clock restarted, and
            time continues from there.
    """

    def __init__(self, jitter_s: float) -> None:
        self._jitter_s = jitter_s
        self.source_s = 0.0
        """The source's time, always finite."""
        self.elapsed_s = 0.0
        """Seconds since the first call, never less than before."""
        self._started = False

    def restart(self, time_s: float) -> None:
        """Continue at a time of the source that has jumped, as if no time had passed."""
        if -FURTHEST_S < time_s < FURTHEST_S:
            self._started, self.source_s = True, time_s

    def advance(self, time_s: float) -> bool:
        """Update the source's time; return True if the source restarted at an earlier time."""
        if not -FURTHEST_S < time_s < FURTHEST_S:
            return False
        if not self._started:
            self._started, self.source_s = True, time_s
            return False
        if time_s < self.source_s:
            if self.source_s - time_s <= self._jitter_s:
                return False
            self.source_s = time_s
            return True
        self.elapsed_s += time_s - self.source_s
        self.source_s = time_s
        return False


class PolicyMonitor:
    """Checks each of the policy's commands and tracks for how long they have been valid.

    Args:
        elements: Width of a command.
        staleness_s: Age at which a command is stale, and the longest gap between valid ones.
        lead_s: How far a stamp may be ahead of the time, as clocks of two processes differ.
        delay_s: How much older a command's observation may be, because observations arrive late.
    """

    def __init__(self, elements: int, staleness_s: float, lead_s: float, delay_s: float = 0.0) -> None:
        self._elements, self._staleness_s, self._lead_s = elements, staleness_s, lead_s
        self._delay_s = delay_s
        self.range: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
        """(elements,) lowest and highest values of a command that is not malformed; None: any finite ones."""
        self._stamp_s = -math.inf
        self._good_t = -math.inf
        self._good_since_t = math.inf
        self.answered_t = -math.inf
        """When the last command came that was on time, s."""

    def restart_stamps(self) -> None:
        """Accept any next stamp, because the clock restarted."""
        self._stamp_s = -math.inf

    def forget(self) -> None:
        """Start counting valid commands from now."""
        self._good_t, self._good_since_t = -math.inf, math.inf

    def numbers(self, command: Any) -> NDArray[np.float64] | str:
        """Return a command as (elements,) floats, or what is malformed about it, which is the policy's own fault."""
        try:
            array = np.asarray(command, dtype=float)
        except (TypeError, ValueError):
            self.forget()
            return "the policy's command is not numbers"
        if array.shape != (self._elements,):
            self.forget()
            return f"the policy's command has shape {array.shape}, not ({self._elements},)"
        if not math.isfinite(sum(array.tolist())):  # faster than numpy for so few elements
            self.forget()
            return "the policy's command is not finite"
        if self.range is not None and not ((self.range[0] <= array) & (array <= self.range[1])).all():
            self.forget()
            return "the policy's command is far beyond the range"
        return array

    def lateness(self, t: float, time_s: float, stamp_s: float) -> str:
        """Return why a well-formed command is not on time; otherwise count it as valid and return an empty string.

        Args:
            t: Monotonic time, s.
            time_s: The source's time, s.
            stamp_s: Stamp of the observation that the command answers, s.
        """
        # a policy that is faster than its odometry answers the newest observation again until that is stale
        if not stamp_s >= self._stamp_s:
            problem = f"the policy's stamp goes back ({stamp_s:.3f} after {self._stamp_s:.3f} s)"
        elif not time_s - stamp_s <= self._staleness_s + self._delay_s + SLACK_S:
            problem = f"the policy's command is stale ({time_s - stamp_s:.3f} s old)"
        elif not stamp_s - time_s <= self._lead_s + SLACK_S:
            problem = f"the policy's stamp is {stamp_s - time_s:.3f} s ahead of the time"
        else:
            problem = ""
        if problem:
            self.forget()
            return problem
        if not self.fresh(t):
            self._good_since_t = t
        self._stamp_s, self._good_t, self.answered_t = stamp_s, t, t
        return ""

    def fresh(self, t: float) -> bool:
        """Return whether the newest command was valid and arrived within the staleness limit."""
        return t - self._good_t <= self._staleness_s + SLACK_S

    def good_for_s(self, t: float) -> float:
        """Return for how long commands have been valid without a gap, s; 0 if they are not."""
        return max(0.0, t - self._good_since_t) if self.fresh(t) else 0.0
