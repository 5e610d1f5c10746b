"""Taking control of an autopilot and giving it back: set-points first, then the mode, then arming, one step at a time.

The pilot's word counts more than ours: in a mode of the pilot's sticks nothing is sent any more, not even a disarming.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum

from rlstack.hardware.mavlink.autopilots import Autopilot

SET_MODE, ARM_DISARM, TERMINATE = 176, 400, 185
"""Numbers of commands."""
FORCE = 21196.0
"""Second parameter of ARM_DISARM: also in flight."""
ACCEPTED, TEMPORARILY_REJECTED, IN_PROGRESS = 0, 1, 5
RESULTS = {1: "temporarily rejected", 2: "denied", 3: "unsupported", 4: "failed", 6: "cancelled"}

RESEND_S, TRIES = 0.3, 6
STREAM_GAP_S = 0.4
"""A longer pause between set-points begins their stream anew."""
TEXTS_S = 0.3
"""How long after a refusal its reason may arrive."""
STALE_S = 3.0
"""Age of the last heartbeat after which the link counts as lost."""
STOP_RESEND_S, STOP_S, TERMINATE_S = 0.04, 2.0, 0.3
"""How often and how long a disarming is repeated that is not confirmed, and when flight is terminated, if it may be."""
_SETTLE_S = 0.5
"""How long an older heartbeat may still show the mode of before."""
_STOPPED_S = 0.25
"""The same of a disarming: until then it is repeated, as the arming before it may have arrived and it may not."""

_LOG = logging.getLogger(__name__)


class Phase(Enum):
    """How far control has been taken."""

    OFF = "off"
    STREAM = "set-points go out, without thrust"
    MODE = "the mode is asked for"
    ARM = "arming is asked for"
    FLY = "set-points count"
    REFUSED = "the autopilot has refused"
    RELEASED = "a pilot or a failsafe flies"
    STOP = "disarming is asked for"
    LET_GO = "commands have ended: disarming is asked for, which counts on the ground alone"


class Engagement:
    """The steps to control and back; times are monotonic seconds.

    Args:
        autopilot: Its rules.
        mode: The mode in which it takes set-points.
        send: Sends a command: its number, its parameters, and how often it was sent before.
        terminate: Whether flight is terminated if the autopilot does not confirm a disarming.
    """

    def __init__(
        self, autopilot: Autopilot, mode: int, send: Callable[[int, tuple[float, ...], int], None], terminate: bool
    ) -> None:
        self._autopilot, self._mode, self._send, self._terminate = autopilot, mode, send, terminate
        self.phase = Phase.OFF
        self.reason = ""
        """Why the autopilot has refused, or who flies."""
        self.armed: bool | None = None
        """As the last heartbeat said; None: none yet."""
        self.mode: int | None = None
        self.heard_s = -1e9
        """Time of the last heartbeat."""
        self._since_s = self._sent_s = self._written_s = 0.0
        self._tries = 0
        self._unconfirmed = False
        """Whether a disarming was given up, as on a lost link: an emergency stop that is repeated begins it anew."""
        self._refused: tuple[float, str] | None = None
        """Time and text of a refusal whose reason may still arrive."""
        self._texts: deque[tuple[float, str]] = deque(maxlen=8)

    def write(self, now: float) -> Phase:
        """Note that a set-point is about to be sent; return the phase, which says with its thrust, without, or not.

        Raises:
            ValueError: None must be sent: the autopilot has refused, or is being disarmed.
        """
        if self.phase is Phase.OFF:
            if self.armed and now - self.heard_s < STALE_S:
                self._end(Phase.REFUSED, f"it is armed already, in {self._mode_name()}: disarm it first")
            else:
                self._enter(Phase.STREAM, now)
        if self.phase is Phase.STOP:
            raise ValueError(f"{self._autopilot.name} is being disarmed")
        if self.phase is Phase.REFUSED:
            raise ValueError(f"{self._autopilot.name} does not fly: {self.reason}")
        if self.phase is Phase.LET_GO:
            self._enter(Phase.FLY, now)  # its failsafe has not acted yet
        if self.phase is Phase.STREAM:
            if now - self._written_s > STREAM_GAP_S:
                self._since_s = now
            if now - self._since_s >= self._autopilot.stream_s:
                self._ask(Phase.MODE, now)
        self._written_s = now
        return self.phase

    def stop(self, now: float) -> None:
        """Disarm, also in flight, if this driver has armed."""
        if self.phase in (Phase.ARM, Phase.FLY, Phase.LET_GO):
            self._ask(Phase.STOP, now)
        elif self.phase is Phase.RELEASED or (self._unconfirmed and self.phase is not Phase.STOP):
            if self.mode in self._autopilot.by_hand and self.armed:
                _LOG.warning("Not disarmed: %s.", self.reason or f"the pilot flies, in {self._mode_name()}")
            elif self.armed:
                self._ask(Phase.STOP, now)
        elif self.phase is not Phase.STOP:
            self._end(Phase.OFF, "")

    def let_go(self, now: float) -> None:
        """Send no set-points; disarm without force, which autopilots refuse in the air: there their failsafe acts."""
        if self.phase in (Phase.ARM, Phase.FLY):
            self._ask(Phase.LET_GO, now)
        elif self.phase not in (Phase.STOP, Phase.LET_GO, Phase.RELEASED):
            self._end(Phase.OFF, "")

    def on_heartbeat(self, now: float, armed: bool, mode: int) -> None:
        """Take the autopilot's word on what it does."""
        self.armed, self.mode, self.heard_s = armed, mode, now
        self._unconfirmed = self._unconfirmed and armed
        if self.phase is Phase.MODE and mode == self._mode and self._refused is None:
            self._ask(Phase.ARM, now)
        elif self.phase is Phase.ARM and armed and mode == self._mode:
            self._enter(Phase.FLY, now)
        elif self.phase is Phase.LET_GO and not armed and now - self._since_s > _STOPPED_S:
            self._end(Phase.OFF, "")
        elif self.phase in (Phase.FLY, Phase.LET_GO) and now - self._since_s > _SETTLE_S:
            if not armed:
                self._end(Phase.REFUSED, f"it has disarmed{self._said(now)}")
            elif mode != self._mode:
                who = "the pilot flies" if mode in self._autopilot.by_hand else "its failsafe flies"
                self._end(Phase.RELEASED, f"{who}, in {self._mode_name()}{self._said(now)}")
                _LOG.warning("Set-points are no longer sent: %s.", self.reason)
        elif self.phase is Phase.RELEASED and not armed:
            self._end(Phase.REFUSED, f"{self.reason}; it has disarmed since")
        elif self.phase is Phase.STOP and not armed and now - self._since_s > _STOPPED_S:
            self._end(Phase.OFF, "")

    def on_ack(self, now: float, command: int, result: int) -> None:
        """Take the answer to a command."""
        if self.phase is Phase.LET_GO and command == ARM_DISARM and result not in (ACCEPTED, IN_PROGRESS):
            self._tries = TRIES  # it is in the air
        waited = {Phase.MODE: SET_MODE, Phase.ARM: ARM_DISARM}.get(self.phase)
        if command != waited or result == IN_PROGRESS or self._refused is not None:
            return
        if result == ACCEPTED:
            if self.phase is Phase.MODE:
                self._ask(Phase.ARM, now)
            else:
                self._enter(Phase.FLY, now)
        elif self.phase is Phase.MODE and result == TEMPORARILY_REJECTED and self._tries < TRIES:
            return  # it has not counted enough set-points yet, as on a link that drops some: asked again
        else:
            what = self._name_of(self._mode) if self.phase is Phase.MODE else "arming"
            self._refused = now, f"{what} is refused ({RESULTS.get(result, f'result {result}')})"

    def on_text(self, now: float, text: str, continues: bool = False) -> None:
        """Note what the autopilot says, which explains a refusal; it may continue the text before."""
        if continues and self._texts:
            self._texts.append((now, self._texts.pop()[1] + text))
        elif text and (not self._texts or self._texts[-1][1] != text):
            self._texts.append((now, text))

    def tick(self, now: float) -> None:
        """Repeat what was not answered; call it every few milliseconds."""
        if self._refused is not None:
            refused_s, text = self._refused
            if now - refused_s > TEXTS_S:
                self._end(Phase.REFUSED, text + self._said(now))
        elif self.phase in (Phase.MODE, Phase.ARM) and now - self._written_s > STREAM_GAP_S:
            if self.phase is Phase.ARM:
                self._ask(Phase.STOP, now)  # nobody commands any more, and the arming may be on its way
            else:
                self._end(Phase.OFF, "")
        elif self.phase in (Phase.MODE, Phase.ARM) and now - self._sent_s > RESEND_S:
            if self._tries >= TRIES:
                what = self._name_of(self._mode) if self.phase is Phase.MODE else "arming"
                self._refused = now, f"it does not answer to {what}"
            else:
                self._repeat(now)
        elif self.phase is Phase.LET_GO and self._tries < TRIES and now - self._sent_s > RESEND_S:
            self._repeat(now)
        elif self.phase is Phase.STOP and now - self._since_s > STOP_S:
            _LOG.error(
                "%s has not confirmed that it is disarmed: use the remote control's switch.", self._autopilot.name
            )
            self._end(Phase.OFF, "")
            self._unconfirmed = True
        elif self.phase is Phase.STOP and now - self._sent_s > STOP_RESEND_S:
            self._repeat(now)

    def _ask(self, phase: Phase, now: float) -> None:
        self._enter(phase, now)
        self._tries = 0
        self._repeat(now)

    def _repeat(self, now: float) -> None:
        if self.phase is Phase.MODE:
            # custom mode: its main and sub number where PX4 packs them, else the number itself
            main, sub = (self._mode >> 16 & 0xFF, self._mode >> 24) if self._mode > 0xFFFF else (self._mode, 0)
            self._send(SET_MODE, (1.0, float(main), float(sub)), self._tries)
        elif self.phase is Phase.ARM:
            self._send(ARM_DISARM, (1.0, 0.0), self._tries)
        elif self.phase is Phase.LET_GO:
            self._send(ARM_DISARM, (0.0, 0.0), self._tries)
        elif self.phase is Phase.STOP:
            self._send(ARM_DISARM, (0.0, FORCE), self._tries)
            if self._terminate and now - self._since_s > TERMINATE_S:
                self._send(TERMINATE, (1.0,), self._tries)
        self._tries, self._sent_s = self._tries + 1, now

    def _enter(self, phase: Phase, now: float) -> None:
        self.phase, self.reason, self._since_s, self._refused = phase, "", now, None

    def _end(self, phase: Phase, reason: str) -> None:
        self.phase, self.reason, self._refused = phase, reason, None

    def _said(self, now: float) -> str:
        texts = [text.strip() for at, text in self._texts if now - at < 2.0 + TEXTS_S]
        return f": {'; '.join(texts)}" if texts else ""

    def _name_of(self, mode: int) -> str:
        return self._autopilot.mode_name(mode)

    def _mode_name(self) -> str:
        return "no mode" if self.mode is None else self._name_of(self.mode)
