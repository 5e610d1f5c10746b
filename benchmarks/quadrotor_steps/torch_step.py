"""The quadrotor's RK4 step on torch tensors (rows, N), for eager execution and for torch.compile."""

from __future__ import annotations

import torch
from torch import Tensor

from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.batch_quadrotor.layout import PARAMETERS, STATE


def step(state: Tensor, parameters: Tensor, command: Tensor, h: float) -> Tensor:
    p = {name: parameters[rows] for name, rows in PARAMETERS.items()}
    position, orientation, velocity, rates, speed, elapsed = (state[rows] for rows in STATE.values())
    low, high = p["speed_range"][0], p["speed_range"][1]
    command = torch.minimum(torch.maximum(command, low), high)
    keep = torch.exp(-0.5 * h / p["time_constants"])
    middle = lagged(speed, command, keep)
    end = lagged(middle, command, keep)
    start, stop = p["gust_window"][:1], p["gust_window"][1:]
    blows = torch.clamp(torch.minimum(stop, elapsed + h) - torch.maximum(start, elapsed), min=0.0) / h
    force = p["force"] + blows * p["gust_force"]
    wrenches = [wrench(w, p) for w in (speed, middle, end)]
    body = (position, orientation, velocity, rates)
    k1 = slope(body, wrenches[0], force, p)
    k2 = slope(moved(body, k1, 0.5 * h), wrenches[1], force, p)
    k3 = slope(moved(body, k2, 0.5 * h), wrenches[1], force, p)
    k4 = slope(moved(body, k3, h), wrenches[2], force, p)
    mean = [(a + 2.0 * (b + c) + d) / 6.0 for a, b, c, d in zip(k1, k2, k3, k4)]
    position, orientation, velocity, rates = moved(body, mean, h)
    return torch.cat([position, unit(orientation), velocity, rates, end, elapsed + h])


def lagged(speed, command, keep):
    return command + (speed - command) * torch.where(command > speed, keep[0], keep[1])


def wrench(speed, p):
    c = p["thrust_coefficients"]
    lift = p["thrust_scale"] * (c[0] + speed * (c[1] + speed * c[2]))
    turn = torch.stack(
        [
            (p["rotor_y"] * lift).sum(0),
            -(p["rotor_x"] * lift).sum(0),
            p["torque_per_thrust"][0] * (p["yaw_torque_sign"] * lift).sum(0),
        ]
    )
    return lift.sum(0), p["torque"] + turn


def slope(body, wrench, force, p):
    _, orientation, velocity, rates = body
    thrust, torque = wrench
    attitude = unit(orientation)
    in_body = -p["drag"] * rotate(attitude, velocity, -1.0)
    in_body = torch.stack([in_body[0], in_body[1], in_body[2] + thrust])
    push = (rotate(attitude, in_body, 1.0) + force) / p["mass"]
    push = torch.stack([push[0], push[1], push[2] - STANDARD_GRAVITY])
    x, y, z, w = orientation.unbind(0)
    a, b, c = rates.unbind(0)
    turned = torch.stack(
        [w * a + y * c - z * b, w * b + z * a - x * c, w * c + x * b - y * a, -(x * a + y * b + z * c)]
    )
    spin = cross(rates, p["inertia"] * rates)
    return velocity, 0.5 * turned, push, (torque - spin) / p["inertia"]


def moved(body, rate, duration):
    return [now + r * duration for now, r in zip(body, rate)]


def unit(q):
    return q * torch.rsqrt((q * q).sum(0))


def rotate(q, v, sense):
    axis, w = q[:3], sense * q[3]
    across = 2.0 * cross(axis, v)
    return v + w * across + cross(axis, across)


def cross(a, b):
    return torch.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])
