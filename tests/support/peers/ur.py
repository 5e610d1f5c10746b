"""A UR5e's controller: RTDE version 2, the secondary client interface, and a controller that runs URScript.

After Universal Robots' guides of RTDE, of the client interfaces and of URScript. A program that is sent is translated
line by line and really runs, once for every time step; what it calls and this has not is an error of the program. Rules
of the real thing: programs are taken in remote control alone, and a new one ends the old one; a set-point that jumps is
a protective stop; a watchdog of RTDE ends the program; both stops and the emergency stop end it, and only a person
clears them; an input register belongs to one client.
"""

from __future__ import annotations

import contextlib
import math
import re
import socket
import struct
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.manipulator.spec import Manipulator
from tests.support.peers import Misfit

STEP_S = 0.008
LAG_S = 0.05
SPEED = math.pi
DH_A = (0.0, -0.425, -0.3922, 0.0, 0.0, 0.0)
DH_D = (0.1625, 0.0, 0.0, 0.1333, 0.0997, 0.0996)
DH_ALPHA = (math.pi / 2, 0.0, 0.0, math.pi / 2, -math.pi / 2, 0.0)
NORMAL, PROTECTIVE, EMERGENCY = 1, 3, 7
OUTPUTS = {
    "timestamp": "DOUBLE",
    "actual_q": "VECTOR6D",
    "actual_qd": "VECTOR6D",
    "robot_mode": "INT32",
    "safety_mode": "INT32",
    "speed_scaling": "DOUBLE",
    "payload": "DOUBLE",
    **{f"output_int_register_{k}": "INT32" for k in range(48)},
}
INPUTS = {f"input_int_register_{k}": "INT32" for k in range(48)} | {
    f"input_double_register_{k}": "DOUBLE" for k in range(48)
}
LETTERS = {"DOUBLE": "d", "VECTOR6D": "6d", "INT32": "i"}


class Ended(Exception):
    """The program is over."""


def translated(program: str) -> str:
    """Return a program in URScript as Python: its blocks end with ``end``, Python's with their indentation."""
    lines, depth = [], 0
    for line in program.splitlines():
        text = line.split("#")[0].strip()
        if not text:
            continue
        if text == "end":
            depth -= 1
            continue
        outer = depth - 1 if re.match(r"(elif\b.*|else)\s*:$", text) else depth
        lines.append("  " * outer + text)
        depth = outer + 1 if text.endswith(":") else outer
    assert depth == 0, "a block has no end"
    return "\n".join(lines)


class UrPeer:
    """One arm on a network of its own."""

    def __init__(self) -> None:
        self.robot = Manipulator.load("ur5e")
        self.joints = [joint.rest for joint in self.robot.drives[:6]]
        self.speeds = [0.0] * 6
        self.goal = list(self.joints)
        self.safety_mode, self.robot_mode, self.payload = NORMAL, 7, 1.2
        self.speed_limit, self.reach_limit, self.forearm = SPEED, math.radians(363.0), DH_A[2]
        self.remote, self.version, self.taken = True, (5, 15, 0, 1), ""
        self.programs: list[str] = []
        self.watchdog_stops = 0
        self.error = ""
        self._registers: dict[str, Any] = dict.fromkeys(INPUTS, 0) | {f"output_int_register_{k}": 0 for k in range(48)}
        self._silent: dict[str, float] = {}
        self._watchdogs: dict[str, float] = {}
        self._program: threading.Thread | None = None
        self._generation = 0
        self._lost = self._over = False
        self._links: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.RLock()
        self._servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self._ports = [server.getsockname()[1] for server in self._servers]

    @property
    def uri(self) -> str:
        return f"rtde://127.0.0.1:{self._ports[0]}?script_port={self._ports[1]}&gripper=fixed"

    @property
    def script_port(self) -> int:
        return int(self._ports[1])

    @property
    def powered(self) -> bool:
        """Whether a program follows targets."""
        return (
            self._program is not None and self._program.is_alive() and bool(self._registers["output_int_register_24"])
        )

    def __enter__(self) -> UrPeer:
        for server, serve in zip(self._servers, (self._rtde, self._client)):
            self._run(self._accept, server, serve)
        self._run(self._move)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._generation += 1
        for one in (*self._servers, *self._links):
            one.close()
        for thread in self._threads:
            thread.join(5.0)
        assert not self.error, self.error

    def rest(self) -> dict[str, Array]:
        return {"joint_target": np.array([joint.rest for joint in self.robot.drives])}

    def misfits(self) -> dict[str, Misfit | str]:
        def becomes(name: str, value: object) -> Callable[[], None]:
            return lambda: setattr(self, name, value)

        register = "input_int_register_24"
        return {
            "in use": Misfit(("another client uses", register), becomes("taken", register)),
            "answers twice": "one controller is at an address",
            "firmware": Misfit(("PolyScope 3.15", "5.11"), becomes("version", (3, 15, 0, 1))),
            "calibration": "it is calibrated by its maker, and its links are compared",
            "joints": Misfit(("is not a ur5e", "1.024 m from its axis", "0.850"), becomes("forearm", -0.5723)),
            "limits": Misfit(("2.000 rad/s", "3.142"), becomes("speed_limit", 2.0)),
            "mass": Misfit(("0.00 kg", "1.20 kg"), becomes("payload", 0.0)),
        }

    def lose_link(self) -> None:
        self._lost = True

    def regain_link(self) -> None:
        self._lost = False

    def send_noise(self, data: bytes) -> None:
        with self._lock:
            for link in list(self._links):
                with contextlib.suppress(OSError):
                    link.sendall(data)

    def stop(self, safety_mode: int) -> None:
        """Stop as the safety system does, or be cleared again."""
        self.safety_mode = safety_mode
        if safety_mode != NORMAL:
            self._generation += 1

    # Sockets ---------------------------------------------------------------------------------------------------

    def _run(self, work: Callable[..., None], *given: Any) -> None:
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, server: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        server.settimeout(0.05)
        while not self._over:
            try:
                link, _ = server.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            if self._lost:
                link.close()
                continue
            self._run(self._guarded, serve, link)

    def _guarded(self, serve: Callable[[socket.socket], None], link: socket.socket) -> None:
        link.settimeout(0.004)
        try:
            serve(link)
        except (OSError, struct.error):
            pass
        finally:
            with self._lock:
                if link in self._links:
                    self._links.remove(link)
            link.close()

    def _rtde(self, link: socket.socket) -> None:
        came, outputs, inputs, period, due, started = b"", [], [], STEP_S, 0.0, False
        self._links.append(link)
        while not self._over:
            try:
                data = link.recv(4096)
                if not data:
                    return
                came += b"" if self._lost else data
            except TimeoutError:
                pass
            while len(came) >= 3 and len(came) >= (size := struct.unpack(">H", came[:2])[0]):
                kind, carried, came = chr(came[2]), came[3:size], came[size:]
                if kind == "V":
                    answer = b"\x01" if carried == b"\x00\x02" else b"\x00"
                elif kind == "v":
                    answer = struct.pack(">4I", *self.version)
                elif kind == "O":
                    outputs = carried[8:].decode().split(",")
                    period = 1.0 / struct.unpack(">d", carried[:8])[0]
                    answer = b"\x01" + ",".join(OUTPUTS.get(name, "NOT_FOUND") for name in outputs).encode()
                elif kind == "I":
                    inputs = carried.decode().split(",")
                    types = ["IN_USE" if name == self.taken else INPUTS.get(name, "NOT_FOUND") for name in inputs]
                    answer = b"\x01" + ",".join(types).encode()
                elif kind == "S":
                    answer, started = b"\x01", True
                elif kind == "U":
                    layout = ">B" + "".join(LETTERS[INPUTS[name]] for name in inputs)
                    for name, value in zip(inputs, struct.unpack(layout, carried)[1:]):
                        self._registers[name] = value
                        self._silent[name] = 0.0
                    continue
                else:
                    return
                self._say(link, kind, answer)
            if started and not self._lost and time.monotonic() >= due:
                due = time.monotonic() + period
                self._say(link, "U", b"\x01" + b"".join(self._field(name) for name in outputs))

    def _say(self, link: socket.socket, kind: str, carried: bytes) -> None:
        with self._lock:
            link.sendall(struct.pack(">HB", 3 + len(carried), ord(kind)) + carried)

    def _field(self, name: str) -> bytes:
        values = {
            "timestamp": time.perf_counter(),
            "actual_q": self.joints,
            "actual_qd": self.speeds,
            "robot_mode": self.robot_mode,
            "safety_mode": self.safety_mode,
            "speed_scaling": 1.0,
            "payload": self.payload,
        }
        value = values[name] if name in values else self._registers[name]
        return struct.pack(">" + LETTERS[OUTPUTS[name]], *(value if isinstance(value, list) else [value]))

    def _client(self, link: socket.socket) -> None:
        came, due = b"", 0.0
        while not self._over:
            if time.monotonic() >= due:
                due = time.monotonic() + 0.1
                link.sendall(self._state())
            try:
                data = link.recv(65536)
            except TimeoutError:
                continue
            if not data:
                return
            came += data
            if came.endswith(b"\nend\n"):
                if self.remote and self.safety_mode == NORMAL and self.robot_mode == 7:
                    self._start(came.decode())
                came = b""

    def _state(self) -> bytes:
        ranges = [-self.reach_limit, self.reach_limit] * 6
        speeds = [self.speed_limit, 40.0] * 6
        a = [*DH_A[:2], self.forearm, *DH_A[3:]]
        body = struct.pack(">12d12d5d", *ranges, *speeds, 1.4, 1.05, 0.5, 0.5, 1.0)
        body += struct.pack(">24d4i", *a, *DH_D, *DH_ALPHA, *[0.0] * 6, 3, 4, 2, 1)
        parts = struct.pack(">IB", 9, 99) + b"else" + struct.pack(">IB", 5 + len(body), 6) + body
        return struct.pack(">IB", 8, 20) + b"old" + struct.pack(">IB", 5 + len(parts), 16) + parts

    # The arm and its program -----------------------------------------------------------------------------------

    def _start(self, text: str) -> None:
        self.programs.append(text)
        self._generation += 1
        self._watchdogs.clear()
        if self._program is not None:
            self._program.join(1.0)
        self._registers["output_int_register_24"] = 0
        self._program = threading.Thread(target=self._interpret, args=(text, self._generation), daemon=True)
        self._threads.append(self._program)
        self._program.start()

    def _interpret(self, text: str, generation: int) -> None:
        def pause() -> None:
            time.sleep(STEP_S)
            for name, longest in self._watchdogs.items():  # in time steps: all of it may be held up on a busy machine
                self._silent[name] += STEP_S
                if self._silent[name] > longest:
                    self.watchdog_stops += 1
                    raise Ended
            if generation != self._generation:
                raise Ended

        def servoj(q: list[float], a: float, v: float, t: float, lookahead_time: float, gain: float) -> None:
            assert 0.03 <= lookahead_time <= 0.2 and 100 <= gain <= 2000 and t == STEP_S
            if max(abs(one - other) for one, other in zip(q, self.goal)) > 1.5 * self.speed_limit * STEP_S:
                self.stop(PROTECTIVE)
                raise Ended
            self.goal = list(q)
            pause()

        def stopj(a: float) -> None:
            self.goal = list(self.joints)
            pause()

        def rtde_set_watchdog(variable: str, least_hz: float, action: str) -> None:
            assert action in ("ignore", "pause", "stop") and variable in INPUTS
            self._watchdogs[variable] = 1.0 / least_hz
            self._silent[variable] = 0.0

        def write_output_integer_register(k: int, value: int) -> None:
            self._registers[f"output_int_register_{k}"] = value

        known = {
            "sync": pause,
            "servoj": servoj,
            "stopj": stopj,
            "rtde_set_watchdog": rtde_set_watchdog,
            "get_steptime": lambda: STEP_S,
            "get_actual_joint_positions": lambda: list(self.joints),
            "read_input_integer_register": lambda k: self._registers[f"input_int_register_{k}"],
            "read_input_float_register": lambda k: self._registers[f"input_double_register_{k}"],
            "write_output_integer_register": write_output_integer_register,
            "__builtins__": {},
        }
        try:
            exec(translated(text), known)
            main = re.match(r"\s*def (\w+)\(", text)
            assert main is not None
            known[main[1]]()  # type: ignore[operator]
        except Ended:
            self.goal = list(self.joints)
        except Exception as error:
            self.error = f"{error!r} in the program"
        finally:
            if self._program is threading.current_thread():
                self._registers["output_int_register_24"] = 0

    def _move(self) -> None:
        last = time.monotonic()
        while not self._over:
            time.sleep(STEP_S)
            now = time.monotonic()
            share = 1.0 - math.exp(-(now - last) / LAG_S)
            before, self.joints = self.joints, [at + share * (to - at) for at, to in zip(self.joints, self.goal)]
            self.speeds = [(one - other) / (now - last) for one, other in zip(self.joints, before)]
            last = now


PEER = UrPeer
