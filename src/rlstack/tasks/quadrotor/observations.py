"""Observation terms of quadrotors, in the body frame, so that they are invariant to the world's heading.

A task's ``pipeline`` in :mod:`rlstack.tasks.catalog` says which of them its policy observes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.tasks.core.observations import Signal
from rlstack.tasks.core.pipeline import Tensors, Term, to_body, to_world


class PositionError(Term):
    """Goal minus position, bounded, in the body frame."""

    name, size, unit, meaning = "position_error", 3, "m", "goal minus position in base_link, bounded in length"
    goal = "goal_position"

    def __init__(self, bound_m: float) -> None:
        super().__init__()
        self.bound_m = bound_m

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 3) m."""
        return to_body(inputs["rotation"], _bounded(inputs[self.goal] - inputs["position"], self.bound_m))


class Heading(Term):
    """Direction of the body's x axis in the goal's heading frame."""

    name, size, unit, meaning = "heading", 2, "-", "base_link x axis along and across the goal's heading"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2): (1, 0) on course."""
        return _relative_heading(inputs["rotation"], _heading(inputs["goal_orientation"]))


class IntegratedPositionError(PositionError):
    """Goal minus position plus its integral near the goal: a constant offset of the policy's hover vanishes.

    Args:
        bound_m: As for :class:`PositionError`, of the sum.
        per_s: Share of the error that is added each second.
        rate_hz: Control rate.
        most_m_s: Greatest change of the bounded sum in the world, m/s; 0 for no limit. A goal that steps to the other
            side in flight would else reverse the tilt at once, while the old velocity still lasts.
    """

    meaning = "goal minus position in base_link and its integral near the goal, bounded in length"
    near_m, most_m = 0.15, 0.2
    """Distance at which the integral stops growing, so that it does not grow on the way; its bound on each axis."""

    def __init__(self, bound_m: float, per_s: float, rate_hz: float, most_m_s: float = 0.0) -> None:
        super().__init__(bound_m)
        self.share, self.most_step_m = per_s / rate_hz, most_m_s / rate_hz
        self.memory: Mapping[str, tuple[int, ...]] = {"position_integral": (3,)}
        if most_m_s:
            self.memory = {**self.memory, "position_error_seen": (3,), "position_seen": (1,)}

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Advance the integral (batch, 3) m, world, and the observed error (batch, 3) m, world."""
        error = inputs[self.goal] - inputs["position"]
        distance = torch.sqrt((error * error).sum(dim=-1, keepdim=True) + 1e-12)
        near = (2.0 - distance * (2.0 / self.near_m)).clamp(0.0, 1.0)
        integral = memory["position_integral"] + error * near * self.share
        integral = integral.clamp(-self.most_m, self.most_m)
        seen = _bounded(error + integral, self.bound_m)
        if self.most_step_m:
            last = memory["position_error_seen"]
            limited = last + _bounded(seen - last, self.most_step_m)
            seen = seen + memory["position_seen"] * (limited - seen)  # the first one is taken as it is
        return {"position_integral": integral, "position_error_seen": seen}

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 3) m."""
        return to_body(inputs["rotation"], inputs["position_error_seen"])

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Keep the integral and the observed error."""
        kept = {"position_integral": inputs["position_integral"]}
        if not self.most_step_m:
            return kept
        seen = inputs["position_error_seen"]
        return {**kept, "position_error_seen": seen, "position_seen": torch.ones_like(seen[:, :1])}


class IntegratedHeading(Heading):
    """The direction on course, turned by the integral of the heading error: a constant offset vanishes.

    Args:
        per_s: Share of the error that is added each second.
        rate_hz: Control rate.
    """

    meaning = "base_link x axis along and across the goal's heading, turned by the integral of the error"
    near, most_rad = 0.4, 0.4
    """Sine of the error at which the integral stops growing; its bound."""

    def __init__(self, per_s: float, rate_hz: float) -> None:
        super().__init__()
        self.share = per_s / rate_hz
        self.memory: Mapping[str, tuple[int, ...]] = {"heading_integral": (1,)}

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Advance the integral (batch, 1) rad."""
        seen = super().observe(inputs, memory)
        along, across = seen[:, :1], seen[:, 1:]
        near = (2.0 - across.abs() * (2.0 / self.near)).clamp(0.0, 1.0) * along.clamp(0.0, 1.0)
        integral = (memory["heading_integral"] + across * near * self.share).clamp(-self.most_rad, self.most_rad)
        return {"heading_seen": seen, "heading_integral": integral}

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2): (1, 0) on course."""
        along, across = inputs["heading_seen"].unbind(dim=-1)
        more = inputs["heading_integral"][:, 0]
        # a rotation by a small angle, to third order
        sine, cosine = more - more * more * more / 6.0, 1.0 - 0.5 * more * more
        return torch.stack([along * cosine - across * sine, across * cosine + along * sine], dim=-1)

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Keep the integral."""
        return {"heading_integral": inputs["heading_integral"]}


class PathError(PositionError):
    """The path's current point minus position, bounded, in the body frame."""

    name, meaning = "path_error", "the path's present point minus position in base_link, bounded"
    goal = "path_now"

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Find the path's current point."""
        return {"path_now": along_path(inputs["path_time"], inputs["path_position"], 0.0)}


class IntegratedPathError(IntegratedPositionError):
    """The path's current point minus position, plus its integral near the path.

    Args as for :class:`IntegratedPositionError`.
    """

    name = "path_error"
    meaning = "the path's present point minus position in base_link and its integral near the path, bounded"
    goal = "path_now"

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Find the path's current point, and advance the integral (batch, 3) m, world."""
        now = {"path_now": along_path(inputs["path_time"], inputs["path_position"], 0.0)}
        return {**now, **super().prepare({**inputs, **now}, memory)}


class PathAhead(Term):
    """Points ahead on the path, relative to its current point, in the body frame."""

    name, unit, meaning = "path_ahead", "m", "points of the path ahead minus its present point, in base_link"

    def __init__(self, ahead_s: Sequence[float]) -> None:
        super().__init__()
        self.ahead_s = tuple(ahead_s)
        self.size = 3 * len(self.ahead_s)

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 3 * points) m; needs :class:`PathError` before it."""
        points = [along_path(inputs["path_time"], inputs["path_position"], t) for t in self.ahead_s]
        return torch.cat([to_body(inputs["rotation"], point - inputs["path_now"]) for point in points], dim=-1)


class PathHeading(Term):
    """Direction of the body's x axis in the heading frame of the path's present point."""

    name, size, unit, meaning = "heading", 2, "-", "base_link x axis along and across the path's heading"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 2): (1, 0) on course."""
        goal = along_path(inputs["path_time"], _heading(inputs["path_orientation"]), 0.0)
        return _relative_heading(inputs["rotation"], goal)


def path(ahead_s: Sequence[float], bound_m: float, integral_per_s: float, rate_hz: float) -> list[Term]:
    """Return the terms of a path: its error, m, with its integral if ``integral_per_s`` is not 0, and points ahead."""
    error = IntegratedPathError(bound_m, integral_per_s, rate_hz) if integral_per_s else PathError(bound_m)
    return [error, PathAhead(ahead_s)]


def velocities() -> list[Term]:
    """Return the terms of the measured velocities: linear, m/s, and angular, rad/s, in the body frame."""
    linear = Signal("linear_velocity", 3, "m/s", "velocity in base_link")
    return [linear, Signal("angular_velocity", 3, "rad/s", "rates in base_link")]


class RotorSpeedEstimate(Term):
    """Rotor speeds from a lag model that is driven by the policy's own commands."""

    name, unit, meaning = "rotor_speed_estimate", "-1..1", "lag model of the rotors, scaled as actions"

    def __init__(self, robot: Quadrotor, rate_hz: float) -> None:
        super().__init__()
        self.size = len(robot.rotors)
        self.memory: Mapping[str, tuple[int, ...]] = {"rotor_speed_estimate": (self.size,)}
        self.rise = math.exp(-1.0 / (rate_hz * robot.rotor_model.rise_time_constant_s))
        self.fall = math.exp(-1.0 / (rate_hz * robot.rotor_model.fall_time_constant_s))

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, rotors)."""
        return memory["rotor_speed_estimate"]

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Advance the modelled rotors towards the action by one period."""
        now = memory["rotor_speed_estimate"]
        change = now - action
        keep = torch.where(change < 0.0, self.rise, self.fall)
        return {"rotor_speed_estimate": action + change * keep}


class DisturbanceEstimate(Term):
    """Disturbance observer: estimates a constant acceleration from the error of the predicted velocity.

    First order: each period the velocity predicted from modelled thrust, drag and the estimate is compared with the
    measured one, and a share of the difference corrects the estimate.
    """

    name, size, unit, meaning = "disturbance_estimate", 3, "m/s^2", "estimated disturbing acceleration in base_link"

    def __init__(self, robot: Quadrotor, rate_hz: float, bandwidth_hz: float) -> None:
        super().__init__()
        self.memory: Mapping[str, tuple[int, ...]] = {
            "disturbance": (3,),
            "velocity_prediction": (3,),
            "velocity_predicted": (1,),
        }
        model, body = robot.rotor_model, robot.body
        self.period = 1.0 / rate_hz
        self.gain = 1.0 - math.exp(-2.0 * math.pi * bandwidth_hz / rate_hz)
        self.middle = 0.5 * (model.speed_max_rad_s + model.speed_min_rad_s)
        self.half_range = 0.5 * (model.speed_max_rad_s - model.speed_min_rad_s)
        self.coefficients = tuple(c / body.mass_kg for c in model.thrust_coefficients)
        factors = robot.thrust_factors.tolist()
        self.register_buffer("factors", None if set(factors) == {1.0} else torch.tensor(factors))
        self.register_buffer("drag", torch.tensor(body.linear_drag_n_s_per_m) / body.mass_kg)
        self.register_buffer("gravity", torch.tensor([0.0, 0.0, STANDARD_GRAVITY]))

    drag: Tensor
    gravity: Tensor
    factors: Tensor | None

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Update the estimate with the newest velocity."""
        velocity = to_world(inputs["rotation"], inputs["linear_velocity"])
        surprise = (velocity - memory["velocity_prediction"]) * (self.gain / self.period)
        estimate = memory["disturbance"] + memory["velocity_predicted"] * surprise
        # bound the length: bounds per axis would depend on the heading
        length = torch.sqrt((estimate * estimate).sum(dim=-1, keepdim=True) + 1e-12)
        estimate = estimate * (STANDARD_GRAVITY / length).clamp(max=1.0)
        return {"velocity_world": velocity, "disturbance": estimate}

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 3) m/s^2."""
        return to_body(inputs["rotation"], inputs["disturbance"])

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Keep the estimate and predict the next velocity."""
        thrust = self._thrust(memory)
        rotation = inputs["rotation"]
        in_world = rotation[:, :, 2] * thrust - to_world(rotation, self.drag * inputs["linear_velocity"])
        acceleration = in_world - self.gravity + inputs["disturbance"]
        return {
            "disturbance": inputs["disturbance"],
            "velocity_prediction": inputs["velocity_world"] + self.period * acceleration,
            "velocity_predicted": torch.ones_like(thrust),
        }

    def _thrust(self, memory: Tensors) -> Tensor:
        """Return the modelled thrust per mass (batch, 1) m/s^2."""
        speed = self.middle + self.half_range * memory["rotor_speed_estimate"]
        c0, c1, c2 = self.coefficients
        each = c0 + speed * (c1 + speed * c2)
        return (each if self.factors is None else each * self.factors).sum(dim=-1, keepdim=True)


class ThrustDisturbanceEstimate(DisturbanceEstimate):
    """The same observer for a policy that commands thrust, which follows with a lag.

    Args:
        robot: The robot.
        rate_hz: Control rate.
        bandwidth_hz: Of the observer.
        most_m_s2: Thrust per mass of an action of 1, the last of the actions; one of -1 gives none.
    """

    def __init__(self, robot: Quadrotor, rate_hz: float, bandwidth_hz: float, most_m_s2: float) -> None:
        super().__init__(robot, rate_hz, bandwidth_hz)
        self.memory = {**self.memory, "thrust_estimate": (1,)}
        self.half_m_s2 = 0.5 * most_m_s2
        self.keep = math.exp(-1.0 / (rate_hz * THRUST_LAG_S))

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Keep the estimate, predict the next velocity, and let the modelled thrust follow the action."""
        now, wanted = memory["thrust_estimate"], action[..., -1:]
        return {**super().remember(inputs, memory, action), "thrust_estimate": wanted + self.keep * (now - wanted)}

    def _thrust(self, memory: Tensors) -> Tensor:
        return self.half_m_s2 * (1.0 + memory["thrust_estimate"])


THRUST_LAG_S = 0.02
"""Lag of the modelled thrust: an autopilot leads its motors, whose own lag is longer."""


class TorqueEstimate(Term):
    """Disturbance observer of rotation: estimates a constant angular acceleration from the error of predicted rates.

    First order, as :class:`DisturbanceEstimate`; it needs :class:`RotorSpeedEstimate` in the same pipeline.
    """

    name, size, unit, meaning = "torque_estimate", 3, "rad/s^2", "estimated disturbing angular acceleration"

    bound_rad_s2 = 40.0
    """Six standard deviations of the task's disturbance of a Crazyflie about roll and pitch."""

    def __init__(self, robot: Quadrotor, rate_hz: float, bandwidth_hz: float) -> None:
        super().__init__()
        self.memory: Mapping[str, tuple[int, ...]] = {
            "torque_disturbance": (3,),
            "rate_prediction": (3,),
            "rate_predicted": (1,),
        }
        model, place = robot.rotor_model, robot.rotor_positions
        self.period = 1.0 / rate_hz
        self.gain = 1.0 - math.exp(-2.0 * math.pi * bandwidth_hz / rate_hz)
        self.middle = 0.5 * (model.speed_max_rad_s + model.speed_min_rad_s)
        self.half_range = 0.5 * (model.speed_max_rad_s - model.speed_min_rad_s)
        self.coefficients = model.thrust_coefficients
        inertia = torch.tensor(robot.body.inertia_kg_m2)
        lever = np.stack([place[:, 1], -place[:, 0], robot.yaw_torque_signs * model.torque_per_thrust_m])
        self.register_buffer("inertia", inertia)
        lever = lever * robot.thrust_factors
        self.register_buffer("turn", torch.from_numpy(lever).to(torch.float32) / inertia[:, None])

    inertia: Tensor
    turn: Tensor

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Update the estimate with the newest rates."""
        surprise = (inputs["angular_velocity"] - memory["rate_prediction"]) * (self.gain / self.period)
        estimate = memory["torque_disturbance"] + memory["rate_predicted"] * surprise
        return {"torque_disturbance": estimate.clamp(-self.bound_rad_s2, self.bound_rad_s2)}

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 3) rad/s^2."""
        return inputs["torque_disturbance"]

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Keep the estimate and predict the next rates."""
        speed = self.middle + self.half_range * memory["rotor_speed_estimate"]
        c0, c1, c2 = self.coefficients
        thrust = c0 + speed * (c1 + speed * c2)
        rates = inputs["angular_velocity"]
        x, y, z = (rates * self.inertia).unbind(dim=-1)
        p, q, r = rates.unbind(dim=-1)
        gyroscopic = torch.stack([q * z - r * y, r * x - p * z, p * y - q * x], dim=-1) / self.inertia
        driven = (thrust.unsqueeze(-2) * self.turn).sum(dim=-1)
        change = driven - gyroscopic + inputs["torque_disturbance"]
        return {
            "torque_disturbance": inputs["torque_disturbance"],
            "rate_prediction": rates + self.period * change,
            "rate_predicted": torch.ones_like(p).unsqueeze(-1),
        }


def along_path(time: Tensor, points: Tensor, ahead_s: float) -> Tensor:
    """Return the points (batch, k) of paths ``ahead_s`` s from now, interpolated linearly, at rest before and after.

    Args:
        time: (batch, M) s from now until each pose is due, increasing.
        points: (batch, M, k) values at the poses.
        ahead_s: Time ahead, s.
    """
    begin, end = time[:, :-1], time[:, 1:]
    share = ((ahead_s - begin) / (end - begin)).clamp(0.0, 1.0)
    return points[:, 0] + (share.unsqueeze(-1) * (points[:, 1:] - points[:, :-1])).sum(dim=1)


def _bounded(v: Tensor, bound: float) -> Tensor:
    length = torch.sqrt((v * v).sum(dim=-1, keepdim=True) + 1e-12)
    return v * (bound / length).clamp(max=1.0)


def _heading(q: Tensor) -> Tensor:
    """Return the horizontal direction (..., 2), not normalised, of the x axis of quaternions (..., 4) xyzw."""
    x, y, z, w = q.unbind(dim=-1)
    return torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y + w * z)], dim=-1)


def _relative_heading(rotation: Tensor, goal: Tensor) -> Tensor:
    forward = rotation[:, :2, 0]
    goal = goal / torch.sqrt((goal * goal).sum(dim=-1, keepdim=True) + 1e-12)
    along = (forward * goal).sum(dim=-1)
    across = goal[..., 0] * forward[..., 1] - goal[..., 1] * forward[..., 0]
    return torch.stack([along, across], dim=-1)
