"""A robot at the end of a serial link: a thread polls it and sends the newest command, and finds a lost link again.

Drivers whose protocol is questions and answers derive from :class:`LinkedRobot` and say how to ask and how to command.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.hardware.captures import Captures
from rlstack.hardware.serial_port import LinkLost
from rlstack.interfaces.backend import Capture, Reading, Signals, nobody_listens
from rlstack.robots import RobotSpec
from rlstack.sim.input_checks import checked_command

_LOG = logging.getLogger(__name__)

LOST_S = 0.2
"""Silence after which the link counts as lost: the next command powers the actuators anew."""
_FIRST_S = 3.0
"""How long the first reading may take."""
_REOPEN_S = 0.5
"""How often a port that is gone is tried again."""
_END_S = 5.0


class LinkedRobot(ABC):
    """See :class:`rlstack.interfaces.backend.Backend`; times are those of the system's clock (``time.time``).

    The last command is sent once and never repeated. When the link is lost, readings keep their time, so that they
    grow old; when it is back, the next command powers the actuators anew.

    Args:
        robot: The robot.
        rate_hz: How often it is polled.
        captures: Its cameras and lidars.
    """

    owns_time = False
    sensed: tuple[str, ...]
    commanded: tuple[str, ...]
    NAME: ClassVar[str]
    """The driver's name."""
    LET_GO: ClassVar[str] = "disarmed"
    """What becomes of the robot without its actuators' power."""

    def __init__(self, robot: RobotSpec, rate_hz: float, captures: Captures) -> None:
        self.robot: RobotSpec = robot
        self._captures = captures
        self.captured = captures.names
        self._period_s = 1.0 / rate_hz
        self._link = threading.RLock()
        """Held while bytes go either way."""
        self._mail = threading.Condition()
        """Guards the three below."""
        self._wanted: Array | None = None
        self._stops = 0
        """How often it was told to stop."""
        self._ending = False
        self._reading: Reading | None = None
        self._failure: BaseException | None = None
        self._heard_s = float("-inf")
        """When the last reading came, by ``time.monotonic``."""
        self._thread: threading.Thread | None = None
        self.powered = False
        """Whether the driver has powered the actuators, as far as it knows."""
        self._owes_stop = False
        """Whether a stop could not be confirmed: it is told again once the link is back."""
        self.report: dict[str, str] = {}
        """What the robot said of itself when connecting, for the record of a bring-up."""
        self.on_reading: Callable[[], None] = nobody_listens
        """See :class:`rlstack.interfaces.backend.Announcing`."""
        self.trouble = ""
        """Why commands are refused at present; empty if they are not."""

    # What a driver says ---------------------------------------------------------------------------------------

    @abstractmethod
    def _open(self) -> None:
        """Open the link and check what is at its end; nothing may move.

        Raises:
            UserError: It is not there, or not the robot of the robot file.
        """

    @abstractmethod
    def _poll(self) -> Reading | None:
        """Return a new reading, or None if none came in time.

        Raises:
            LinkLost: The port is gone.
        """

    @abstractmethod
    def _power(self) -> None:
        """Power the actuators without a movement.

        Raises:
            LinkLost: The port is gone.
            UserError: They do not confirm it.
        """

    @abstractmethod
    def _send(self, command: Array) -> None:
        """Send a command to powered actuators.

        Raises:
            LinkLost: The port is gone.
        """

    @abstractmethod
    def _unpower(self) -> None:
        """Take the actuators' power.

        Raises:
            LinkLost: The port is closed or gone.
            UserError: They do not confirm it.
        """

    @abstractmethod
    def _shut(self) -> None:
        """Close the link, open or not."""

    @abstractmethod
    def _limited(self, command: Array) -> Array:
        """Return the command that will be sent, within the robot's limits."""

    def _tick(self) -> None:  # noqa: B027 (most have nothing to do)
        """Do what is due besides polling, such as a heartbeat; ``LinkLost`` if the port is gone."""

    # Backend --------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Open the link, check the robot and wait for its first reading; a second call does nothing."""
        if self._thread is not None:
            return
        try:
            self._captures.open()
            with self._link:
                self._open()
                self._reading, self._heard_s = self._first(), time.monotonic()
        except LinkLost as error:
            self._shut_all()
            raise UserError(f"The link of the driver '{self.NAME}' broke while connecting: {error}.") from error
        except BaseException:
            self._shut_all()
            raise
        self._ending, self._failure, self._wanted = False, None, None
        self._thread = threading.Thread(target=self._serve, name=f"rlstack {self.NAME}", daemon=True)
        self._thread.start()

    def read(self) -> Reading:
        """Return the newest reading, at once."""
        if self._failure is not None:
            raise UserError(f"The driver '{self.NAME}' has failed: {self._failure!r}.") from self._failure
        if self._reading is None:
            raise UserError(f"The driver '{self.NAME}' is not connected: call connect first.")
        return self._reading

    def capture(self, name: str) -> Capture:
        """Return the newest capture of a camera or lidar, at once."""
        return self._captures.capture(name)

    def write(self, command: Signals) -> Signals:
        """Hand a command over to the link's thread and return it as it will be sent, within the robot's limits.

        Raises:
            ValueError: It is not exactly one finite array of its shape, or the robot reports an error, which is named.
        """
        (name,) = self.commanded
        wanted = self._limited(checked_command(command, name, self._size))
        if self._failure is not None or self._thread is None:
            self.read()
        if self.trouble:
            raise ValueError(self.trouble)
        with self._mail:
            self._wanted = wanted
            self._mail.notify()
        return {name: wanted}

    @property
    def _size(self) -> int:
        return len(self.robot.drives)

    def health(self) -> tuple[str, Mapping[str, Any]]:
        """Return why commands are refused, and how the actuators are; see ``Monitored``."""
        return self.trouble, {}

    def step(self, duration_s: float) -> None:  # noqa: B027 (there is nothing to do)
        """Do nothing: a real robot's time passes by itself."""

    def reset(self, state: Signals | None = None) -> None:  # noqa: B027 (likewise)
        """Do nothing: a real robot is carried back."""

    def disarm(self) -> None:
        """Take the actuators' power now, and drop a command that was not sent yet."""
        with self._mail:
            self._wanted, self._stops = None, self._stops + 1
        self._take_power()

    def let_go(self) -> str:
        """Take the actuators' power: none of these robots falls from the air."""
        self.disarm()
        return self.LET_GO

    def close(self) -> None:
        """Take the actuators' power and close the link; a second call does nothing."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        with self._mail:
            self._ending, self._wanted = True, None
            self._mail.notify()
        thread.join(_END_S)
        self._take_power()
        with self._link:
            self._shut_all()

    # The thread -----------------------------------------------------------------------------------------------

    def _shut_all(self) -> None:
        self._shut()
        self._captures.close()

    def _first(self) -> Reading:
        end = time.monotonic() + _FIRST_S
        while (reading := self._poll()) is None:
            if time.monotonic() > end:
                raise UserError(
                    f"The driver '{self.NAME}' hears nothing from {self.robot.name}: check power and cable."
                )
        return reading

    def _take_power(self) -> None:
        with self._link:
            self.powered, self._owes_stop = False, True
            try:
                self._unpower()
                self._owes_stop = False
            except (LinkLost, UserError) as error:
                _LOG.warning("%s: the power could not be taken: %s", self.NAME, error)

    def _serve(self) -> None:
        try:
            due = time.monotonic()
            while not self._ending:
                due = self._once(due)
        except BaseException as error:  # read() tells it
            self._failure = error
            _LOG.exception("the driver '%s' has failed", self.NAME)
            self._take_power()

    def _once(self, due: float) -> float:
        """Wait for a command or the next poll, and do either; return when the next poll is due."""
        with self._mail:
            if self._wanted is None and not self._ending:
                self._mail.wait(max(due - time.monotonic(), 0.0))
        try:
            with self._link:
                self._pass_on()
                if time.monotonic() < due:
                    return due
                self._tick()
                self._note(self._poll())
        except LinkLost as error:
            self._recover(error)
        return max(due + self._period_s, time.monotonic() - self._period_s)  # what it fell behind is not made up for

    def _pass_on(self) -> None:
        """Send the newest command, if there is one."""
        with self._mail:
            wanted, self._wanted, stops = self._wanted, None, self._stops
        if wanted is None or self.trouble or self._ending:
            return
        if not self.powered:
            if self._age_s() > LOST_S:
                return  # where it stands now is not known
            try:
                self._power()
            except UserError as error:
                _LOG.warning("%s: %s", self.NAME, error)
                return
            self.powered, self._owes_stop = True, False
        if stops == self._stops:  # otherwise it was told to stop while it was powered, and waits for the link to do so
            self._send(wanted)

    def _age_s(self) -> float:
        return time.monotonic() - self._heard_s

    def _note(self, reading: Reading | None) -> None:
        if reading is not None:
            self._reading, self._heard_s = reading, time.monotonic()
            self.on_reading()
            if self._owes_stop:
                self._take_power()
        elif self.powered and self._age_s() > LOST_S:
            self.powered = False
            _LOG.warning("%s: nothing was heard for %.1f s", self.NAME, self._age_s())

    def _recover(self, error: LinkLost) -> None:
        """Try to open the link again, as an adapter may have been plugged in again."""
        if self._ending:
            return
        self.powered = False
        _LOG.warning("%s: the link is lost: %s", self.NAME, error)
        with self._link:
            self._shut()
        while not self._ending:
            with self._mail:
                self._mail.wait(_REOPEN_S)
                self._wanted = None
            if self._ending:
                return
            try:
                with self._link:
                    self._open()
                _LOG.warning("%s: the link is back", self.NAME)
                return
            except (LinkLost, UserError):
                with self._link:
                    self._shut()


def checked_options(name: str, options: Mapping[str, Any], ranges: Mapping[str, tuple[float, float]]) -> None:
    """Refuse options of a URI that are out of range.

    Raises:
        UserError: One is; the message has the range.
    """
    for option, (low, high) in ranges.items():
        if not low <= options[option] <= high:
            raise UserError(
                f"The option {option}={options[option]} of the driver '{name}' is not allowed: must be from {low:g} to"
                f" {high:g}."
            )
