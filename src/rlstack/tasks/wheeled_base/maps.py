"""Maps with starts and goals, as arrays that a training environment draws from."""

from __future__ import annotations

import torch
from torch import Tensor

from rlstack.sim.batch_wheeled_base.layout import CIRCLE_ROWS
from rlstack.sim.crowds.moving_obstacles import BEGIN_M
from rlstack.sim.crowds.scenes import Scenes
from rlstack.sim.maps.pool import MapPool

WALKED = 32
"""Number of start points along each path."""


class MapArrays:
    """R paths to a goal, each in its own map.

    Args:
        pool: Map pool; without distance fields, paths are straight.
        device: Device of the arrays.
        scenes: Scenes of moving obstacles on its maps; None: nothing moves.
        radius_m: Radius of the robot, which does not start anywhere beside a moving obstacle.
        anywhere: Share of starts at any reachable position of the map with any heading, instead of the map's own
            start.
        goal_m: Distance from the goal within which the path is straight, m.
    """

    def __init__(
        self,
        pool: MapPool,
        device: torch.device,
        *,
        scenes: Scenes | None = None,
        radius_m: float = 0.0,
        anywhere: float = 0.0,
        goal_m: float = 0.3,
    ) -> None:
        self.boxes, self.circles = (torch.from_numpy(a).to(device) for a in (pool.boxes, pool.circles))
        """(R, 6 B) and (R, 5 C) as in :mod:`rlstack.sim.batch_wheeled_base.layout`."""
        self._starts, self._goals = (torch.from_numpy(a).to(device) for a in (pool.starts, pool.goals))
        self._field = torch.from_numpy(pool.field_index).to(device)
        self._fields = pool.fields and pool.fields.mapped(lambda array: torch.from_numpy(array).to(device))
        self._anywhere, self._goal_m, self._apart_m = anywhere, goal_m, radius_m + BEGIN_M
        self._moving = scenes is not None
        if scenes is not None:
            self.people, self.persons = (torch.from_numpy(a).to(device) for a in (scenes.people, scenes.persons))
        self._along = self._walked() if anywhere else self._starts[:, None, :2]

    def __len__(self) -> int:
        return len(self._starts)

    def draw(self, pick: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return starts (n, 3) and goals (n, 3), x and y in m and yaw in rad, of the maps ``pick`` (n,)."""
        starts, goals = self._starts[pick].clone(), self._goals[pick]
        turn = torch.rand(len(pick), generator=generator, device=starts.device) * (2.0 * torch.pi)
        starts[:, 2] = turn
        if self._anywhere:
            chosen = torch.rand(len(pick), generator=generator, device=starts.device) < self._anywhere
            step = torch.randint(self._along.shape[1], (len(pick),), generator=generator, device=starts.device)
            starts[:, :2] = torch.where(chosen[:, None], self._along[pick, step], starts[:, :2])
            if self._moving:  # the map's own start is clear of moving obstacles
                people = self.people[pick].view(len(pick), -1, CIRCLE_ROWS)
                gap = (people[..., :2] - starts[:, None, :2]).norm(dim=-1) - people[..., 2]
                near = (gap < self._apart_m).any(dim=1, keepdim=True)
                starts[:, :2] = torch.where(near, self._starts[pick, :2], starts[:, :2])
        return starts, goals

    def guide(self, pick: Tensor, position: Tensor, goal: Tensor, out: Tensor) -> None:
        """Write the path's direction (2,) and length, m, into ``out`` (3, N), for robots at (2, N)."""
        offset = goal[:2] - position
        straight = (offset * offset).sum(dim=0).add_(1e-8).sqrt_()
        if self._fields is None:
            torch.div(offset, straight, out=out[:2])
            out[2].copy_(straight)
            return
        distance, direction = self._fields.look_up(self._field[pick], position.T)
        near = straight < self._goal_m
        # at the goal the direction shrinks to zero, so that nothing pulls across it
        towards = offset / straight.clamp(min=0.5 * self._goal_m)
        torch.where(near, towards, direction.T, out=out[:2])
        torch.where(near, straight, distance, out=out[2])

    def _walked(self) -> Tensor:
        """Return collision-free points (R, :data:`WALKED`, 2) along each path."""
        assert self._fields is not None  # straight paths have starts of their own
        point, found = self._starts[:, :2].clone(), []
        far, _ = self._fields.look_up(self._field, point)
        step = self._fields.frame.resolution_m
        for _ in range(2 * int(float(far.max()) / step)):
            left, direction = self._fields.look_up(self._field, point)
            point = point + (step * (left > step))[:, None] * direction
            found.append(point)
        walked = torch.stack(found, dim=1)
        # short paths arrive early: spread the points over the part before arrival
        moving = ((walked[:, 1:] - walked[:, :-1]).square().sum(dim=-1) > 0.0).sum(dim=1).clamp(min=1)
        share = torch.linspace(0.0, 0.95, WALKED, device=walked.device)
        index = (moving[:, None] * share).long()
        return walked.gather(1, index[..., None].expand(-1, -1, 2))
