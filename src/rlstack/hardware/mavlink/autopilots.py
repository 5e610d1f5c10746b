"""What PX4 and ArduPilot do differently: modes, when they let go of control, parameters and what thrust means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from rlstack.errors import UserError
from rlstack.robots.spec import STANDARD_GRAVITY

ODOMETRY, ATTITUDE_QUATERNION, LOCAL_POSITION_NED = 331, 31, 32
HIGHRES_IMU, SCALED_IMU, BATTERY_STATUS, HEARTBEAT = 105, 26, 147, 0
"""Numbers of the messages that are asked for."""


@dataclass(frozen=True)
class ThrustModel:
    """Thrust per mass to the autopilot's thrust, 0 to 1.

    Both autopilots take a thrust of t for the motor command c with t = (1 - curve) c + curve c^2, and a rotor lifts
    with the square of its speed, which follows the motor command. So a thrust per mass a needs c = c_hover sqrt(a / g).

    Args:
        hover: The autopilot's thrust in hover, 0 to 1.
        curve: 0 to 1: ``THR_MDL_FAC`` of PX4, ``MOT_THST_EXPO`` of ArduPilot.
    """

    hover: float
    curve: float

    @property
    def hover_command(self) -> float:
        """Motor command in hover, 0 to 1."""
        if self.curve == 0.0:
            return self.hover
        flat = 1.0 - self.curve
        return (math.sqrt(flat * flat + 4.0 * self.curve * self.hover) - flat) / (2.0 * self.curve)

    def of(self, acceleration_m_s2: float) -> float:
        """Return the thrust, 0 to 1, for a thrust per mass in m/s^2."""
        command = self.hover_command * math.sqrt(max(acceleration_m_s2, 0.0) / STANDARD_GRAVITY)
        return min(max((1.0 - self.curve) * command + self.curve * command * command, 0.0), 1.0)


@dataclass(frozen=True)
class Required:
    """A parameter that must have a value.

    Args:
        name: Its name.
        value: The value.
        why: What it then does.
        bits: Only the bits of ``value`` must be set.
    """

    name: str
    value: int
    why: str
    bits: bool = False

    def wanted(self, present: float) -> int:
        """Return what it must be changed to; the present value if that will do."""
        return int(present) | self.value if self.bits else self.value


@dataclass(frozen=True)
class Autopilot:
    """The rules of one autopilot."""

    name: str
    number: int
    """``MAV_AUTOPILOT``."""
    oldest: tuple[int, int]
    """First version that takes body rates with thrust as this driver sends them."""
    modes: Mapping[int, str]
    """Names of modes by number, the pilot's first."""
    by_hand: frozenset[int]
    """Modes in which a pilot's sticks fly."""
    guided: Mapping[str, int]
    """Modes in which it takes set-points, the usual one first."""
    stream_s: float
    """How long set-points must have come before it changes to that mode, s."""
    integers: Literal["bytes", "cast"]
    """How whole numbers travel in the float of PARAM_VALUE."""
    hover_parameter: str
    curve_parameter: str
    odometry: tuple[int, ...]
    """Messages of its state estimate, each wanted at the rate of odometry."""
    imu: int
    required: tuple[Required, ...]
    to_terminate: tuple[Required, ...]
    """What :meth:`parameters` requires always, and to terminate a flight."""

    def mode_name(self, mode: int) -> str:
        """Return a mode's name."""
        return self.modes.get(mode, f"mode {mode:#x}")

    def parameters(self, *, termination: bool) -> tuple[Required, ...]:
        """Return the parameters that must have a value."""
        return (*self.required, *(self.to_terminate if termination else ()))

    def check(self, required: Iterable[Required], values: Mapping[str, float]) -> None:
        """Raise ``UserError`` that names every parameter that must be changed, with both values."""
        wrong = [
            f"{one.name} is {int(values[one.name])}, must be {one.wanted(values[one.name])} ({one.why})"
            for one in required
            if one.wanted(values[one.name]) != int(values[one.name])
        ]
        if wrong:
            raise UserError(f"{self.name} is not set up for this driver: {'; '.join(wrong)}.")


def _px4(main: int, sub: int = 0) -> int:
    return main << 16 | sub << 24


PX4 = Autopilot(
    name="PX4",
    number=12,
    oldest=(1, 13),
    modes={
        _px4(1): "MANUAL",
        _px4(2): "ALTCTL",
        _px4(3): "POSCTL",
        _px4(5): "ACRO",
        _px4(7): "STABILIZED",
        _px4(6): "OFFBOARD",
        _px4(4, 1): "AUTO.READY",
        _px4(4, 2): "AUTO.TAKEOFF",
        _px4(4, 3): "AUTO.LOITER",
        _px4(4, 4): "AUTO.MISSION",
        _px4(4, 5): "AUTO.RTL",
        _px4(4, 6): "AUTO.LAND",
        _px4(10): "TERMINATION",
    },
    by_hand=frozenset(map(_px4, (1, 2, 3, 5, 7))),
    guided={"OFFBOARD": _px4(6)},
    stream_s=1.1,
    integers="bytes",
    hover_parameter="MPC_THR_HOVER",
    curve_parameter="THR_MDL_FAC",
    odometry=(ODOMETRY,),
    imu=HIGHRES_IMU,
    required=(),
    to_terminate=(Required("CBRK_FLIGHTTERM", 0, "its circuit breaker forbids to terminate a flight"),),
)

ARDUPILOT = Autopilot(
    name="ArduPilot",
    number=3,
    oldest=(4, 2),
    modes={
        0: "STABILIZE",
        1: "ACRO",
        2: "ALT_HOLD",
        5: "LOITER",
        13: "SPORT",
        16: "POSHOLD",
        3: "AUTO",
        4: "GUIDED",
        6: "RTL",
        9: "LAND",
        17: "BRAKE",
        20: "GUIDED_NOGPS",
        21: "SMART_RTL",
    },
    by_hand=frozenset({0, 1, 2, 5, 11, 13, 14, 16, 22}),
    guided={"GUIDED": 4, "GUIDED_NOGPS": 20},
    stream_s=0.0,
    integers="cast",
    hover_parameter="MOT_THST_HOVER",
    curve_parameter="MOT_THST_EXPO",
    odometry=(ATTITUDE_QUATERNION, LOCAL_POSITION_NED),
    imu=SCALED_IMU,
    required=(Required("GUID_OPTIONS", 8, "its thrust is thrust and not a climb rate", bits=True),),
    to_terminate=(),
)

AUTOPILOTS = {autopilot.number: autopilot for autopilot in (PX4, ARDUPILOT)}
