"""Quadrotors with a MAVLink autopilot, PX4 or ArduPilot: body rates and thrust to it, its state estimate from it.

The autopilot keeps its own rules: this driver takes control step by step (:mod:`rlstack.hardware.mavlink.engagement`),
and what the autopilot does without set-points is its failsafe. docs/hardware.md names the parameters.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.hardware.mavlink import autopilots
from rlstack.hardware.mavlink.autopilots import Autopilot, ThrustModel
from rlstack.hardware.mavlink.engagement import Engagement, Phase
from rlstack.hardware.mavlink.estimate import SENSED, Estimate
from rlstack.hardware.mavlink.frames import swap_body, swap_orientation, swap_world
from rlstack.hardware.mavlink.link import Link
from rlstack.hardware.mavlink.session import AUTOPILOT_COMPONENT, Session, is_armed
from rlstack.hardware.mavlink.transport import EXAMPLES, check_transport, open_transport
from rlstack.hardware.pose_gate import PoseGate
from rlstack.hardware.rates_thrust import RATES_THRUST, RatesThrust
from rlstack.hardware.stream_rate import StreamRate
from rlstack.hardware.uri import parse_uri
from rlstack.interfaces.backend import Capture, Reading, Signals, nobody_listens
from rlstack.libraries import import_library
from rlstack.robots import RobotSpec

OPTIONS: dict[str, Any] = {
    "baud": 921600,
    "system": 0,
    "mode": "",
    "hover_thrust": 0.0,
    "termination": False,
    "external_pose": False,
    "key": "",
}
"""Options of the URI: a serial port's speed; the autopilot's system number (0: the only one); the mode that takes
set-points (empty: OFFBOARD of PX4, GUIDED of ArduPilot); the thrust in hover, 0 to 1 (0: the autopilot's parameter);
whether flight is terminated if a disarming is not confirmed; whether its estimator gets poses from ``external_pose``; a
file with a signing key of 32 bytes as 64 hex digits."""

BATTERY_HZ, HEARTBEAT_HZ = 1.0, 5.0
RATE_SHARE = 0.7
"""Share of the wanted rate of odometry below which :meth:`MavlinkQuadrotor.connect` refuses."""
HOVER_RATIO = 1.6
"""How far the hover command of the robot file and of the autopilot may be apart."""

_IGNORE_ATTITUDE = 128
_ANSWER_S, _FIRST_S = 2.0, 3.0
_LOG = logging.getLogger(__name__)


class MavlinkQuadrotor:
    """See :class:`rlstack.interfaces.backend.Backend`.

    Args:
        robot: The quadrotor.
        uri: Where its autopilot is, with :data:`OPTIONS`, such as ``serial:///dev/ttyACM0?baud=921600``.

    Raises:
        UserError: The robot takes no rates and thrust, or the URI is not allowed.
    """

    owns_time = False
    sensed = SENSED
    commanded = (RATES_THRUST,)
    captured: tuple[str, ...] = ()

    def __init__(self, robot: RobotSpec, *, uri: str = "") -> None:
        self.robot: Any = robot
        self._checked = RatesThrust(robot)
        self._uri = parse_uri(uri, "mavlink", EXAMPLES, OPTIONS)
        check_transport(self._uri)
        if not 0.0 <= self._uri.options["hover_thrust"] < 1.0:
            raise UserError(f"The URI '{uri}' has hover_thrust={self._uri.options['hover_thrust']}: 0 to 1 is allowed.")
        if not 0 <= self._uri.options["system"] <= 255:
            raise UserError(
                f"The URI '{uri}' has system={self._uri.options['system']}: 1 to 255 is allowed, 0 for any."
            )
        self._key = _signing_key(self._uri.options["key"])
        self._lock = threading.RLock()
        self._session: Session | None = None
        self._engagement: Engagement | None = None
        self._reading: Reading | None = None
        self._rate = StreamRate()
        self._located = PoseGate()
        if self._uri.options["external_pose"]:
            self.locate = self._locate  # only then is it a Located backend, which the robot node gives poses
        self.on_reading: Callable[[], None] = nobody_listens
        """See :class:`rlstack.interfaces.backend.Announcing`."""
        self.report: dict[str, str] = {}
        """What :meth:`connect` has found: firmware, clock, rates, thrust."""

    # Backend ---------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Find the autopilot, check it, learn its clock and thrust, and start its streams; it stays disarmed.

        Raises:
            UserError: There is none, it is another or an older one, its parameters do not allow rates and thrust, its
                hover thrust does not fit the robot file, or it does not send what is needed often enough.
        """
        if self._session is not None:
            return
        import_library("pymavlink.mavutil", "mavlink")
        dialect = importlib.import_module("pymavlink.dialects.v20.common")
        self._estimate = Estimate()
        self._reading, self._rate, self.report = None, StreamRate(), {}
        self._mavlink = dialect
        options = self._uri.options
        session = Session(
            Link(open_transport(self._uri), dialect, self._key),
            self._uri.text,
            options["system"],
            self._on_message,
            self._on_tick,
        )
        self._session = session
        try:
            self._begin(session)
        except BaseException:
            self.close()
            raise

    def read(self) -> Reading:
        """Return the newest measurement, taken when its time says, s since the epoch; empty before external poses."""
        if self._session is None:
            raise RuntimeError("read: connect first.")
        return self._reading or Reading(0.0, {})

    def capture(self, name: str) -> Capture:
        """Raise ``UserError``: an autopilot has neither cameras nor lidars on this link."""
        raise UserError(f"'{name}' is not measured by the driver 'mavlink': start the sensor's own ROS driver.")

    def write(self, command: Signals) -> Signals:
        """Send body rates and thrust, and take control with the first: then thrust is 0 until the autopilot is armed.

        Returns:
            ``rates_thrust`` as sent; all 0 while the autopilot is being armed, or a pilot or a failsafe flies.

        Raises:
            ValueError: The command is not allowed, or the autopilot has refused and why; nothing was sent.
        """
        values = self._checked(command)
        with self._lock:
            session, engagement = self._session, self._engagement
            if session is None or engagement is None:
                raise RuntimeError("write: connect first.")
            phase = engagement.write(time.monotonic())
            if phase is not Phase.FLY:
                values = np.zeros(4)
            if phase is not Phase.RELEASED:
                self._send_rates(session, values)
        return {RATES_THRUST: values}

    def step(self, duration_s: float) -> None:
        """No-op: time is the robot's own."""

    def reset(self, state: Signals | None = None) -> None:
        """No-op: a real robot is carried back."""

    def disarm(self) -> None:
        """Stop the motors, also in flight, unless this driver has not armed or a pilot flies by hand."""
        with self._lock:
            if self._engagement is not None:
                self._engagement.stop(time.monotonic())

    def let_go(self) -> str:
        """Send no set-points any more: on the ground it is disarmed, in the air its failsafe acts.

        PX4 does what ``COM_OBL_RC_ACT`` says after ``COM_OF_LOSS_T``, ArduPilot levels after ``GUID_TIMEOUT``.
        """
        with self._lock:
            if self._engagement is None:
                return "not connected"
            self._engagement.let_go(time.monotonic())
        return f"left to the failsafe of {self._autopilot.name}, which disarms it only on the ground"

    def close(self) -> None:
        """Let it go (:meth:`let_go`), and close the link; a second call does nothing."""
        session, engagement = self._session, self._engagement
        if session is None:
            return
        if engagement is not None:
            self.let_go()
            session.wait(lambda: engagement.phase not in (Phase.STOP, Phase.LET_GO), 0.5)
        session.close()
        with self._lock:
            self._session = self._engagement = None

    # External vision -------------------------------------------------------------------------------------------

    def _locate(self, time_s: float, position: Array, orientation: Array) -> None:
        """Send a pose to the autopilot's estimator; see :class:`rlstack.interfaces.backend.Located`."""
        session = self._session
        if session is None or self._engagement is None or not self._located.admits(time_s, position, orientation):
            return
        taken_us = int((time_s - time.time() + time.monotonic()) * 1e6)
        place, turned = swap_world(position).tolist(), swap_orientation(orientation)
        session.link.send(self._pose_message(taken_us, place, turned))

    # Connecting ------------------------------------------------------------------------------------------------

    def _begin(self, session: Session) -> None:
        self._autopilot = autopilot = session.start(_FIRST_S)
        options = self._uri.options
        name = options["mode"] or next(iter(autopilot.guided))
        if name not in autopilot.guided:
            raise UserError(
                f"The URI '{self._uri.text}' has mode={name}, in which {autopilot.name} takes no rates and thrust: give"
                f" {' or '.join(autopilot.guided)}."
            )
        self.report["firmware"] = f"{autopilot.name} {session.version(autopilot, _ANSWER_S)}"
        session.synchronise(_ANSWER_S)
        self._thrust = self._learn_thrust(session, autopilot)
        engagement = Engagement(autopilot, autopilot.guided[name], session.command, options["termination"])
        with self._lock:
            self._engagement = engagement
        self._start_streams(session, autopilot)
        session.check_alone()
        if not session.wait(lambda: engagement.armed is not None, _ANSWER_S):
            raise UserError(f"{autopilot.name} on {self._uri.text} sends no heartbeats any more.")
        if engagement.armed:
            raise UserError(f"{autopilot.name} on {self._uri.text} is armed already: disarm it first.")
        clock = session.clock
        self.report["clock"] = f"offset {clock.offset_s:.3f} s, round trip {1e3 * clock.round_trip_s:.1f} ms"
        _LOG.info("%s", self.report)

    def _learn_thrust(self, session: Session, autopilot: Autopilot) -> ThrustModel:
        required = autopilot.parameters(termination=self._uri.options["termination"])
        names = (autopilot.hover_parameter, autopilot.curve_parameter, *(parameter.name for parameter in required))
        values = session.parameters(names, _ANSWER_S)
        autopilot.check(required, values)
        given = self._uri.options["hover_thrust"]
        model = ThrustModel(given or values[autopilot.hover_parameter], values[autopilot.curve_parameter])
        expected = self.robot.hover_speed_rad_s / self.robot.rotor_model.speed_max_rad_s
        if not expected / HOVER_RATIO < model.hover_command < expected * HOVER_RATIO:
            source = "hover_thrust" if given else autopilot.hover_parameter
            raise UserError(
                f"The robot file says that {self.robot.name} hovers at {expected:.2f} of its motors' top speed, but by"
                f" {source} = {model.hover:.2f} it is {model.hover_command:.2f}: calibrate the hover thrust, or correct"
                " the mass or the motors in the robot file."
            )
        self.report["thrust"] = f"hover {model.hover:.3f}, curve {model.curve:.2f}"
        return model

    def _start_streams(self, session: Session, autopilot: Autopilot) -> None:
        sensors, control = self.robot.sensors, self.robot.control_rate_hz
        wanted = sensors["odom"].rate_hz if "odom" in sensors else control
        imu = sensors["imu"].rate_hz if "imu" in sensors else control
        rates = {number: wanted for number in autopilot.odometry}
        rates |= {autopilot.imu: imu, autopilots.BATTERY_STATUS: BATTERY_HZ, autopilots.HEARTBEAT: HEARTBEAT_HZ}
        session.stream(rates, _ANSWER_S, optional=(autopilots.HEARTBEAT, autopilots.BATTERY_STATUS))
        if self._uri.options["external_pose"]:
            return  # its position comes once poses do, which the robot node passes on when it is connected
        if not session.wait(lambda: self._estimate.complete, _ANSWER_S):
            missing = ", ".join(name for name in SENSED if name not in self._estimate.signals)
            reasons = f" ({'; '.join(self._estimate.refused)})" if self._estimate.refused else ""
            raise UserError(
                f"{autopilot.name} on {self._uri.text} does not measure {missing}{reasons}: does its estimator have a"
                " position, from GPS, motion capture or vision?"
            )
        got = self._rate.measured(RATE_SHARE * wanted)
        self.report["odometry"] = f"{got:.0f} Hz of {wanted:.0f} Hz"
        if got < RATE_SHARE * wanted:
            raise UserError(
                f"{autopilot.name} on {self._uri.text} sends its state {got:.0f} times a second, the robot file says"
                f" {wanted:.0f}: raise the link's rate (its baud rate; PX4 MAV_x_RATE) or lower sensors.odom.rate_hz."
            )

    # In the session's thread -----------------------------------------------------------------------------------

    def _on_message(self, message: Any, arrived_ns: int) -> None:
        stamp_ns = self._estimate.take(message)
        if stamp_ns is not None:
            self._rate.note(stamp_ns / 1e9)
            if self._estimate.complete and (session := self._session) is not None:
                self._publish(session, stamp_ns, arrived_ns)
            return
        with self._lock:
            if (engagement := self._engagement) is None:
                return
            now, kind = arrived_ns / 1e9, message.get_type()
            if kind == "HEARTBEAT":
                engagement.on_heartbeat(now, is_armed(message), message.custom_mode)
            elif kind == "COMMAND_ACK":
                engagement.on_ack(now, message.command, message.result)
            elif kind == "STATUSTEXT":
                text = message.text if isinstance(message.text, str) else message.text.decode("utf-8", "replace")
                engagement.on_text(now, text.strip("\0"), continues=message.id != 0 and message.chunk_seq > 0)

    def _publish(self, session: Session, stamp_ns: int, arrived_ns: int) -> None:
        taken_s = session.clock.local_ns(stamp_ns, arrived_ns) / 1e9 + (time.time() - time.monotonic())
        last = self._reading
        if last is not None and taken_s <= last.time_s < taken_s + 1.0:
            taken_s = last.time_s + 1e-6  # a better estimate of the clock must not put a newer state before an older
        self._reading = Reading(taken_s, dict(self._estimate.signals))
        self.on_reading()

    def _on_tick(self) -> None:
        with self._lock:
            if self._engagement is not None:
                self._engagement.tick(time.monotonic())

    # Messages --------------------------------------------------------------------------------------------------

    def _send_rates(self, session: Session, values: Array) -> None:
        stamp_ms = (time.monotonic_ns() // 1_000_000) & 0xFFFFFFFF
        rates = swap_body(values[:3]).tolist()
        session.link.send(
            self._mavlink.MAVLink_set_attitude_target_message(
                stamp_ms,
                session.system,
                AUTOPILOT_COMPONENT,
                _IGNORE_ATTITUDE,
                [1.0, 0.0, 0.0, 0.0],
                *rates,
                self._thrust.of(float(values[3])),
            )
        )

    def _pose_message(self, taken_us: int, place: list[float], turned: Array) -> Any:
        x, y, z, w = turned.tolist()
        if self._autopilot is autopilots.PX4:
            unknown = [float("nan"), *(0.0,) * 20]
            speed = (float("nan"),) * 3
            return self._mavlink.MAVLink_odometry_message(
                taken_us, 1, 12, *place, [w, x, y, z], *speed, *speed, unknown, unknown
            )
        roll = float(np.arctan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y)))
        pitch = float(np.arcsin(np.clip(2.0 * (w * y - z * x), -1.0, 1.0)))
        yaw = float(np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)))
        return self._mavlink.MAVLink_vision_position_estimate_message(taken_us, *place, roll, pitch, yaw)


def _signing_key(path: str) -> bytes | None:
    if not path:
        return None
    try:
        key = bytes.fromhex(Path(path).expanduser().read_text(encoding="ascii").strip())
    except (OSError, ValueError) as error:
        raise UserError(f"The signing key {path} cannot be read ({error}): write 64 hex digits into it.") from error
    if len(key) != 32:
        raise UserError(f"The signing key {path} has {len(key)} bytes: must be 32, as 64 hex digits.")
    return key


BACKEND = MavlinkQuadrotor
