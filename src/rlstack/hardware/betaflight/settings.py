"""A flight controller's own settings: read once, and refused where rates and thrust would not do as they say."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rlstack.errors import UserError
from rlstack.hardware.betaflight import msp
from rlstack.hardware.betaflight.sticks import (
    ACTUAL_RATES,
    BETAFLIGHT_RATES,
    HIGH_US,
    LOW_US,
    RATES_TYPES,
    AxisRates,
)

Ask = Callable[[int], bytes]
"""Sends a command and returns its answer's payload; raises ``UserError`` if none comes."""

API = (1, 47)
"""The version of MSP that is known here: that of Betaflight 4.6 and 2025.12."""
ARM, ANGLE, HORIZON, MSP_OVERRIDE = 0, 1, 2, 50
"""Permanent numbers of modes."""
NOT_RATES = {
    ANGLE: "ANGLE",
    HORIZON: "HORIZON",
    3: "ALTHOLD",
    6: "HEADFREE",
    11: "POSHOLD",
    12: "PASSTHRU",
    27: "FAILSAFE",
    35: "FLIP OVER AFTER CRASH",
    46: "GPS RESCUE",
    47: "ACRO TRAINER",
}
"""Modes in which sticks are not body rates and throttle."""
_HARMLESS = frozenset({ARM, 4, 13, 15, 19, 20, 26, 28, 36, 39, 48, 52})
"""Modes that may be on together with ARM: lights, beepers, recorders, AIR MODE, PREARM."""
_QUAD_X = 3
_FEATURE_3D, _FEATURE_RX_MSP = 1 << 12, 1 << 14
_LANDINGS = {0: "AUTO-LAND", 2: "GPS-RESCUE"}
"""Procedures of its failsafe that do more than to stop the motors."""
_AUX = 4
"""Channels before the first AUX."""
_GYROSCOPES = 24
"""Gyroscopes that version 1.47 of MSP numbers."""
_70_MDEG = frozenset({3, 16, 17})
"""L3GD20, LSM6DSO and LSM6DSV16X: a unit is 0.07 degrees/s."""
_WIDE, _WIDE_IF_SET = frozenset({18, 22}), frozenset({7, 10})
"""IIM42653 and IIM42652 measure 4000 degrees/s with 16 bits; ICM20601 and ICM20649 with gyro_high_range."""


@dataclass(frozen=True)
class ModeRange:
    """A range of an AUX channel that turns a mode on."""

    mode: int
    aux: int
    low_us: int
    high_us: int

    def holds(self, pulse_us: int) -> bool:
        """Return whether a pulse width is in it."""
        return self.low_us <= pulse_us < self.high_us


@dataclass(frozen=True)
class Settings:
    """What was read, and what follows for the channels."""

    firmware: str
    board: str
    rates: tuple[AxisRates, AxisRates, AxisRates]
    """Of roll, pitch and yaw."""
    idle: float
    """Motor command at throttle 0, 0 to 1."""
    throttle_low_us: int
    """Pulse width up to which the throttle is 0."""
    middle_us: int
    places: tuple[int, int, int, int]
    """Where roll, pitch, yaw and throttle are among the channels."""
    modes: tuple[int, ...]
    """Permanent number of the mode that each flag of the status stands for."""
    armed_aux: Mapping[int, int]
    """Pulse widths by channel that arm; empty where the pilot's transmitter does."""
    disarmed_aux: Mapping[int, int]
    lands_by: str
    """Its failsafe's procedure where that does not simply drop the robot; empty where it does."""
    gyroscope_rad_s: float
    """Unit of its rates, rad/s."""

    @property
    def channels(self) -> int:
        """Number of channels to send."""
        return max((_AUX + 4, *(channel + 1 for channel in self.disarmed_aux)))


def read_settings(
    ask: Ask, *, board: str = "", pilot: bool = False, any_version: bool = False, gyroscope_deg_s: float = 0.0
) -> Settings:
    """Return the settings of a flight controller.

    Args:
        ask: How to ask it.
        board: The board that it must be; empty: any.
        pilot: Whether a pilot's transmitter arms, and hands over by the mode MSP OVERRIDE.
        any_version: Take another version of MSP, too.
        gyroscope_deg_s: Range of its gyroscope, degrees/s; 0: that of the sensor which it names.

    Raises:
        UserError: It is not Betaflight, another version or board, not a quadrotor X, or a setting does not allow
            rates and thrust; the message has the command of Betaflight's command line that changes it.
    """
    try:
        return _settings(ask, board, pilot, any_version, gyroscope_deg_s)
    except (struct.error, IndexError, ValueError) as error:
        raise UserError(f"The flight controller's settings have another layout than Betaflight's ({error}).") from error


def _settings(ask: Ask, board: str, pilot: bool, any_version: bool, gyroscope_deg_s: float) -> Settings:
    firmware, found = _firmware(ask, any_version), _board(ask)
    if board and board != found:
        raise UserError(
            f"The flight controller is a {found}, not the {board} that the URI names: is it the right robot?"
        )
    mixer, motors = ask(msp.MIXER_CONFIG)[0], ask(msp.MOTOR_CONFIG)[6]
    if mixer != _QUAD_X or motors != 4:
        raise UserError(f"The flight controller's mixer is number {mixer} with {motors} motors: must be QUADX with 4.")
    features = int(struct.unpack_from("<I", ask(msp.FEATURE_CONFIG))[0])
    modes = tuple(ask(msp.BOX_IDS))
    _check_receiver(features, modes, pilot)
    rx = ask(msp.RX_CONFIG)
    middle, low = struct.unpack_from("<HH", rx, 3)
    ranges = _ranges(ask(msp.MODE_RANGES))
    armed, disarmed = ({}, {}) if pilot else _aux(ranges)
    roll, pitch, yaw, throttle = ask(msp.RX_MAP)[:4]
    advanced = ask(msp.ADVANCED_CONFIG)
    return Settings(
        firmware=firmware,
        board=found,
        rates=_rates(ask(msp.RC_TUNING), ask(msp.RC_DEADBAND)),
        idle=struct.unpack_from("<H", advanced, 6)[0] / 1e4,
        throttle_low_us=max(int(low), LOW_US),
        middle_us=int(middle),
        places=(roll, pitch, yaw, throttle),
        modes=modes,
        armed_aux=armed,
        disarmed_aux=disarmed,
        lands_by=_LANDINGS.get(ask(msp.FAILSAFE_CONFIG)[7], ""),
        gyroscope_rad_s=math.radians(gyroscope_deg_s / 32768.0 or _gyroscope_deg_s(ask, bool(advanced[11]))),
    )


def _firmware(ask: Ask, any_version: bool) -> str:
    variant = ask(msp.FC_VARIANT)[:4].decode("ascii", "replace")
    version = ".".join(str(number) for number in ask(msp.FC_VERSION)[:3])
    if variant != "BTFL":
        raise UserError(f"The firmware is '{variant}' {version}: must be Betaflight ('BTFL').")
    api = tuple(ask(msp.API_VERSION)[1:3])
    if api != API and not any_version:
        raise UserError(
            f"The firmware is Betaflight {version} with MSP {api[0]}.{api[1]}, and this driver was tried with MSP"
            f" {API[0]}.{API[1]} (Betaflight 4.6 and 2025.12): flash that one, or add any_version=true to the URI."
        )
    return f"Betaflight {version}"


def _gyroscope_deg_s(ask: Ask, high_range: bool) -> float:
    """Return the unit, degrees/s, of the rates of the gyroscope that was found."""
    found = ask(msp.SENSORS_FOUND)[0]
    if not 2 <= found < _GYROSCOPES:
        raise UserError(
            f"The flight controller's gyroscope is number {found}, which is not known here: look its range up, and add"
            " gyroscope=2000 or gyroscope=4000 (degrees/s) to the URI."
        )
    if found in _70_MDEG:
        return 0.07
    return (4000.0 if found in _WIDE or (high_range and found in _WIDE_IF_SET) else 2000.0) / 32768.0


def _board(ask: Ask) -> str:
    """Return the board's name or, where the firmware has none, that of its target."""
    info, names, at = ask(msp.BOARD_INFO), [], 8
    for _ in range(2):
        names.append(info[at + 1 : at + 1 + info[at]].decode("ascii", "replace"))
        at += 1 + info[at]
    return names[1] or names[0]


def _check_receiver(features: int, modes: tuple[int, ...], pilot: bool) -> None:
    if features & _FEATURE_3D:
        raise UserError("The flight controller's feature 3D is on, whose throttle goes both ways: 'feature -3D', save.")
    if pilot and MSP_OVERRIDE not in modes:
        raise UserError(
            "pilot=true needs the mode MSP OVERRIDE: 'set msp_override_channels_mask = 15', give the mode a switch of"
            " the transmitter, save."
        )
    if not pilot and not features & _FEATURE_RX_MSP:
        raise UserError(
            "The flight controller's receiver is not MSP: choose it in Betaflight Configurator (tab Receiver); or add"
            " pilot=true to the URI, where a pilot's transmitter hands over by MSP OVERRIDE."
        )


def _rates(tuning: bytes, deadband: bytes) -> tuple[AxisRates, AxisRates, AxisRates]:
    (roll_rate, expo, *srates, _, mid, throttle_expo, _, yaw_expo, yaw_rate, pitch_rate, pitch_expo, limit, share) = (
        struct.unpack_from("<8BH6B", tuning)
    )
    *limits, kind = struct.unpack_from("<3HB", tuning, 16)
    hover = tuning[23] if len(tuning) > 23 else mid
    if kind not in (BETAFLIGHT_RATES, ACTUAL_RATES):
        named = RATES_TYPES[kind] if kind < len(RATES_TYPES) else str(kind)
        raise UserError(f"The rates type {named} is not supported: 'set rates_type = ACTUAL', save.")
    if throttle_expo or hover != mid:
        raise UserError(
            f"The throttle curve is bent (thr_mid {mid}, thr_hover {hover}, thr_expo {throttle_expo}), so that thrust"
            " would not be what is commanded: 'set thr_mid = 50', 'set thr_hover = 50', 'set thr_expo = 0', save."
        )
    if limit and share != 100:
        raise UserError(f"The throttle is limited to {share}%: 'set throttle_limit_type = OFF', save.")
    each = ((roll_rate, expo), (pitch_rate, pitch_expo), (yaw_rate, yaw_expo))
    made = [
        AxisRates(kind, rate, srate, bent, most, deadband[axis == 2])
        for axis, ((rate, bent), srate, most) in enumerate(zip(each, srates, limits))
    ]
    return made[0], made[1], made[2]


def _ranges(payload: bytes) -> list[ModeRange]:
    rows = struct.iter_unpack("<4B", payload)
    every = (ModeRange(mode, aux, 900 + 25 * low, 900 + 25 * high) for mode, aux, low, high in rows)
    return [one for one in every if one.low_us < one.high_us]


def _aux(ranges: list[ModeRange]) -> tuple[dict[int, int], dict[int, int]]:
    """Return the pulse widths by channel that arm and that disarm, with every mode off that is not harmless."""
    arming = [one for one in ranges if one.mode == ARM]
    if len(arming) != 1:
        raise UserError(
            f"The flight controller has {len(arming)} ranges for ARM: give it one, on an AUX channel of its own"
            " ('aux 0 0 0 1700 2100 0 0', save)."
        )
    aux = arming[0].aux
    used = sorted({one.aux for one in ranges})
    disarmed = {_AUX + channel: _pulse([one for one in ranges if one.aux == channel]) for channel in used}
    beside = [one for one in ranges if one.aux == aux and one.mode not in _HARMLESS]
    armed = {**disarmed, _AUX + aux: _pulse(beside, arming[0])}
    return armed, disarmed


def _pulse(off: list[ModeRange], on: ModeRange | None = None) -> int:
    for middle in range(LOW_US + 12, HIGH_US, 25):
        if not any(one.holds(middle) for one in off) and (on is None or on.holds(middle)):
            return middle
    named = ", ".join(sorted({NOT_RATES.get(one.mode, f"number {one.mode}") for one in off if one.mode != ARM}))
    raise UserError(
        f"No position of AUX{off[0].aux + 1} leaves the modes {named or 'ARM'} off{' and ARM on' if on else ''}: give"
        " ARM an AUX channel of its own."
    )
