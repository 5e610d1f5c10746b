"""What training leaves uncertain: departures from the robot file that no policy is told of, drawn for each episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlstack.schema import value
from rlstack.sim.batch_wheeled_base.layout import CIRCLE_ROWS, PARAMETERS

ODOMETRY_WIDTH = 3
"""Rows of odometry's errors: its age, s; its scales of distances and of turning rates."""


@dataclass(frozen=True, kw_only=True)
class BaseDepartures:
    """Departures in training; by default none."""

    scan_delay_s: float = value(0.0, unit="s", at_least=0.0, at_most=1.0)
    """Greatest delay of scans, constant in an episode."""
    scan_halved: float = value(0.0, at_least=0.0, at_most=1.0)
    """Share of episodes in which only every other scan arrives."""
    narrow_view: float = value(0.0, at_least=0.0, at_most=1.0)
    """Share of episodes with a narrower field of view, about straight ahead; other rays read the greatest range."""
    narrow_view_rad: float = value(3.0, unit="rad", above=0.0, at_most=6.3)
    """Least field of view in these."""
    odometry_delay_s: float = value(0.0, unit="s", at_least=0.0, at_most=1.0)
    """Greatest delay of odometry."""
    odometry_scale: float = value(0.0, at_least=0.0, at_most=0.5)
    """Greatest error of distances, speeds and turning rates by odometry, relative."""
    gain: float = value(0.0, at_least=0.0, at_most=0.9)
    """Greatest further departure of the base's speed, and of its turning rate, from the commanded one, relative."""
    acceleration_m_s2: tuple[float, float] | None = value(None, unit="m/s^2", above=0.0)
    """Range of the base's acceleration limit, log-uniform; None: the robot file's."""
    footprint_m: float = value(0.0, unit="m", at_least=0.0)
    """Addition to the footprint's radii."""
    people_delay_s: float = value(0.0, unit="s", at_least=0.0, at_most=2.0)
    """Greatest age of people, who are moved on by their velocity as the policy node does."""
    people_position_m: float = value(0.0, unit="m", at_least=0.0)
    """Greatest standard deviation of people's positions, one for each episode."""
    people_velocity_m_s: float = value(0.0, unit="m/s", at_least=0.0)
    """The same of their velocities."""

    @property
    def odometry(self) -> bool:
        """Whether odometry departs."""
        return self.odometry_delay_s > 0.0 or self.odometry_scale > 0.0

    @property
    def people(self) -> bool:
        """Whether people depart."""
        return self.people_delay_s > 0.0 or self.people_position_m > 0.0 or self.people_velocity_m_s > 0.0

    def trained_ranges(self) -> dict[str, tuple[float, float]]:
        """Return lowest and highest value of what departs, for the policy's envelope."""
        found: dict[str, tuple[float, float]] = {}
        for name in ("scan_delay_s", "odometry_delay_s", "people_delay_s"):
            if most := getattr(self, name):
                found[name] = (0.0, most)
        for name, most in (("odometry_scale", self.odometry_scale), ("gain_scale", self.gain)):
            if most:
                found[name] = (1.0 - most, 1.0 + most)
        if self.narrow_view:
            found["field_of_view_rad"] = (self.narrow_view_rad, 6.2831855)
        if self.acceleration_m_s2 is not None:
            found["acceleration_m_s2"] = self.acceleration_m_s2
        if self.people_position_m:
            found["people_position_noise_m"] = (0.0, self.people_position_m)
        return found

    def draw_parameters(self, rows: Tensor, generator: torch.Generator) -> None:
        """Change parameters (PARAMETER_WIDTH, n) of the batch simulator in place."""
        count = rows.shape[1]
        if self.gain:
            gain = torch.rand(2, count, generator=generator, device=rows.device)
            rows[PARAMETERS["gain"]] *= 1.0 + self.gain * (2.0 * gain - 1.0)
        if self.acceleration_m_s2 is not None:
            low, high = self.acceleration_m_s2
            share = torch.rand(count, generator=generator, device=rows.device)
            rows[PARAMETERS["acceleration"].start] = low * (high / low) ** share

    def draw_odometry(self, count: int, generator: torch.Generator) -> Tensor:
        """Return errors (ODOMETRY_WIDTH, n) of odometry."""
        rows = torch.rand(ODOMETRY_WIDTH, count, generator=generator, device=generator.device)
        rows[0] *= self.odometry_delay_s
        rows[1:] = 1.0 + self.odometry_scale * (2.0 * rows[1:] - 1.0)
        return rows


class PeopleHistory:
    """People as the policies of N robots receive them in training: late, moved on by their velocity, and noisy.

    Args:
        departures: The departures.
        people: Number of people around each robot, the last of the circles.
        rate_hz: Control rate.
        count: N.
        device: Device of the arrays.
    """

    def __init__(self, departures: BaseDepartures, people: int, rate_hz: float, count: int, device: Any) -> None:
        self._departures, self._people, self._period_s = departures, people, 1.0 / rate_hz
        self._late = round(departures.people_delay_s * rate_hz)
        self._past = torch.zeros(self._late + 1, count, people, CIRCLE_ROWS, device=device)
        self._rows = torch.arange(count, device=device)
        self._known = torch.zeros(count, dtype=torch.long, device=device)
        self._delay = torch.zeros(count, dtype=torch.long, device=device)
        self._sigma = torch.zeros(2, count, device=device)
        self.noise = torch.zeros(4 * people, 1, count, device=device)
        """Unit normals, for the caller to fill."""
        self._turn, self._again = 0, False

    def restart(self, index: Tensor, generator: torch.Generator) -> None:
        """Draw delay and noise of the robots at ``index``, and forget their people."""
        departures, device = self._departures, index.device
        self._known[index] = 0
        self._delay[index] = torch.randint(self._late + 1, (len(index),), generator=generator, device=device)
        most = torch.tensor([[departures.people_position_m], [departures.people_velocity_m_s]], device=device)
        self._sigma[:, index] = most * torch.rand(2, len(index), generator=generator, device=device)

    def repeat(self) -> None:
        """Take the present again at the next call: a rollout begins where the last one ended."""
        self._again = True

    def __call__(self, circles: Tensor, out: Tensor) -> None:
        """Take the present circles (rows, N) and write the people (5 people, N) that the policies receive."""
        again, count = self._again, len(self._rows)
        self._again = False
        if not again:
            self._turn += 1
        self._known += ((self._known == 0) | (not again)).long()
        people, kept = self._people, len(self._past)
        self._past[self._turn % kept] = circles[-CIRCLE_ROWS * people :].T.reshape(count, people, CIRCLE_ROWS)
        late = torch.minimum(self._delay, self._known - 1)
        seen = self._past[(self._turn - late) % kept, self._rows]
        # noise belongs to the measurement, and an error of its velocity grows with its age
        normal = self.noise[:, 0].T.reshape(count, people, 4)
        place, velocity = (
            self._sigma[0][:, None, None] * normal[..., :2],
            self._sigma[1][:, None, None] * normal[..., 2:],
        )
        velocity = seen[..., 3:] + velocity
        age = (late * self._period_s)[:, None, None]
        seen = torch.cat([seen[..., :2] + place + velocity * age, seen[..., 2:3], velocity], dim=-1)
        out.copy_(seen.reshape(count, -1).T)

    def state_dict(self) -> Mapping[str, Any]:
        """Return the mutable state."""
        names = ("_past", "_known", "_delay", "_sigma")
        return {**{name: getattr(self, name) for name in names}, "turn": self._turn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        for name, array in state.items():
            if name != "turn":
                getattr(self, name).copy_(array)
        self._turn = state["turn"]
