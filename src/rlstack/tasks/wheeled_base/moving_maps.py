"""Maps in which something moves, as the arrays that a training environment draws from."""

from __future__ import annotations

import torch
from torch import Tensor

from rlstack.sim.bases.layout import CIRCLE_ROWS
from rlstack.sim.bases.moving_obstacles import BEGIN_M
from rlstack.sim.bases.scenes import Scenes
from rlstack.sim.maps.pool import MapPool
from rlstack.tasks.wheeled_base.maps import MapArrays


class MovingMapArrays(MapArrays):
    """R ways to go, each in its map with what moves there.

    Args:
        pool: With fields.
        scenes: What moves on its maps.
        radius_m: Of the robot.
        device: Where the arrays are to be.
        anywhere: As of :class:`MapArrays`; where something begins to move, no robot starts.
        goal_m: As of :class:`MapArrays`.
    """

    def __init__(
        self,
        pool: MapPool,
        scenes: Scenes,
        radius_m: float,
        device: torch.device,
        anywhere: float = 0.0,
        goal_m: float = 0.3,
    ) -> None:
        super().__init__(pool, device, anywhere, goal_m)
        self.people = torch.from_numpy(scenes.people).to(device)
        self.persons = torch.from_numpy(scenes.persons).to(device)
        self._apart_m = radius_m + BEGIN_M

    def draw(self, pick: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return starts (n, 3) and goals (n, 3), x and y in m and yaw in rad, of the places ``pick`` (n,)."""
        starts, goals = super().draw(pick, generator)
        people = self.people[pick].view(len(pick), -1, CIRCLE_ROWS)
        gap = (people[..., :2] - starts[:, None, :2]).norm(dim=-1) - people[..., 2]
        near = (gap < self._apart_m).any(dim=1, keepdim=True)
        # the map's own start is clear of whoever moves
        starts[:, :2] = torch.where(near, self._starts[pick, :2], starts[:, :2])
        return starts, goals
