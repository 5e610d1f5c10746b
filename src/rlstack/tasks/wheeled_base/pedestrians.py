"""Pedestrians in training environments of mobile bases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rlstack.fused import zeros
from rlstack.sim.batch_wheeled_base.dynamics import heading
from rlstack.sim.batch_wheeled_base.layout import BOX_ROWS, CIRCLE_ROWS, STATE
from rlstack.sim.crowds.walking_models import PERSON_WIDTH, WALK_WIDTH, Crowd, CrowdLayout, Orca, SocialForce


class Pedestrians:
    """P pedestrians around each of N robots.

    Args:
        people: P.
        still: Number of static circles, before them in the rows.
        boxes: Number of boxes in each robot's map.
        radius_m: Radius of the robot, for pedestrians who see it.
        period_s: Control period.
        rule: Walking behaviour.
        count: N.
        device: Device of the arrays.
    """

    def __init__(
        self,
        people: int,
        still: int,
        boxes: int,
        radius_m: float,
        period_s: float,
        rule: Orca | SocialForce,
        count: int,
        device: str,
    ) -> None:
        self.rows = CIRCLE_ROWS * people
        self._crowd = Crowd(CrowdLayout(people, still + people, boxes), period_s, rule, device)

        def rows(width: int) -> Tensor:
            return torch.as_tensor(zeros(width, count, device))

        self._person, self._walk = rows(PERSON_WIDTH * people), rows(WALK_WIDTH * people)
        self._next_walk, self._robot = rows(WALK_WIDTH * people), rows(CIRCLE_ROWS)
        self._boxes = rows(BOX_ROWS * boxes)
        self._robot[2] = radius_m
        self._launches: dict[tuple[int, int], tuple[Callable[[], None], Tensor, Tensor]] = {}

    def start(self, circles: Tensor, index: Tensor, maps: Any, pick: Tensor) -> None:
        """Place the pedestrians of the robots at ``index`` at their starts in the maps ``pick``."""
        circles[-self.rows :].index_copy_(1, index, maps.people.index_select(0, pick).T)
        self._boxes.index_copy_(1, index, maps.boxes.index_select(0, pick).T)
        self._person.index_copy_(1, index, maps.persons.index_select(0, pick).T)
        self._walk.index_fill_(1, index, 0.0)

    def move(self, state: Tensor, now: Tensor, after: Tensor) -> None:
        """Move them by one period: read all rows of circles from ``now``, write them to ``after``."""
        key = now.data_ptr(), after.data_ptr()
        if key not in self._launches:
            arrays = {
                "circles": now,
                "walk": self._walk,
                "person": self._person,
                "robot": self._robot,
                "boxes": self._boxes,
                "next_circles": after,
                "next_walk": self._next_walk,
            }
            self._launches[key] = self._crowd.prepare(arrays), now, after
        still = len(now) - self.rows
        after[:still].copy_(now[:still])
        cos, sin = heading(state)
        ahead, side = state[STATE["velocity"]]
        self._robot[:2].copy_(state[STATE["position"]])
        self._robot[3].copy_(ahead * cos - side * sin)
        self._robot[4].copy_(ahead * sin + side * cos)
        self._launches[key][0]()
        self._walk.copy_(self._next_walk)

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume exactly."""
        return {"person": self._person, "walk": self._walk, "boxes": self._boxes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        for name, mine in self.state_dict().items():
            mine.copy_(state[name])
