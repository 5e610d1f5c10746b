"""Dynamics of a mobile base, in numpy style: written once, fused for CPU and CUDA, forward and reverse.

A command is delayed and limited in acceleration and jerk, as by base controllers; the base follows the result with a
first-order lag, and its wheels may slip. Three drives: ``differential`` (a unicycle), ``ackermann`` (a bicycle with
limited steering rate and limited lateral acceleration of the tyres) and ``holonomic``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rlstack.fused import clip, greater, maximum, minimum, where
from rlstack.sim.batch_wheeled_base.layout import PARAMETERS, STATE

Vector = Any
"""(k,) numbers, (k, N) arrays, or expressions of :mod:`rlstack.fused`."""

Drive = Literal["differential", "ackermann", "holonomic"]

_SLOW_M_S = 0.02
"""Least speed at which a commanded yaw rate is converted to curvature."""

_PUSH = 1.1
"""Greatest motor acceleration of a car, relative to its acceleration limit; at 1 it could not follow a ramp."""


@dataclass(frozen=True)
class WheeledBaseModel:
    """Settings of the dynamics.

    Args:
        period_s: Control period, s.
        drive: Type of drive.
        substeps: Integration steps in a period.
        max_delay_s: Longest delay of a command; 0 omits past commands.
    """

    period_s: float
    drive: Drive = "differential"
    substeps: int = 2
    max_delay_s: float = 0.0

    @property
    def command_width(self) -> int:
        """Width of a command: ``planar_twist`` for a holonomic base, otherwise ``twist``."""
        return 3 if self.drive == "holonomic" else 2

    @property
    def past_commands(self) -> int:
        """Number of commands before the newest that may still act."""
        return math.ceil(self.max_delay_s / self.period_s - 1e-9)


def advance(state: Vector, parameters: Vector, commands: Sequence[Vector], model: WheeledBaseModel) -> Vector:
    """Return the state rows after one control period.

    Args:
        state: Rows of :data:`rlstack.sim.batch_wheeled_base.layout.STATE`.
        parameters: Rows of :data:`rlstack.sim.batch_wheeled_base.layout.PARAMETERS`.
        commands: (command_width,) each, m/s and rad/s, newest first; the newest has just arrived.
        model: Settings of the dynamics.
    """
    p = {name: parameters[rows] for name, rows in PARAMETERS.items()}
    chosen = [_limited(command, p["limits"], model.drive) for command in commands]
    x, y = state[STATE["position"]]
    turn_z, turn_w = state[STATE["turn"]]
    ahead, side = state[STATE["velocity"]]
    rate = state[STATE["yaw_rate"]][0]
    setpoint, ramp = list(state[STATE["setpoint"]]), list(state[STATE["ramp"]])
    curvature = state[STATE["curvature"]][0]
    h = model.period_s / model.substeps
    keep = [np.exp(-h / lag) for lag in p["lag"]]
    # the mean speed of a step lies between its ends, weighted by the lag's own curve, from a line to a jump
    shares = [1.0 / (1.0 - left) - lag / h for lag, left in zip(p["lag"], keep)]
    for k in range(model.substeps):
        command = _acting(chosen, p["delay"][0], k * h, h, model)
        for axis, limit in enumerate((0, 0, 1)):
            setpoint[axis], ramp[axis] = _ramped(
                setpoint[axis], ramp[axis], command[axis], p["acceleration"][limit], p["jerk"][limit], h
            )
        before = ahead, side, rate
        ahead = _followed(ahead, setpoint[0] * p["gain"][0], keep[0])
        side = _followed(side, setpoint[1] * p["gain"][0], keep[0])
        if model.drive == "ackermann":
            curvature = _steered(curvature, setpoint, p["steering"], h)
            # tyres: longitudinal and lateral forces share one grip limit; beyond it, a car brakes less and runs wide
            most = _PUSH * p["acceleration"][0]
            push, turning = clip((ahead - before[0]) * (1.0 / h), -most, most), before[0] * before[0] * curvature
            asked = (push * push + turning * turning) / (p["grip"][0] * p["grip"][0])
            given = 1.0 / np.sqrt(np.sqrt(1.0 + asked * asked))
            ahead = before[0] + push * given * h
            rate = _followed(rate, ahead * curvature * given * p["gain"][1], keep[1])
        else:
            rate = _followed(rate, setpoint[2] * p["gain"][1], keep[1])
        mean_ahead, mean_side, mean_rate = (
            old + share * (new - old)
            for old, new, share in zip(before, (ahead, side, rate), (shares[0], shares[0], shares[1]))
        )
        # the heading at the middle of the step; the quaternion turns by half the angle
        middle_z, middle_w = _turned(turn_z, turn_w, 0.25 * h * mean_rate)
        cos, sin = middle_w * middle_w - middle_z * middle_z, 2.0 * middle_z * middle_w
        x = x + h * (mean_ahead * cos - mean_side * sin)
        y = y + h * (mean_ahead * sin + mean_side * cos)
        turn_z, turn_w = _turned(turn_z, turn_w, 0.5 * h * mean_rate)
    scale = 1.0 / np.sqrt(turn_z * turn_z + turn_w * turn_w)
    elapsed = state[STATE["elapsed"]][0] + model.period_s
    return _stacked(
        [x, y, turn_z * scale, turn_w * scale, ahead, side, rate, *setpoint, *ramp, curvature, elapsed], state
    )


def heading(state: Vector) -> tuple[Any, Any]:
    """Return cosine and sine of the heading in state rows."""
    z, w = state[STATE["turn"]]
    return w * w - z * z, 2.0 * z * w


def _limited(command: Vector, limits: Vector, drive: Drive) -> list[Any]:
    """Return forward speed, lateral speed and yaw rate within the limits."""
    slowest, fastest, side, turning = limits
    ahead = clip(command[0], slowest, fastest)
    if drive == "holonomic":
        return [ahead, clip(command[1], -side, side), clip(command[2], -turning, turning)]
    return [ahead, 0.0 * ahead, clip(command[1], -turning, turning)]


def _acting(commands: Sequence[list[Any]], delay: Any, begin: float, h: float, model: WheeledBaseModel) -> list[Any]:
    """Return the mean command of the step from ``begin`` s; a command acts ``delay`` s after its arrival."""
    if not model.past_commands:
        return commands[0]
    total: list[Any] = [0.0, 0.0, 0.0]
    later = 1.0 + 0.0 * delay
    for age, command in enumerate(commands):
        # the share of the step in which this command acts
        share = clip((begin + h - (delay - age * model.period_s)) * (1.0 / h), 0.0, 1.0)
        if age == len(commands) - 1:
            share = 1.0 + 0.0 * delay
        weight = share if age == 0 else share - (1.0 - later)
        total = [sum_ + weight * part for sum_, part in zip(total, command)]
        later = 1.0 - share
    return total


def _ramped(now: Any, ramp: Any, wanted: Any, acceleration: Any, jerk: Any, h: float) -> tuple[Any, Any]:
    """Return the setpoint and its rate after ``h`` s towards ``wanted``, with acceleration and jerk limits."""
    error = wanted - now
    distance = np.abs(error)
    # the greatest rate that the jerk limit can still bring to rest at the wanted value
    half = 0.5 * jerk * h  # half of the change in one step
    # sqrt(2 jerk distance + half^2) - half without the subtraction, which cancels in float32 for a large half
    stopping = 2.0 * jerk * distance / (np.sqrt(2.0 * jerk * distance + half * half) + half)
    rate = minimum(minimum(distance * (1.0 / h), stopping), acceleration)
    # an error of 0 counts as positive, where the derivative of abs is 1 (rlstack.fused.adjoint): as negative, a base
    # at its setpoint would return twice its gradient in each step
    rate = where(greater(0.0, error), -rate, rate)
    ramp = clip(rate, ramp - jerk * h, ramp + jerk * h)
    return now + ramp * h, ramp


def _followed(now: Any, wanted: Any, keep: Any) -> Any:
    return wanted + (now - wanted) * keep


def _steered(curvature: Any, setpoint: Sequence[Any], steering: Vector, h: float) -> Any:
    most, wheelbase, rate = steering
    speed = setpoint[0]
    speed = where(greater(speed, 0.0), maximum(speed, _SLOW_M_S), minimum(speed, -_SLOW_M_S))
    wanted = clip(setpoint[2] / speed, -most, most)
    # curvature is tan(angle) / wheelbase
    bent = curvature * wheelbase
    step = (1.0 + bent * bent) / wheelbase * rate * h
    return clip(wanted, curvature - step, curvature + step)


def _turned(z: Any, w: Any, angle: Any) -> tuple[Any, Any]:
    """Rotate the planar quaternion by twice the small ``angle``, by its series (error 1e-6 at 0.4 rad)."""
    square = angle * angle
    sin = angle * (1.0 - square * (1.0 / 6.0) * (1.0 - square * 0.05))
    cos = 1.0 - square * 0.5 * (1.0 - square * (1.0 / 12.0) * (1.0 - square * (1.0 / 30.0)))
    return z * cos + w * sin, w * cos - z * sin


def _stacked(rows: list[Any], like: Vector) -> Vector:
    return np.stack(np.broadcast_arrays(*rows)) if np.ndim(like) > 1 else np.array(rows, dtype=like.dtype)
