"""Taking control of a Crazyflie and giving it back: unlock by set-points without thrust, arm where needed, stop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum

BITS = (
    "can be armed",
    "is armed",
    "arms itself",
    "can fly",
    "is flying",
    "is tumbled",
    "is locked",
    "is crashed",
)
"""Names of the supervisor's bits, from the lowest."""
CAN_BE_ARMED, ARMED, ARMS_ITSELF, CAN_FLY, FLYING, TUMBLED, LOCKED, CRASHED = (1 << k for k in range(8))
_BROKEN = {
    LOCKED: "locked: restart it",
    CRASHED: "crashed: look it over, and restart it",
    TUMBLED: "on its side or back",
}

UNLOCKING = 3
"""Set-points without thrust that unlock its thrust; one would do if none were lost."""
READY_S = 2.0
"""Longest time that it may take to be ready."""
ARM_RESEND_S = 0.2
STOP_RESEND_S, CONFIRM_S, EMERGENCY_S = 0.02, 0.1, 0.5
"""How often a stop is repeated; the age from which the log may confirm it; when the emergency stop follows."""
GIVE_UP_S = 1.0
LAND_RESEND_S, LAND_TRIES = 0.1, 3

_LOG = logging.getLogger(__name__)


class Phase(Enum):
    """How far control has been taken."""

    OFF = "off"
    UNLOCK = "set-points go out, without thrust"
    FLY = "set-points count"
    REFUSED = "the Crazyflie cannot fly"
    STOP = "stopping"
    LAND = "commands have ended: it lands by itself"


class Control:
    """The steps to control and back; times are monotonic seconds.

    Args:
        arm: Sends a request to arm.
        stop: Sends the set-point that stops the motors.
        emergency: Sends the emergency stop, after which it must be restarted.
        land: Has its high-level commander land it.
    """

    def __init__(
        self,
        arm: Callable[[], None],
        stop: Callable[[], None],
        emergency: Callable[[], None],
        land: Callable[[], None],
    ) -> None:
        self._arm, self._stop, self._emergency, self._land = arm, stop, emergency, land
        self.phase = Phase.OFF
        self.reason = ""
        self.bits = 0
        self._since_s = self._sent_s = 0.0
        self._count = 0
        self._unconfirmed = False
        """Whether a stop was given up, as on a lost link: an emergency stop that is repeated begins it anew."""

    def broken(self) -> str:
        """Return why it cannot fly before it was carried back or restarted; empty if it can."""
        return next((text for bit, text in _BROKEN.items() if self.bits & bit), "")

    def write(self, now: float) -> Phase:
        """Note that a set-point is about to be sent; return the phase, which says with its thrust, or without.

        Raises:
            ValueError: None must be sent, and why.
        """
        if self.phase is Phase.STOP:
            raise ValueError("the Crazyflie is being stopped")
        if self.phase is not Phase.REFUSED and (why := self.broken()):
            self._enter(Phase.REFUSED, now, why)
        if self.phase is Phase.OFF:
            self._enter(Phase.UNLOCK, now, "")
            self._count, self._sent_s = 0, 0.0
        if self.phase is Phase.LAND:
            self._enter(Phase.FLY, now, "")  # set-points count more than its landing
        if self.phase is Phase.UNLOCK:
            self._unlock(now)
        if self.phase is Phase.REFUSED:
            raise ValueError(f"the Crazyflie does not fly: it is {self.reason}")
        return self.phase

    def stop(self, now: float) -> None:
        """Stop the motors, if set-points have gone out since the last time."""
        if self.phase in (Phase.UNLOCK, Phase.FLY, Phase.LAND) or (self.phase is Phase.OFF and self._unconfirmed):
            self._enter(Phase.STOP, now, "")
            self._send_stop(now)
        elif self.phase is Phase.REFUSED:
            self._stop()
            self._enter(Phase.OFF, now, "")

    def let_go(self, now: float) -> None:
        """Land it if it flies, and stop its motors if it stands."""
        if self.phase is Phase.FLY and self.bits & FLYING:
            self._enter(Phase.LAND, now, "")
            self._count, self._sent_s = 0, -1e9
            self.tick(now)
        elif self.phase is not Phase.LAND:
            self.stop(now)

    def on_status(self, now: float, bits: int, thrust: float) -> None:
        """Take the Crazyflie's word on what it does."""
        self.bits = bits
        self._unconfirmed = self._unconfirmed and thrust != 0.0
        if self.phase in (Phase.STOP, Phase.LAND) and thrust == 0.0 and now - self._since_s > CONFIRM_S:
            self._enter(Phase.OFF, now, "")

    def tick(self, now: float) -> None:
        """Repeat a stop that is not confirmed; call it every few milliseconds."""
        if self.phase is Phase.LAND and self._count < LAND_TRIES and now - self._sent_s > LAND_RESEND_S:
            self._count, self._sent_s = self._count + 1, now
            self._land()
        if self.phase is not Phase.STOP:
            return
        if now - self._since_s > GIVE_UP_S:
            _LOG.error("The Crazyflie has not confirmed that its motors stand: take its battery off.")
            self._enter(Phase.OFF, now, "")
            self._unconfirmed = True
        elif now - self._sent_s > STOP_RESEND_S:
            self._send_stop(now)

    def _send_stop(self, now: float) -> None:
        self._sent_s = now
        self._stop()
        if now - self._since_s > EMERGENCY_S:
            self._emergency()

    def _unlock(self, now: float) -> None:
        self._count += 1
        if self.bits & ARMED and self.bits & (CAN_FLY | FLYING):
            if self._count > UNLOCKING:
                self._enter(Phase.FLY, now, "")
        elif now - self._since_s > READY_S:
            said = ", ".join(name for k, name in enumerate(BITS) if self.bits >> k & 1) or "not ready"
            self._enter(Phase.REFUSED, now, f"not ready to fly: its supervisor says '{said}'")
        elif not self.bits & ARMED and self.bits & CAN_BE_ARMED and now - self._sent_s > ARM_RESEND_S:
            self._sent_s = now
            self._arm()

    def _enter(self, phase: Phase, now: float, reason: str) -> None:
        self.phase, self._since_s, self.reason = phase, now, reason
