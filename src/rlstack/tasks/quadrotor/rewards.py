"""Rewards of quadrotor tasks: their weights, the transition of N robots, and reward terms by name.

A task in :mod:`rlstack.tasks.catalog` sets the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rlstack.schema import value
from rlstack.sim.batch_quadrotor.layout import PARAMETERS, STATE

if TYPE_CHECKING:
    from torch import Tensor

    from rlstack.kinds.quadrotor.spec import QuadrotorLimits


LIMIT_SHARE = 0.8
"""Share of the guard's limits above which speed and tilt cost; flights then stay below 90%."""


@dataclass(frozen=True, kw_only=True)
class Reward:
    """Weights of the reward terms, per second except ``lost``. Each task sets its own."""

    near: float = value(0.0)
    """exp(-4 d) of the distance d in m to the goal, or to the path's current point."""
    at_goal: float = value(0.0)
    """exp(-25 d)."""
    distance: float = value(0.0)
    """Distance in m: has a slope far away, where the exponentials are flat."""
    squared: float = value(0.0)
    """Squared distance in m^2, as in a root mean square error."""
    velocity: float = value(0.0)
    """Speed in m/s, relative to the path's."""
    rates: float = value(0.0)
    """Squared body rates in rad^2/s^2: with motor lag, a fast attitude loop oscillates."""
    tilt: float = value(0.0)
    """1 - cos of the tilt."""
    heading: float = value(0.0)
    """1 - cos of the heading error."""
    yaw: float = value(0.0)
    """Heading error in rad, smoothed at 0: has a slope close to the goal's heading, where ``heading`` is flat."""
    over_speed: float = value(0.0)
    """Speed in m/s above :data:`LIMIT_SHARE` of the guard's limit."""
    over_tilt: float = value(0.0)
    """Cosine of :data:`LIMIT_SHARE` of the guard's tilt limit minus that of the tilt, where the tilt is greater."""
    action_change: float = value(0.0)
    """Squared change of the action."""
    jitter: float = value(0.0)
    """Length of the action's change, smoothed at 0: has a slope where ``action_change`` is flat, at small changes."""
    lost: float = value(-2.0)
    """Once, when the robot is lost."""


@dataclass(frozen=True)
class QuadrotorTransition:
    """True state of N robots for reward terms, relative to the goal; the desired heading is 0."""

    state: Tensor  # (N, STATE_WIDTH)
    action: Tensor  # (N, actions) in -1..1
    last_action: Tensor  # (N, actions)
    goal_position: Tensor  # (N, 3) m, world
    goal_velocity: Tensor  # (N, 3) m/s, world
    parameters: Tensor  # (N, PARAMETER_WIDTH)
    limits: QuadrotorLimits | None = None
    """The guard's limits, for the terms that need them."""

    @cached_property
    def position(self) -> Tensor:
        """(N, 3) m from the goal."""
        return self.state[:, STATE["position"]] - self.goal_position

    @cached_property
    def orientation(self) -> Tensor:
        """(N, 4) xyzw."""
        return self.state[:, STATE["orientation"]]

    @cached_property
    def linear_velocity(self) -> Tensor:
        """(N, 3) m/s, world, relative to the goal's."""
        return self.state[:, STATE["linear_velocity"]] - self.goal_velocity

    @cached_property
    def angular_velocity(self) -> Tensor:
        """(N, 3) rad/s, body."""
        return self.state[:, STATE["angular_velocity"]]

    @cached_property
    def distance(self) -> Tensor:
        """(N,) m; smoothed at the goal, where it is 0.1 mm."""
        return (self.position.square().sum(dim=-1) + 1e-8).sqrt()

    @cached_property
    def speed(self) -> Tensor:
        """(N,) m/s; smoothed at rest."""
        return (self.linear_velocity.square().sum(dim=-1) + 1e-8).sqrt()

    @cached_property
    def up_z(self) -> Tensor:
        """(N,) cosine of the tilt."""
        x, y = self.orientation[:, 0], self.orientation[:, 1]
        return 1.0 - 2.0 * (x * x + y * y)

    @cached_property
    def heading_cos(self) -> Tensor:
        """(N,) world x component of the body's x axis."""
        y, z = self.orientation[:, 1], self.orientation[:, 2]
        return 1.0 - 2.0 * (y * y + z * z)

    @cached_property
    def over_speed(self) -> Tensor:
        """(N,) m/s above the share of the guard's limit."""
        if self.limits is None:
            raise ValueError("the reward term over_speed needs the guard's limits")
        velocity = self.state[:, STATE["linear_velocity"]]
        speed = (velocity.square().sum(dim=-1) + 1e-8).sqrt()
        return (speed - LIMIT_SHARE * self.limits.linear_velocity_m_s).clamp(min=0.0)

    @cached_property
    def over_tilt(self) -> Tensor:
        """(N,) how far the cosine of the tilt is below that of the share of the guard's limit."""
        if self.limits is None:
            raise ValueError("the reward term over_tilt needs the guard's limits")
        return (math.cos(LIMIT_SHARE * self.limits.tilt_rad) - self.up_z).clamp(min=0.0)

    @cached_property
    def arm(self) -> Tensor:
        """(N,) m, root mean square distance of the rotors from the centre of mass."""
        x, y = self.parameters[:, PARAMETERS["rotor_x"]], self.parameters[:, PARAMETERS["rotor_y"]]
        return (x.square() + y.square()).mean(dim=-1).sqrt()


RewardTerm = Callable[[QuadrotorTransition], Any]
"""Maps a transition of N robots to (N,)."""

TERMS: Mapping[str, RewardTerm] = {
    "near": lambda s: (-4.0 * s.distance).exp(),
    "at_goal": lambda s: (-25.0 * s.distance).exp(),
    "distance": lambda s: s.distance,
    "squared": lambda s: s.position.square().sum(dim=-1),
    "velocity": lambda s: s.speed,
    "rates": lambda s: s.angular_velocity.square().sum(dim=-1),
    "tilt": lambda s: 1.0 - s.up_z,
    "heading": lambda s: 1.0 - s.heading_cos,
    "yaw": lambda s: ((1.0 - s.heading_cos).clamp(min=0.0) * 2.0 + 1e-5).sqrt(),
    "over_speed": lambda s: s.over_speed,
    "over_tilt": lambda s: s.over_tilt,
    "action_change": lambda s: (s.action - s.last_action).square().sum(dim=-1),
    "jitter": lambda s: ((s.action - s.last_action).square().sum(dim=-1) + 1e-4).sqrt(),
}
"""The terms by the names of their weights in :class:`Reward`."""
