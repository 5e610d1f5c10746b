"""The rewards of recorded drives to a goal, in a world whose obstacles are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots.frames import yaw
from rlstack.sim.batch_wheeled_base.layout import STATE
from rlstack.sim.batch_wheeled_base.recorded_states import recorded_states
from rlstack.sim.maps.pool import pool_of
from rlstack.sim.world import World
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.tasks.core.recorded_judge import RecordedJudge, Signals
from rlstack.tasks.wheeled_base.maps import MapArrays
from rlstack.tasks.wheeled_base.scan_motion import measured_pipeline
from rlstack.tasks.wheeled_base.step import BaseStep

CONTACT_M = 0.01
"""Clearance that counts as contact: obstacles are solid, and odometry is off by as much."""


def base_states(judge: RecordedJudge, signals: Signals, period_s: float) -> Tensor:
    """Return the state rows of a base's moments; see :meth:`.RecordedJudge.states`."""
    place, orientation, linear, angular = (signals[name].double().numpy() for name in judge.motion)
    return torch.from_numpy(recorded_states(place, orientation, linear, angular, period_s))


class NavigationJudge(RecordedJudge):
    """See :class:`rlstack.tasks.core.recorded_judge.RecordedJudge`; goals may change from moment to moment.

    Args:
        task: The task.
        robot: The base.
        pipeline: Its pipeline.
        world: A map of a base.

    Raises:
        UserError: The world has no floor map, or the task has moving obstacles, which no world has.
    """

    def __init__(self, task: Any, robot: WheeledBase, pipeline: Pipeline, world: World) -> None:
        if world.floor_map is None:
            raise UserError(
                f"The world {world.title} is no map of a base, in which ways to a goal can be found: give --world one"
                " of those, such as clutter:3 or rooms:3."
            )
        if task.people_slots:
            raise UserError("Recordings among moving obstacles cannot be judged: where these were is not recorded.")
        placed = len(world.floor_map.boxes), len(world.floor_map.circles)
        boxes, circles = np.maximum(task.obstacles, placed).tolist()
        own = replace(task, through_m=-CONTACT_M)
        super().__init__(BaseStep(own, robot, measured_pipeline(pipeline), boxes, circles))
        self._map, self._slots, self._arrival_m = world.floor_map, {"boxes": boxes, "circles": circles}, task.arrival_m

    def states(self, signals: Signals, period_s: float) -> Tensor:
        """See the base class."""
        return base_states(self, signals, period_s)

    def surroundings(self, states: Tensor, signals: Signals) -> dict[str, Tensor]:
        """Return goal, obstacles, and the way to the goal around them."""
        place, turn = signals["goal_position"].double().numpy(), signals["goal_orientation"].double().numpy()
        poses = np.column_stack([place[:, :2], yaw(turn)])
        goals, pick = np.unique(poses, axis=0, return_inverse=True)
        maps = MapArrays(
            pool_of([replace(self._map, goal=goal) for goal in goals], **self._slots),
            torch.device("cpu"),
            goal_m=2.0 * self._arrival_m,
        )
        chosen = torch.from_numpy(np.ravel(pick))
        half = 0.5 * torch.from_numpy(poses[:, 2])
        goal = torch.stack([*torch.from_numpy(poses[:, :2].T), half.sin(), half.cos()]).float()
        guide = torch.zeros(3, states.shape[1])
        maps.guide(chosen, states[STATE["position"]], goal, guide)
        obstacles = {"boxes": maps.boxes, "circles": maps.circles}
        around = {name: rows.index_select(0, chosen).T.contiguous() for name, rows in obstacles.items()}
        return {"goal": goal, "guide": guide, **around}

    def arrived(self, states: Tensor, signals: Signals) -> Tensor:
        """Return which robots are at their goal."""
        offset = states[STATE["position"]] - signals["goal_position"][:, :2].T
        return (offset * offset).sum(dim=0) < self._arrival_m**2
