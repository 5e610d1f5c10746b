"""Forces and torques on a quadrotor besides gravity and contact: one function for every simulator and model.

The batch simulator calls it in each stage of its integration (float32, with reverse mode), the engines' kernel once a
physics step (float64); see :mod:`rlstack.sim.physics`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlstack.fused import maximum, minimum
from rlstack.sim.physics import rotor
from rlstack.sim.physics.body import Body, Vector, down_row, rotate, vector
from rlstack.sim.physics.models import NO_MODELS, PhysicsModels


def loads(
    body: Body,
    speed: Vector,
    change: Vector | None,
    p: Mapping[str, Vector],
    models: PhysicsModels = NO_MODELS,
    air: Vector | None = None,
    floor_height: Any = 0.0,
    idle: bool = True,
) -> tuple[Vector, Vector]:
    """Return the force (3,) N in the **world** frame without gravity, and the torque (3,) N m in the **body** frame.

    Includes rotor thrust with ground effect, drag and the rotors' gyroscopic term, but not the disturbances of a
    :class:`rlstack.sim.perturbation.Perturbation`; see :func:`disturbances`.

    Args:
        body: Position m and velocity m/s in the world, attitude (unit quaternion xyzw), rates rad/s in the body.
        speed: (rotors,) rad/s.
        change: (rotors,) rad/s^2; None leaves the rotors' angular momentum out.
        p: Parameters by name, as in :data:`rlstack.sim.batch_quadrotor.layout.PARAMETERS`.
        models: Enabled physics models.
        air: (3,) m/s, world: wind and others' wakes; None: still air.
        floor_height: World z of the floor, m, for the ground effect.
        idle: Whether rotors may turn slower than the least command, as after a stop.
    """
    lift = rotor.thrust(speed, p["thrust_coefficients"], p["thrust_scale"], idle)
    if models.ground_effect:
        x, y, z = down_row(body.orientation)
        height = body.position[2] - floor_height + x * p["rotor_x"] + y * p["rotor_y"] + z * p["rotor_z"]
        radius, coefficient = p["ground_effect"]
        lift = lift * rotor.ground_effect(height, radius, coefficient, z > 0.0)
    sign = p["yaw_torque_sign"]
    torque = vector(
        (p["rotor_y"] * lift).sum(axis=0),
        -(p["rotor_x"] * lift).sum(axis=0),
        p["torque_per_thrust"][0] * (sign * lift).sum(axis=0),
    )
    if change is not None:
        # a rotor spins against the direction in which its drag turns the body; accelerating it adds a reaction torque
        momentum = -p["spin_inertia"][0] * (sign * speed).sum(axis=0)
        pushed = p["spin_inertia"][0] * (sign * change).sum(axis=0)
        # the rotors' angular momentum turns with the body
        torque = torque + vector(-body.rates[1] * momentum, body.rates[0] * momentum, pushed)
    drag = p["drag"]
    if models.rotor_drag:
        drag = drag + rotor.rotor_drag(p["rotor_drag"], speed)
    velocity = body.velocity if air is None else body.velocity - air
    in_body = -drag * rotate(body.orientation, velocity, -1.0)
    push = lift.sum(axis=0)
    if models.downwash and air is not None:
        push = push + p["wake_drag"][0] * rotate(body.orientation, air, -1.0)[2]
    in_body = vector(in_body[0], in_body[1], in_body[2] + push)
    return rotate(body.orientation, in_body), torque


def disturbances(p: Mapping[str, Vector], elapsed: Any, duration: Any) -> tuple[Vector, Vector]:
    """Return the disturbance force (3,) N, world, and torque (3,) N m, body, over a step.

    A gust counts with the share of the step in which it blows.

    Args:
        p: Parameters by name.
        elapsed: Time from the reset to the step's start, s.
        duration: Duration of the step, s.
    """
    start, end = p["gust_window"]
    blows = maximum(minimum(end, elapsed + duration) - maximum(start, elapsed), 0.0) / duration
    return p["force"] + blows * p["gust_force"], p["torque"]
