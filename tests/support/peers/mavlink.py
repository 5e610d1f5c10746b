"""Autopilots that speak MAVLink over UDP, with the rules of PX4 and of ArduPilot (docs.px4.io, ardupilot.org).

Offboard control of PX4: set-points must have come at 2 Hz or more for a second before the mode; without any for
``COM_OF_LOSS_T`` it lands. Arming checks refuse with a text; in flight only a forced disarming counts.
"""

from __future__ import annotations

import math
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.quadrotor.spec import load_quadrotor
from tests.support.peers import Misfit
from tests.support.peers._airframe import Airframe, G
from tests.support.peers._mavlink_wire import frame, frames

TICK_S = 0.004
HEARTBEAT, ACK, TEXT, PARAMETER, TIMESYNC, VERSION = 0, 77, 253, 22, 111, 148
REAL32, INT32 = 9, 6
ACCEPTED, TEMPORARILY_REJECTED, DENIED, UNSUPPORTED, FAILED = range(5)
AUTO_LAND, OFFBOARD, POSCTL, HOLD = 4 << 16 | 6 << 24, 6 << 16, 3 << 16, 4 << 16 | 3 << 24


class Autopilot:
    """What PX4 and ArduPilot have in common; its own thread serves the link and moves the vehicle."""

    number = 12
    version = (1, 15, 4)
    boot_ahead_s = 4321.5  # its clock against this machine's
    skew = 30e-6

    def __init__(self, robot: Any = None, *, seed: int = 1) -> None:
        self.robot = robot or load_quadrotor("x500_rates")
        self.airframe = Airframe(self.robot, self.robot.rate_loop.time_constant_s)
        self.vehicle = 2  # a quadrotor
        self.parameters: dict[str, float | int] = {}
        self.arming_failures: list[str] = []
        self.armed = self.terminated = False
        self.mode = HOLD
        self.mute: set[int] = set()  # messages that are not sent, whatever is asked
        self.deaf: set[int] = set()  # commands that are not answered
        self.lost = False  # whether its estimator has no position before external vision
        self.slow = 1.0  # share of the rates that are asked for
        self.loss = 0.0
        self.failsafes = 0
        self.systems = [1]
        self.poses: list[tuple[int, tuple[Any, ...]]] = []  # external vision
        self.setpoints: list[tuple[float, tuple[float, ...]]] = []  # rates FRD and thrust as they came
        self._random = random.Random(seed)
        self._linked = True
        self._intervals: dict[int, float] = {HEARTBEAT: 0.1}
        self._next: dict[int, float] = {}
        self._sequence = 0
        self._time_s = 0.0  # monotonic, of the vehicle
        self._stream_since = self._setpoint_s = -1e9
        self._peer: Any = None
        self._stop = threading.Event()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.002)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.uri = f"udpout://127.0.0.1:{self._socket.getsockname()[1]}"

    # Peer --------------------------------------------------------------------------------------------------------

    @property
    def powered(self) -> bool:
        return self.armed

    def __enter__(self) -> Autopilot:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()

    def rest(self) -> dict[str, Array]:
        return {"rates_thrust": np.array([0.0, 0.0, 0.0, 0.3 * G])}

    def misfits(self) -> dict[str, Misfit | str]:
        def becomes(name: str, value: object) -> Callable[[], None]:
            return lambda: setattr(self, name, value)

        port = self._socket.getsockname()[1]
        return {
            "in use": Misfit((f"127.0.0.1:{port} is in use",), uri=f"udpin://127.0.0.1:{port}"),
            "answers twice": Misfit(("systems 1, 7",), becomes("systems", [1, 7])),
            "firmware": Misfit(("1.11.3", "1.13"), becomes("version", (1, 11, 3))),
            "calibration": "its own checks refuse the arming in words, which are passed on",
            "joints": Misfit(("type 1", "type 2"), becomes("vehicle", 1)),
            "limits": "PX4 and ArduPilot take rates as they are; what they cannot reach shows in the rates measured",
            "mass": Misfit(("0.55", "it is 0.14"), uri=f"{self.uri}?hover_thrust=0.1"),
        }

    def lose_link(self) -> None:
        self._linked = False

    def regain_link(self) -> None:
        self._linked = True

    def send_noise(self, data: bytes) -> None:
        if self._peer:
            self._socket.sendto(data, self._peer)

    def listen(self, port: int) -> None:
        """Speak first, to this port."""
        self._peer = ("127.0.0.1", port)

    # The link ------------------------------------------------------------------------------------------------------

    def boot_ns(self, at_s: float) -> int:
        return int((at_s * (1.0 + self.skew) + self.boot_ahead_s) * 1e9)

    def _send(self, number: int, *values: object, system: int = 1) -> None:
        if self._peer is None or not self._linked or number in self.mute or self._random.random() < self.loss:
            return
        self._sequence += 1
        self._socket.sendto(frame(number, *values, sequence=self._sequence, system=system), self._peer)

    def say(self, text: str) -> None:
        self._send(TEXT, 4, text.encode()[:50])

    def _run(self) -> None:
        self._time_s = time.monotonic()
        while not self._stop.is_set():
            try:
                data, sender = self._socket.recvfrom(2048)
                if self._linked:
                    self._peer = sender
                    for _, number, fields in frames(data):
                        if self._random.random() >= self.loss:
                            self._receive(number, fields)
            except (TimeoutError, ConnectionError):
                pass
            now = time.monotonic()
            self._time_s = max(self._time_s, now - 0.5)
            while self._time_s < now:  # a vehicle does not stall with this process: what is late has its own time
                step = min(TICK_S, now - self._time_s)
                self._govern(self._time_s)
                self.airframe.motors = self.armed
                self.airframe.advance(step)
                self._time_s += step
                for number, interval in list(self._intervals.items()):
                    due = self._next.get(number, self._time_s)
                    if self._time_s >= due:
                        self._next[number] = max(due + interval, self._time_s - interval)
                        self._stream(number)

    def _receive(self, number: int, fields: tuple[Any, ...]) -> None:
        if number == TIMESYNC and fields[0] == 0:
            self._send(TIMESYNC, self.boot_ns(time.monotonic()), fields[1])
        elif number == 20:
            name = fields[3].rstrip(b"\0").decode()
            if name in self.parameters:
                self._send(PARAMETER, *self._encoded(self.parameters[name], name))
        elif number == 76:
            *parameters, command, _, _, _ = fields
            if command not in self.deaf:
                for station, result in ((252, FAILED), (0, self._command(command, parameters))):
                    self._send(ACK, command, result, 0, 0, station, 190 if station else 0)  # first, another's answer
        elif number == 82 and fields[11] & 128 and not fields[11] & 0x47:
            now = time.monotonic()
            if now - self._setpoint_s > 0.5:
                self._stream_since = now
            self._setpoint_s = now
            self.setpoints.append((now, fields[5:9]))
        elif number in (102, 331):
            self.poses.append((number, fields))
            self.lost = False

    def _encoded(self, value: float | int, name: str) -> tuple[object, ...]:
        raise NotImplementedError

    def _command(self, command: int, p: list[float]) -> int:
        if command == 511 and int(p[0]) == HEARTBEAT:
            return DENIED  # it stays at its own rate
        if command == 511:
            self._intervals[int(p[0])] = max(p[1] / 1e6, 1e-3) / self.slow
            return ACCEPTED
        if command == 512 and p[0] == VERSION:
            major, minor, patch = self.version
            packed = major << 24 | minor << 16 | patch << 8 | 255
            self._send(VERSION, 0, 7, packed, 0, 0, 0, 0, 0, b"", b"", b"")
            return ACCEPTED
        if command == 176:
            return self._change_mode(p)
        if command == 400:
            return self._arm() if p[0] == 1.0 else self._disarm(p[1] == 21196.0)
        if command == 185:
            self.armed, self.terminated = False, True
            return ACCEPTED
        return UNSUPPORTED

    def _change_mode(self, p: list[float]) -> int:
        raise NotImplementedError

    def _arm(self) -> int:
        if self.terminated or self.arming_failures:
            for text in self.arming_failures:
                self.say(text)
            return self.refusal
        self.armed = True
        return ACCEPTED

    refusal = TEMPORARILY_REJECTED

    def _disarm(self, forced: bool) -> int:
        if not forced and not self.airframe.on_ground:
            self.say("Disarming denied: not landed")
            return DENIED
        self.armed = False
        return ACCEPTED

    # The vehicle ---------------------------------------------------------------------------------------------------

    def _govern(self, now: float) -> None:
        raise NotImplementedError

    def _follow(self, curve: float, setpoint: tuple[float, ...]) -> None:
        roll, pitch, yaw, thrust = setpoint
        self.airframe.wanted_rates = [roll, -pitch, -yaw]
        # t = (1 - curve) c + curve c^2, and the rotors lift with c^2
        c = thrust if curve == 0 else (math.sqrt((1 - curve) ** 2 + 4 * curve * thrust) - (1 - curve)) / (2 * curve)
        self.airframe.wanted_thrust = c * c * self.airframe.top

    def _ned(self) -> tuple[list[float], list[float], list[float], list[float]]:
        """Position and velocity in NED, attitude w x y z of FRD in NED, rates in FRD, by matrices."""
        body = self.airframe
        swap, flip = np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1.0]]), np.diag([1.0, -1.0, -1.0])
        matrix = swap @ body.matrix() @ flip
        position, velocity = swap @ np.array(body.position), swap @ np.array(body.velocity)
        return position.tolist(), velocity.tolist(), _quaternion(matrix), (flip @ np.array(body.rates)).tolist()

    def _stream(self, number: int) -> None:
        stamp = self.boot_ns(self._time_s)
        us, ms = stamp // 1000, stamp // 1_000_000 & 0xFFFFFFFF
        if number == HEARTBEAT:
            for system in self.systems:
                self._send(HEARTBEAT, self.mode, self.vehicle, self.number, 128 * self.armed + 1, 4, 3, system=system)
            return
        if self.lost and number in (331, 32):
            return
        position, velocity, q, rates = self._ned()
        fx, fy, fz = self.airframe.force
        if number == 331:
            self._send(331, us, *position, *q, *velocity, *rates, *(0.0,) * 42, 1, 1)
        elif number == 32:
            self._send(32, ms, *position, *velocity)
        elif number == 31:
            self._send(31, ms, *q, *rates)
        elif number == 105:
            self._send(105, us, fx, -fy, -fz, *rates, *(0.0,) * 7, 63)
        elif number == 26:
            self._send(26, ms, *(round(1e3 * f / G) for f in (fx, -fy, -fz)), *(round(1e3 * r) for r in rates), 0, 0, 0)
        elif number == 147:
            self._send(147, 0, 0, 2500, *(3900,) * 4, *(0xFFFF,) * 6, 1250, 0, 0, 1, 83)


def _quaternion(m: Array) -> list[float]:
    """w x y z of a rotation matrix, by the largest of the four."""
    squares = [1 + m.trace(), *(1 + 2 * m[i, i] - m.trace() for i in range(3))]
    k = int(np.argmax(squares))
    s = 2 * math.sqrt(squares[k])
    d = [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]]
    if k == 0:
        return [s / 4, *(x / s for x in d)]
    i, (j, n) = k - 1, [a for a in range(3) if a != k - 1]
    q = [0.0, 0.0, 0.0]
    q[i], q[j], q[n] = s / 4, (m[j, i] + m[i, j]) / s, (m[n, i] + m[i, n]) / s
    return [d[i] / s, *q]


class Px4(Autopilot):
    """PX4: OFFBOARD."""

    loss_s = 1.0  # COM_OF_LOSS_T

    def __init__(self, robot: Any = None, **options: Any) -> None:
        super().__init__(robot, **options)
        hover = self.robot.hover_speed_rad_s / self.robot.rotor_model.speed_max_rad_s
        self.curve = 0.3
        self.parameters = {
            "MPC_THR_HOVER": (1 - self.curve) * hover + self.curve * hover * hover,
            "THR_MDL_FAC": self.curve,
            "CBRK_FLIGHTTERM": 121212,
        }

    def _encoded(self, value: float | int, name: str) -> tuple[object, ...]:
        if isinstance(value, int):  # its bytes
            return struct.unpack("<f", struct.pack("<i", value))[0], 1, 0, name.encode(), INT32
        return value, 1, 0, name.encode(), REAL32

    def _fed(self, now: float) -> bool:
        """Whether set-points have come at 2 Hz for a second."""
        return now - self._setpoint_s < 0.5 and now - self._stream_since >= 1.0

    def _change_mode(self, p: list[float]) -> int:
        mode = int(p[1]) << 16 | int(p[2]) << 24
        if mode == OFFBOARD and not self._fed(time.monotonic()):
            self.say("Switching to Offboard is currently not available")
            return TEMPORARILY_REJECTED
        self.mode = mode
        return ACCEPTED

    def _govern(self, now: float) -> None:
        if not self.armed:
            return
        if self.mode == OFFBOARD:
            if now - self._setpoint_s > self.loss_s:
                self.failsafes += 1
                self.mode = AUTO_LAND
                self.say("Failsafe activated: no offboard signal")
            elif self.setpoints:
                self._follow(self.curve, self.setpoints[-1][1])
        elif self.mode == AUTO_LAND:
            self.airframe.hold(-0.7)
            if self.airframe.on_ground:
                self.armed = False
        else:
            self.airframe.hold(0.0)


class ArduPilot(Autopilot):
    """ArduPilot's copter: GUIDED and GUIDED_NOGPS; no ODOMETRY, thrust is a climb rate unless GUID_OPTIONS has 8."""

    number = 3
    version = (4, 5, 7)
    refusal = FAILED
    timeout_s = 3.0  # GUID_TIMEOUT

    def __init__(self, robot: Any = None, **options: Any) -> None:
        super().__init__(robot, **options)
        hover = self.robot.hover_speed_rad_s / self.robot.rotor_model.speed_max_rad_s
        self.curve, self.mode = 0.65, 0
        self.parameters = {
            "MOT_THST_HOVER": (1 - self.curve) * hover + self.curve * hover * hover,
            "MOT_THST_EXPO": self.curve,
            "GUID_OPTIONS": 8,
        }

    def _encoded(self, value: float | int, name: str) -> tuple[object, ...]:
        return float(value), 1, 0, name.encode(), INT32 if isinstance(value, int) else REAL32

    def _change_mode(self, p: list[float]) -> int:
        if int(p[1]) not in (0, 2, 4, 5, 6, 9, 20):
            return FAILED
        self.mode = int(p[1])
        return ACCEPTED

    def _govern(self, now: float) -> None:
        if not self.armed:
            return
        if self.mode in (4, 20) and self.setpoints:
            if now - self._setpoint_s > self.timeout_s:
                self.airframe.hold(0.0)
            elif int(self.parameters["GUID_OPTIONS"]) & 8:
                self._follow(self.curve, self.setpoints[-1][1])
            else:
                roll, pitch, yaw, climb = self.setpoints[-1][1]
                self.airframe.hold(5.0 * (climb - 0.5))
                self.airframe.wanted_rates = [roll, -pitch, -yaw]
        elif not self.airframe.on_ground:
            self.airframe.hold(-0.5 if self.mode == 9 else 0.0)

    def _stream(self, number: int) -> None:
        if number not in (331, 105):
            super()._stream(number)


PEER = Px4
