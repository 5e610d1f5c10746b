"""A Crazyflie that speaks CRTP over UDP (bitcraze.io: CRTP, commander, supervisor), one packet to a datagram.

Its rules: thrust is locked until a set-point without any; after 0.5 s without set-points it levels out, after 2 s its
motors stop; a tumbled one locks, and so does an emergency stop; a locked one must be restarted.
"""

from __future__ import annotations

import math
import os
import random
import socket
import struct
import tempfile
import threading
import time
from types import TracebackType
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.quadrotor.spec import load_quadrotor
from tests.support.peers import Misfit
from tests.support.peers._airframe import Airframe, G

TICK_S = 0.004
FORMATS = {1: "B", 2: "H", 3: "I", 4: "b", 5: "h", 6: "i", 7: "f"}
LOGGED = [
    *((f"stateEstimate.{name}", 7) for name in ("x", "y", "z", "vx", "vy", "vz", "roll", "pitch", "yaw")),
    *((f"stateEstimate.q{name}", 7) for name in "xyzw"),
    *((f"stateEstimateZ.{name}", 5) for name in ("x", "y", "z", "vx", "vy", "vz", "rateRoll", "ratePitch", "rateYaw")),
    *((f"acc.{name}", 7) for name in "xyz"),
    *((f"gyro.{name}", 7) for name in "xyz"),
    ("pm.vbat", 7),
    ("pm.batteryLevel", 1),
    ("pm.state", 4),
    ("supervisor.info", 2),
    ("stabilizer.thrust", 7),
]
PARAMETERS = [
    ("stabilizer.estimator", 8, 2),
    ("stabilizer.controller", 8, 1),
    ("flightmode.stabModeRoll", 8, 1),
    ("flightmode.stabModePitch", 8, 1),
    ("flightmode.stabModeYaw", 8, 0),
    ("flightmode.althold", 8, 0),
]
PARAMETER_FORMATS = {8: "B", 9: "H", 6: "f"}


class CrazyfliePeer:
    """Its own thread serves the link and moves the vehicle."""

    def __init__(self, robot: Any = None, *, brushless: bool = False, seed: int = 1) -> None:
        self.robot = robot or load_quadrotor("crazyflie_rates")
        self.airframe = Airframe(self.robot, self.robot.rate_loop.time_constant_s)
        self.brushless = brushless  # must be armed
        self.protocol, self.firmware = 12, "2025.02"
        self.magic = b"Bitcraze Crazyflie"
        self.logged, self.parameters = list(LOGGED), {name: [kind, value] for name, kind, value in PARAMETERS}
        self.locked = self.tumbled = False
        self.armed = not brushless
        self.loss = 0.0
        self.slow = 1
        self.deaf: set[tuple[int, int]] = set()  # ports and channels that are not heard
        self.poses: list[tuple[float, ...]] = []
        self.setpoints: list[tuple[float, float, float, int]] = []
        self.stops = self.emergencies = 0
        self.levelled = self.expired = 0
        self.landings: list[tuple[float, float]] = []  # heights and times of landings that were asked for
        self._handed_over = self._landing = False
        self._unlocked = False
        self._setpoint: tuple[float, float, float, int] = (0.0, 0.0, 0.0, 0)
        self._setpoint_s = -1e9
        self._watchdog_s: float | None = None
        self._stage = "none"
        self._blocks: dict[int, list[int]] = {}
        self._running: dict[int, tuple[float, float]] = {}
        self._boot = time.monotonic() - 16770.0  # the 24 bits of its stamps wrap 7 s after the start
        self._time_s = 0.0  # monotonic, of the vehicle
        self._random = random.Random(seed)
        self._linked = True
        self._peer: Any = None
        self._stop = threading.Event()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.002)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._cache = tempfile.TemporaryDirectory()
        self._cached = os.environ.get("XDG_CACHE_HOME")
        self.uri = f"udp://127.0.0.1:{self._socket.getsockname()[1]}"

    # Peer --------------------------------------------------------------------------------------------------------

    @property
    def powered(self) -> bool:
        return self.airframe.motors

    def __enter__(self) -> CrazyfliePeer:
        os.environ["XDG_CACHE_HOME"] = self._cache.name
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()
        if self._cached is None:
            os.environ.pop("XDG_CACHE_HOME", None)
        else:
            os.environ["XDG_CACHE_HOME"] = self._cached
        self._cache.cleanup()

    def rest(self) -> dict[str, Array]:
        return {"rates_thrust": np.array([0.0, 0.0, 0.0, 0.3 * G])}

    def misfits(self) -> dict[str, Misfit | str]:
        estimator = self.parameters["stabilizer.estimator"]
        return {
            "in use": "a radio that another program has is refused by its library",
            "answers twice": "answers of two with one address cannot be told apart",
            "firmware": Misfit(("protocol 3", "needs 4"), lambda: setattr(self, "protocol", 3)),
            "calibration": Misfit(("stabilizer.estimator is 1", "must be 2"), lambda: estimator.__setitem__(1, 1)),
            "joints": "it does not tell its motors, and has four",
            "limits": "it tells no limits of its rates",
            "mass": Misfit(("hover_thrust=9000", "hovers at about"), uri=f"{self.uri}?hover_thrust=9000"),
        }

    def lose_link(self) -> None:
        self._linked = False

    def regain_link(self) -> None:
        self._linked = True

    def send_noise(self, data: bytes) -> None:
        if self._peer:
            self._socket.sendto(data, self._peer)

    # The link ----------------------------------------------------------------------------------------------------

    def _send(self, port: int, channel: int, data: bytes) -> None:
        assert len(data) <= 30
        if self._peer and self._linked and self._random.random() >= self.loss:
            self._socket.sendto(bytes([port << 4 | 0x0C | channel]) + data, self._peer)

    def _run(self) -> None:
        self._time_s = time.monotonic()
        while not self._stop.is_set():
            try:
                data, sender = self._socket.recvfrom(256)
                if self._linked and data and self._random.random() >= self.loss:
                    self._peer = sender
                    port, channel = data[0] >> 4, data[0] & 3
                    if (port, channel) not in self.deaf:
                        self._receive(port, channel, data[1:])
            except (TimeoutError, ConnectionError):
                pass
            now = time.monotonic()
            self._time_s = max(self._time_s, now - 0.5)
            while self._time_s < now:  # a vehicle does not stall with this process: what is late has its own time
                step = min(TICK_S, now - self._time_s)
                self._govern(self._time_s)
                self.airframe.advance(step)
                self._time_s += step
                for number, (period, due) in list(self._running.items()):
                    if self._time_s >= due:
                        self._running[number] = (period, max(due + period, self._time_s - period))
                        self._log(number, self._time_s)

    def _receive(self, port: int, channel: int, data: bytes) -> None:
        if port == 15 and channel == 0:
            self._send(15, 0, data)
        elif port == 15 and channel == 1:
            self._send(15, 1, self.magic.ljust(30, b"\0"))
        elif port == 13 and channel == 1:
            value = bytes([self.protocol]) if data[0] == 0 else self.firmware.encode() + b"\0"
            self._send(13, 1, data[:1] + value)
        elif (port, channel) in ((13, 0), (9, 1)) and data[0] == 1:
            self._arm(bool(data[1]))
        elif (port, channel) in ((6, 1), (9, 1)) and data[0] == 3:
            self.emergencies += 1
            self.locked = True
        elif (port, channel) in ((6, 1), (9, 1)) and data[0] == 4:
            self._watchdog_s = time.monotonic()
        elif port == 6 and channel == 1 and data[0] == 8:
            self.poses.append(struct.unpack("<7f", data[1:29]))
        elif port == 4 and channel == 0:  # no memories
            self._send(4, 0, bytes([data[0], 0]))
        elif port in (2, 5) and channel == 0:
            self._table(port, data)
        elif port == 2:
            self._parameter(channel, data)
        elif port == 5 and channel == 1:
            self._settings(data)
        elif port == 3:
            self._command(struct.unpack("<fffH", data[:14]))
        elif port == 7 and channel == 0 and data[0] == 0:
            self.stops += 1
            self._landing = False
            self._setpoint, self._setpoint_s = (0.0, 0.0, 0.0, 0), time.monotonic()

        elif port == 7 and channel == 1 and data[0] == 0:  # no more set-points: the high-level commander's turn
            self._handed_over = True
        elif port == 8 and data[0] == 8 and self._handed_over:
            _, _, height, _, _, seconds = struct.unpack("<BBff?f", data[:15])
            self.landings.append((height, seconds))
            self._landing = True

    def _table(self, port: int, data: bytes) -> None:
        rows = self.logged if port == 5 else [(name, kind) for name, (kind, _) in self.parameters.items()]
        if data[0] == 3:
            self._send(port, 0, struct.pack("<BHI", 3, len(rows), 0xC0FFEE + len(rows)))
        elif data[0] == 2 and (number := int.from_bytes(data[1:3], "little")) < len(rows):
            name, kind = rows[number]
            words = b"\0".join(word.encode() for word in name.split(".")) + b"\0"
            self._send(port, 0, struct.pack("<BHB", 2, number, kind) + words)

    def _parameter(self, channel: int, data: bytes) -> None:
        number = int.from_bytes(data[:2], "little")
        entry = list(self.parameters.values())[number]
        layout = "<" + PARAMETER_FORMATS[entry[0]]
        if channel == 2:
            entry[1] = struct.unpack(layout, data[2:])[0]
            self._send(2, 2, data)
        elif channel == 1:
            self._send(2, 1, data[:2] + b"\0" + struct.pack(layout, entry[1]))

    def _settings(self, data: bytes) -> None:
        command, number, error = data[0], data[1] if len(data) > 1 else 0, 0
        if command == 5:
            self._blocks.clear()
            self._running.clear()
        elif command == 6:
            error = 17 if number in self._blocks else 0
            entries = [struct.unpack("<BH", data[k : k + 3]) for k in range(2, len(data), 3)]
            if sum(struct.calcsize(FORMATS[kind & 15]) for kind, _ in entries) > 26:
                error = 7
            elif any(self.logged[entry][1] != kind & 15 for kind, entry in entries):
                error = 2
            else:
                self._blocks[number] = [entry for _, entry in entries]
        elif command == 3:
            error = 0 if number in self._blocks else 2
            if not error:
                self._running[number] = (data[2] / 100.0 * self.slow, time.monotonic())
        self._send(5, 1, bytes([command, number, error]))

    def _log(self, number: int, now: float) -> None:
        stamp = int((now - self._boot) * 1e3) & 0xFFFFFF
        values = self._values()
        rows = [self.logged[entry] for entry in self._blocks[number]]
        data = b"".join(struct.pack("<" + FORMATS[kind], values.get(name, 0)) for name, kind in rows)
        self._send(5, 2, bytes([number]) + stamp.to_bytes(3, "little") + data)

    def _values(self) -> dict[str, Any]:
        body = self.airframe
        p, q, r = body.rates
        found: dict[str, Any] = {"pm.vbat": 3.9, "pm.batteryLevel": 71, "supervisor.info": self.info}
        found["stabilizer.thrust"] = float(self._thrust() if body.motors else 0)
        for axis, place, speed, force, rate in zip("xyz", body.position, body.velocity, body.force, body.rates):
            found |= {f"stateEstimateZ.{axis}": round(1e3 * place), f"stateEstimateZ.v{axis}": round(1e3 * speed)}
            found |= {f"acc.{axis}": force / G, f"gyro.{axis}": math.degrees(rate)}
        found |= {f"stateEstimate.q{axis}": value for axis, value in zip("xyzw", body.q)}
        rates = {"rateRoll": p, "ratePitch": -q, "rateYaw": r}
        return found | {f"stateEstimateZ.{name}": round(1e3 * value) for name, value in rates.items()}

    # The vehicle -------------------------------------------------------------------------------------------------

    @property
    def info(self) -> int:
        fine = not (self.locked or self.tumbled)
        bits = [
            self.brushless and fine and not self.armed,
            self.armed and fine,
            not self.brushless,
            self.armed and fine,
            not self.airframe.on_ground,
            self.tumbled,
            self.locked,
            False,
        ]
        return sum(1 << k for k, bit in enumerate(bits) if bit)

    def _arm(self, on: bool) -> None:
        if self.brushless and not self.locked:
            self.armed = on

    def _command(self, setpoint: tuple[float, float, float, int]) -> None:
        self._setpoint, self._setpoint_s = setpoint, time.monotonic()
        self._landing = self._handed_over = False
        self.setpoints.append(setpoint)
        if setpoint[3] == 0:
            self._unlocked = True

    def _thrust(self) -> int:
        thrust = self._setpoint[3]
        return 0 if thrust < 1000 or not self._unlocked else min(thrust, 60000)

    def _govern(self, now: float) -> None:
        body, age = self.airframe, now - self._setpoint_s
        if self._watchdog_s is not None and now - self._watchdog_s > 1.0 and not self.locked:
            self.locked = True
            self.emergencies += 1
        if body.up < -0.5:
            self.tumbled = True
        if self.tumbled:
            self.locked = True
        if self._landing and not self.locked:
            body.hold(-0.4)
            body.motors = not body.on_ground
            self._landing = body.motors
            self._setpoint_s = -1e9
            return
        stage = "none" if age > 2.0 else "level" if age > 0.5 else "fresh"
        if stage != self._stage and self._stage != "none":
            self.levelled += stage == "level"
            self.expired += stage == "none"
        self._stage = stage
        if self.locked or not self.armed or stage == "none":
            body.motors = False
            if stage == "none":
                self._unlocked = False
            return
        thrust = self._thrust()
        body.motors = thrust > 0
        body.wanted_thrust = thrust / 65536 * 0.060 * G / self.robot.body.mass_kg
        modes = [self.parameters[f"flightmode.stabMode{axis}"][1] for axis in ("Roll", "Pitch", "Yaw")]
        if stage == "level" or any(modes[:2]):
            down = body.into_body([0.0, 0.0, 1.0])
            body.wanted_rates = [-5.0 * down[1], 5.0 * down[0], 0.0]
        else:  # degrees/s; pitch and yaw of its commander turn the other way
            roll, pitch, yaw = (math.radians(value) for value in self._setpoint[:3])
            body.wanted_rates = [roll, -pitch, -yaw]


PEER = CrazyfliePeer
