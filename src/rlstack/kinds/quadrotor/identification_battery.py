"""A quadrotor's battery from what it says of itself in flight: :mod:`rlstack.sim.physics.battery`'s numbers.

- ``internal_resistance``: by how much the voltage falls when the current rises. The slow fall by the charge that was
  drawn is a parabola of its own in each recording, so that the cell's curve does not matter.
- ``hover_power``: voltage times current against the rotors' power by momentum theory, from their speeds.
- ``capacity``: the charge that was drawn against the share of it that the battery says is left.
- ``full_speed_voltage``: rotors that are commanded their highest speed and do not reach it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.identification.motion_model import Z90, Estimate, Parameter
from rlstack.identification.recorded import Recorded, Track
from rlstack.kinds.quadrotor.identification_parameters import thrust_coefficients
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.physics.battery import electrical_power

BATTERY = ("battery_voltage", "battery_current", "battery_percentage")
METHOD = "the battery's voltage and current in flight"

_NEEDED = 0.1
"""Largest half width of an interval, as a share, with which a number counts as told."""
_FLOOR = 0.005
"""Least standard deviation, as a share: no fuel gauge is surer of its current."""
_LEAST = 30
"""Messages from which anything is told."""
_BLOCKS = 10
"""Pieces of a recording whose errors count as independent: gauges filter."""
_FLIES = 0.6
"""Thrust over weight above which the robot flies."""
_EMPTY = 0.02
"""Share of the charge at which a gauge may stay, although more is drawn."""
_TOP, _HELD_S = 0.99, 0.2
"""Share of the highest speed that counts as commanded, and for how long: several lags of a motor."""
_SHORT = 0.99
"""Share of the command below which a rotor does not reach it."""


def battery_estimates(
    robot: Quadrotor, recordings: Sequence[Recorded], estimates: Mapping[str, Estimate]
) -> list[Estimate]:
    """Return what recordings tell of the battery; nothing where the robot's file has none.

    Args:
        robot: The robot file.
        recordings: Those with the topic ``battery`` tell of it.
        estimates: What the motion told.
    """
    if robot.battery is None:
        return []
    parameters = {
        name: Parameter(name, unit, getattr(robot.battery, key), ("battery", key), True, 1.0, _NEEDED, "")
        for name, key, unit in (
            ("internal_resistance", "internal_resistance_ohm", "ohm"),
            ("hover_power", "hover_power_w", "W"),
            ("capacity", "capacity_ah", "A h"),
            ("full_speed_voltage", "full_speed_voltage_v", "V"),
        )
    }
    flights = [_Flight(robot, one, estimates) for one in recordings if len(one.tracks.get("battery", ())) >= _LEAST]
    flights = [flight for flight in flights if flight.measured]
    if not flights:
        why = "the recording has no battery with voltage and current: record the topic battery"
        return [Estimate(one, one.value, None, "kept", why) for one in parameters.values()]
    found = {
        "internal_resistance": (_resistance(flights), "climbs and descents, whose currents differ"),
        "hover_power": (_power(flights), "half a minute of flight"),
        "capacity": (
            _capacity(flights),
            "a flight that uses a quarter of the charge, and a gauge that says the share that is left",
        ),
        "full_speed_voltage": (
            _full_speed(robot, flights),
            "climbs at full throttle, with the rotors' speeds, until the battery no longer drives them to their top",
        ),
    }
    return [_estimate(parameters[name], *one) for name, one in found.items()]


def _estimate(parameter: Parameter, told: tuple[float, float] | None, motion: str) -> Estimate:
    """Return the estimate of (value, standard deviation), or why it is none."""
    if told is None or told[0] <= 0.0:
        return Estimate(parameter, parameter.value, None, "kept", f"the recording does not tell it: record {motion}")
    value, deviation = told
    half = Z90 * float(np.hypot(deviation / value, _FLOOR))
    if half > _NEEDED:
        wide = f"{100.0 * min(half, 9.99):.0f}%"
        why = f"the recording tells it to {wide} only (at most {100.0 * _NEEDED:.0f}% are wanted): record {motion}"
        return Estimate(parameter, parameter.value, None, "kept", why)
    ends = value * math.exp(-half), value * math.exp(half)
    return Estimate(parameter, value, ends, "told", "", METHOD)


class _Flight:
    """The battery's messages of one recording while the robot flies."""

    def __init__(self, robot: Quadrotor, recorded: Recorded, estimates: Mapping[str, Estimate]) -> None:
        track = recorded.tracks["battery"]
        voltage, current, charge = (track.values[name][:, 0] for name in BATTERY)
        mass, model = estimates["mass"].value, robot.rotor_model
        coefficients = thrust_coefficients(
            robot, np.array(estimates["thrust"].value), np.array(estimates["thrust_power"].value)
        )
        self._speeds = recorded.tracks.get("joint_states")
        self._sent = recorded.tracks["cmd/rotors"]
        source, name = self._sent, "rotor_speed"
        if self._speeds is not None:
            source, name = self._speeds, "measured_rotor_speed"
        speeds = np.clip(source.values[name].T, 0.0, model.speed_max_rad_s)
        thrust = np.maximum(coefficients[0] + speeds * (coefficients[1] + speeds * coefficients[2]), 0.0)
        thrust *= robot.thrust_factors[:, None]
        weight = mass * STANDARD_GRAVITY
        power = electrical_power(thrust, weight / len(thrust), 1.0)  # over that of a hover
        share, lift = (np.interp(track.time_s, source.time_s, row) for row in (power, thrust.sum(axis=0)))
        flies = lift > _FLIES * weight
        good = flies & np.isfinite(voltage) & np.isfinite(current) & (current < 0.0)
        self.measured = int(good.sum()) >= _LEAST
        self.time_s = track.time_s[good]
        self.voltage, self.current, self.charge = voltage[good], -current[good], charge[good]
        self.share = share[good]
        # charge that was drawn, A h, also while it did not fly; between two messages the current follows the rotors
        every, lasts = np.nan_to_num(-current), np.diff(track.time_s)
        steps = 0.5 * (every[1:] + every[:-1]) * lasts
        done = np.concatenate([[0.0], np.cumsum(0.5 * (power[1:] + power[:-1]) * np.diff(source.time_s))])
        worked = np.diff(np.interp(track.time_s, source.time_s, done))
        over = np.where(good, every / np.maximum(share, 1e-9), np.nan)  # A for each hover power
        followed = 0.5 * (over[1:] + over[:-1]) * worked
        steps = np.where(np.isfinite(followed), followed, steps)
        self.drawn = np.concatenate([[0.0], np.cumsum(steps / 3600.0)])[good]

    def short(self, highest: float) -> Array:
        """Return the voltages at which a rotor would reach its highest speed, of all times when one did not."""
        speeds = self._speeds
        if speeds is None:
            return np.empty(0)
        found = []
        held = _held(self._sent, _TOP * highest)
        for at_s, volts in zip(self.time_s, self.voltage):
            rotors = held(float(at_s))
            near = int(np.argmin(np.abs(speeds.time_s - at_s)))
            reached = speeds.values["measured_rotor_speed"][near]
            found += [volts * highest / one for one in reached[rotors] if 0.0 < one < _SHORT * highest]
        return np.array(found)


def _held(sent: Track, least: float) -> Any:
    """Return which rotors (rotors,) were commanded at least a speed for a while before a time."""

    def held(at_s: float) -> Any:
        inside = (sent.time_s > at_s - _HELD_S) & (sent.time_s <= at_s)
        rows = sent.values["rotor_speed"][inside]
        return (rows >= least).all(axis=0) if len(rows) > 1 else np.zeros(rows.shape[1], dtype=bool)

    return held


def _slope(columns: Array, wanted: Array, pieces: Array) -> tuple[float, float] | None:
    """Return the first column's coefficient of a least-squares fit, and its standard deviation.

    The deviation is clustered by pieces (n,) of the recordings, whose errors count as independent.
    """
    size = np.sqrt((columns**2).mean(axis=0))
    columns = columns[:, size > 0.0] / size[size > 0.0]
    if size[0] == 0.0:
        return None
    inverse = np.linalg.pinv(columns.T @ columns)
    found = inverse @ columns.T @ wanted
    scores = columns * (wanted - columns @ found)[:, None]
    sums = np.stack([scores[pieces == number].sum(axis=0) for number in np.unique(pieces)])
    count = len(sums)
    spread = inverse @ (sums.T @ sums) @ inverse * count / max(count - columns.shape[1], 1)
    return float(found[0] / size[0]), float(np.sqrt(spread[0, 0]) / size[0])


def _columns(flights: Sequence[_Flight], first: Sequence[Array], powers: int) -> tuple[Array, Array]:
    """Return a first column beside powers of the charge drawn in each flight, and the pieces that rows are of."""
    rows, pieces = sum(len(one) for one in first), []
    found, at = np.zeros((rows, 1 + powers * len(flights))), 0
    for number, (flight, values) in enumerate(zip(flights, first)):
        mine = slice(at, at + len(values))
        found[mine, 0] = values
        drawn = flight.drawn - flight.drawn.mean()
        for power in range(powers):
            found[mine, 1 + powers * number + power] = drawn**power
        pieces.append(number * _BLOCKS + np.arange(len(values)) * _BLOCKS // len(values))
        at += len(values)
    return found, np.concatenate(pieces)


def _resistance(flights: Sequence[_Flight]) -> tuple[float, float] | None:
    columns, pieces = _columns(flights, [-flight.current for flight in flights], 3)
    return _slope(columns, np.concatenate([flight.voltage for flight in flights]), pieces)


def _power(flights: Sequence[_Flight]) -> tuple[float, float] | None:
    columns, pieces = _columns(flights, [flight.share for flight in flights], 0)
    return _slope(columns, np.concatenate([flight.voltage * flight.current for flight in flights]), pieces)


def _capacity(flights: Sequence[_Flight]) -> tuple[float, float] | None:
    told = [flight for flight in flights if np.isfinite(flight.charge).all() and np.ptp(flight.charge) > 0.0]
    if not told:
        return None
    columns, pieces = _columns(told, [flight.drawn for flight in told], 1)
    charge = np.concatenate([flight.charge for flight in told])
    some = charge > _EMPTY
    slope = _slope(columns[some], charge[some], pieces[some])
    if slope is None or slope[0] >= 0.0:
        return None
    return -1.0 / slope[0], slope[1] / slope[0] ** 2


def _full_speed(robot: Quadrotor, flights: Sequence[_Flight]) -> tuple[float, float] | None:
    found = np.concatenate([flight.short(robot.rotor_model.speed_max_rad_s) for flight in flights])
    if len(found) < _LEAST:
        return None
    middle = float(np.median(found))
    return middle, 1.4826 * float(np.median(np.abs(found - middle)))
