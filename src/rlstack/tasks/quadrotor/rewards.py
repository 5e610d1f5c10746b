"""The transition that reward terms and endings are functions of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from rlstack.sim.batch import PARAMETERS, STATE


@dataclass(frozen=True)
class QuadrotorTransition:
    """True state of N robots for reward terms, relative to the goal; the desired heading is 0."""

    state: Tensor  # (N, STATE_WIDTH)
    action: Tensor  # (N, actions) in -1..1
    last_action: Tensor  # (N, actions)
    goal_position: Tensor  # (N, 3) m, world
    goal_velocity: Tensor  # (N, 3) m/s, world
    parameters: Tensor  # (N, PARAMETER_WIDTH)

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
    def arm(self) -> Tensor:
        """(N,) m, root mean square distance of the rotors from the centre of mass."""
        x, y = self.parameters[:, PARAMETERS["rotor_x"]], self.parameters[:, PARAMETERS["rotor_y"]]
        return (x.square() + y.square()).mean(dim=-1).sqrt()
