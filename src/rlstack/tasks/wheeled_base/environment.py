"""Training environment of mobile bases: N copies of a task, each in its own map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.batch_wheeled_base.layout import BOX_ROWS, CIRCLE_ROWS, STATE, STATE_WIDTH
from rlstack.sim.batch_wheeled_base.obstacle_lidar import ObstacleLidar
from rlstack.sim.batch_wheeled_base.parameters import drawn
from rlstack.tasks.core.batch_environment import Arrays, BatchEnvironment
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.tasks.wheeled_base.maps import MapArrays
from rlstack.tasks.wheeled_base.pedestrians import Pedestrians
from rlstack.tasks.wheeled_base.step import GOAL_WIDTH, BaseStep

PARAMETER_POOL = 4096
"""Number of robots with random parameters that are drawn ahead."""


class BaseEnvironment(BatchEnvironment):
    """N copies of a :class:`rlstack.tasks.wheeled_base.task.BaseTask`; see :class:`BatchEnvironment`."""

    saved_arrays = (*BatchEnvironment.saved_arrays, "boxes", "circles", "goal", "pick")

    def __init__(
        self, task: Any, robot: WheeledBase, pipeline: Pipeline, count: int, device: str = "cpu", seed: int = 0
    ) -> None:
        super().__init__(task, robot, pipeline, count, device, seed)
        self.rng = np.random.default_rng(seed)
        self.pedestrians: Pedestrians | None = task.pedestrians(robot, count, device)
        moving = self.pedestrians.rows if self.pedestrians is not None else 0
        boxes, circles = task.obstacles
        step = BaseStep(task, robot, pipeline, boxes, circles + moving // 5, str(self.device))
        self._stages: list[MapArrays] = []
        self._allocate(step, (*step.terms, "lost"))
        self._inputs = {name: self._rows(rows) for name, rows in step.measured.items()}
        self.boxes, self.goal = self._rows(step.box_rows), self._rows(GOAL_WIDTH)
        self.circles = self._rows(step.circle_rows)
        self._next_circles, self._scan_noise = self._rows(step.circle_rows), self._rows(len(step.rays)).unsqueeze(1)
        self.pick = torch.zeros(count, dtype=torch.long, device=self.device)
        """Index of each robot's map."""
        self._robots = torch.from_numpy(drawn(robot, PARAMETER_POOL, self.rng)).to(self.device)
        boxes, circles = step.box_rows // BOX_ROWS, step.circle_rows // CIRCLE_ROWS
        self._lidar = ObstacleLidar(robot.lidars["scan"], boxes, circles, step.rays, step.device) if step.rays else None
        self.progress = 0.0
        self.maps = self._stage(0)
        self.reset_all()

    def set_progress(self, done: float) -> None:
        """Set the curriculum to the share ``done`` of the training steps; maps get harder with it."""
        self.progress = done
        stage = self.task.curriculum.stage(done)
        if self.maps is not self._stage(stage):
            self.maps = self._stage(stage)
            self.reset_all()

    def restart(self, index: Tensor) -> None:
        """Reset the robots at ``index``: draw new starts and new parameters."""
        count, maps = len(index), self.maps
        pick = torch.randint(len(maps), (count,), generator=self.generator, device=self.device)
        self.pick[index] = pick
        state = torch.zeros(STATE_WIDTH, count, device=self.device)
        start, goal = maps.draw(pick, self.generator)
        state[STATE["position"]] = start[:, :2].T
        half = 0.5 * start[:, 2]
        state[STATE["turn"]] = torch.stack([half.sin(), half.cos()])
        self.state.index_copy_(1, index, state)
        half = 0.5 * goal[:, 2]
        self.goal.index_copy_(1, index, torch.stack([goal[:, 0], goal[:, 1], half.sin(), half.cos()]))
        self.boxes.index_copy_(1, index, maps.boxes.index_select(0, pick).T)
        still = maps.circles.index_select(0, pick).T
        self.circles[: len(still)].index_copy_(1, index, still)
        if self.pedestrians is not None:
            self.pedestrians.start(self.circles, index, maps, pick)
        robots = torch.randint(self._robots.shape[1], (count,), generator=self.generator, device=self.device)
        self.parameters.index_copy_(1, index, self._robots.index_select(1, robots))
        self.memory.index_fill_(1, index, 0.0)
        for past in self.past:
            past.index_fill_(1, index, 0.0)
        self.age.index_fill_(0, index, 0)

    def varying(self) -> dict[str, Tensor]:
        """Return scans and guidance vectors to the goal; also circles if some of them move."""
        return {**self._inputs, "circles": self.circles} if self.pedestrians is not None else self._inputs

    def fixed(self) -> dict[str, Tensor]:
        """Return parameters, goals and obstacles."""
        return {**super().fixed(), "goal": self.goal, "boxes": self.boxes, "circles": self.circles}

    def sensing(self, arrays: Arrays) -> Callable[[], None]:
        """Return a callable that measures scans and looks up guidance vectors to the goals."""
        state, guide = arrays["state"], arrays["guide"]
        cast: Callable[[], None] | None = None
        if self._lidar is not None:
            circles = arrays.get("circles", self.circles)
            cast = self._lidar.prepare(state, self.boxes, circles, arrays["scan"], self._scan_noise[:, 0])

        def sense() -> None:
            if cast is not None:
                self.fill_noise(self._scan_noise, 1)
                cast()
            self.maps.guide(self.pick, state[STATE["position"]], self.goal, guide)

        return sense

    def begin_step(self, now: Arrays, after: Arrays) -> None:
        """Move pedestrians by one period."""
        if self.pedestrians is None:
            return
        if now is after:
            self.pedestrians.move(now["state"], self.circles, self._next_circles)
            self.circles.copy_(self._next_circles)
        else:
            self.pedestrians.move(now["state"], now["circles"], after["circles"])

    def begin_rollout(self, inputs: Arrays, slots: int) -> None:
        """Write the pedestrians' present positions."""
        if self.pedestrians is not None:
            inputs["circles"][:, 0, : self.count].copy_(self.circles)

    def end_rollout(self, last: Arrays) -> None:
        """Copy back the pedestrians' final positions."""
        if self.pedestrians is not None:
            self.circles.copy_(last["circles"])

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume exactly."""
        pedestrians = None if self.pedestrians is None else self.pedestrians.state_dict()
        return {**super().state_dict(), "progress": self.progress, "movers": pedestrians}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self.progress = state["progress"]
        self.maps = self._stage(self.task.curriculum.stage(self.progress))
        super().load_state_dict(state)
        if self.pedestrians is not None:
            self.pedestrians.load_state_dict(state["movers"])

    def _arrived(self) -> Tensor:
        offset = self.state[STATE["position"]] - self.goal[:2]
        return (offset * offset).sum(dim=0) < self.task.arrival_m**2

    def _stage(self, stage: int) -> MapArrays:
        while len(self._stages) <= stage:
            self._stages.append(self.task.draw_maps(self.robot, len(self._stages), self.rng, self.device))
        return self._stages[stage]
