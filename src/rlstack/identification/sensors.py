"""What recordings tell of the sensors: noise, biases and delays, with intervals, or why they cannot be told."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import chdtri

from rlstack.arrays import Array
from rlstack.identification.fit import Fit
from rlstack.identification.inertial import Against, forces_against, rates_against
from rlstack.identification.motion_model import Z90, Channel, Edit, Estimate, MotionModel, Parameter, Place, Windows
from rlstack.identification.recorded import Recorded, Track
from rlstack.identification.white_noise import calm, white_noise
from rlstack.robots import RobotSpec, Sensor

NOISE_METHOD = "differences of the errors that the fit leaves"
IMU_NOISE_METHOD = "differences of the readings in the calmest quarter"
BIAS_METHOD = "integrated between readings of the odometry"

_NEEDED = math.log(1.25)
"""Largest half width of the logarithm of a noise that counts as told: no policy notices a quarter."""
_LASTING = 1.5
"""What a fit leaves over the white noise, from which it is told of."""
_PIECE_S = 0.1
_LEAST_READINGS = 8
"""Readings of a piece in which noise is looked for."""
_BIAS_FLOOR = {"angular_velocity": 1e-4, "linear_acceleration": 0.02}
"""Least standard deviations: rad/s, by which interpolation between readings errs, and m/s^2, by which gravity differs
from place to place."""
_DELAY_FLOOR_S = 1e-4
_SIGNIFICANT = 2.0

_IMU = (("angular_velocity", "imu_angular_velocity", "rad/s"), ("linear_acceleration", "linear_acceleration", "m/s^2"))
"""Name in the file, signal and unit of an IMU's two vectors."""
_ENDS = {"m": "_m", "rad": "_rad", "m/s": "_m_s", "rad/s": "_rad_s", "m/s^2": "_m_s2", "s": "_s"}


def sensor_estimates(
    robot: RobotSpec, model: MotionModel, values: Array, windows: Windows, fitted: Fit, recordings: Sequence[Recorded]
) -> dict[str, Estimate]:
    """Return what recordings tell of each sensor, by name.

    Args:
        robot: The robot file that the identification started from.
        model: Its model.
        values: (P,) of the model's parameters, as identified.
        windows: The windows of the fit.
        fitted: The fit.
        recordings: The recordings.
    """
    found = _channel_noise(robot, model, values, windows, fitted)
    odometry = all("odom" in recorded.tracks for recorded in recordings)
    if odometry:
        found += _odometry_bias(robot, recordings)
    if not odometry:
        found.append(_kept(_parameter(robot, "joint_states", "delay", "s"), _ONE_SENSOR.format("a camera")))
    elif all("imu" in recorded.tracks for recorded in recordings):
        found += _imu(robot, recordings)
    else:
        found.append(_kept(_parameter(robot, "odom", "delay", "s"), _ONE_SENSOR.format("an IMU")))
        for name, _, unit in _IMU if "imu" in robot.sensors else ():
            for what in ("noise", "bias"):
                found.append(_kept(_parameter(robot, "imu", f"{name}_{what}", unit), "the recording has no imu"))
    return {one.parameter.name: one for one in found}


_ONE_SENSOR = "it is a part of `delay`: only a second sensor, such as {}, tells the two apart"


def sensor_edits(
    robot: RobotSpec, data: Any, estimates: Mapping[str, Estimate], says: Callable[[str], str]
) -> list[Edit]:
    """Return the changes of a robot file; a sensor's whole entry, where that has no such key yet.

    Args:
        robot: The robot that the file has.
        data: The file's content.
        estimates: Of the sensors.
        says: Returns the evidence for one, by name.
    """
    changed: dict[Place, dict[str, tuple[Any, str]]] = {}
    plain: list[Edit] = []
    for name, one in estimates.items():
        if one.verdict != "told" or not one.parameter.place:
            continue
        if len(one.parameter.place) == 2:  # a number of a section without sensors
            plain.append(Edit(one.parameter.place, float(f"{one.value:.4g}"), says(name)))
            continue
        section, sensor, key, *index = one.parameter.place
        value: Any = float(f"{one.value:.4g}")
        if name == "imu_delay":
            value += robot.sensors["odom"].latency_s if "odom" in robot.sensors else 0.0
            if value < 0.0:
                continue
        entry = changed.setdefault((section, sensor), {})
        noted = says(name)
        if index:  # an element of a vector
            vector, before = entry.get(str(key), (list(getattr(getattr(robot, str(section))[sensor], str(key))), ""))
            vector[int(index[0])] = value
            value, noted = vector, "; ".join(filter(None, (before, noted)))
        entry[str(key)] = value, noted
    found = []
    for place, values in changed.items():
        there = data
        for part in place:
            there = there[part]
        if set(values) <= set(there):
            found += [Edit((*place, key), value, noted) for key, (value, noted) in values.items()]
        else:
            merged = {**there, **{key: value for key, (value, _) in values.items()}}
            found.append(Edit(place, merged, "; ".join(noted for _, noted in values.values())))
    return found + plain


def _parameter(robot: RobotSpec, sensor: str, what: str, unit: str, name: str = "") -> Parameter:
    """Return what is told of a sensor, with the file's value, if it has a place for it."""
    key = f"latency{_ENDS['s']}" if what == "delay" else f"{what}{_ENDS.get(unit, '')}"
    there = robot.sensors.get(sensor)
    has = there is not None and hasattr(Sensor, key)
    value = float(getattr(there, key)) if has else 0.0
    place: Place = ("sensors", sensor, key) if has else ()
    return Parameter(name or f"{sensor}_{what}", unit, value, place, False, 1.0, 1.0, "")


def _kept(parameter: Parameter, why: str) -> Estimate:
    return Estimate(parameter, parameter.value, None, "kept", why)


def _noise(parameter: Parameter, pieces: Array, method: str, left: float | None = None) -> Estimate:
    """Return the white noise in pieces (S, K, width); ``left`` is what a fit leaves altogether."""
    value, deviation = white_noise(pieces)
    unit = f" {parameter.unit}" if parameter.unit else ""
    beside = "" if left is None else f"; the fit leaves {left:.2g}{unit}"
    if value <= 0.0:
        return _kept(parameter, f"its readings repeat, or are exact{beside}")
    half = Z90 * deviation
    if half > _NEEDED:
        wide = f"tells it to {100.0 * min(math.expm1(half), 9.99):.0f}% only"
        return _kept(
            parameter, f"the recording {wide}, as its errors are not white, or few{beside}: record a calm motion"
        )
    why = ""
    if left is not None and left > _LASTING * value:
        why = f"white; the fit leaves {left:.2g}{unit}, with errors that last, the sensor's or the model's"
    ends = value * math.exp(-half), value * math.exp(half)
    return Estimate(parameter, value, ends, "told", why, method)


def _channel_noise(
    robot: RobotSpec, model: MotionModel, values: Array, windows: Windows, fitted: Fit
) -> list[Estimate]:
    """Return the noise of the sensors that the model predicts."""
    # from measured states: their errors grow smoothly within a window, which differences do not see
    errors = model.residual(values[None], model.states(windows)[None], windows)[0][fitted.kept]
    found, at = [], 0
    for channel, left in zip(model.channels, fitted.noise):
        begin, at = at, at + channel.width
        parameter = _channel_parameter(robot, channel)
        found.append(_noise(parameter, errors[..., begin:at], NOISE_METHOD, float(left)))
    return found


def _channel_parameter(robot: RobotSpec, channel: Channel) -> Parameter:
    if channel.place:
        return _parameter(robot, str(channel.place[1]), f"{channel.name}_noise", channel.unit)
    return _parameter(robot, "joint_states", f"{channel.name}_noise", channel.unit, f"{channel.name}_noise")


def _odometry_bias(robot: RobotSpec, recordings: Sequence[Recorded]) -> list[Estimate]:
    """Return the bias of the odometry's rates against its own attitude."""
    odom = [recorded.tracks["odom"] for recorded in recordings]
    found = [rates_against(track, track.time_s, track.values["angular_velocity"]) for track in odom]
    return [_bias(_parameter(robot, "odom", "angular_velocity_bias", "rad/s"), "angular_velocity", found)]


def _imu(robot: RobotSpec, recordings: Sequence[Recorded]) -> list[Estimate]:
    """Return noise, biases and delay of the IMU."""
    found = []
    tracks = [(recorded.tracks["odom"], recorded.tracks["imu"]) for recorded in recordings]
    for name, signal, unit in _IMU:
        pieces = _pieces([(imu.time_s, imu.values[signal]) for _, imu in tracks])
        parameter = _parameter(robot, "imu", f"{name}_noise", unit)
        if pieces is None:
            found.append(_kept(parameter, _FEW))
        else:
            found.append(_noise(parameter, calm(pieces), IMU_NOISE_METHOD))
    rates = [_rates(odom, imu) for odom, imu in tracks]
    delay = _delay(robot, rates, often=pieces is not None)
    late = delay.value if delay.verdict == "told" else None
    forces = [forces_against(odom, imu.time_s, imu.values["linear_acceleration"], late) for odom, imu in tracks]
    for (name, _, unit), off in zip(_IMU, (rates, forces)):
        found.append(_bias(_parameter(robot, "imu", f"{name}_bias", unit), name, off))
    return [*found, delay]


def _rates(odom: Track, imu: Track) -> Against | None:
    """Compare the gyroscope with the odometry; a delay that every second reading tells otherwise is no surer."""
    rates = imu.values["imu_angular_velocity"]
    every, second = (rates_against(odom, imu.time_s[::step], rates[::step]) for step in (1, 2))
    if every is None or second is None:
        return None
    deviation = every.deviation.copy()
    deviation[3] = math.hypot(deviation[3], every.delay_s - second.delay_s)
    return replace(every, deviation=deviation)


def _pieces(readings: Sequence[tuple[Array, Array]]) -> Array | None:
    """Return readings in pieces (S, K, 3) without gaps; None: they are too few."""
    period_s = max(float(np.median(np.diff(time_s))) for time_s, _ in readings)
    count, found = round(_PIECE_S / period_s), []
    if count < _LEAST_READINGS:
        return None
    for time_s, values in readings:
        whole = len(time_s) // count * count
        lasts = np.ptp(time_s[:whole].reshape(-1, count), axis=1)
        found.append(values[:whole].reshape(-1, count, values.shape[1])[lasts < 1.5 * _PIECE_S])
    pieces = np.concatenate(found)
    return pieces if len(pieces) else None


def _bias(parameter: Parameter, name: str, found: Sequence[Against | None]) -> Estimate:
    """Return the standard deviation of a bias that is drawn once per run, from those of the runs and their axes."""
    told = [one for one in found if one is not None]
    if not told:
        return _kept(parameter, _SHORT)
    biases = np.stack([one.bias for one in told])
    own = np.hypot(np.stack([one.deviation[:3] for one in told]), _BIAS_FLOOR[name])
    seen = "; ".join(
        ", ".join(f"{axis} {bias:.2g} +- {Z90 * dev:.1g}" for axis, bias, dev in zip("xyz", row, devs))
        for row, devs in zip(biases, own)
    )
    if np.sum((biases / own) ** 2) < _SIGNIFICANT**2 * biases.size:
        return _kept(parameter, f"it cannot be told from 0 {parameter.unit} ({seen})")
    value, count = math.sqrt(max(float(np.mean(biases**2 - own**2)), 0.0)), biases.size
    ends = tuple(value * math.sqrt(count / float(chdtri(count, share))) for share in (0.05, 0.95))
    return Estimate(parameter, value, (ends[0], ends[1]), "told", f"it was {seen} {parameter.unit}", BIAS_METHOD)


_FEW = f"the recording has fewer than {_LEAST_READINGS} readings in {_PIECE_S:g} s"
_SHORT = "too little of both sensors is recorded at once: record half a minute"


def _delay(robot: RobotSpec, found: Sequence[Against | None], *, often: bool) -> Estimate:
    """Return how much later than the odometry the IMU measures; not ``often``: motion between readings is unknown."""
    parameter = _parameter(robot, "imu", "delay", "s")
    told = [one for one in found if one is not None]
    if not often:
        return _kept(parameter, _FEW)
    if not told:
        return _kept(parameter, _SHORT)
    weight = np.array([1.0 / (one.deviation[3] ** 2 + _DELAY_FLOOR_S**2) for one in told])
    value = float(np.sum(weight * [one.delay_s for one in told]) / np.sum(weight))
    half, needed = Z90 / math.sqrt(float(np.sum(weight))), 0.25 / robot.control_rate_hz
    if half > needed:
        turns = "record turns that start and stop"
        return _kept(
            parameter, f"the recording tells it to {half:.2g} s only (at most {needed:.2g} s are wanted): {turns}"
        )
    why = "against the odometry"
    if value + half < 0.0:
        why += ", which is the later one: that is a part of `delay`"
    return Estimate(parameter, value, (value - half, value + half), "told", why, BIAS_METHOD)
