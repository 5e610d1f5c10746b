"""Identification of quadrotors from rotor speeds and odometry: the batch simulator's own equations.

The body is integrated under known rotor speeds: those that were measured, if the recording has them, and else those
that follow from the commands alone (motor lag, delay).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.fused import Kernel
from rlstack.identification.motion_model import (
    COMMANDS,
    IMU,
    Channel,
    Edit,
    Estimate,
    KindIdentification,
    MotionModel,
    Windows,
    odometry_channel,
)
from rlstack.identification.recorded import Recorded, Track
from rlstack.kinds.quadrotor.identification_battery import BATTERY, battery_estimates
from rlstack.kinds.quadrotor.identification_edits import FLAT, MOMENTS, quadrotor_edits
from rlstack.kinds.quadrotor.identification_parameters import quadrotor_parameters, rotor_range, thrust_coefficients
from rlstack.kinds.quadrotor.identification_rotors import MeasuredRotors, RotorHistory, commanded_range
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import Sensor
from rlstack.robots.frames import from_rotation_vector, inverse, multiply, normalise, rotate, rotate_inverse, tilt
from rlstack.sim.batch_quadrotor.dynamics import (
    RESIDUAL_INPUTS,
    RESIDUAL_OUTPUTS,
    QuadrotorModel,
    advance_body,
)
from rlstack.sim.batch_quadrotor.layout import PARAMETER_WIDTH, PARAMETERS, pack_parameters
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.physics.residual import ResidualModel

_BODY = 13
_SUBSTEP_S = 0.0025
"""Longest integration step: a motor's lag is at least several times as long."""

_FLIES = 0.6
"""Mean commanded thrust over weight, by the file, above which the robot may be in the air."""

_OFF_FLOOR_M = 0.05
"""Least height of the lowest point: below it are contact and the air that the floor sends back. z of odometry is above
the floor, as for the guard."""

_TUMBLING = 1.2
"""Tilt over the guard's limit, beyond which nobody flies any more."""

_AT_LEAST = 0.02
"""Least half width of a training range: a robot differs by that from flight to flight, by its battery and weather."""

_LONGEST_DELAY_S = 0.05
"""Longest delay that training draws."""

_MOTORS = ("rise", "fall", "delay")
_SPEED, _TELEMETRY = "rotor_speed", "joint_states"
_SPEED_NOISE = 0.005
"""First guess of the noise of measured rotor speeds, as a share of the hover speed."""

_TOGETHER_S = 1e-4
"""Stamps that differ by less are of one time."""

_ENOUGH = 20
"""Large steps of the commands from which the distribution of their delays is told."""

_LEAST_OFTEN_S = 0.1
"""Longest period of measured rotor speeds that are of use: of the order of a motor's lag."""


class QuadrotorMotion(MotionModel):
    """See :class:`rlstack.identification.motion_model.MotionModel`.

    A state is position m, attitude xyzw, velocity m/s in the world and rates rad/s in the body.
    """

    reference = "position"
    residual_inputs, residual_outputs = RESIDUAL_INPUTS, RESIDUAL_OUTPUTS
    state_steps = np.array([1e-4] * 3 + [1e-5] * 3 + [1e-4] * 3 + [1e-4] * 3)

    def __init__(self, robot: Quadrotor, recordings: Sequence[Recorded]) -> None:
        self._robot, self._recordings, model = robot, recordings, robot.rotor_model
        self._residual: ResidualModel | None = None
        commands = [recorded.tracks["cmd/rotors"] for recorded in recordings]
        sent = [track.values["rotor_speed"] for track in commands]
        low, high = commanded_range(sent, model.speed_min_rad_s, model.speed_max_rad_s)
        self.parameters = tuple(quadrotor_parameters(robot) + rotor_range(robot, low, high))
        self._column = {parameter.name: k for k, parameter in enumerate(self.parameters)}
        odom = robot.sensors.get("odom", Sensor(rate_hz=100.0))
        self.channels = (
            odometry_channel(odom, "position", "m", 3, 0.002),
            odometry_channel(odom, "orientation", "rad", 3, 0.002),
            odometry_channel(odom, "linear_velocity", "m/s", 3, 0.01),
            odometry_channel(odom, "angular_velocity", "rad/s", 3, 0.01),
        )
        self._odom = [recorded.tracks["odom"] for recorded in recordings]
        self._commanded = [np.clip(speeds, low, high) for speeds in sent]
        self._rotors = [
            _rotors(track.time_s, sent, recorded.tracks.get(_TELEMETRY))
            for track, sent, recorded in zip(commands, self._commanded, recordings)
        ]
        if any(isinstance(rotors, MeasuredRotors) for rotors in self._rotors):
            self.driven_by, self.measured_inputs = "measured rotor speeds", (_SPEED,)
            self.channels += (Channel(_SPEED, "rad/s", len(robot.rotors), _SPEED_NOISE * robot.hover_speed_rad_s),)
        self._command_s = [track.time_s for track in commands]
        self._base = pack_parameters(robot, Perturbation.none(1, len(robot.rotors)), "float64")[0]

    def by_commands(self) -> MotionModel:
        """Return the model whose rotors turn as they are commanded."""
        if self.driven_by == COMMANDS:
            return self
        other = copy(self)
        other.driven_by, other.measured_inputs = COMMANDS, ()
        return other

    def alternatives(self, values: Array) -> tuple[MotionModel, ...]:
        """Return the prediction from commands, unless the rotors' speeds were measured without noise."""
        lags, delay = values[[self._column["rise"], self._column["fall"]]], values[self._column["delay"]]
        measured = [rotors for rotors in self._rotors if isinstance(rotors, MeasuredRotors)]
        return (self.by_commands(),) if any(not one.exact(lags, float(delay)) for one in measured) else ()

    def impossible(self, values: Array) -> tuple[str, ...]:
        """Return the moments of inertia, if one clearly exceeds the sum of the other two: no body has these."""
        moments = values[[self._column[name] for name in MOMENTS]]
        return MOMENTS if moments.max() > (1.0 + FLAT) * (moments.sum() - moments.max()) else ()

    def notes(self, values: Array) -> list[str]:
        """Return when commands took effect, where rotor speeds tell it."""
        lags, delay = values[[self._column["rise"], self._column["fall"]]], float(values[self._column["delay"]])
        found = []
        for recorded, rotors in zip(self._recordings, self._rotors):
            if not isinstance(rotors, MeasuredRotors):
                continue
            if self.driven_by == COMMANDS:
                found.append(
                    f"{recorded.path}: the measured rotor speeds are noisy, and the commands explain the motion better:"
                    " the speeds tell of the motors alone."
                )
            if len(late := rotors.delays(lags, delay)) >= _ENOUGH:
                low, middle, high = 1e3 * np.quantile(late, (0.05, 0.5, 0.95))
                found.append(
                    f"{recorded.path}: by the measured rotor speeds, commands took effect {middle:.1f} ms after they"
                    f" came in the median, 90% of them {low:.1f} to {high:.1f} ms ({len(late)} large steps)."
                )
        return found

    def states(self, windows: Windows) -> Array:
        """Return the measured states (S, 13)."""
        rows = [self._measured(windows, name)[:, 0] for name in ("position", "orientation")]
        velocity = rotate(rows[1], self._measured(windows, "linear_velocity")[:, 0])
        return np.concatenate([*rows, velocity, self._measured(windows, "angular_velocity")[:, 0]], axis=1)

    def moved(self, states: Array, change: Array) -> Array:
        """Return the states after changes; the attitude's is a small rotation in the body."""
        turned = multiply(states[..., 3:7], from_rotation_vector(change[..., 3:6]))
        parts = [states[..., :3] + change[..., :3], normalise(turned), states[..., 7:] + change[..., 6:]]
        return np.concatenate(parts, axis=-1)

    def residual(self, values: Array, states: Array, windows: Windows) -> Array:
        """Return position, attitude, velocity in the body and rates, predicted minus measured (V, S, K, 12 or more).

        Further rows are the speeds of rotors that were measured, as they follow from the commands.
        """
        predicted = self._simulate(values, states, windows)
        attitude = predicted[..., 3:7]
        measured = {name: self._measured(windows, name)[None] for name in _MEASURED}
        turn = multiply(inverse(measured["orientation"]), attitude)
        turn = 2.0 * turn[..., :3] * np.where(turn[..., 3:] < 0.0, -1.0, 1.0)
        velocity = rotate_inverse(attitude, predicted[..., 7:10])
        rows = [
            predicted[..., :3] - measured["position"],
            turn,
            velocity - measured["linear_velocity"],
            predicted[..., 10:] - measured["angular_velocity"],
        ]
        if self.channels[-1].name == _SPEED:
            rows.append(self._rotors_off(values, windows))
        return np.concatenate(rows, axis=-1)

    def left_over(self, values: Array, windows: Windows) -> tuple[Array, Array]:
        """Return the means of the inputs (S, 10), and the force and torque (S, 6) that the prediction lacked."""
        states, times = self.states(windows), self._times(windows)
        predicted = self._simulate(values[None], states[None], windows)[0, :, -1]
        attitude, lasts = self._measured(windows, "orientation"), (times[:, -1] - times[:, 0])[:, None]
        velocity, rates = (self._measured(windows, name) for name in ("linear_velocity", "angular_velocity"))
        missed = rotate(attitude[:, -1], velocity[:, -1]) - predicted[:, 7:10]
        column = self._column
        mass, inertia = values[column["mass"]], values[[column[name] for name in MOMENTS]]
        force = mass * rotate_inverse(attitude[:, windows.count // 2], missed) / lasts
        torque = inertia * (rates[:, -1] - predicted[:, 10:13]) / lasts
        speeds = self._speeds(values[None], times, windows)[0][0].mean(axis=1)
        inputs = np.concatenate([velocity.mean(axis=1), rates.mean(axis=1), speeds], axis=1)
        return inputs, np.concatenate([force, torque], axis=1)

    def with_residual(self, residual: ResidualModel) -> MotionModel:
        """Return the same model with what a residual model adds."""
        other = copy(self)
        other._residual = residual
        return other

    def recorded(self, windows: Windows) -> dict[str, Array]:
        """Return position and velocities."""
        return {name: self._measured(windows, name) for name in _MEASURED if name != "orientation"}

    def usable(self, windows: Windows) -> NDArray[np.bool_]:
        """Return which windows are in flight: commanded all the time, off the floor, and not tumbling."""
        limits, floor = self._robot.limits, self._robot.body.collision_radius_m + _OFF_FLOOR_M
        found = []
        for recording, first in zip(windows.recording, windows.first):
            times = self._odom[recording].time_s
            begin, end = times[first], times[first + windows.count - 1]
            sent_s = self._command_s[recording]
            inside = slice(*np.searchsorted(sent_s, [begin - 0.1, end]))
            sent = self._commanded[recording][inside]
            often = len(sent) > 2 and float(np.diff(sent_s[inside]).max()) < 0.1
            thrust = (self._robot.rotor_model.thrust(sent) @ self._robot.thrust_factors).mean() if often else 0.0
            seen = {name: self._odom[recording].values[name][first : first + windows.count] for name in _MEASURED}
            steady = tilt(seen["orientation"]).max() < _TUMBLING * limits.tilt_rad
            steady = steady and np.abs(seen["angular_velocity"]).max() < limits.angular_velocity_rad_s
            flies = often and thrust > _FLIES * self._robot.weight_n and seen["position"][:, 2].min() > floor
            found.append(bool(flies and steady))
        return np.array(found, dtype=bool)

    def _measured(self, windows: Windows, name: str) -> Array:
        """Return a signal in the windows (S, K, width)."""
        return windows.cut([track.values[name] for track in self._odom])

    def _times(self, windows: Windows) -> Array:
        return windows.cut([track.time_s for track in self._odom])

    def _simulate(self, values: Array, states: Array, windows: Windows) -> Array:
        """Return the predicted states (V, S, K, 13)."""
        variants, segments = states.shape[:2]
        times = self._times(windows)
        lasts = np.diff(times)
        substeps = max(int(np.ceil(float(np.median(lasts)) / _SUBSTEP_S - 1e-6)), 1)
        # begin, middle and end of every substep: (S, steps, substeps, 3)
        shares = (np.arange(substeps)[:, None] + [0.0, 0.5, 1.0]) / substeps
        at_s = times[:, :-1, None, None] + lasts[:, :, None, None] * shares
        speeds, which = self._speeds(values, at_s, windows)
        parameters = np.repeat(self._rows(values).T[:, :, None], segments, axis=2).reshape(PARAMETER_WIDTH, -1)
        step = _step_kernel(len(self._robot.rotors), self._residual)
        body = np.ascontiguousarray(np.moveaxis(states, -1, 0).reshape(_BODY, -1))
        after, found = np.empty_like(body), np.empty((windows.count, *body.shape))
        found[0] = body
        lanes = variants * segments
        driven = np.empty((3 * len(self._robot.rotors), lanes))
        h = np.empty((1, lanes))
        for k in range(windows.count - 1):
            h[0] = np.tile(lasts[:, k] / substeps, variants)
            for part in range(substeps):
                # (U, S, 3, rotors) to (3 rotors, V S)
                now = speeds[:, :, k, part].reshape(len(speeds), segments, -1)
                driven[:] = np.moveaxis(now[which], -1, 0).reshape(len(driven), -1)
                step({"body": body, "parameters": parameters, "speeds": driven, "h": h, "next": after})
                body, after = after, body
            found[k + 1] = body
        return np.moveaxis(found.reshape(windows.count, _BODY, variants, segments), (2, 3, 0), (0, 1, 2))

    def _speeds(self, values: Array, at_s: Array, windows: Windows) -> tuple[Array, NDArray[np.intp]]:
        """Return the rotor speeds of the different motors among the variants, and which one each variant has."""
        different, which = self._motors(values)
        speeds = np.empty((len(different), *at_s.shape, len(self._robot.rotors)))
        for number, rotors in enumerate(self._rotors):
            mine = windows.recording == number
            if self.driven_by == COMMANDS and isinstance(rotors, MeasuredRotors):
                rotors = rotors.history
            speeds[:, mine] = rotors.speeds(at_s[mine], different[:, :2], different[:, 2])
        return speeds, which

    def _motors(self, values: Array) -> tuple[Array, NDArray[np.intp]]:
        """Return the different motors (U, 3) among the variants, the first one's first, and which each variant has."""
        motors = values[:, [self._column[name] for name in _MOTORS]]
        _, first, which = np.unique(motors, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return motors[first[order]], np.argsort(order)[which.ravel()]

    def _rotors_off(self, values: Array, windows: Windows) -> Array:
        """Return the rotors' speeds by their commands minus those measured (V, S, K, rotors); NaN: none was."""
        different, which = self._motors(values)
        rows = []
        for track, rotors in zip(self._odom, self._rotors):
            found = np.full((len(different), len(track), len(self._robot.rotors)), np.nan)
            if isinstance(rotors, MeasuredRotors):
                # each measurement belongs to the odometry that it came with, or the next one
                at = np.searchsorted(track.time_s, rotors.time_s - _TOGETHER_S)
                inside = at < len(track)
                found[:, at[inside]] = -rotors.off(different[:, :2], different[:, 2])[:, inside]
            rows.append(np.moveaxis(found, 0, 1))
        return np.moveaxis(windows.cut(rows), 2, 0)[which]

    def _rows(self, values: Array) -> Array:
        """Return the batch simulator's parameters (V, PARAMETER_WIDTH)."""
        rows = np.tile(self._base, (len(values), 1))
        value = {name: values[:, column] for name, column in self._column.items()}
        rows[:, PARAMETERS["mass"].start] = value["mass"]
        for axis, name in enumerate("xyz"):
            rows[:, PARAMETERS["inertia"].start + axis] = value[f"inertia_{name}"]
            rows[:, PARAMETERS["drag"].start + axis] = value[f"drag_{name}"]
        rows[:, PARAMETERS["thrust_coefficients"]] = thrust_coefficients(
            self._robot, value["thrust"], value["thrust_power"]
        )
        rows[:, PARAMETERS["torque_per_thrust"].start] = value["torque"]
        rows[:, PARAMETERS["spin_inertia"].start] = value["spin_inertia"]
        rows[:, PARAMETERS["thrust_scale"]] *= 1.0 + np.outer(value["balance"], self._robot.yaw_torque_signs)
        rows[:, PARAMETERS["rotor_x"]] -= value["centre_x"][:, None]
        rows[:, PARAMETERS["rotor_y"]] -= value["centre_y"][:, None]
        return rows


def _rotors(time_s: Array, commanded: Array, telemetry: Track | None) -> RotorHistory | MeasuredRotors:
    history = RotorHistory(time_s, commanded)
    if telemetry is None or telemetry.period_s > _LEAST_OFTEN_S:
        return history
    return MeasuredRotors(history, telemetry.time_s, telemetry.values["measured_rotor_speed"])


_MEASURED = ("position", "orientation", "linear_velocity", "angular_velocity")


@lru_cache(maxsize=4)
def _step_kernel(rotors: int, residual: ResidualModel | None) -> Kernel:
    model = QuadrotorModel(_SUBSTEP_S, gyroscopic=True, residual=residual)

    def step(body: Any, parameters: Any, speeds: Any, h: Any) -> dict[str, Any]:
        each = [speeds[k * rotors : (k + 1) * rotors] for k in range(3)]
        return {"next": advance_body(body, parameters, each, h[0], model)}

    rows = {"body": _BODY, "parameters": PARAMETER_WIDTH, "speeds": 3 * rotors, "h": 1}
    return Kernel(step, rows, dtype="float64")


class QuadrotorIdentification(KindIdentification):
    """See :class:`rlstack.identification.motion_model.KindIdentification`."""

    signals = (*_MEASURED, "rotor_speed", "measured_rotor_speed", *IMU, *BATTERY)
    optional = ("measured_rotor_speed", *IMU, *BATTERY)

    def check(self, robot: Any) -> None:
        """Refuse a robot that takes rates and thrust."""
        if robot.rate_loop is not None:
            raise UserError(
                f"{robot.name} takes rates and thrust, and only robots that take rotor speeds can be identified so far:"
                " record its autopilot's rotor speeds as cmd/rotors, and name its file without a rate_loop."
            )

    def names(self, robot: Any) -> dict[str, Sequence[str]]:
        """Return the rotors' names."""
        return {"rotor_speed": robot.rotor_names, "measured_rotor_speed": robot.rotor_names}

    def sensors(self, robot: Any, recordings: Sequence[Recorded], estimates: Mapping[str, Estimate]) -> list[Estimate]:
        """Return what recordings tell of the battery."""
        return battery_estimates(robot, recordings, estimates)

    def model(self, robot: Any, recordings: Sequence[Recorded]) -> MotionModel:
        """Return the model."""
        return QuadrotorMotion(robot, recordings)

    def edits(self, robot: Any, estimates: Mapping[str, Estimate], says: Callable[[str], str]) -> list[Edit]:
        """Return the changes: body, thrust curve, motors, and the rotors' places and factors."""
        return quadrotor_edits(robot, estimates, says)

    def randomisation(self, robot: Any, estimates: Mapping[str, Estimate]) -> dict[str, tuple[float, float]]:
        """Return the ranges of the quantities that are told; the recipe's own stay for the others."""
        groups = {
            "thrust": ("thrust",),  # over mass, which is what moves the robot
            "inertia": MOMENTS,
            "torque": ("torque",),
            "time_constant": ("rise", "fall"),
        }
        found = {}
        for key, names in groups.items():
            if all(estimates[name].verdict == "told" for name in names):
                wide = max(_AT_LEAST, max(estimates[name].reach for name in names))
                found[key] = (1.0 - wide, 1.0 + wide)
        if estimates["thrust"].verdict == "told":
            found["mass"] = (1.0 - _AT_LEAST, 1.0 + _AT_LEAST)
        if (delay := estimates["delay"]).verdict == "told":
            wide = max(0.25 / robot.control_rate_hz, delay.reach)
            found["delay_s"] = (max(delay.value - wide, 0.0), min(delay.value + wide, _LONGEST_DELAY_S))
        return found


IDENTIFICATION = QuadrotorIdentification()
