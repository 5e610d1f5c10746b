"""Training environment of mobile bases: N copies of a task, each in its own map."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
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
from rlstack.tasks.wheeled_base.departures import ODOMETRY_WIDTH, PeopleHistory
from rlstack.tasks.wheeled_base.maps import MapArrays
from rlstack.tasks.wheeled_base.pedestrians import Pedestrians
from rlstack.tasks.wheeled_base.scan_motion import ScanHistory, ScanMotion, cast_rays, measured_pipeline
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
        motion = next((term for term in pipeline.terms if isinstance(term, ScanMotion)), None)
        late = math.ceil(task.departures.scan_delay_s * task.rate_hz - 1e-9)
        self._scans = None if motion is None else ScanHistory(motion, late, count, self.device)
        step = BaseStep(task, robot, measured_pipeline(pipeline), boxes, circles + moving // 5, str(self.device))
        self._stages: list[MapArrays] = []
        self._allocate(step, (*step.terms, "lost"))
        self._inputs = {name: self._rows(rows) for name, rows in step.measured.items()}
        self.boxes, self.goal = self._rows(step.box_rows), self._rows(GOAL_WIDTH)
        self.circles = self._rows(step.circle_rows)
        self._next_circles, self._ranges = self._rows(step.circle_rows), self._rows(0)
        rays, lidar = step.rays, robot.lidars.get("scan")
        if motion is not None:  # dropouts are filled by a sector's other rays
            rays, lidar = cast_rays(motion), replace(robot.lidars["scan"], dropout=0.0)
            self._ranges = self._rows(len(rays))
        self._scan_noise = self._rows(len(rays)).unsqueeze(1)
        self._odometry = self._rows(ODOMETRY_WIDTH) if task.departures.odometry else None
        self._people: PeopleHistory | None = None
        if task.departures.people:
            self._people = PeopleHistory(task.departures, task.people_slots, task.rate_hz, count, self.device)
        self.pick = torch.zeros(count, dtype=torch.long, device=self.device)
        """Index of each robot's map."""
        self._robots = torch.from_numpy(drawn(robot, PARAMETER_POOL, self.rng)).to(self.device)
        task.departures.draw_parameters(self._robots, self.generator)
        boxes, circles = step.box_rows // BOX_ROWS, step.circle_rows // CIRCLE_ROWS
        self._lidar = ObstacleLidar(lidar, boxes, circles, rays, step.device) if rays and lidar else None
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
        self._restart_sensors(index)
        self.memory.index_fill_(1, index, 0.0)
        for past in self.past:
            past.index_fill_(1, index, 0.0)
        self.age.index_fill_(0, index, 0)

    def varying(self) -> dict[str, Tensor]:
        """Return scans and guidance vectors to the goal; also circles if some of them move."""
        return {**self._inputs, "circles": self.circles} if self.pedestrians is not None else self._inputs

    def fixed(self) -> dict[str, Tensor]:
        """Return parameters, goals and obstacles."""
        own = {"goal": self.goal, "boxes": self.boxes, "circles": self.circles}
        return {**super().fixed(), **own, **({} if self._odometry is None else {"odometry": self._odometry})}

    def sensing(self, arrays: Arrays) -> Callable[[], None]:
        """Return a callable that measures scans and looks up guidance vectors to the goals."""
        state, guide = arrays["state"], arrays["guide"]
        cast: Callable[[], None] | None = None
        if self._lidar is not None:
            circles = arrays.get("circles", self.circles)
            ranges = arrays["scan"] if self._scans is None else self._ranges
            cast = self._lidar.prepare(state, self.boxes, circles, ranges, self._scan_noise[:, 0])

        def sense() -> None:
            if cast is not None:
                self.fill_noise(self._scan_noise, 1)
                cast()
            if self._scans is not None:
                z, w = state[STATE["turn"]]
                pose = torch.stack([*state[STATE["position"]], w * w - z * z, 2.0 * z * w])
                nearest = self._ranges.view(self._scans.term.sectors, -1, self.count).amin(dim=1)
                self._scans(nearest, pose, arrays["scan"])
            if self._people is not None:
                self.fill_noise(self._people.noise, 1)
                self._people(arrays.get("circles", self.circles), arrays["people"])
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
        for history in (self._scans, self._people):
            if history is not None:
                history.repeat()
        if self.pedestrians is not None:
            inputs["circles"][:, 0, : self.count].copy_(self.circles)

    def end_rollout(self, last: Arrays) -> None:
        """Copy back the pedestrians' final positions."""
        if self.pedestrians is not None:
            self.circles.copy_(last["circles"])

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume exactly."""
        pedestrians = None if self.pedestrians is None else self.pedestrians.state_dict()
        more = {name: found.state_dict() for name, found in self._histories().items()}
        if self._odometry is not None:
            more["odometry"] = self._odometry
        return {**super().state_dict(), "progress": self.progress, "movers": pedestrians, **more}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self.progress = state["progress"]
        self.maps = self._stage(self.task.curriculum.stage(self.progress))
        super().load_state_dict(state)
        if self.pedestrians is not None:
            self.pedestrians.load_state_dict(state["movers"])
        for name, mine in self._histories().items():
            mine.load_state_dict(state[name])
        if self._odometry is not None:
            self._odometry.copy_(state["odometry"])

    def _histories(self) -> dict[str, Any]:
        found = {"scans": self._scans, "people": self._people}
        return {name: history for name, history in found.items() if history is not None}

    def _restart_sensors(self, index: Tensor) -> None:
        """Draw the departures of the sensors of the robots at ``index``."""
        departures, count, generator = self.task.departures, len(index), self.generator

        def drawn_share(rows: int = 1) -> Tensor:
            return torch.rand(rows, count, generator=generator, device=self.device)

        if self._scans is not None:
            late = departures.scan_delay_s * self.task.rate_hz
            self._scans.restart(index)
            chance = drawn_share(4)
            self._scans.late[index] = (chance[0] * (late + 1.0)).long().clamp(max=math.ceil(late))
            self._scans.halved[index] = chance[1] < departures.scan_halved
            narrow = departures.narrow_view_rad + chance[3] * (2.0 * math.pi - departures.narrow_view_rad)
            self._scans.view_rad[index] = torch.where(chance[2] < departures.narrow_view, narrow, 7.0)
        if self._people is not None:
            self._people.restart(index, generator)
        if self._odometry is not None:
            self._odometry.index_copy_(1, index, departures.draw_odometry(count, generator))

    def _arrived(self) -> Tensor:
        offset = self.state[STATE["position"]] - self.goal[:2]
        return (offset * offset).sum(dim=0) < self.task.arrival_m**2

    def _stage(self, stage: int) -> MapArrays:
        while len(self._stages) <= stage:
            self._stages.append(self.task.draw_maps(self.robot, len(self._stages), self.rng, self.device))
        return self._stages[stage]
