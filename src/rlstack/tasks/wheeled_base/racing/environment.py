"""Training environment of racing cars, each on one of many tracks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.batch_wheeled_base.layout import PARAMETERS, STATE, STATE_WIDTH
from rlstack.sim.batch_wheeled_base.parameters import base_model
from rlstack.sim.batch_wheeled_base.wall_lidar import WallLidar
from rlstack.sim.maps.tracks import SAMPLES, draw_track
from rlstack.tasks.core.batch_environment import Arrays, BatchEnvironment
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.tasks.wheeled_base.racing.step import TERMS, RacingStep
from rlstack.tasks.wheeled_base.racing.tracks import FRAME_WIDTH, SEEN, WALL_WIDTH, TrackTables

CAR_POOL = 4096
"""Number of cars with random parameters that are drawn ahead."""


class RacingEnvironment(BatchEnvironment):
    """N copies of the task in the batch simulator; see :class:`BatchEnvironment`."""

    saved_arrays = (*BatchEnvironment.saved_arrays, "course", "place")

    def __init__(
        self, task: Any, robot: WheeledBase, pipeline: Pipeline, count: int, device: str = "cpu", seed: int = 0
    ) -> None:
        super().__init__(task, robot, pipeline, count, device, seed)
        model = base_model(robot, task.rate_hz)
        step = RacingStep(task, robot, pipeline, model, str(self.device))
        self._allocate(step, TERMS)
        self.courses = TrackTables([draw_track(s) for s in task.training_seeds], self.device)
        cars = task.draw_parameters(robot, CAR_POOL, np.random.default_rng(seed))
        self._cars = torch.from_numpy(cars).to(self.device)
        self._lidar = WallLidar(robot.lidars["scan"], SEEN, step.rays, str(self.device), slopes=True)
        self.frame, self.walls = self._rows(FRAME_WIDTH), self._rows(WALL_WIDTH)
        self.ranges, self.slopes = self._rows(len(step.rays)), self._rows(len(step.rays))
        self.course, self.place = torch.zeros_like(self.age), torch.zeros_like(self.age)
        """Index of each car's track, and of the nearest point on its centre line."""
        self.reset_all()

    def restart(self, index: Tensor) -> None:
        """Reset the cars at ``index``: draw new tracks, positions and parameters."""
        count, starts = len(index), self.task.starts
        course, place, car = (
            torch.randint(high, (count,), generator=self.generator, device=self.device)
            for high in (len(self.courses.tracks), SAMPLES, self._cars.shape[1])
        )
        aside, turned, speed = torch.rand(3, count, generator=self.generator, device=self.device)
        frame, parameters = self.courses.frame(course, place).T, self._cars.index_select(1, car)
        room = frame[5] - parameters[PARAMETERS["radius"]][0]
        aside = (2.0 * aside - 1.0) * starts.aside * room
        half = (0.5 * turned - 0.25) * 2.0 * starts.heading_rad
        # no faster than the curvature allows
        most = (0.7 * parameters[PARAMETERS["grip"]][0] / frame[4].abs().clamp(min=0.1)).sqrt()
        speed = torch.minimum(speed * starts.speed_m_s, most)
        state = torch.zeros(STATE_WIDTH, count, device=self.device)
        state[STATE["position"]] = frame[:2] + aside * torch.stack([-frame[3], frame[2]])
        z, w = frame[6:8]
        state[STATE["turn"]] = torch.stack([z * half.cos() + w * half.sin(), w * half.cos() - z * half.sin()])
        state[STATE["velocity"].start], state[STATE["setpoint"].start] = speed, speed
        state[STATE["curvature"]] = frame[4]
        state[STATE["yaw_rate"]] = state[STATE["setpoint"].stop - 1] = speed * frame[4]
        self.state.index_copy_(1, index, state)
        self.parameters.index_copy_(1, index, parameters)
        command = torch.stack([speed, frame[4]])
        memory = torch.zeros(self.task_step.memory_width, count, device=self.device)
        memory[self.task_step.memory["commanded"]] = command
        self.memory.index_copy_(1, index, memory)
        for past in self.past:
            past.index_copy_(1, index, torch.stack([speed, speed * frame[4]]))
        self.course[index], self.place[index] = course, place
        self.age.index_fill_(0, index, 0)

    def varying(self) -> dict[str, Tensor]:
        """Return the track at each car, and its lidar ranges."""
        return {"frame": self.frame, "ranges": self.ranges, "slopes": self.slopes}

    def step_arrays(self, arrays: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return arrays of one step with ``pose``, position and heading, in them."""
        return {**arrays, "pose": arrays["state"][: STATE["turn"].stop]}

    def sensing(self, arrays: Arrays) -> Callable[[], None]:
        """Return a callable that tracks cars along their tracks, and measures ranges and slopes, after each step."""
        state, frame = arrays["state"], arrays["frame"]
        cast = self._lidar.prepare(state, self.walls, arrays["ranges"], arrays["slopes"])

        def sense() -> None:
            self.place = self.courses.follow(self.course, self.place, state[STATE["position"]])
            frame.copy_(self.courses.frame(self.course, self.place).T)
            self.walls.copy_(self.courses.walls(self.course, self.place).T)
            cast()

        return sense
