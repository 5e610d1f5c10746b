"""The training environment of racing: N cars, each on one of many tracks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.bases.layout import PARAMETERS, STATE, STATE_WIDTH
from rlstack.sim.bases.parameters import base_model, longest_delay_s
from rlstack.sim.bases.wall_lidar import WallLidar
from rlstack.sim.maps.tracks import SAMPLES, draw_track
from rlstack.tasks.core.pipeline import Pipeline, TermInfo
from rlstack.tasks.wheeled_base.driving import DrivingEnvironment
from rlstack.tasks.wheeled_base.racing.card import critic_columns
from rlstack.tasks.wheeled_base.racing.rollout import RacingRollout
from rlstack.tasks.wheeled_base.racing.step import PRIVILEGED, TERMS, RacingStep
from rlstack.tasks.wheeled_base.racing.tracks import FRAME_WIDTH, SEEN, WALL_WIDTH, TrackTables

CAR_POOL = 4096
"""Cars with departures from their file that are drawn ahead."""


class RacingEnvironment(DrivingEnvironment):
    """N copies of the task in the batch simulator; a :class:`rlstack.tasks.core.interface.LearningEnvironment`.

    Args:
        task: The task's configuration.
        robot: What drives.
        pipeline: Makes the actor's observation.
        count: N.
        device: ``"cpu"`` or a CUDA device.
        seed: Of tracks, starts, departures from the robot file, noise and resets.

    Raises:
        UserError: The device is not there, or torch cannot use it.
    """

    kept = ("state", "memory", "parameters", "age", "course", "place")

    def __init__(
        self, task: Any, robot: WheeledBase, pipeline: Pipeline, count: int, device: str = "cpu", seed: int = 0
    ) -> None:
        super().__init__(task, robot, pipeline, count, device, seed)
        model = base_model(robot, task.rate_hz, longest_delay_s(robot))
        self.task_step = step = RacingStep(task, robot, pipeline, model, str(self.device))
        self._allocate(step.noise_width, len(PRIVILEGED), TERMS)
        self.courses = TrackTables([draw_track(s) for s in task.training_seeds], self.device)
        cars = task.draw_parameters(robot, CAR_POOL, np.random.default_rng(seed))
        self._cars = torch.from_numpy(cars).to(self.device)
        lidar = robot.lidars["scan"]
        self._lidar = WallLidar(
            lidar.angles_rad[list(step.rays)] + lidar.rpy_rad[2],
            (lidar.position_m[0], lidar.position_m[1]),
            lidar.range_min_m,
            lidar.range_max_m,
            SEEN,
            str(self.device),
            slopes=True,
        )
        self.frame, self.walls = self._rows(FRAME_WIDTH), self._rows(WALL_WIDTH)
        self.ranges, self.slopes = self._rows(len(step.rays)), self._rows(len(step.rays))
        self.course, self.place = torch.zeros_like(self.age), torch.zeros_like(self.age)
        """Which track each car is on, and the nearest point of its middle."""
        self._measure = self.measuring(self.state, self.ranges, self.slopes)
        self.reset_all()

    def set_progress(self, done: float) -> None:
        """Do nothing: there is no curriculum."""

    def restart(self, index: Tensor) -> None:
        """Start the cars at ``index`` anew: somewhere on some track, as another car."""
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
        # no faster than the bend allows
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

    def look_up(self, state: Tensor, frame: Tensor) -> None:
        """Write the track at cars in ``state`` into ``frame``, and the walls around them into :attr:`walls`.

        Cars are followed from step to step, so it must be called after each.
        """
        self.place = self.courses.follow(self.course, self.place, state[STATE["position"]])
        frame.copy_(self.courses.frame(self.course, self.place).T)
        self.walls.copy_(self.courses.walls(self.course, self.place).T)

    def measuring(self, state: Tensor, ranges: Tensor, slopes: Tensor) -> Callable[[], None]:
        """Return what measures ranges and slopes of cars in ``state`` between :attr:`walls` whenever it is called."""
        return self._lidar.prepare(state, self.walls, ranges, slopes)

    def window(self, steps: int, steepest: float) -> RacingRollout:
        """Return a window over the cars; see :class:`rlstack.tasks.core.rollout.Window`."""
        return RacingRollout(self, steps, steepest)

    def critic_table(self) -> list[TermInfo]:
        """Return one row for each term of the critic's observation, in order."""
        return [*self.pipeline.table(), *critic_columns(self.pipeline)]

    def _begin_step(self) -> None:
        """Do nothing: nothing moves by itself."""

    def _sense(self) -> None:
        self.look_up(self.state, self.frame)
        self._measure()

    def _given(self) -> dict[str, Tensor]:
        return {"frame": self.frame, "ranges": self.ranges}
