"""Bitcraze's Crazyflie: body rates and thrust to it, its estimator's state from it, over the Crazyradio or UDP.

Its own watchdogs remain: it levels out after 0.5 s without set-points and stops its motors after 2 s.
"""

from __future__ import annotations

import math
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.hardware.crazyflie.control import LAND_RESEND_S, LAND_TRIES, Control, Phase
from rlstack.hardware.crazyflie.links import CrazyflieLink, UdpLink, open_radio
from rlstack.hardware.crazyflie.measurements import SENSED, Measurements
from rlstack.hardware.crazyflie.session import (
    COMMANDER,
    GENERIC_COMMANDER,
    HIGH_LEVEL_COMMANDER,
    LOCALIZATION,
    PLATFORM,
    SUPERVISOR,
    Session,
)
from rlstack.hardware.pose_gate import PoseGate
from rlstack.hardware.rates_thrust import RATES_THRUST, RatesThrust
from rlstack.hardware.stream_rate import StreamRate
from rlstack.hardware.uri import parse_uri
from rlstack.interfaces.backend import Capture, Reading, Signals, nobody_listens
from rlstack.robots import RobotSpec
from rlstack.robots.spec import STANDARD_GRAVITY

EXAMPLES = {"radio": "radio://0/80/2M/E7E7E7E7E7", "udp": "udp://127.0.0.1:19850"}
OPTIONS: dict[str, Any] = {"hover_thrust": 0, "watchdog": False, "external_pose": False}
"""Options of the URI: the thrust in hover, 1 to 60000 (0: from the mass, by the firmware's thrust curve); whether its
motors stop for good where commands end for a second; whether its estimator gets poses from ``external_pose``."""

FULL_THRUST, MOST_THRUST = 65536, 60000
"""What the commander's thrust counts to, and the most that it passes on."""
FULL_THRUST_KG = 0.060
"""What the four motors lift at full thrust: the firmware's curve, which compensates the battery's voltage."""
HOVER_RATIO = 1.6
"""How far hovering by the URI and by the mass may be apart."""
RATE_SHARE = 0.7
WATCHDOG_S = 0.1
SUPERVISOR_PROTOCOL = 12
"""First protocol version with the supervisor's port."""
RATE_MODE, COMPLEMENTARY = 0, 1

LANDING_M_S = 0.4
_SETPOINTS_END, _LAND = 0, 8
_STOP, _EXTERNAL_POSE, _EMERGENCY, _EMERGENCY_WATCHDOG, _ARM = 0, 8, 3, 4, 1
_ANSWER_S = 3.0


class Crazyflie:
    """See :class:`rlstack.interfaces.backend.Backend`.

    Args:
        robot: The quadrotor.
        uri: Where it is, with :data:`OPTIONS`, such as ``radio://0/80/2M/E7E7E7E7E7``.

    Raises:
        UserError: The robot takes no rates and thrust, is too heavy, or the URI is not allowed.
    """

    owns_time = False
    sensed = SENSED
    commanded = (RATES_THRUST,)
    captured: tuple[str, ...] = ()

    def __init__(self, robot: Any, *, uri: str = "") -> None:
        self.robot: RobotSpec = robot
        self._checked = RatesThrust(robot)
        self._uri = parse_uri(uri, "crazyflie", EXAMPLES, OPTIONS)
        self._check_address()
        mass = robot.body.mass_kg
        by_mass = FULL_THRUST * mass / FULL_THRUST_KG
        self._hover = self._uri.options["hover_thrust"] or by_mass
        if not by_mass / HOVER_RATIO < self._hover < by_mass * HOVER_RATIO and self._hover < MOST_THRUST:
            raise UserError(
                f"The URI '{uri}' has hover_thrust={self._hover}, and {self.robot.name} with the {mass} kg of its robot"
                f" file hovers at about {by_mass:.0f}: correct the one that is wrong."
            )
        if not 0 < self._hover < MOST_THRUST:
            raise UserError(
                f"A Crazyflie does not lift {self.robot.name}: hovering with {mass} kg takes a thrust of"
                f" {self._hover:.0f}, and {MOST_THRUST} is the most. Correct the mass, or give hover_thrust."
            )
        self._lock = threading.RLock()
        self._session: Session | None = None
        self._reading: Reading | None = None
        self._rate = StreamRate()
        self._fed_s = 0.0
        self._located = PoseGate()
        if self._uri.options["external_pose"]:
            self.locate = self._locate  # only then is it a Located backend, which the robot node gives poses
        self._new_control()
        self.on_reading: Callable[[], None] = nobody_listens
        """See :class:`rlstack.interfaces.backend.Announcing`."""
        self.report: dict[str, str] = {}
        """What :meth:`connect` has found: firmware, link, rates."""

    # Backend ---------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Find the Crazyflie, check it, put its commander into rate mode, and start its log; its motors stand.

        Raises:
            UserError: It does not answer, its firmware is too old, it is locked, tumbled or has no position, or its log
                does not come often enough.
        """
        if self._session is not None:
            return
        self._reading, self._rate, self.report = None, StreamRate(), {}
        self._new_control()
        self._measured = Measurements(self._on_state, self._on_status)
        link: CrazyflieLink
        if self._uri.scheme == "radio":
            link = open_radio(self._uri.text.partition("?")[0])
        else:
            link = UdpLink(self._uri.host, self._uri.port)
        self._session = session = Session(link, self._uri.text, self._on_tick)
        try:
            self._begin(session)
        except BaseException:
            self.close()
            raise

    def read(self) -> Reading:
        """Return the newest measurement, taken when its time says, s since the epoch."""
        if self._reading is None:
            raise RuntimeError("read: connect first.")
        return self._reading

    def capture(self, name: str) -> Capture:
        """Raise ``UserError``: this link carries neither images nor scans."""
        raise UserError(f"'{name}' is not measured by the driver 'crazyflie': start the sensor's own ROS driver.")

    def write(self, command: Signals) -> Signals:
        """Send body rates and thrust, and take control with the first: then thrust is 0 until it is ready to fly.

        Returns:
            ``rates_thrust`` as sent, with the thrust that the motors can give.

        Raises:
            ValueError: The command is not allowed, or the Crazyflie cannot fly and why; nothing was sent.
        """
        values = self._checked(command)
        with self._lock:
            session = self._session
            if session is None:
                raise RuntimeError("write: connect first.")
            now = time.monotonic()
            if self._control.write(now) is not Phase.FLY:
                values = np.zeros(4)
            roll, pitch, yaw = np.degrees(values[:3]).tolist()
            thrust = min(round(self._hover * values[3] / STANDARD_GRAVITY), MOST_THRUST)
            values[3] = thrust * STANDARD_GRAVITY / self._hover
            # in the firmware's commander pitch and yaw turn the other way
            session.send(COMMANDER, 0, struct.pack("<fffH", roll, -pitch, -yaw, thrust))
            self._feed(session, now)
        return {RATES_THRUST: values}

    def step(self, duration_s: float) -> None:
        """No-op: time is the robot's own."""

    def reset(self, state: Signals | None = None) -> None:
        """No-op: a real robot is carried back."""

    def disarm(self) -> None:
        """Stop the motors now; if the log does not show that they stand within 0.5 s, for good (emergency stop)."""
        with self._lock:
            self._control.stop(time.monotonic())

    def let_go(self) -> str:
        """Have it land by itself where it flies, and stop its motors where it stands.

        Without the link its watchdog levels it after 0.5 s, and stops its motors after 2 s.
        """
        with self._lock:
            self._control.let_go(time.monotonic())
            if self._control.phase is Phase.LAND:
                return "it lands by its own commander"
        return "disarmed"

    def close(self) -> None:
        """Let it go (:meth:`let_go`), and close the link; a second call does nothing."""
        session = self._session
        if session is None:
            return
        self.let_go()
        session.wait(lambda: self._control.phase is not Phase.STOP, 0.7)
        if self._control.phase is Phase.LAND:
            session.wait(lambda: self._control.phase is not Phase.LAND, LAND_TRIES * LAND_RESEND_S)
        session.close()
        with self._lock:
            self._session = None

    def _locate(self, time_s: float, position: Array, orientation: Array) -> None:
        """Send a pose to the estimator, which takes it for the present one.

        See :class:`rlstack.interfaces.backend.Located`.
        """
        if (session := self._session) is not None and self._located.admits(time_s, position, orientation):
            session.send(LOCALIZATION, 1, struct.pack("<B7f", _EXTERNAL_POSE, *position, *orientation))

    # Connecting ------------------------------------------------------------------------------------------------

    def _check_address(self) -> None:
        uri = self._uri
        if uri.scheme == "udp":
            if not uri.host or not uri.port:
                raise UserError(f"The URI '{uri.text}' lacks the host or the port: give {EXAMPLES['udp']}.")
            return
        parts = uri.path.strip("/").split("/")
        known = len(parts) == 3 and parts[0].isdigit() and int(parts[0]) <= 125 and parts[1] in ("250K", "1M", "2M")
        if not known or len(parts[2]) != 10 or not set(parts[2].upper()) <= set("0123456789ABCDEF"):
            raise UserError(
                f"The URI '{uri.text}' is not allowed: number of the radio, channel (0 to 125), rate (250K, 1M, 2M) and"
                f" address (10 hex digits), as in {EXAMPLES['radio']}."
            )

    def _begin(self, session: Session) -> None:
        session.start(_ANSWER_S)
        self.report["firmware"] = f"Crazyflie {session.firmware}, protocol {session.protocol}"
        if session.read_parameter("stabilizer.estimator") == COMPLEMENTARY:
            raise UserError(
                f"The Crazyflie on {self._uri.text} estimates no position (stabilizer.estimator is 1, must be 2): give"
                " it a Flow or Lighthouse deck, or motion capture, and set stabilizer.estimator to 2."
            )
        for axis in ("Roll", "Pitch", "Yaw"):
            session.set_parameter(f"flightmode.stabMode{axis}", RATE_MODE)
        sensors, control_hz = self.robot.sensors, self.robot.control_rate_hz
        wanted = min(sensors["odom"].rate_hz if "odom" in sensors else control_hz, 100.0)
        imu = min(sensors["imu"].rate_hz if "imu" in sensors else control_hz, 100.0)
        session.log(self._measured.blocks(wanted, imu))
        if not session.wait(lambda: self._reading is not None, _ANSWER_S):
            missing = ", ".join(name for name in SENSED if name not in self._measured.signals)
            raise UserError(f"The Crazyflie on {self._uri.text} does not measure {missing or 'anything new'}.")
        if why := self._control.broken():
            raise UserError(f"The Crazyflie on {self._uri.text} is {why}.")
        got = self._rate.measured(RATE_SHARE * wanted)
        self.report["odometry"] = f"{got:.0f} Hz of {wanted:.0f} Hz"
        self.report["link"] = f"round trip {1e3 * session.clock.round_trip_s:.1f} ms"
        if got < RATE_SHARE * wanted:
            raise UserError(
                f"The Crazyflie on {self._uri.text} logs its state {got:.0f} times a second, wanted are {wanted:.0f}:"
                " use a radio rate of 2M, another channel, or a radio of its own."
            )

    def _new_control(self) -> None:
        self._control = Control(self._arm, self._send_stop, lambda: self._supervise(_EMERGENCY), self._land)

    # Packets ---------------------------------------------------------------------------------------------------

    def _send_stop(self) -> None:
        if (session := self._session) is not None:
            session.send(GENERIC_COMMANDER, 0, bytes([_STOP]))

    def _land(self) -> None:
        """Hand over to its high-level commander, and have that land at the height of the origin."""
        if (session := self._session) is None or self._reading is None:
            return
        height = max(float(self._reading.signals["position"][2]), 0.0)
        session.send(GENERIC_COMMANDER, 1, struct.pack("<BI", _SETPOINTS_END, 0))
        seconds = max(height / LANDING_M_S, 0.5)
        session.send(HIGH_LEVEL_COMMANDER, 0, struct.pack("<BBff?f", _LAND, 0, 0.0, 0.0, True, seconds))

    def _arm(self) -> None:
        if (session := self._session) is None:
            return
        if session.protocol >= SUPERVISOR_PROTOCOL:
            session.send(SUPERVISOR, 1, bytes([_ARM, 1]))
        else:
            session.send(PLATFORM, 0, bytes([1, 1]))

    def _supervise(self, number: int) -> None:
        if (session := self._session) is None:
            return
        port = SUPERVISOR if session.protocol >= SUPERVISOR_PROTOCOL else LOCALIZATION
        session.send(port, 1, bytes([number]))

    def _feed(self, session: Session, now: float) -> None:
        if self._uri.options["watchdog"] and now - self._fed_s > WATCHDOG_S:
            self._fed_s = now
            self._supervise(_EMERGENCY_WATCHDOG)

    # In the session's thread -----------------------------------------------------------------------------------

    def _on_state(self, stamp_s: float, arrived_s: float) -> None:
        if (session := self._session) is None:
            return
        self._rate.note(stamp_s)
        taken_s = session.clock.local_s(stamp_s, arrived_s) + (time.time() - time.monotonic())
        last = self._reading
        if last is not None and taken_s <= last.time_s < taken_s + 1.0:
            taken_s = last.time_s + 1e-6  # a better estimate of the clock must not put a newer state before an older
        self._reading = Reading(taken_s, dict(self._measured.signals))
        self.on_reading()

    def _on_status(self, bits: int, thrust: float, arrived_s: float) -> None:
        with self._lock:
            self._control.on_status(arrived_s, bits, thrust if math.isfinite(thrust) else 1.0)

    def _on_tick(self) -> None:
        with self._lock:
            now = time.monotonic()
            self._control.tick(now)
            if self._control.phase is Phase.OFF and self._fed_s and (session := self._session) is not None:
                self._feed(session, now)  # once begun, its watchdog stops the motors for good where nobody feeds it


BACKEND = Crazyflie
