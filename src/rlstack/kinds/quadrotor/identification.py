"""Identification of quadrotors from commanded rotor speeds and odometry: the batch simulator's own equations.

Each rotor's speed follows from the commands alone (motor lag, delay), so the body is integrated under known speeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.fused import Kernel
from rlstack.identification.motion_model import (
    Edit,
    Estimate,
    KindIdentification,
    MotionModel,
    Parameter,
    Windows,
    odometry_channel,
)
from rlstack.identification.recorded import Recorded
from rlstack.kinds.quadrotor.identification_rotors import RotorHistory, commanded_range
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import Sensor
from rlstack.robots.frames import from_rotation_vector, inverse, multiply, normalise, rotate, rotate_inverse, tilt
from rlstack.sim.batch_quadrotor.dynamics import QuadrotorModel, advance_body
from rlstack.sim.batch_quadrotor.layout import PARAMETER_WIDTH, PARAMETERS, pack_parameters
from rlstack.sim.perturbation import Perturbation

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

_FLOOR, _FLOOR_S = 7e-5, 4e-6
"""Least standard deviations: of factors, and of times, s. MuJoCo, with steps of 1 ms, differs by that from it."""

_AT_LEAST = 0.02
"""Least half width of a training range: a robot differs by that from flight to flight, by its battery and weather."""

_LONGEST_DELAY_S = 0.05
"""Longest delay that training draws."""

_CURVE, _CENTRE = ("thrust", "thrust_power"), ("centre_x", "centre_y")

_ALIKE = 0.01
"""A power above the largest one of a rising curve by less than this, or than three half widths, counts as that one."""

_STEPS = "goals that step by a metre and more in all three directions"
_TURNS = "goals that step sideways together with the heading, so that it rolls, pitches and yaws at once"
_CLIMBS = "fast climbs and descents"


class QuadrotorMotion(MotionModel):
    """See :class:`rlstack.identification.motion_model.MotionModel`.

    A state is position m, attitude xyzw, velocity m/s in the world and rates rad/s in the body.
    """

    reference = "position"
    state_steps = np.array([1e-4] * 3 + [1e-5] * 3 + [1e-4] * 3 + [1e-4] * 3)

    def __init__(self, robot: Quadrotor, recordings: Sequence[Recorded]) -> None:
        self._robot, model = robot, robot.rotor_model
        commands = [recorded.tracks["cmd/rotors"] for recorded in recordings]
        sent = [track.values["rotor_speed"] for track in commands]
        low, high = commanded_range(sent, model.speed_min_rad_s, model.speed_max_rad_s)
        self.parameters = tuple(_parameters(robot) + _range(robot, low, high))
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
        self._rotors = [RotorHistory(track.time_s, sent) for track, sent in zip(commands, self._commanded)]
        self._command_s = [track.time_s for track in commands]
        self._base = pack_parameters(robot, Perturbation.none(1, len(robot.rotors)), "float64")[0]

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
        """Return position, attitude, velocity in the body and rates, predicted minus measured (V, S, K, 12)."""
        predicted = self._simulate(values, states, windows)
        attitude = predicted[..., 3:7]
        measured = {name: self._measured(windows, name)[None] for name in _MEASURED}
        turn = multiply(inverse(measured["orientation"]), attitude)
        turn = 2.0 * turn[..., :3] * np.where(turn[..., 3:] < 0.0, -1.0, 1.0)
        velocity = rotate_inverse(attitude, predicted[..., 7:10])
        return np.concatenate(
            [
                predicted[..., :3] - measured["position"],
                turn,
                velocity - measured["linear_velocity"],
                predicted[..., 10:] - measured["angular_velocity"],
            ],
            axis=-1,
        )

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
            thrust = self._robot.rotor_model.thrust(sent).sum(axis=1).mean() if often else 0.0
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
        step = _step_kernel(len(self._robot.rotors))
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
        motors = values[:, [self._column[name] for name in ("rise", "fall", "delay")]]
        different, which = np.unique(motors, axis=0, return_inverse=True)
        speeds = np.empty((len(different), *at_s.shape, len(self._robot.rotors)))
        for number, history in enumerate(self._rotors):
            mine = windows.recording == number
            speeds[:, mine] = history.speeds(at_s[mine], different[:, :2], different[:, 2])
        return speeds, which.ravel()

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
        rows[:, PARAMETERS["rotor_x"]] -= value["centre_x"][:, None]
        rows[:, PARAMETERS["rotor_y"]] -= value["centre_y"][:, None]
        return rows


_MEASURED = ("position", "orientation", "linear_velocity", "angular_velocity")


def thrust_coefficients(robot: Quadrotor, thrust: Array, power: Array) -> Array:
    """Return c0, c1, c2 (..., 3) of a rotor with a thrust, N, at the file's hover speed.

    Args:
        robot: The robot file, whose c0 is scaled with the thrust.
        thrust: (...,) at the file's hover speed.
        power: (...,) of the speed with which the thrust rises there; the file's own only scales its curve.
    """
    file, speed = np.array(robot.rotor_model.thrust_coefficients), robot.hover_speed_rad_s
    scale = np.asarray(thrust) / float(robot.rotor_model.thrust(np.array(speed)))
    further = (power - _power(robot)) * thrust
    c1 = scale * file[1] - further / speed
    return np.stack([scale * file[0], c1, scale * file[2] + further / speed**2], axis=-1)


def _largest_power(robot: Quadrotor, thrust: float, speed_min: float) -> float:
    """Return the largest power with which the thrust rises all the way from ``speed_min``, rad/s.

    That of c2 alone is 2, and a fit of such rotors ends as often above it as below.
    """
    _, c1, c2 = thrust_coefficients(robot, np.array(thrust), np.array(_power(robot)))
    share = speed_min / robot.hover_speed_rad_s
    if share >= 0.5:
        return np.inf
    return _power(robot) + float(c1 + 2.0 * speed_min * c2) * robot.hover_speed_rad_s / (thrust * (1.0 - 2.0 * share))


def _power(robot: Quadrotor) -> float:
    """Return the power of the speed with which the file's thrust rises at its hover speed: 2 for c2 alone."""
    _, c1, c2 = robot.rotor_model.thrust_coefficients
    speed = robot.hover_speed_rad_s
    return (c1 + 2.0 * c2 * speed) * speed / float(robot.rotor_model.thrust(np.array(speed)))


def _parameters(robot: Quadrotor) -> list[Parameter]:
    body, model, speed = robot.body, robot.rotor_model, robot.hover_speed_rad_s
    arm = float(np.abs(robot.rotor_positions[:, :2]).max())
    factor: dict[str, Any] = {"logarithmic": True, "prior": 1.0, "needed": 0.1, "floor": _FLOOR}
    weighed = (
        "odometry tells forces over mass and torques over inertia only: thrust, inertia and drag are in proportion to"
        " it; weigh the robot, ready to fly: --known mass=KG"
    )
    found = [Parameter("mass", "kg", body.mass_kg, ("body", "mass_kg"), manoeuvre="scales", given=weighed, **factor)]
    curve = ("rotor_model", "thrust_coefficients")
    thrust = float(model.thrust(np.array(speed)))
    found.append(Parameter("thrust", "N", thrust, curve, manoeuvre=_STEPS, **factor))
    found.append(Parameter("thrust_power", "", _power(robot), curve, manoeuvre=_CLIMBS, **{**factor, "prior": 0.3}))
    for axis, name in enumerate("xyz"):
        place, moment = ("body", "inertia_kg_m2", axis), body.inertia_kg_m2[axis]
        how: dict[str, Any] = {"manoeuvre": _TURNS, "alike": "torque"} if name == "z" else {"manoeuvre": _STEPS}
        found.append(Parameter(f"inertia_{name}", "kg m^2", moment, place, **how, **factor))
    for name, key, how_ in (
        ("torque", "torque_per_thrust_m", _TURNS),
        ("rise", "rise_time_constant_s", _CLIMBS),
        ("fall", "fall_time_constant_s", _CLIMBS),
    ):
        unit = "m" if name == "torque" else "s"
        place_ = ("rotor_model", key)
        found.append(Parameter(name, unit, getattr(model, key), place_, manoeuvre=how_, **factor))
    late = 0.25 / robot.control_rate_hz
    found.append(Parameter("delay", "s", 0.0, (), False, 0.05, late, _STEPS, least=0.0, floor=_FLOOR_S))
    most = robot.weight_n / robot.limits.linear_velocity_m_s
    for axis, name in enumerate("xyz"):
        where, drag = ("body", "linear_drag_n_s_per_m", axis), body.linear_drag_n_s_per_m[axis]
        how_ = f"flights at {0.7 * robot.limits.linear_velocity_m_s:.2g} m/s along {name}"
        needed = max(0.1 * drag, 0.005 * most)
        found.append(
            Parameter(f"drag_{name}", "N s/m", drag, where, False, most, needed, how_, least=0.0, floor=1e-4 * most)
        )
    for name in "xy":
        needed, floor = 0.02 * arm, 1e-7 * arm
        found.append(Parameter(f"centre_{name}", "m", 0.0, ("rotors",), False, 0.2 * arm, needed, _STEPS, floor=floor))
    return found


def _range(robot: Quadrotor, low: float, high: float) -> list[Parameter]:
    """Return the ends of the rotors' range that the recordings show to be others than the file's."""
    found = []
    for name, key, seen in (("speed_min", "speed_min_rad_s", low), ("speed_max", "speed_max_rad_s", high)):
        file = getattr(robot.rotor_model, key)
        if seen != file:
            how: dict[str, Any] = {"given": "as it was commanded", "observed": seen, "least": 0.0}
            found.append(Parameter(name, "rad/s", file, ("rotor_model", key), False, 1.0, 1.0, "", **how))
    return found


@lru_cache(maxsize=4)
def _step_kernel(rotors: int) -> Kernel:
    model = QuadrotorModel(_SUBSTEP_S)

    def step(body: Any, parameters: Any, speeds: Any, h: Any) -> dict[str, Any]:
        each = [speeds[k * rotors : (k + 1) * rotors] for k in range(3)]
        return {"next": advance_body(body, parameters, each, h[0], model)}

    rows = {"body": _BODY, "parameters": PARAMETER_WIDTH, "speeds": 3 * rotors, "h": 1}
    return Kernel(step, rows, dtype="float64")


class QuadrotorIdentification(KindIdentification):
    """See :class:`rlstack.identification.motion_model.KindIdentification`."""

    signals = (*_MEASURED, "rotor_speed")

    def check(self, robot: Any) -> None:
        """Refuse a robot that takes rates and thrust."""
        if robot.rate_loop is not None:
            raise UserError(
                f"{robot.name} takes rates and thrust, and only robots that take rotor speeds can be identified so far:"
                " record its autopilot's rotor speeds as cmd/rotors, and name its file without a rate_loop."
            )

    def names(self, robot: Any) -> dict[str, Sequence[str]]:
        """Return the rotors' names."""
        return {"rotor_speed": robot.rotor_names}

    def model(self, robot: Any, recordings: Sequence[Recorded]) -> MotionModel:
        """Return the model."""
        return QuadrotorMotion(robot, recordings)

    def edits(self, robot: Any, estimates: Mapping[str, Estimate], says: Callable[[str], str]) -> list[Edit]:
        """Return the changes: body, thrust curve, motors, and rotor positions about the new centre of mass."""
        found = []
        for name, estimate in estimates.items():
            place = estimate.parameter.place
            if estimate.verdict != "kept" and place and name not in (*_CURVE, *_CENTRE):
                found.append(Edit(place, estimate.value, says(name)))
        if changed := [name for name in _CURVE if estimates[name].verdict != "kept"]:
            thrust, power = (estimates[name].value for name in _CURVE)
            low = estimates["speed_min"].value if "speed_min" in estimates else robot.rotor_model.speed_min_rad_s
            most = _largest_power(robot, thrust, low)
            if most < power < most + max(3.0 * power * estimates["thrust_power"].half_width, _ALIKE):
                power = most
            curve = thrust_coefficients(robot, np.array(thrust), np.array(power))
            noted = "; ".join(map(says, changed))
            found.append(Edit(estimates["thrust"].parameter.place, curve.tolist(), noted))
        shift = [estimates[name].value if estimates[name].verdict == "told" else 0.0 for name in _CENTRE]
        if any(shift):
            for number, rotor in enumerate(robot.rotors):
                x, y, z = rotor.position_m
                place = ("rotors", number, "position_m")
                noted = "; ".join(map(says, _CENTRE)) if number == 0 else "likewise"
                found.append(Edit(place, [x - shift[0], y - shift[1], z], noted))
        return found

    def randomisation(self, robot: Any, estimates: Mapping[str, Estimate]) -> dict[str, tuple[float, float]]:
        """Return the ranges of the quantities that are told; the recipe's own stay for the others."""
        groups = {
            "thrust": ("thrust",),  # over mass, which is what moves the robot
            "inertia": ("inertia_x", "inertia_y", "inertia_z"),
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
