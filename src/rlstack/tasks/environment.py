"""The training environment: the fused step with a task's starts, noise, rewards and resets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.fused import zeros
from rlstack.robots import RobotSpec
from rlstack.sim.batch import STATE, pack_parameters, pack_state
from rlstack.sim.batch.dynamics import Model
from rlstack.sim.batch.layout import PARAMETER_WIDTH, STATE_WIDTH
from rlstack.sim.batch.simulator import check_device
from rlstack.tasks.pipeline import Pipeline, TermInfo
from rlstack.tasks.privileged import Privileged, privileged_terms
from rlstack.tasks.step import NOISE_WIDTH, TaskStep

POOL_SIZE = 65_536
"""Episodes drawn ahead; a reset picks one of them, so resets cost a gather and a scatter whatever is randomised."""

PATH_POOL_SIZE = 512
"""Paths drawn ahead, for tasks that follow one; they go with any episode of the pool."""


NOISE_TABLE = 1 << 20
"""Least number of unit normals drawn ahead; a step reads them from a random place on, since drawing them anew takes
longer than the step."""


@dataclass(frozen=True)
class StepResult:
    """What one step gave; observations belong to the states after automatic resets."""

    actor: Tensor  # (N, pipeline.size)
    critic: Tensor  # (N, critic_size)
    reward: Tensor  # (N,)
    done: Tensor  # (N,) bool
    timed_out: Tensor  # (N,) bool: ended by time, not lost
    terms: dict[str, Tensor]  # weighted reward terms, (N,) each


class TrainingEnvironment:
    """N copies of a task in the batch simulator.

    An algorithm that learns from samples calls :meth:`step`, which resets robots by itself. One that differentiates
    through the simulator uses a :class:`rlstack.tasks.window.Window`, and :meth:`restart` between windows.

    Args:
        task: The task's configuration.
        robot: What flies.
        pipeline: Makes the actor's observation.
        count: N.
        device: ``"cpu"`` or a CUDA device.
        seed: Of starts, perturbations, noise and resets.

    Raises:
        UserError: The device is not there, or torch cannot use it.
    """

    def __init__(
        self, task: Any, robot: RobotSpec, pipeline: Pipeline, count: int, device: str = "cpu", seed: int = 0
    ) -> None:
        self.task, self.robot, self.count, self.pipeline = task, robot, count, pipeline
        self.device = torch.device(check_device(device))
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise UserError(f"This torch was built without CUDA, so it cannot learn on '{device}': use the device cpu.")
        self.max_steps = round(task.episode_s * task.rate_hz)
        self.generator = torch.Generator(device=self.device).manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.start_scale = 1.0
        self._privileged = privileged_terms(task, robot)
        model = Model(1.0 / task.rate_hz, max_delay_s=task.max_delay_s)
        self.task_step = TaskStep(task, robot, pipeline, self._privileged, model, self.device.type)
        self._term_names = (*self.task_step.terms, "lost")
        self.state = self._rows(STATE_WIDTH)
        """(STATE_WIDTH, N) as in :data:`rlstack.sim.batch.layout.STATE`."""
        self.memory = self._rows(self.task_step.memory_width)
        """The pipeline's memory, then the last action."""
        self.parameters = self._rows(PARAMETER_WIDTH)
        self.past = [self._rows(len(robot.rotors)) for _ in self.task_step.past]
        """(rotors, N) rad/s each: past commands that may still act, newest first."""
        self._goal = self._rows(self.task_step.goal_width).unsqueeze(1)
        self._noise = self._rows(NOISE_WIDTH).unsqueeze(1)
        self.age = torch.zeros(count, dtype=torch.long, device=self.device)
        """Steps since each robot's reset; it times out at ``max_steps``."""
        self.path_step = torch.zeros(count, dtype=torch.long, device=self.device)
        """Steps along each robot's path."""
        self.pick = torch.zeros(count, dtype=torch.long, device=self.device)
        """Which of the pool's paths each robot follows."""
        self._noise_table = torch.empty(0, device=self.device)
        self._offsets = np.random.default_rng(seed + 1)
        self.refill_pool()
        self.reset_all()

    @property
    def critic_size(self) -> int:
        """Columns of the critic's observation: the actor's, then what the actor cannot see."""
        return sum(term.size for term in self.critic_table())

    def critic_table(self) -> list[TermInfo]:
        """Return one row for each term of the critic's observation, in order."""
        return critic_table(self.pipeline, self.robot, self._privileged, bool(self.task_step.window))

    def set_progress(self, done: float) -> None:
        """Turn the curriculum to the share ``done`` of the training steps; new starts are drawn when it moves."""
        curriculum, progress = self.task.curriculum, self.task.curriculum.progress(done)
        scale = curriculum.start_scale + (1.0 - curriculum.start_scale) * round(progress * 10) / 10
        if scale != self.start_scale:
            self.start_scale = scale
            self.refill_pool()

    def refill_pool(self) -> None:
        """Draw a new pool of episodes at the present difficulty."""
        self._pool_random = self.rng.bit_generator.state
        scenario = self.task.sample(self.rng, POOL_SIZE, self.robot, self.start_scale)
        self._pool_state = torch.from_numpy(pack_state(scenario.state).T.copy()).to(self.device)
        parameters = pack_parameters(self.robot, scenario.perturbation).T.copy()
        self._pool_parameters = torch.from_numpy(parameters).to(self.device)
        if self.task_step.window:
            points = self.task.sample_paths(self.rng, PATH_POOL_SIZE, self.robot).position.astype(np.float32)
            self._path_length = points.shape[1]
            self._paths = torch.from_numpy(points.transpose(2, 0, 1).reshape(3, -1).copy()).to(self.device)

    def reset_all(self) -> None:
        """Start every robot anew, spread over the episode so that they do not end together."""
        self.restart(torch.arange(self.count, device=self.device))
        self.age = torch.randint(self.max_steps, (self.count,), generator=self.generator, device=self.device)

    def restart(self, index: Tensor) -> None:
        """Start the robots at ``index`` anew, from episodes of the pool."""
        pool = self._pool_state.shape[1]
        pick = torch.randint(pool, (len(index),), generator=self.generator, device=self.device)
        start = self._pool_state[:, pick]
        self.state[:, index] = start
        self.parameters[:, index] = self._pool_parameters[:, pick]
        self.memory[:, index] = 0.0
        for command in self.past:
            command[:, index] = start[STATE["rotor_speed"]]
        self.age[index] = 0
        if self.task_step.window:
            paths = self._paths.shape[1] // self._path_length
            self.path_step[index] = 0
            self.pick[index] = torch.randint(paths, (len(index),), generator=self.generator, device=self.device)

    def observe(self) -> tuple[Tensor, Tensor]:
        """Return the actor's (N, size) and the critic's (N, critic_size) observations of the present."""
        self.fill_noise(self._noise, 1)
        if self.task_step.window:
            self.fill_goal(self._goal, 1)
        made = {"actor": self._rows(self.pipeline.size), "critic": self._rows(self.critic_size)}
        self.task_step.observe({**self._given(), **made})
        return made["actor"].T, made["critic"].T

    def step(self, action: Tensor) -> StepResult:
        """Apply actions (N, actions); they are clipped to -1..1. Call :meth:`observe` once before the first step."""
        names = self.task_step.past
        given = {**self._given(), "action": action.T.contiguous(), **dict(zip(names, self.past))}
        made = {name: self._rows(rows) for name, rows in self.task_step.act.outputs.items()}
        self.task_step.act({**given, **made})
        self.state, self.memory = made["next_state"], made["next_memory"]
        if self.past:
            self.past = [made["command"], *self.past[:-1]]
        self.passed(1)
        lost = made["lost"][0] > 0.5
        timed_out = self.ended(lost)
        done = lost | timed_out
        over = done.nonzero().squeeze(-1)
        if len(over):
            self.restart(over)
        actor, critic = self.observe()
        return StepResult(actor, critic, made["reward"][0], done, timed_out, dict(zip(self._term_names, made["terms"])))

    def ended(self, lost: Tensor) -> Tensor:
        """Return (N,) bool: whose time is over, of those that are not ``lost``."""
        return (self.age >= self.max_steps) & ~lost

    def passed(self, steps: int) -> None:
        """Count steps that every robot has flown."""
        self.age += steps
        if self.task_step.window:
            self.path_step += steps

    def term_names(self) -> tuple[str, ...]:
        """Return the names of the reward's terms, in order, ``lost`` last."""
        return self._term_names

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes as the environment runs, so that it can go on exactly."""
        return {
            "state": self.state,
            "parameters": self.parameters,
            "past": list(self.past),
            "memory": self.memory,
            "age": self.age,
            "path_step": self.path_step,
            "pick": self.pick,
            "noise": self._noise,
            "noise_table": self._noise_table,
            "goal": self._goal,
            "offsets": self._offsets.bit_generator.state,
            "start_scale": self.start_scale,
            "pool_random": self._pool_random,
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`."""
        self.start_scale = state["start_scale"]
        self.rng.bit_generator.state = state["pool_random"]
        self.refill_pool()
        self.state.copy_(state["state"])
        self.parameters.copy_(state["parameters"])
        self.memory.copy_(state["memory"])
        self._goal.copy_(state["goal"])
        self._noise.copy_(state["noise"])
        self._noise_table = state["noise_table"].to(self.device)
        for mine, saved in zip(self.past, state["past"]):
            mine.copy_(saved)
        for name in ("age", "path_step", "pick"):
            setattr(self, name, state[name].to(self.device))
        self._offsets.bit_generator.state = state["offsets"]
        self.generator.set_state(state["generator"].cpu())

    def fill_noise(self, array: Tensor, slots: int) -> None:
        """Write unit normals into the first ``slots`` of ``array`` (rows, slots, >= N)."""
        rows, _, stride = array.shape
        size = rows * slots * stride
        if self._noise_table.numel() < 4 * size:
            table = torch.empty(max(4 * size, NOISE_TABLE), device=self.device)
            self._noise_table = table.normal_(generator=self.generator)
        start = int(self._offsets.integers(self._noise_table.numel() - size + 1))
        array[:, :slots] = self._noise_table[start : start + size].view(rows, slots, stride)

    def fill_goal(self, array: Tensor, slots: int) -> None:
        """Write what the robots are to follow at the present and the steps after it into ``array``."""
        last, step = self._path_length - 1, self.task_step
        ahead = torch.tensor([*step.window, 0, 1], device=self.device)  # the reference now and after the step
        times = torch.arange(slots, device=self.device)
        index = (self.path_step + ahead[:, None, None] + times[:, None]).clamp(max=last) + self.pick * self._path_length
        points = self._paths[:, index]  # (3, ahead, slots, N)
        velocity = (points[:, -1:] - points[:, -2:-1]) * self.task.rate_hz
        rows = torch.cat([points[:, :-2], points[:, -1:], velocity], dim=1)
        array[:, :slots, : self.count] = rows.reshape(-1, slots, self.count)

    def _given(self) -> dict[str, Tensor]:
        noise, goal = self._noise[:, 0, : self.count], self._goal[:, 0, : self.count]
        given = {"state": self.state, "parameters": self.parameters, "memory": self.memory, "noise": noise}
        return {**given, "goal": goal} if self.task_step.window else given

    def _rows(self, rows: int) -> Tensor:
        return torch.from_numpy(zeros(rows, self.count)).to(self.device)


def critic_table(pipeline: Pipeline, robot: RobotSpec, privileged: Privileged, path: bool = False) -> list[TermInfo]:
    """Return one row for each term of the critic's observation: the policy's, then what only the critic sees."""
    rows = pipeline.table()
    rotors = ("rotor_speed", len(robot.rotors), "-1..1", "true rotor speeds, scaled as actions")
    others = [(n, size, "spread", m) for n, size, m in zip(privileged.names, privileged.sizes, privileged.meanings)]
    if path:
        others.append(("reference", 3, "m", "where the path will be after the step, world"))
    for name, size, unit, meaning in [rotors, *others]:
        rows.append(TermInfo(name, rows[-1].start + rows[-1].size, size, unit, meaning))
    return rows
