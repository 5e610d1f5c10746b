"""Quadrotor dynamics of one robot, in numpy style: written once, fused for CPU and CUDA, forward and reverse.

Rigid body with a unit quaternion; each rotor follows its command with a first-order lag that is solved
exactly; the body is integrated by classical Runge-Kutta steps (RK4). The measured error against a fine-step
float64 reference is in docs/results.md.

Vectors have their components along the first axis, so the functions take plain arrays (3,) or (3, N) as well as
the expressions of :mod:`rlstack.fused`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rlstack.fused import clip, greater, maximum, minimum, where
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.batch.layout import PARAMETERS, STATE

Vector = Any
"""An array with its components along the first axis."""


class Body(NamedTuple):
    """What moves: position m and velocity m/s in the world, attitude body to world, rates rad/s in the body.

    Also the time derivative of one.
    """

    position: Vector
    orientation: Vector
    velocity: Vector
    rates: Vector


@dataclass(frozen=True)
class Model:
    """What of the physics is computed, and how finely.

    Args:
        period_s: Control period, s.
        substeps: RK4 steps in it.
        gyroscopic: Whether the rotors' angular momentum acts on the body.
        max_delay_s: The longest delay of a command; 0 leaves the past commands out.
    """

    period_s: float
    substeps: int = 1
    gyroscopic: bool = False
    max_delay_s: float = 0.0

    @property
    def past_commands(self) -> int:
        """How many commands before the newest one may still act."""
        return math.ceil(self.max_delay_s / self.period_s - 1e-9) + 1 if self.max_delay_s > 0.0 else 0


def advance(state: Vector, parameters: Vector, commands: Sequence[Vector], model: Model) -> Vector:
    """Return the state row one control period on.

    Args:
        state: As in :data:`rlstack.sim.batch.layout.STATE`.
        parameters: As in :data:`rlstack.sim.batch.layout.PARAMETERS`.
        commands: (rotors,) rad/s each: the newest, which came just now, and those before it, one period apart.
        model: What is computed.
    """
    p = {name: parameters[where_] for name, where_ in PARAMETERS.items()}
    low, high = p["speed_range"]
    delay = p["delay"][0]
    chosen = [clip(command, low, high) for command in commands]
    command = old_command = chosen[0]
    switch = None
    if model.past_commands:
        # within a period a delayed robot flies first on the older command, then on the newer
        old_command = chosen[1]
        switch = delay
        for k in range(1, model.past_commands):
            later = greater(delay, k * model.period_s - 1e-9)
            command = where(later, chosen[k], command)
            old_command = where(later, chosen[k + 1], old_command)
            switch = where(later, delay - k * model.period_s, switch)
    body = Body(*(state[STATE[name]] for name in ("position", "orientation", "linear_velocity", "angular_velocity")))
    speed, elapsed = state[STATE["rotor_speed"]], state[STATE["elapsed"]][0]
    h = model.period_s / model.substeps
    for k in range(model.substeps):
        ahead = None if switch is None else clip(switch - k * h, 0.0, h)
        body, speed = _step(body, speed, command, old_command, ahead, _force(p, elapsed, h), p, h, model.gyroscopic)
        elapsed = elapsed + h
    return np.concatenate([*body, speed, [elapsed]])


def _step(
    body: Body, speed: Vector, command: Vector, old: Vector, ahead: Any, force: Vector, p: Any, h: float, spin: bool
) -> tuple[Body, Vector]:
    """Return body and rotor speeds after ``h`` s; the old command acts for ``ahead`` s more (None: not at all)."""
    lag = p["time_constants"]
    if ahead is None:
        # two halves with the same command share their decay
        keep = _decay(lag, 0.5 * h)
        middle = _lagged(speed, command, keep)
        end = _lagged(middle, command, keep)
        commands = (command, command, command)
    else:
        early = minimum(ahead, 0.5 * h)
        late = ahead - early
        middle = _lagged(_lagged(speed, old, _decay(lag, early)), command, _decay(lag, 0.5 * h - early))
        end = _lagged(_lagged(middle, old, _decay(lag, late)), command, _decay(lag, 0.5 * h - late))
        commands = tuple(where(greater(ahead, t), old, command) for t in (0.0, 0.5 * h, h * (1.0 - 1e-6)))
    speeds = (speed, middle, end)
    wrenches = []
    for w, wanted in zip(speeds, commands):
        change = (wanted - w) / where(greater(wanted, w), lag[0], lag[1]) if spin else None
        wrenches.append(_wrench(w, change, p))
    fixed = [(thrust, torque, momentum, force) for thrust, torque, momentum in wrenches]
    k1 = _slope(body, fixed[0], p)
    k2 = _slope(_moved(body, k1, 0.5 * h), fixed[1], p)
    k3 = _slope(_moved(body, k2, 0.5 * h), fixed[1], p)
    k4 = _slope(_moved(body, k3, h), fixed[2], p)
    mean = Body(*((a + 2.0 * (b + c) + d) / 6.0 for a, b, c, d in zip(k1, k2, k3, k4)))
    after = _moved(body, mean, h)
    return after._replace(orientation=_unit(after.orientation)), end


def _force(p: Any, elapsed: Any, h: float) -> Vector:
    """Return the disturbing force of a step, N: a gust counts by the share of the step in which it blows."""
    start, end = p["gust_window"]
    blows = maximum(minimum(end, elapsed + h) - maximum(start, elapsed), 0.0) / h
    return p["force"] + blows * p["gust_force"]


def _decay(lag: Vector, duration: Any) -> Vector:
    """Return what is left of a difference after ``duration`` s, for rise and fall."""
    return np.exp(-duration / lag)


def _lagged(speed: Vector, command: Vector, keep: Vector) -> Vector:
    """Return rotor speeds under a constant command: the exact first-order response."""
    return command + (speed - command) * where(greater(command, speed), keep[0], keep[1])


def _wrench(speed: Vector, change: Vector | None, p: Any) -> tuple[Any, Vector, Any]:
    """Return thrust N, torque N m in the body, and the rotors' angular momentum (None: left out)."""
    c0, c1, c2 = p["thrust_coefficients"]
    lift = p["thrust_scale"] * (c0 + speed * (c1 + speed * c2))
    sign = p["yaw_torque_sign"]
    torque = [
        p["torque"][0] + (p["rotor_y"] * lift).sum(axis=0),
        p["torque"][1] - (p["rotor_x"] * lift).sum(axis=0),
        p["torque"][2] + p["torque_per_thrust"][0] * (sign * lift).sum(axis=0),
    ]
    momentum = None
    if change is not None:
        # a rotor whose drag turns the body one way spins the other way; spinning it up pushes back
        momentum = -p["spin_inertia"][0] * (sign * speed).sum(axis=0)
        torque[2] = torque[2] + p["spin_inertia"][0] * (sign * change).sum(axis=0)
    return lift.sum(axis=0), _vector(*torque), momentum


def _slope(body: Body, wrench: tuple[Any, Vector, Any, Vector], p: Any) -> Body:
    """Newton and Euler at given rotor speeds."""
    thrust, torque, momentum, force = wrench
    if momentum is not None:
        # the rotors' angular momentum turns with the body
        torque = torque - _vector(body.rates[1] * momentum, -body.rates[0] * momentum, 0.0 * momentum)
    # inside a Runge-Kutta step it is not of length 1, and would shear instead of rotate
    attitude = _unit(body.orientation)
    in_body = -p["drag"] * _rotate(attitude, body.velocity, -1.0)
    in_body = _vector(in_body[0], in_body[1], in_body[2] + thrust)
    push = (_rotate(attitude, in_body, 1.0) + force) * (1.0 / p["mass"][0])
    inertia = p["inertia"]
    spin = _cross(body.rates, inertia * body.rates)
    return Body(
        position=body.velocity,
        orientation=0.5 * _turned(body.orientation, body.rates),
        velocity=_vector(push[0], push[1], push[2] - STANDARD_GRAVITY),
        rates=(torque - spin) * (1.0 / inertia),
    )


def _moved(body: Body, slope: Body, duration: float) -> Body:
    return Body(*(now + rate * duration for now, rate in zip(body, slope)))


def _unit(q: Vector) -> Vector:
    return q * (1.0 / np.sqrt((q * q).sum(axis=0)))


def _rotate(q: Vector, v: Vector, sense: float) -> Vector:
    """Rotate ``v`` by the unit quaternion ``q`` xyzw (sense 1) or its inverse (sense -1)."""
    axis, w = q[:3], sense * q[3]
    across = 2.0 * _cross(axis, v)
    return v + w * across + _cross(axis, across)


def _turned(q: Vector, rates: Vector) -> Vector:
    """Return the quaternion product of ``q`` and the pure quaternion of the body rates."""
    x, y, z, w = q
    p, q_, r = rates
    return _vector(w * p + y * r - z * q_, w * q_ + z * p - x * r, w * r + x * q_ - y * p, -(x * p + y * q_ + z * r))


def _cross(a: Vector, b: Vector) -> Vector:
    return _vector(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def _vector(*components: Any) -> Vector:
    return np.stack([np.asarray(c) for c in components])
