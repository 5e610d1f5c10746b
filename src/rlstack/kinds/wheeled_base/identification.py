"""Identification of differential bases from twists, odometry and wheel speeds, by the batch simulator's response.

Speeds follow from the commands alone (delay, limits of acceleration, lag, slip), so a window's motion is their integral
from a pose of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.identification.motion_model import (
    IMU,
    Z90,
    Channel,
    Edit,
    Estimate,
    KindIdentification,
    MotionModel,
    Parameter,
    Windows,
    odometry_channel,
)
from rlstack.identification.recorded import Recorded
from rlstack.kinds.wheeled_base.identification_lidar import ScanRanges, lidar_estimates
from rlstack.kinds.wheeled_base.simulation_kinematics import TwistRamp, base_twist, wheel_speeds
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.kinds.wheeled_base.spec_response import range_key
from rlstack.robots import Sensor
from rlstack.robots.frames import wrap_angle, yaw

_GRID_S = 0.002
"""Step of the response; the simulators' own is half a control period."""

_INSTANT_S = 1e-6
"""Times that differ by less are one."""

_LEAST_LAG_S = 0.002
"""Where a file has no lag, so that it has a logarithm."""

_OWN = 0.002
"""Odometry that follows the wheels to this share of its speed is computed from them."""

_SHARES, _TIMES_S = 0.02, 0.01
"""Least half widths of training ranges: of slips, which differ from floor to floor, and of times."""

_DRIVES = "straight drives and turns on the spot at several speeds, with starts and stops"


class BaseMotion(MotionModel):
    """See :class:`rlstack.identification.motion_model.MotionModel`; a state is x m, y m and heading rad."""

    reference = "position"
    state_steps = np.array([1e-4, 1e-4, 1e-5])

    def __init__(self, robot: WheeledBase, recordings: Sequence[Recorded]) -> None:
        self._robot = robot
        self._odom = [recorded.tracks["odom"] for recorded in recordings]
        self._commands = [recorded.tracks["cmd_vel"] for recorded in recordings]
        self._wheels = [_wheels(robot, recorded) for recorded in recordings]
        self._twists = [
            np.stack([track.values["linear_velocity"][:, 0], track.values["angular_velocity"][:, 2]], axis=1)
            for track in self._odom
        ]
        self._headings = [np.unwrap(yaw(track.values["orientation"])) for track in self._odom]
        self.parameters = tuple(_parameters(robot, self._why_no_wheels()))
        self._column = {parameter.name: k for k, parameter in enumerate(self.parameters)}
        odom = robot.sensors.get("odom", Sensor(rate_hz=30.0))
        self.channels = (
            odometry_channel(odom, "position", "m", 2, 0.005),
            odometry_channel(odom, "orientation", "rad", 1, 0.005),
            odometry_channel(odom, "linear_velocity", "m/s", 1, 0.005),
            odometry_channel(odom, "angular_velocity", "rad/s", 1, 0.01),
            Channel("wheel_speed", "rad/s", 2, 0.1),
        )
        ramped = replace(robot, response=replace(robot.response, command_delay_s=0.0, command_delay_range_s=None))
        self._grids = [_ramp(ramped, track.time_s, track.values["twist"]) for track in self._commands]

    def states(self, windows: Windows) -> Array:
        """Return the measured poses (S, 3)."""
        pairs = list(zip(windows.recording, windows.first))
        places = np.array([self._odom[r].values["position"][first, :2] for r, first in pairs])
        return np.column_stack([places, [self._headings[r][first] for r, first in pairs]])

    def moved(self, states: Array, change: Array) -> Array:
        """Return the poses after changes."""
        return states + change

    def residual(self, values: Array, states: Array, windows: Windows) -> Array:
        """Return position, heading, speeds and wheel speeds, predicted minus measured (V, S, K, 7)."""
        variants, segments = states.shape[:2]
        found = np.empty((variants, segments, windows.count, 7))
        within = np.arange(windows.count)
        responses: dict[tuple[Any, ...], tuple[Array, Array, Array]] = {}
        motors = ("lag_linear", "lag_angular", "delay", "linear_slip", "angular_slip")
        for v in range(variants):
            value = {name: float(values[v, column]) for name, column in self._column.items()}
            for number in np.unique(windows.recording):
                mine = np.flatnonzero(windows.recording == number)
                index = windows.first[mine, None] + within
                at_s = self._odom[number].time_s[index]
                key = (int(number), *(value[name] for name in motors))
                if key not in responses:
                    responses[key] = self._response(int(number), value)
                speed, turned, path = responses[key]
                grid_s = self._grids[number][0]
                ahead, turning = (np.interp(at_s, grid_s, speed[:, column]) for column in range(2))
                angle = np.interp(at_s, grid_s, turned)
                place = np.interp(at_s, grid_s, path.real) + 1j * np.interp(at_s, grid_s, path.imag)
                start = states[v, mine]
                heading = start[:, 2:3] + angle - angle[:, :1]
                moved = (place - place[:, :1]) * np.exp(1j * (start[:, 2:3] - angle[:, :1]))
                seen = self._odom[number].values["position"][index]
                twist, wheels = self._twists[number][index], self._wheels[number]
                half = 0.5 * value["track"] * turning
                rolled = np.stack([ahead - half, ahead + half], axis=-1) / value["radius"]
                measured = np.full_like(rolled, np.nan) if wheels is None else wheels[index]
                found[v, mine] = np.concatenate(
                    [
                        (start[:, 0:1] + moved.real - seen[..., 0])[..., None],
                        (start[:, 1:2] + moved.imag - seen[..., 1])[..., None],
                        wrap_angle(heading - self._headings[number][index])[..., None],
                        (ahead - twist[..., 0])[..., None],
                        (turning - twist[..., 1])[..., None],
                        rolled - measured,
                    ],
                    axis=-1,
                )
        return found

    def recorded(self, windows: Windows) -> dict[str, Array]:
        """Return position and speeds."""
        twist, place = windows.cut(self._twists), windows.cut([track.values["position"][:, :2] for track in self._odom])
        return {"position": place, "linear_velocity": twist[..., :1], "angular_velocity": twist[..., 1:]}

    def usable(self, windows: Windows) -> NDArray[np.bool_]:
        """Return which windows have commands up to a timeout before them."""
        time_s, sent_s = ([track.time_s for track in tracks] for tracks in (self._odom, self._commands))
        return windows.commanded(time_s, sent_s, self._robot.limits.command_timeout_s)

    def _response(self, number: int, value: Mapping[str, float]) -> tuple[Array, Array, Array]:
        """Return speeds (n, 2), the angle turned (n,) and the path (n,), complex, on the grid since the beginning."""
        grid_s, ramp = self._grids[number]
        speed = np.empty_like(ramp)
        for column, axis in enumerate(("linear", "angular")):
            wanted = np.interp(grid_s - value["delay"], grid_s, ramp[:, column]) * (1.0 - value[f"{axis}_slip"])
            keep = float(np.exp(-_GRID_S / value[f"lag_{axis}"]))
            middle = 0.5 * (wanted[1:] + wanted[:-1])  # of each step, so that nothing is half a step late
            followed = lfilter([1.0 - keep], [1.0, -keep], middle, zi=[keep * wanted[0]])[0]
            speed[:, column] = np.concatenate([wanted[:1], followed])
        turned = _integral(speed[:, 1])
        return speed, turned, _integral(speed[:, 0] * np.exp(1j * turned))

    def _why_no_wheels(self) -> str:
        """Return why radius and track cannot be told; empty: they can."""
        if any(wheels is None for wheels in self._wheels):
            return "the bag has no joint_states of the wheels: record them"
        model = _Geometry(self._robot)
        rolled, seen = [], []
        for wheels, twist in zip(self._wheels, self._twists):
            assert wheels is not None
            rolled.append(model.radius * wheels.mean(axis=1))
            seen.append(twist[:, 0])
        rolled_, seen_ = np.concatenate(rolled), np.concatenate(seen)
        good = np.isfinite(rolled_)
        apart = float(np.sqrt(np.mean((rolled_ - seen_)[good] ** 2)))
        if apart < _OWN * float(np.sqrt(np.mean(seen_[good] ** 2))):
            return (
                "the odometry is computed from the wheels with the file's numbers, or agrees with them to"
                f" {100 * _OWN:g}%: only a pose from elsewhere, such as motion capture or a tape measure, tells more"
            )
        return ""


class _Geometry:
    def __init__(self, robot: WheeledBase) -> None:
        driven = [wheel for wheel in robot.wheels if wheel.driven]
        self.radius = driven[0].radius_m
        self.track = 2.0 * abs(driven[0].position_m[1]) * robot.track_scale


def _parameters(robot: WheeledBase, why_no_wheels: str) -> list[Parameter]:
    own, response = _Geometry(robot), robot.response
    # a tyre's contact is no point and its slip no constant: in MuJoCo, drives differ by the floors among themselves
    factor: dict[str, Any] = {"logarithmic": True, "prior": 0.5, "needed": 0.1, "floor": 0.01, "manoeuvre": _DRIVES}
    share: dict[str, Any] = {"logarithmic": False, "prior": 1.0, "needed": 0.05, "manoeuvre": _DRIVES}
    ahead, turning = {**share, "floor": 0.005}, {**share, "floor": 0.02}
    period = 0.25 / robot.control_rate_hz
    return [
        Parameter("radius", "m", own.radius, ("wheels",), given=why_no_wheels, **factor),
        Parameter("track", "m", own.track, ("wheels",), given=why_no_wheels, **factor),
        Parameter("linear_slip", "", response.linear_slip, ("response", "linear_slip"), least=-0.99, **ahead),
        Parameter("angular_slip", "", response.angular_slip, ("response", "angular_slip"), least=-0.99, **turning),
        *(
            Parameter(
                f"lag_{axis}",
                "s",
                max(getattr(response, f"{axis}_time_constant_s"), _LEAST_LAG_S),
                ("response", f"{axis}_time_constant_s"),
                **{**factor, "prior": 2.0},
            )
            for axis in ("linear", "angular")
        ),
        Parameter(
            "delay",
            "s",
            response.command_delay_s,
            ("response", "command_delay_s"),
            False,
            0.2,
            period,
            _DRIVES,
            least=0.0,
            floor=5e-4,
        ),
    ]


def _wheels(robot: WheeledBase, recorded: Recorded) -> Array | None:
    """Return the mean speeds (n, 2) of the left and right wheels at the odometry's times; NaN where none is near."""
    track = recorded.tracks.get("joint_states")
    if track is None:
        return None
    names = [joint.name for joint in robot.drives]
    sides: list[list[int]] = [[], []]
    for wheel in robot.wheels:
        if wheel.driven:
            sides[wheel.position_m[1] < 0.0].append(names.index(wheel.name))
    at_s, speed = recorded.tracks["odom"].time_s, track.values["joint_velocity"]
    found = np.stack([np.interp(at_s, track.time_s, speed[:, columns].mean(axis=1)) for columns in sides], axis=1)
    nearest = np.abs(track.time_s[np.searchsorted(track.time_s, at_s).clip(0, len(track) - 1)] - at_s)
    return np.where(nearest[:, None] > 1.5 * track.period_s, np.nan, found)


def _ramp(robot: WheeledBase, time_s: Array, twist: Array) -> tuple[Array, Array]:
    """Return times and commanded twist (n, 2) after the limits of speed and acceleration, on the grid."""
    grid_s = np.arange(float(time_s[0]) - 0.5, float(time_s[-1]) + 1.0, _GRID_S)
    ramp, due = TwistRamp(robot), 0
    found = np.empty((len(grid_s), 2))
    for k, at in enumerate(grid_s.tolist()):
        found[k], end = ramp.twist, at + _GRID_S
        # a command acts from when it comes, not from the next step
        while due < len(time_s) and time_s[due] < end - _INSTANT_S:
            if time_s[due] > at + _INSTANT_S:
                ramp.step(at, float(time_s[due]) - at)
                at = float(time_s[due])
            ramp.command(base_twist(robot, wheel_speeds(robot, twist[due])), at)
            due += 1
        ramp.step(at, end - at)
    return grid_s, found


def _integral(values: Array) -> Array:
    """Return the integral over the grid, by trapezoids, from 0."""
    return np.concatenate([[0.0], np.cumsum(0.5 * (values[1:] + values[:-1]))]) * _GRID_S


class BaseIdentification(KindIdentification):
    """See :class:`rlstack.identification.motion_model.KindIdentification`."""

    signals = (
        "position",
        "orientation",
        "linear_velocity",
        "angular_velocity",
        "twist",
        "joint_velocity",
        *IMU,
        "scan",
    )
    optional = ("joint_velocity", *IMU, "scan")
    segments_s = (0.5, 1.0)

    def check(self, robot: Any) -> None:
        """Refuse bases that steer or slide sideways."""
        if robot.drive != "differential":
            raise UserError(
                f"{robot.name} has the drive '{robot.drive}'; so far only differential ones are identified."
            )

    def names(self, robot: Any) -> dict[str, Sequence[str]]:
        """Return the joints' names."""
        return {"joint_velocity": [joint.name for joint in robot.drives]}

    def readers(self, robot: Any) -> dict[str, Callable[[Any], Array]]:
        """Return how the scans of a lidar with one ring are read; without such a lidar they are left out."""
        lidar = robot.lidars.get("scan")
        return {"scan": ScanRanges(lidar) if lidar is not None and lidar.rings == 1 else lambda message: np.empty(0)}

    def sensors(self, robot: Any, recordings: Sequence[Recorded], estimates: Mapping[str, Estimate]) -> list[Estimate]:
        """Return what recordings tell of the lidar ``scan``."""
        return lidar_estimates(robot, recordings)

    def model(self, robot: Any, recordings: Sequence[Recorded]) -> MotionModel:
        """Return the model."""
        return BaseMotion(robot, recordings)

    def edits(self, robot: Any, estimates: Mapping[str, Estimate], says: Callable[[str], str]) -> list[Edit]:
        """Return the changes: wheels, and the response with the ranges that training draws from."""
        found, own = [], _Geometry(robot)
        changed = {name for name in ("radius", "track") if estimates[name].verdict != "kept"}
        if changed:
            radius, track = estimates["radius"].value, estimates["track"].value
            note = "; ".join(says(name) for name in sorted(changed))
            for number, wheel in enumerate(robot.wheels):
                x, y, z = wheel.position_m
                place = [x, y * track / own.track, z + radius - own.radius]  # the lowest point stays
                found.append(Edit(("wheels", number, "position_m"), place, note if number == 0 else "likewise"))
                found.append(Edit(("wheels", number, "radius_m"), wheel.radius_m + radius - own.radius, ""))
        for name, one in estimates.items():
            if name in ("radius", "track") or one.verdict == "kept":
                continue
            key = str(one.parameter.place[-1])
            found.append(Edit(one.parameter.place, one.value, says(name)))
            if getattr(robot.response, range_key(key)) is not None:
                wide = _TIMES_S if key.endswith("_s") else _SHARES
                if one.interval is not None:
                    wide = max(wide, 3.0 / Z90 * 0.5 * (one.interval[1] - one.interval[0]))
                low = max(one.value - wide, 0.0) if key.endswith("_s") else one.value - wide
                noted = "three standard deviations, and at least what differs from floor to floor"
                found.append(Edit(("response", range_key(key)), [low, one.value + wide], noted))
        return found

    def randomisation(self, robot: Any, estimates: Mapping[str, Estimate]) -> dict[str, tuple[float, float]]:
        """Return nothing: a base's ranges are in its ``response``."""
        return {}


IDENTIFICATION = BaseIdentification()
