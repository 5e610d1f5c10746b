"""An arm of servos on one bus, as a driver: see :class:`rlstack.hardware.linked_robot.LinkedRobot`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError, unknown_name
from rlstack.hardware.captures import OPTIONS, Captures
from rlstack.hardware.linked_robot import LinkedRobot, checked_options
from rlstack.hardware.serial_port import port_of
from rlstack.hardware.servos.bus import Answer, ServoBus
from rlstack.hardware.servos.calibration import MotorCalibration, TickScale, read_calibration, tick_scales
from rlstack.hardware.servos.kinds import Register, ServoKind
from rlstack.hardware.uri import parse_uri
from rlstack.interfaces.backend import Reading
from rlstack.interfaces.topics import JOINT_STATES
from rlstack.robots.joints import clip_targets

_LOW_VOLTAGE_S = 0.5
"""How long the voltage may be low: it dips while servos accelerate."""

_NEAR_C, _NEAR_LOAD = 5.0, 0.9
"""From how many degrees below the most, and from what share of the torque on, a servo is warned of."""


class ServoArm(LinkedRobot):
    """One arm. It is limp until its first command, which first sets every goal to where the joint is.

    Args:
        robot: The robot; its joints' names are those of the calibration.
        uri: The port and options, such as ``serial:///dev/ttyACM0?calibration=FILE``.

    Raises:
        UserError: The URI, an option or the calibration is refused, or the robot is not an arm.
    """

    KIND: ClassVar[ServoKind]
    sensed = ("joint_position", "joint_velocity")
    commanded = ("joint_target",)

    def __init__(self, robot: Any, *, uri: str = "") -> None:
        kind = self.KIND
        options: dict[str, Any] = {
            "baud": kind.baud,
            "calibration": "",
            "rate": 0.0,
            "torque": 1.0,
            "temperature_max": 60.0,
            "voltage_min": 4.5,
            "reverse": "",
            "range_tolerance": 0.3,
            "answer_ms": 8.0,
            **OPTIONS,
        }
        example = f"serial:///dev/ttyACM0?baud={kind.baud}&calibration=FILE"
        given = parse_uri(uri, self.NAME, {"serial": example}, options)
        checked_options(
            self.NAME,
            given.options,
            {
                "rate": (0.0, 1000.0),
                "torque": (0.01, 1.0),
                "temperature_max": (20.0, 80.0),
                "voltage_min": (0.0, 30.0),
                "range_tolerance": (0.0, 10.0),
                "answer_ms": (0.5, 200.0),
            },
        )
        if not robot.end_effector:
            raise UserError(f"{robot.name} is a {robot.kind}: the driver '{self.NAME}' moves arms, such as so100.")
        port = port_of(given, example)
        sensors = robot.sensors  # no oftener, as a command waits while the bus is read
        rate = sensors[JOINT_STATES].rate_hz if JOINT_STATES in sensors else robot.control_rate_hz
        super().__init__(robot, given.options["rate"] or rate, Captures(robot, given.options))
        self._options = given.options
        self._joints = robot.drives
        names = [joint.name for joint in self._joints]
        self._motors = read_calibration(given.options["calibration"], names, robot.name)
        self._scales = self._tick_scales(names)
        self._ids = [self._motors[name].id for name in names]
        self.bus = ServoBus(
            kind,
            port,
            given.options["baud"],
            dict(zip(self._ids, names)),
            1e-3 * given.options["answer_ms"],
        )
        """The bus; its ``latencies_s`` are measured."""
        self.state: dict[str, dict[str, float]] = {}
        """By joint: load (share of the most), voltage (V) and temperature (degrees Celsius) of the last reading."""
        self._present: dict[int, int] = {}
        """Ticks of the last reading."""
        self._low_since: float | None = None

    def _tick_scales(self, names: list[str]) -> list[TickScale]:
        turned = {name for name in self._options["reverse"].split(",") if name}
        for name in turned - set(names):
            raise unknown_name("joint in the option reverse", name, names)
        if self.KIND.drive_mode is None:  # the servo does not know its drive mode: ticks are to be turned here
            turned ^= {name for name in names if self._motors[name].drive_mode}
        return tick_scales(
            self._motors,
            self._joints,
            turned=turned,
            tolerance_rad=self._options["range_tolerance"],
            where=self._options["calibration"],
        )

    # Before anything moves ------------------------------------------------------------------------------------

    def _open(self) -> None:
        bus, kind = self.bus, self.KIND
        bus.open()
        bus.find()
        for one, mode in bus.setting(kind.mode).items():
            if mode not in kind.position_modes:
                known = ", ".join(f"{name} ({count})" for count, name in kind.position_modes.items())
                raise UserError(f"{bus.servo(one)} is in the operating mode {mode}, and must be in one of {known}.")
        self._same_calibration("homing_offset", kind.homing_offset, lambda motor: motor.homing_offset)
        self._same_calibration("range_min", kind.range_min, lambda motor: motor.range_min)
        self._same_calibration("range_max", kind.range_max, lambda motor: motor.range_max)
        if kind.drive_mode is not None:
            self._same_calibration("drive_mode", kind.drive_mode, lambda motor: motor.drive_mode, 0x01)
        versions = sorted(set(bus.setting(kind.firmware).values()))
        self.report["firmware"] = f"{kind.name}, version {', '.join(map(str, versions))}"
        self._present.clear()
        self._low_since = None
        end = time.monotonic() + 1.0
        while self._poll() is None and time.monotonic() < end:
            pass
        low = [
            f"{name} has {state['voltage']:.1f} V"
            for name, state in self.state.items()
            if state["voltage"] < self._options["voltage_min"]
        ]
        if low:
            raise UserError(
                f"{low[0]} on {bus.port_name}; voltage_min is {self._options['voltage_min']:.1f} V: check the supply."
            )
        if self.trouble:
            raise UserError(self.trouble)

    def _same_calibration(
        self, name: str, register: Register, wanted: Callable[[MotorCalibration], int], mask: int = -1
    ) -> None:
        motors = {motor.id: motor for motor in self._motors.values()}
        for one, count in self.bus.setting(register).items():
            if count & mask != wanted(motors[one]) & mask:
                raise UserError(
                    f"{self.bus.servo(one)} has {name} {count & mask}, and {self._options['calibration']} says"
                    f" {wanted(motors[one])}: it is the file of another arm, or the arm was calibrated again since."
                )

    # Every period ---------------------------------------------------------------------------------------------

    def _poll(self) -> Reading | None:
        kind, start = self.KIND, time.time()
        found = self.bus.read(kind.present)
        if missing := [one for one in self._ids if one not in found]:  # a lost packet costs one more question
            found |= self.bus.read(kind.present, missing)
        if len(found) < len(self._ids):
            return None
        took = time.time()
        answers = [found[one] for one in self._ids]
        self._present = {one: found[one].count(kind.position, kind.present[0]) for one in self._ids}
        velocity = self._counts(answers, kind.velocity)
        self._judge(answers)
        position = [scale.angle(self._present[one]) for scale, one in zip(self._scales, self._ids)]
        turns = np.sign([scale.rad_per_tick for scale in self._scales])
        signals = {"joint_position": np.array(position), "joint_velocity": turns * velocity}
        return Reading(0.5 * (start + took), signals)

    def health(self) -> tuple[str, dict[str, Any]]:
        """Return each servo's load, voltage and temperature, and a warning of one that is near a limit."""
        state, most = dict(self.state), self._options["temperature_max"]
        near = []
        for name, now in state.items():
            if now["temperature"] > most - _NEAR_C:
                near.append(f"{name} has {now['temperature']:.0f} degrees, {most:.0f} are allowed")
            if abs(now["load"]) > _NEAR_LOAD * self._options["torque"]:
                near.append(f"{name} has a load of {100.0 * abs(now['load']):.0f}%: does it press against something?")
        figures: dict[str, Any] = {
            name: f"load {100.0 * now['load']:.0f}%, {now['voltage']:.1f} V, {now['temperature']:.0f} degrees"
            for name, now in state.items()
        }
        if len(latencies := sorted(self.bus.latencies_s.copy())) > 1:
            figures["bus, median"] = f"{1e3 * latencies[len(latencies) // 2]:.1f} ms"
        return self.trouble or "; ".join(near), figures

    def _counts(self, answers: list[Answer], register: Register) -> Array:
        first = self.KIND.present[0]
        return np.array([register.unit * answer.count(register, first) for answer in answers])

    def _judge(self, answers: list[Answer]) -> None:
        """Note what servos report of themselves, and what of it forbids commands."""
        kind, most = self.KIND, self._options["temperature_max"]
        columns = [self._counts(answers, register) for register in (kind.load, kind.voltage, kind.temperature)]
        names = [joint.name for joint in self._joints]
        self.state = {
            name: {"load": float(load), "voltage": float(voltage), "temperature": float(temperature)}
            for name, load, voltage, temperature in zip(names, *columns)
        }
        troubles = []
        for one, answer in zip(self._ids, answers):
            if bits := answer.error & kind.alert:
                told = bits if kind.told else self._status(one)
                troubles.append(f"{self.bus.servo(one)} reports: {kind.error_names(told)}")
        for one, state in zip(self._ids, self.state.values()):
            if state["temperature"] > most:
                troubles.append(
                    f"{self.bus.servo(one)} has {state['temperature']:.0f} degrees, and {most:.0f} are allowed"
                )
        low = float(columns[1].min())
        if low >= self._options["voltage_min"]:
            self._low_since = None
        elif self._low_since is None:
            self._low_since = time.monotonic()
        elif time.monotonic() - self._low_since > _LOW_VOLTAGE_S:
            least = self._options["voltage_min"]
            troubles.append(
                f"{self.bus.servo(self._ids[int(columns[1].argmin())])} has {low:.1f} V, below {least:.1f} V"
            )
        self.trouble = "; ".join(troubles)

    def _status(self, one: int) -> int:
        answer = self.bus.read(self.KIND.status, [one]).get(one)
        return 0 if answer is None else self.KIND.status.decode(answer.data)

    # Moving ---------------------------------------------------------------------------------------------------

    def _limited(self, command: Array) -> Array:
        wanted = clip_targets(self._joints, command)
        return np.array([scale.angle(scale.ticks(angle)) for scale, angle in zip(self._scales, wanted.tolist())])

    def _power(self) -> None:
        """Set limits and goals, and only then the torque, so that no servo runs to an old goal."""
        kind, bus = self.KIND, self.bus
        if kind.watchdog is not None:
            bus.set(kind.watchdog, dict.fromkeys(self._ids, 0))  # one that has run out refuses goals
        speeds = {one: round(joint.velocity_max / kind.speed_limit.unit) for one, joint in zip(self._ids, self._joints)}
        bus.set(kind.speed_limit, speeds)
        bus.set(kind.effort_limit, dict.fromkeys(self._ids, round(self._options["torque"] / kind.effort_limit.unit)))
        scales = dict(zip(self._ids, self._scales))
        goals = {one: min(max(at, scales[one].low_ticks), scales[one].high_ticks) for one, at in self._present.items()}
        bus.set(kind.goal, goals)
        bus.set(kind.torque, dict.fromkeys(self._ids, 1))
        if kind.watchdog is not None:
            bus.set(kind.watchdog, dict.fromkeys(self._ids, round(WATCHDOG_S / kind.watchdog.unit)))

    def _send(self, command: Array) -> None:
        ticks = {one: scale.ticks(angle) for one, scale, angle in zip(self._ids, self._scales, command.tolist())}
        self.bus.write(self.KIND.goal, ticks)

    def _unpower(self) -> None:
        self.bus.require_open()
        kind = self.KIND
        for _ in range(3):  # at once, whatever is lost; then until they confirm it
            self.bus.write(kind.torque, dict.fromkeys(self._ids, 0))
        if kind.watchdog is not None:
            self.bus.write(kind.watchdog, dict.fromkeys(self._ids, 0))
        self.bus.set(kind.torque, dict.fromkeys(self._ids, 0))

    def _shut(self) -> None:
        self.bus.close()


WATCHDOG_S = 0.5
"""Time without packets after which servos that can stop by themselves."""
