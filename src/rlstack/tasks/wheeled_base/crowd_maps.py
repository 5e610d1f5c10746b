"""Scenes with people, as the arrays that a training environment draws from."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rlstack.sim.bases.scenes import Scenes
from rlstack.sim.maps.pool import box_rows, pool_of
from rlstack.tasks.wheeled_base.maps import MapArrays


class CrowdMapArrays(MapArrays):
    """R scenes; on an open floor the way to the goal is straight.

    Args:
        scenes: With people.
        boxes: Most boxes in each.
        circles: Most circles that stand still.
        device: Where the arrays are to be.
        goal_m: Within this of the goal the way is straight, m.
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
        """Write the unit vector (2,) of the way and its length, m, into ``out`` (3, N), for robots at (2, N)."""
        if not self._open:
            super().guide(pick, position, goal, out)
            return
        offset = goal[:2] - position
        straight = (offset * offset).sum(dim=0).add_(1e-8).sqrt_()
        torch.div(offset, straight, out=out[:2])
        out[2].copy_(straight)
