"""How the guard node stops its robot: at once, or by bringing it to rest, on request and before it ends."""

from __future__ import annotations

import time
from typing import Any


class GuardEnding:
    """The part of the guard node that stops the robot."""

    _ends = False
    """Whether it was asked to end."""
    active: bool
    _failed: bool
    _auto_arm_left: bool
    guard: Any
    lock_step: bool
    parameters: Any
    _origin_ns: int | None
    _observed_ns: int
    _waiting: Any
    _policy_there: bool
    _shown: Any
    _now_s: Any
    _stamps: Any
    _send: Any
    _answer: Any

    def deactivate(self) -> None:
        """Disarm, and send the robot "off" at once.

        A guard that has failed sends none to a robot that it would drop: silence leaves that to its own failsafe.
        """
        self._auto_arm_left = False
        decision = self.guard.disarm("the guard has failed" if self._failed else "the guard was stopped")
        if self._failed and self.guard.FALLS and not self.lock_step:
            self._shown.show(decision)
        else:
            self._send(decision)

    def begin_end(self, signal_name: str) -> None:
        """Bring the robot to rest."""
        self._ends, self._auto_arm_left, self._resting = True, False, (-1, 0.0)
        if not self.active or self._origin_ns is None:
            return
        again = "Press Ctrl-C" if signal_name == "SIGINT" else "Send it"
        advice = f"{again} again to switch off now."
        self._policy_there = False  # it ends, too
        self._bring_to_rest(f"asked to end by {signal_name}", advice)

    def _on_estop(self, request: Any, response: Any) -> Any:
        self._auto_arm_left = False
        self._send(self.guard.estop("requested"))
        response.success = True
        response.message = "Motors off. To move again: `rlstack estop --clear`, then `rlstack arm`."
        return response

    def _on_clear_estop(self, request: Any, response: Any) -> Any:
        response.success, response.message = self.guard.clear_estop()
        self._shown.show(self.guard)
        return response

    def _on_rest(self, request: Any, response: Any) -> Any:
        """Bring the robot to rest and disarm it; it may be armed again."""
        if not self.active or self._origin_ns is None:
            response.message = "No observation has arrived yet, or the guard is not active."
            return response
        self._auto_arm_left = False
        self._bring_to_rest("asked to come to rest", "")
        response.success, response.message = True, f"Mode {self.guard.mode}: {self.guard.reason}."
        return response

    def _bring_to_rest(self, reason: str, advice: str) -> None:
        decision = self.guard.end(self._now_s(), reason, advice)
        if not self.lock_step:
            self._send(decision)
        elif self._waiting is not None:
            self._answer(self._waiting[0], decision, self._waiting[1])
        else:
            self._shown.show(decision)

    def may_end(self) -> bool:
        """Return whether the robot is off, or ought to be; or whether its time stands still, as in lock step it may."""
        if not self.active or self._origin_ns is None or self.guard.mode.role == "off" or self._stamps.stands:
            return True
        if self._resting[0] != self._observed_ns:
            self._resting = self._observed_ns, time.monotonic()
        stands = self.lock_step and time.monotonic() - self._resting[1] > self.parameters["policy_timeout_s"]
        return stands or self.guard.rest_is_late(self._now_s())
