"""Row layout of a quadrotor's state and parameters in the fused step.

With rows instead of one array per quantity, a reset is one gather and one scatter, whatever is randomized.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array32
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Aerodynamics, Quadrotor
from rlstack.kinds.quadrotor.spec_allocation import allocation, inverse_allocation
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.physics.models import NO_MODELS, PhysicsModels


def slices(widths: Mapping[str, int]) -> dict[str, slice]:
    """Return consecutive row slices for quantities of the given widths."""
    ends = np.cumsum(list(widths.values())).tolist()
    return {name: slice(end - width, end) for (name, width), end in zip(widths.items(), ends)}


STATE = slices(
    {
        "position": 3,  # m, world
        "orientation": 4,  # xyzw, body to world
        "linear_velocity": 3,  # m/s, world
        "angular_velocity": 3,  # rad/s, body
        "rotor_speed": 4,  # rad/s
        "elapsed": 1,  # s since the reset
    }
)
"""Columns of the state row by name."""

STATE_WIDTH = STATE["elapsed"].stop

PARAMETERS = slices(
    {
        "mass": 1,  # kg
        "inertia": 3,  # kg m^2
        "drag": 3,  # N s/m
        "thrust_coefficients": 3,  # N, N s/rad, N s^2/rad^2
        "thrust_scale": 4,
        "torque_per_thrust": 1,  # m
        "time_constants": 2,  # s, rise and fall
        "spin_inertia": 1,  # kg m^2
        "speed_range": 2,  # rad/s
        "rotor_x": 4,  # m
        "rotor_y": 4,  # m
        "yaw_torque_sign": 4,
        "force": 3,  # N, world
        "torque": 3,  # N m, body
        "gust_force": 3,  # N, world
        "gust_window": 2,  # s, start and end
        "delay": 1,  # s
        "rotor_z": 4,  # m
        "rotor_drag": 3,  # kg
        "ground_effect": 2,  # rotor radius m, coefficient
        "wake_drag": 1,  # N s/m along body z, from the air's own velocity, in addition to the drag
        # what an autopilot with a rate loop believes: the robot file's own values; 0 without a rate loop
        "loop_lag": 3,  # s, of roll and pitch, and of yaw; share of disturbing torques that it cancels
        "loop_mass": 1,  # kg
        "loop_inertia": 3,  # kg m^2
        "loop_motors": 2,  # s, rise and fall
        "loop_arms": 12,  # m: rows of torque x, y, z over rotor thrusts
        "loop_mixer": 16,  # rows of rotors over thrust and torques
    }
)
"""Columns of the parameter row by name."""

PARAMETER_WIDTH = PARAMETERS["loop_mixer"].stop


def pack_parameters(
    robot: Quadrotor, perturbation: Perturbation, dtype: str = "float32", models: PhysicsModels = NO_MODELS
) -> NDArray[Any]:
    """Return the parameter rows (N, PARAMETER_WIDTH) of ``robot`` with N perturbations.

    Args:
        robot: The robot file.
        perturbation: Perturbations of N robots.
        dtype: Type of the rows.
        models: Models enabled for this robot; disabled ones have zeros, since the kernel may compute them for others.
    """
    if not robot.has_rotors:
        raise UserError(f"The batch simulator flies quadrotors; {robot.name} is a {robot.kind}.")
    p, body, rotor = perturbation, robot.body, robot.rotor_model
    count = len(p)
    air = robot.aerodynamics or Aerodynamics()
    # rotor drag equals linear drag at hover, so only one of them is used
    fixed_drag, rotor_drag = np.asarray(body.linear_drag_n_s_per_m), np.zeros(3)
    if models.rotor_drag and air.rotor_drag:
        fixed_drag, rotor_drag = np.zeros(3), np.asarray(air.rotor_drag.coefficient_kg)
    floor = air.ground_effect.coefficient if models.ground_effect and air.ground_effect else 0.0
    wake = 0.0
    if models.downwash and air.downwash:
        wake = max(air.downwash.vertical_drag_n_s_per_m - body.linear_drag_n_s_per_m[2], 0.0)
    columns = {
        "mass": body.mass_kg * p.mass_scale,
        "inertia": np.asarray(body.inertia_kg_m2) * p.inertia_scale,
        "drag": fixed_drag * p.drag_scale[:, None],
        "thrust_coefficients": np.tile(rotor.thrust_coefficients, (count, 1)),
        "thrust_scale": _factored(p.thrust_scale, robot),
        "torque_per_thrust": rotor.torque_per_thrust_m * p.torque_scale,
        "time_constants": p.time_constant_scale * [rotor.rise_time_constant_s, rotor.fall_time_constant_s],
        "spin_inertia": np.full(count, rotor.spin_inertia_kg_m2),
        "speed_range": np.tile([rotor.speed_min_rad_s, rotor.speed_max_rad_s], (count, 1)),
        "rotor_x": np.outer(p.arm_scale[:, 0], robot.rotor_positions[:, 0]),
        "rotor_y": np.outer(p.arm_scale[:, 1], robot.rotor_positions[:, 1]),
        "yaw_torque_sign": np.tile(robot.yaw_torque_signs, (count, 1)),
        "force": p.force_n,
        "torque": p.torque_n_m,
        "gust_force": p.gust_force_n,
        "gust_window": np.stack([p.gust_start_s, p.gust_start_s + p.gust_duration_s], axis=1),
        "delay": p.delay_s,
        "rotor_z": np.tile(robot.rotor_positions[:, 2], (count, 1)),
        "rotor_drag": rotor_drag * p.drag_scale[:, None],
        "ground_effect": np.tile([rotor.radius_m, floor], (count, 1)),
        "wake_drag": np.full(count, wake),
        **_loop_columns(robot, p),
    }
    return _pack(columns, PARAMETERS, PARAMETER_WIDTH, count, dtype)


def _factored(scale: NDArray[Any], robot: Quadrotor) -> NDArray[Any]:
    """Return the factors of the rotors' thrust; what does not fit is refused where the rows are packed."""
    return scale * robot.thrust_factors if scale.shape[1:] == robot.thrust_factors.shape else scale


def _loop_columns(robot: Quadrotor, p: Perturbation) -> dict[str, NDArray[Any]]:
    count = len(p)
    names = [name for name in PARAMETERS if name.startswith("loop_")]
    if (loop := robot.rate_loop) is None:
        return {name: np.zeros((count, PARAMETERS[name].stop - PARAMETERS[name].start)) for name in names}
    lag = p.rate_lag_scale[:, None] * [loop.time_constant_s, loop.yaw_time_constant_s]
    model, body = robot.rotor_model, robot.body
    believed: dict[str, Sequence[float] | NDArray[np.float64]] = {
        "loop_mass": [body.mass_kg],
        "loop_inertia": body.inertia_kg_m2,
        "loop_motors": [model.rise_time_constant_s, model.fall_time_constant_s],
        "loop_arms": allocation(robot)[1:].ravel(),
        "loop_mixer": inverse_allocation(robot).ravel(),
    }
    return {
        "loop_lag": np.concatenate([lag, p.rate_rejection_scale[:, None]], axis=1),
        **{name: np.tile(np.asarray(values), (count, 1)) for name, values in believed.items()},
    }


def pack_state(state: Mapping[str, NDArray[np.floating]], count: int | None = None) -> Array32:
    """Return the state rows (N, STATE_WIDTH) from arrays by name; ``elapsed`` is optional.

    Args:
        state: Arrays (N, width), as in :data:`STATE`.
        count: N; by default that of ``position``.

    Raises:
        ValueError: A name is missing or unknown, or an array has the wrong shape.
    """
    if count is None:
        count = len(state.get("position", ()))
    return _pack({"elapsed": np.zeros(count), **state}, STATE, STATE_WIDTH, count)


def _pack(
    columns: Mapping[str, NDArray[np.floating]],
    layout: dict[str, slice],
    width: int,
    count: int,
    dtype: str = "float32",
) -> NDArray[Any]:
    if set(columns) != set(layout):
        raise ValueError(f"expected the arrays {sorted(layout)}, got {sorted(columns)}")
    rows = np.empty((count, width), dtype=dtype)
    for name, where in layout.items():
        array, size = np.asarray(columns[name]), where.stop - where.start
        if array.shape not in ((count, size), *([(count,)] if size == 1 else [])):
            raise ValueError(f"{name}: the shape {array.shape} is not allowed: must be {(count, size)}.")
        rows[:, where] = array.reshape(count, size)
    return rows
