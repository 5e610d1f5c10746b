"""Time that never runs backwards, and the watch over a policy's commands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

SLACK_S = 1e-6
"""For times that were added up or rounded to nanoseconds on the way."""

FURTHEST_S = 1e11
"""A time beyond this (3,000 years), like one that is not a number, is no time."""


class Clock:
    """Turns the time that is passed in into one that only grows, whatever the source does.

    Args:
        jitter_s: A step back of at most this much is waited out; a longer one is a restarted clock, which goes on
            from there.
    """

    def __init__(self, jitter_s: float) -> None:
        self._jitter_s = jitter_s
        self.source_s = 0.0
        """The source's time, always finite."""
        self.elapsed_s = 0.0
        """Seconds since the first call, never less than before."""
        self._started = False

    def advance(self, time_s: float) -> bool:
        """Take the source's time; return True when the source was restarted at an earlier time."""
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


class PolicyWatch:
    """Judges each command of the policy and remembers for how long they have been good.

    Args:
        elements: How many numbers a command has.
        staleness_s: Age from which a command is stale, and the longest gap between good ones.
        lead_s: How far a stamp may be ahead of the time, for clocks of two processes.
    """

    def __init__(self, elements: int, staleness_s: float, lead_s: float) -> None:
        self._elements, self._staleness_s, self._lead_s = elements, staleness_s, lead_s
        self._stamp_s = -math.inf
        self._good_t = -math.inf
        self._good_since_t = math.inf

    def restart_stamps(self) -> None:
        """Accept any next stamp, because the clock was restarted."""
        self._stamp_s = -math.inf

    def forget(self) -> None:
        """Start counting good commands from now."""
        self._good_t, self._good_since_t = -math.inf, math.inf

    def numbers(self, command: Any) -> NDArray[np.float64] | str:
        """Return a command as (elements,) floats, or what is malformed about it: a fault of the policy itself."""
        try:
            array = np.asarray(command, dtype=float)
        except (TypeError, ValueError):
            self.forget()
            return "the policy's command is not numbers"
        if array.shape != (self._elements,):
            self.forget()
            return f"the policy's command has shape {array.shape}, not ({self._elements},)"
        if not math.isfinite(sum(array.tolist())):  # faster than numpy for so few
            self.forget()
            return "the policy's command is not finite"
        return array

    def lateness(self, t: float, time_s: float, stamp_s: float) -> str:
        """Return why a well-formed command is not in time, or an empty string, and count it as good.

        Args:
            t: Time that only grows, s.
            time_s: The source's time, s.
            stamp_s: Of the observation that the command answers, s.
        """
        # a policy that is faster than its odometry answers the newest observation again until that is stale
        if not stamp_s >= self._stamp_s:
            problem = f"the policy's stamp goes back ({stamp_s:.3f} after {self._stamp_s:.3f} s)"
        elif not time_s - stamp_s <= self._staleness_s + SLACK_S:
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
        self._stamp_s, self._good_t = stamp_s, t
        return ""

    def fresh(self, t: float) -> bool:
        """Return whether the newest command was good and has come within the staleness limit."""
        return t - self._good_t <= self._staleness_s + SLACK_S

    def good_for_s(self, t: float) -> float:
        """Return for how long commands have been good without a gap, s; 0 when they are not."""
        return max(0.0, t - self._good_since_t) if self.fresh(t) else 0.0
