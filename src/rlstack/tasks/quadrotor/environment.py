"""Training environment of quadrotors: a pool of episodes, paths, a curriculum of starts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.batch_quadrotor.dynamics import RESIDUAL_INPUTS, RESIDUAL_OUTPUTS, QuadrotorModel
from rlstack.sim.batch_quadrotor.layout import STATE, STATE_WIDTH, pack_parameters, pack_state
from rlstack.sim.physics.residual import read_residual
from rlstack.tasks.core.batch_environment import Arrays, BatchEnvironment
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.tasks.quadrotor.privileged import privileged_terms
from rlstack.tasks.quadrotor.step import QuadrotorStep

POOL_SIZE = 65_536
"""Episodes drawn ahead; a reset picks one, so it costs a gather and a scatter whatever is randomised."""

PATH_POOL_SIZE = 512
"""Paths drawn ahead, for tasks that follow one; each combines with any episode of the pool."""


class QuadrotorEnvironment(BatchEnvironment):
    """N copies of a quadrotor task in the batch simulator; see :class:`BatchEnvironment`."""

    saved_arrays = (*BatchEnvironment.saved_arrays, "path_step", "pick", "noise", "goal")
    noise_table = (1 << 20, 4)
    measures_each_step = False

    def __init__(
        self, task: Any, robot: Quadrotor, pipeline: Pipeline, count: int, device: str = "cpu", seed: int = 0
    ) -> None:
        super().__init__(task, robot, pipeline, count, device, seed)
        self.rng = np.random.default_rng(seed)
        self.start_scale = 1.0
        beyond = read_residual(task.residual, RESIDUAL_INPUTS, RESIDUAL_OUTPUTS) if task.residual else None
        model = QuadrotorModel.of(robot, 1.0 / task.rate_hz, max_delay_s=task.max_delay_s, residual=beyond)
        step = QuadrotorStep(task, robot, pipeline, privileged_terms(task, robot), model, str(self.device))
        self._window, self._varies_rate = step.window, step.varies_rate
        self._allocate(step, (*step.terms, "lost"))
        self.goal = self._rows(step.goal_width).unsqueeze(1)
        self.path_step = torch.zeros(count, dtype=torch.long, device=self.device)
        """Steps along each robot's path."""
        self.pick = torch.zeros(count, dtype=torch.long, device=self.device)
        """Index of each robot's path in the pool."""
        self.hold = self._rows(1)
        """Control periods for which each robot's command holds."""
        self._hover = torch.from_numpy(robot.hover_command.astype(np.float32)[:, None]).to(self.device)
        self.refill_pool()
        self.reset_all()

    def set_progress(self, done: float) -> None:
        """Set the curriculum to the share ``done`` of the training steps; new starts are drawn when it moves."""
        curriculum, progress = self.task.curriculum, self.task.curriculum.progress(done)
        scale = curriculum.start_scale + (1.0 - curriculum.start_scale) * round(progress * 10) / 10
        if scale != self.start_scale:
            self.start_scale = scale
            self.refill_pool()

    def refill_pool(self) -> None:
        """Draw a new pool of episodes at the present difficulty."""
        self._pool_random = self.rng.bit_generator.state
        scenario = self.task.sample(self.rng, POOL_SIZE, self.robot, self.start_scale)
        # an episode's values are contiguous, so that a reset reads one place
        rows = [pack_state(scenario.state), pack_parameters(self.robot, scenario.perturbation)]
        self._pool = torch.from_numpy(np.concatenate(rows, axis=1)).to(self.device)
        if self._window:
            points = self.task.sample_paths(self.rng, PATH_POOL_SIZE, self.robot).position.astype(np.float32)
            self._path_length = points.shape[1]
            self._paths = torch.from_numpy(points.transpose(2, 0, 1).reshape(3, -1).copy()).to(self.device)

    def restart(self, index: Tensor) -> None:
        """Reset the robots at ``index``, from episodes of the pool."""
        pick = torch.randint(len(self._pool), (len(index),), generator=self.generator, device=self.device)
        drawn = self._pool.index_select(0, pick).T
        self.state.index_copy_(1, index, drawn[:STATE_WIDTH])
        self.parameters.index_copy_(1, index, drawn[STATE_WIDTH:])
        self.memory.index_fill_(1, index, 0.0)
        if self.task_step.past:
            # past commands equal the present rotor speeds, or hover
            held = drawn[STATE["rotor_speed"]] if self.robot.rate_loop is None else self._hover.expand(-1, len(index))
            held = held.repeat(len(self.task_step.past) + 1, 1)
            self._commands.index_copy_(1, index, held)
        if self._varies_rate:
            chance = torch.rand(len(index), generator=self.generator, device=self.device)
            self.hold[0, index] = 1.0 + (chance < self.task.half_rate_share).float()
        self.age.index_fill_(0, index, 0)
        if self._window:
            paths = self._paths.shape[1] // self._path_length
            self.path_step.index_fill_(0, index, 0)
            self.pick[index] = torch.randint(paths, (len(index),), generator=self.generator, device=self.device)

    def fixed(self) -> dict[str, Tensor]:
        """Return the arrays (rows, N) that steps read and that change only at a reset, by name."""
        return {**super().fixed(), **({"hold": self.hold} if self._varies_rate else {})}

    def acting(self, steps: int) -> Tensor | None:
        """Return (steps, N) of 1 where the policy is called, and 0 where its command holds; None: it always is."""
        if not self._varies_rate:
            return None
        begun = (self.state[STATE["elapsed"]] * self.task.rate_hz).round()
        odd = (begun + torch.arange(steps, device=self.device)[:, None]) % 2.0
        return 1.0 - odd * (self.hold > 1.5)

    def varying(self) -> dict[str, Tensor]:
        """Return the array of path points, if the task has a path."""
        return {"goal": self.goal[:, 0]} if self._window else {}

    def sensing(self, arrays: Arrays) -> Callable[[], None]:
        """Return a callable that writes the present path points."""
        return partial(self.fill_goal, arrays["goal"].unsqueeze(1), 1) if self._window else lambda: None

    def begin_rollout(self, inputs: Arrays, slots: int) -> None:
        """Write the path points of each step."""
        if self._window:
            self.fill_goal(inputs["goal"], slots)

    def advance_counters(self, steps: int) -> None:
        """Advance every robot's step counters."""
        super().advance_counters(steps)
        if self._window:
            self.path_step += steps

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume exactly."""
        held = {"hold": self.hold} if self._varies_rate else {}
        return {**super().state_dict(), **held, "start_scale": self.start_scale, "pool_random": self._pool_random}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self.start_scale = state["start_scale"]
        self.rng.bit_generator.state = state["pool_random"]
        self.refill_pool()
        super().load_state_dict(state)
        if self._varies_rate:
            self.hold.copy_(state["hold"])

    def fill_goal(self, array: Tensor, slots: int) -> None:
        """Write the path points of the present and later steps into ``array``."""
        last = self._path_length - 1
        ahead = torch.tensor([*self._window, 1, 0], device=self.device)  # after the step, and now
        times = torch.arange(slots, device=self.device)
        index = (self.path_step + ahead[:, None, None] + times[:, None]).clamp_(max=last)
        index += self.pick * self._path_length
        wanted = array.unflatten(0, (3, len(ahead)))[:, :, :slots, : self.count]
        for axis, path in zip(wanted, self._paths):
            axis.copy_(path.index_select(0, index.view(-1)).view(index.shape))
        after, now = wanted[:, -2], wanted[:, -1]
        now.neg_().add_(after).mul_(self.task.rate_hz)  # the reference's velocity
