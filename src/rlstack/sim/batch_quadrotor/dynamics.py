"""Quadrotor dynamics, in numpy style: written once, fused for CPU and CUDA, forward and reverse.

A rigid body with a unit quaternion, integrated by classical Runge-Kutta steps (RK4); each rotor follows its command
with a first-order lag, solved exactly. docs/results.md has the measured error against a fine-step float64
reference.

Vectors have their components along the first axis, so the functions take plain arrays (3,) or (3, N) as well as
expressions of :mod:`rlstack.fused`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.fused import clip, greater, minimum, where
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.batch_quadrotor.layout import PARAMETERS, STATE
from rlstack.sim.physics import rotor
from rlstack.sim.physics.body import Body, Vector, cross, rotate, turned, unit, vector
from rlstack.sim.physics.loads import disturbances, loads
from rlstack.sim.physics.models import NO_MODELS, PhysicsModels
from rlstack.sim.physics.rate_loop import rotor_commands
from rlstack.sim.physics.residual import ResidualModel

LEAST_LOOP_HZ = 200.0
"""Least rate of the rate loop: its motors' horizon is some 10 ms."""

RESIDUAL_INPUTS = (
    *(f"velocity_{axis}_m_s" for axis in "xyz"),
    *(f"rate_{axis}_rad_s" for axis in "xyz"),
    *(f"rotor_{k}_rad_s" for k in range(1, 5)),
)
"""Inputs of a residual model: velocity through the air and rates, both in the body, and the rotors' speeds."""
RESIDUAL_OUTPUTS = (*(f"force_{axis}_n" for axis in "xyz"), *(f"torque_{axis}_n_m" for axis in "xyz"))
"""Its outputs, in the body."""


@dataclass(frozen=True)
class QuadrotorModel:
    """Settings of the dynamics.

    Args:
        period_s: Control period, s.
        substeps: RK4 steps per control period.
        gyroscopic: Whether the rotors' angular momentum acts on the body.
        max_delay_s: Longest delay of a command; 0 omits past commands.
        models: Physics models (:mod:`rlstack.sim.physics`); the caller applies the battery through the speed range.
        floor_height_m: z of the floor in the world frame, for the ground effect.
    """

    period_s: float
    substeps: int = 1
    gyroscopic: bool = False
    max_delay_s: float = 0.0
    models: PhysicsModels = NO_MODELS
    floor_height_m: float = 0.0
    rate_loop: bool = False
    """Whether commands are rates and thrust, which a rate loop turns into rotor speeds once a substep."""
    residual: ResidualModel | None = None
    """Forces and torques beyond the physics, held over a substep."""

    @staticmethod
    def of(robot: Quadrotor, period_s: float, **settings: Any) -> QuadrotorModel:
        """Return the model of a robot, with a rate loop if it has one, of at least :data:`LEAST_LOOP_HZ`."""
        if robot.rate_loop is None:
            return QuadrotorModel(period_s, **settings)
        substeps = max(settings.pop("substeps", 1), math.ceil(period_s * LEAST_LOOP_HZ - 1e-9))
        return QuadrotorModel(period_s, substeps=substeps, rate_loop=True, **settings)

    @property
    def past_commands(self) -> int:
        """Number of commands before the newest that may still act."""
        return math.ceil(self.max_delay_s / self.period_s - 1e-9) + 1 if self.max_delay_s > 0.0 else 0


def advance(
    state: Vector, parameters: Vector, commands: Sequence[Vector], model: QuadrotorModel, air: Vector | None = None
) -> Vector:
    """Return the state row after one control period.

    Args:
        state: Rows of :data:`rlstack.sim.batch_quadrotor.layout.STATE`.
        parameters: Rows of :data:`rlstack.sim.batch_quadrotor.layout.PARAMETERS`.
        commands: (rotors,) rad/s each, newest first, one period apart; the newest has just arrived. With a rate loop
            (4,): rates, rad/s, and thrust per mass, m/s^2.
        model: Settings of the dynamics.
        air: (3,) air velocity over the period, m/s, world frame; None: still air.
    """
    p = {name: parameters[where_] for name, where_ in PARAMETERS.items()}
    low, high = p["speed_range"]
    delay = p["delay"][0]
    chosen = list(commands) if model.rate_loop else [clip(command, low, high) for command in commands]
    command = old_command = chosen[0]
    switch = None
    if model.past_commands:
        # with a delay, the older command acts in the first part of a period and the newer in the rest
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
        surroundings = _Surroundings(p, model, air, *_beyond(body, speed, model, air, *disturbances(p, elapsed, h)))
        if model.rate_loop:
            wanted = command if ahead is None else command + (old_command - command) * (ahead * (1.0 / h))
            turning = surroundings.slope(body, speed, None).rates
            motors = rotor_commands(body.rates, turning, speed, wanted, p)
            body, speed = _step(body, speed, motors, motors, None, surroundings, h)
        else:
            body, speed = _step(body, speed, command, old_command, ahead, surroundings, h)
        elapsed = elapsed + h
    return np.concatenate([*body, speed, [elapsed]])


@dataclass(frozen=True)
class _Surroundings:
    """Quantities that are constant over an integration step."""

    p: Mapping[str, Vector]
    model: QuadrotorModel
    air: Vector | None
    force: Vector
    torque: Vector

    def slope(self, body: Body, speed: Vector, change: Vector | None) -> Body:
        """Return the state derivative by the Newton-Euler equations at the given rotor speeds."""
        p, model = self.p, self.model
        # inside a Runge-Kutta step the quaternion is not normalized, and would shear instead of rotate
        straight = body._replace(orientation=unit(body.orientation))
        push, turn = loads(straight, speed, change, p, model.models, self.air, model.floor_height_m, idle=False)
        push = (push + self.force) * (1.0 / p["mass"][0])
        inertia = p["inertia"]
        spin = cross(body.rates, inertia * body.rates)
        return Body(
            position=body.velocity,
            orientation=0.5 * turned(body.orientation, body.rates),
            velocity=vector(push[0], push[1], push[2] - STANDARD_GRAVITY),
            rates=(turn + self.torque - spin) * (1.0 / inertia),
        )


def _step(
    body: Body, speed: Vector, command: Vector, old: Vector, ahead: Any, around: _Surroundings, h: float
) -> tuple[Body, Vector]:
    """Return body and rotor speeds after ``h`` s; the old command acts for the first ``ahead`` s (None: not at all)."""
    lag = around.p["time_constants"]
    decay, lagged = rotor.decay, rotor.lagged
    if ahead is None:
        # two halves with the same command have the same decay
        keep = decay(lag, 0.5 * h)
        middle = lagged(speed, command, keep)
        end = lagged(middle, command, keep)
        commands = (command, command, command)
    else:
        early = minimum(ahead, 0.5 * h)
        late = ahead - early
        middle = lagged(lagged(speed, old, decay(lag, early)), command, decay(lag, 0.5 * h - early))
        end = lagged(lagged(middle, old, decay(lag, late)), command, decay(lag, 0.5 * h - late))
        commands = tuple(where(greater(ahead, t), old, command) for t in (0.0, 0.5 * h, h * (1.0 - 1e-6)))
    speeds = (speed, middle, end)
    spin = around.model.gyroscopic
    begin, half, full = ((w, rotor.change(w, wanted, lag) if spin else None) for w, wanted in zip(speeds, commands))
    return _runge_kutta(body, begin, half, full, around, h), end


def advance_body(
    body: Vector, parameters: Vector, speeds: Sequence[Vector], duration: Any, model: QuadrotorModel
) -> Any:
    """Return the rows of position, attitude, velocity and rates after a step under known rotor speeds.

    For a motion whose rotor speeds are known beforehand, as in identification; without disturbances.

    Args:
        body: (13, ...) the first rows of :data:`rlstack.sim.batch_quadrotor.layout.STATE`.
        parameters: Rows of :data:`rlstack.sim.batch_quadrotor.layout.PARAMETERS`.
        speeds: (rotors, ...) rad/s each, at the step's begin, middle and end.
        duration: Of the step, s.
        model: Settings of the dynamics, without a rate loop.
    """
    p = {name: parameters[where_] for name, where_ in PARAMETERS.items()}
    parts = ("position", "orientation", "linear_velocity", "angular_velocity")
    change = (speeds[2] - speeds[0]) * (1.0 / duration) if model.gyroscopic else None
    begin, half, full = ((speed, change) for speed in speeds)
    now = Body(*(body[STATE[name]] for name in parts))
    around = _Surroundings(p, model, None, *_beyond(now, speeds[0], model, None, 0.0 * p["force"], 0.0 * p["torque"]))
    after = _runge_kutta(now, begin, half, full, around, duration)
    return np.concatenate(list(after))


def _beyond(
    body: Body, speed: Vector, model: QuadrotorModel, air: Vector | None, force: Vector, torque: Vector
) -> tuple[Vector, Vector]:
    """Return force (3,), world, and torque (3,), body, with those of the residual model, if there is one."""
    if model.residual is None:
        return force, torque
    velocity = body.velocity if air is None else body.velocity - air
    found = model.residual.apply([*rotate(body.orientation, velocity, -1.0), *body.rates, *speed])
    return force + rotate(body.orientation, found[:3]), torque + found[3:]


def _runge_kutta(
    body: Body, begin: tuple[Any, Any], half: tuple[Any, Any], full: tuple[Any, Any], around: _Surroundings, h: Any
) -> Body:
    """Return the body after ``h`` s, from the rotors' speeds and accelerations at the begin, middle and end."""
    k1 = around.slope(body, *begin)
    k2 = around.slope(_moved(body, k1, 0.5 * h), *half)
    k3 = around.slope(_moved(body, k2, 0.5 * h), *half)
    k4 = around.slope(_moved(body, k3, h), *full)
    mean = Body(*((a + 2.0 * (b + c) + d) / 6.0 for a, b, c, d in zip(k1, k2, k3, k4)))
    after = _moved(body, mean, h)
    return after._replace(orientation=unit(after.orientation))


def _moved(body: Body, slope: Body, duration: Any) -> Body:
    return Body(*(now + rate * duration for now, rate in zip(body, slope)))
