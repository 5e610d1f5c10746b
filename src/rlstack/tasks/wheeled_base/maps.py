"""Maps with starts and goals, as arrays that a training environment draws from."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rlstack.sim.bases.layout import CIRCLE_ROWS
from rlstack.sim.bases.moving_obstacles import BEGIN_M
from rlstack.sim.bases.scenes import Scenes
from rlstack.sim.maps.pool import MapPool, box_rows, pool_of

WALKED = 32
"""Number of start points along each path."""


class MapArrays:
    """R paths to a goal, each in its own map.

    Args:
        pool: Map pool with distance fields.
        device: Device of the arrays.
        anywhere: Share of starts at any reachable position of the map with any heading, instead of the map's own
            start.
        goal_m: Distance from the goal within which the path is straight, m.
    """

    def __init__(self, pool: MapPool, device: torch.device, anywhere: float = 0.0, goal_m: float = 0.3) -> None:
        if pool.fields is None:
            raise ValueError("map arrays need a pool with fields")
        self.boxes, self.circles = (torch.from_numpy(a).to(device) for a in (pool.boxes, pool.circles))
        """(R, 6 B) and (R, 5 C) as in :mod:`rlstack.sim.bases.layout`."""
        self._starts, self._goals = (torch.from_numpy(a).to(device) for a in (pool.starts, pool.goals))
        self._field = torch.from_numpy(pool.field_index).to(device)
        self._fields = pool.fields.mapped(lambda array: torch.from_numpy(array).to(device))
        self._anywhere, self._goal_m = anywhere, goal_m
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
        return starts, goals

    def guide(self, pick: Tensor, position: Tensor, goal: Tensor, out: Tensor) -> None:
        """Write the path's direction (2,) and length, m, into ``out`` (3, N), for robots at (2, N)."""
        distance, direction = self._fields.look_up(self._field[pick], position.T)
        offset = goal[:2] - position
        straight = (offset * offset).sum(dim=0).add_(1e-8).sqrt_()
        near = straight < self._goal_m
        # at the goal the direction shrinks to zero, so that nothing pulls across it
        towards = offset / straight.clamp(min=0.5 * self._goal_m)
        torch.where(near, towards, direction.T, out=out[:2])
        torch.where(near, straight, distance, out=out[2])

    def _walked(self) -> Tensor:
        """Return collision-free points (R, :data:`WALKED`, 2) along each path."""
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


class MovingMapArrays(MapArrays):
    """R paths to a goal, each in its own map with moving obstacles.

    Args:
        pool: Map pool with distance fields.
        scenes: Scenes of moving obstacles on its maps.
        radius_m: Radius of the robot.
        device: Device of the arrays.
        anywhere: See :class:`MapArrays`; robots do not start where obstacles start.
        goal_m: See :class:`MapArrays`.
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
        """Return starts (n, 3) and goals (n, 3), x and y in m and yaw in rad, of the maps ``pick`` (n,)."""
        starts, goals = super().draw(pick, generator)
        people = self.people[pick].view(len(pick), -1, CIRCLE_ROWS)
        gap = (people[..., :2] - starts[:, None, :2]).norm(dim=-1) - people[..., 2]
        near = (gap < self._apart_m).any(dim=1, keepdim=True)
        # the map's own start is clear of moving obstacles
        starts[:, :2] = torch.where(near, self._starts[pick, :2], starts[:, :2])
        return starts, goals


class CrowdMapArrays(MapArrays):
    """R crowd scenes; on an open floor the path to the goal is straight.

    Args:
        scenes: Scenes with pedestrians.
        boxes: Largest number of boxes in each.
        circles: Largest number of static circles.
        device: Device of the arrays.
        goal_m: Distance from the goal within which the path is straight, m.
    """

    def __init__(self, scenes: Scenes, boxes: int, circles: int, device: torch.device, goal_m: float) -> None:
        self._open = all(not len(m.boxes) and not len(m.circles) for m in scenes.maps)
        if self._open:
            first = scenes.maps[0]
            rows = torch.from_numpy(box_rows(first, boxes)).to(device)
            self.boxes = rows.expand(len(scenes), -1)
            self.circles = torch.zeros(len(scenes), 0, device=device)
            self._starts, self._goals = (
                torch.from_numpy(np.array([getattr(m, end) for m in scenes.maps], dtype=np.float32)).to(device)
                for end in ("start", "goal")
            )
            self._anywhere = 0.0
        else:
            super().__init__(pool_of(scenes.maps, boxes=boxes, circles=circles), device, goal_m=goal_m)
        self.people = torch.from_numpy(scenes.people).to(device)
        self.persons = torch.from_numpy(scenes.persons).to(device)

    def guide(self, pick: Tensor, position: Tensor, goal: Tensor, out: Tensor) -> None:
        """Write the path's direction (2,) and length, m, into ``out`` (3, N), for robots at (2, N)."""
        if not self._open:
            super().guide(pick, position, goal, out)
            return
        offset = goal[:2] - position
        straight = (offset * offset).sum(dim=0).add_(1e-8).sqrt_()
        torch.div(offset, straight, out=out[:2])
        out[2].copy_(straight)
