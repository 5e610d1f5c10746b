"""Air velocity at each of N robots in one world: wind and the downwash of other robots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.physics.downwash import Downwash
from rlstack.sim.physics.models import Models
from rlstack.sim.physics.wind import WindField

if TYPE_CHECKING:
    from rlstack.sim.world import Wind


class Air:
    """Wind and downwash.

    Args:
        robots: N quadrotors.
        models: Enabled models of each robot.
        wind: Wind of the world; None: no wind.
        isolated: Whether robots are isolated, without downwash between them.
        seed: Seed of the turbulence, at least 0.
    """

    def __init__(
        self,
        robots: Sequence[Quadrotor],
        models: Sequence[Models],
        wind: Wind | None = None,
        isolated: bool = False,
        seed: int = 0,
    ) -> None:
        self._wind: WindField | None = None
        if wind is not None and any(m.wind for m in models):
            self._wind = WindField(wind, len(robots), seed)
        self._blown: Array = np.array([[m.wind for m in models]], dtype=float)
        self._washed: Array = np.array([[m.downwash for m in models]], dtype=float)
        shared = len(robots) > 1 and not isolated and any(m.downwash for m in models)
        self._downwash = Downwash(robots) if shared else None

    @property
    def moves(self) -> bool:
        """Whether the air ever moves; otherwise there is nothing to compute."""
        return self._wind is not None or self._downwash is not None

    def reset(self, index: int) -> None:
        """Restart the wind at a robot after its reset."""
        if self._wind is not None:
            self._wind.reset(index)

    def velocity(self, duration_s: float, body: Array, speed: Array) -> Array:
        """Advance time; return the air velocity (3, N) m/s, world frame.

        Args:
            duration_s: Time since the last call, above 0 s.
            body: (13, N) rows: position m, orientation xyzw, velocity m/s (world), rates.
            speed: (rotors, N) rotor speeds, rad/s.
        """
        total: Array = np.zeros((3, body.shape[1]))
        if self._wind is not None:
            total += self._blown * self._wind.advance(duration_s, body[0:3], body[7:10])
        if self._downwash is not None:
            total += self._washed * self._downwash.velocity(body[0:3], body[3:7], speed)
        return total
