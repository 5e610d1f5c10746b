"""How a guard that is to end brings its robot to rest first."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

from rlstack.guard.decision import Decision, Mode


class Ending:
    """The part of a guard that ends it."""

    mode: Mode
    advice: str
    _may_return: bool
    _newest: Any
    _rest_by_t = math.inf

    def _rest(self, t: float, reason: str) -> float:
        """Begin to bring the armed robot to rest, and return the longest time that takes, s; by default it is off."""
        self._stop(reason)
        return 0.0

    def end(self, time_s: float, reason: str, advice: str = "") -> Decision:
        """Bring the robot to rest and disarm it, because the guard is to end; the policy does not come back.

        A quadrotor lands, a base brakes, a quadruped crouches, and an arm stays where it is. :attr:`rest_is_late` says
        when that is no longer worth waiting for.
        """
        before, t = self.mode, self._advance(time_s)
        if self.mode.role == "off":
            return self._off(before)
        self._may_return = False
        self._rest_by_t = t + self._rest(t, reason)
        self.advice = advice
        return self._off(before) if self.mode.role == "off" else self._act(t, before, self._newest)

    def rest_is_late(self, time_s: float) -> bool:
        """Return whether a robot that :meth:`end` brings to rest ought to be off by now."""
        return self._advance(time_s) > self._rest_by_t

    @abstractmethod
    def _advance(self, time_s: float) -> float: ...

    @abstractmethod
    def _stop(self, reason: str) -> None: ...

    @abstractmethod
    def _off(self, before: Mode) -> Decision: ...

    @abstractmethod
    def _act(self, t: float, before: Mode, seen: Any) -> Decision: ...
