"""The training environment: the fused step with a task's starts, noise, rewards and resets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.batch import STATE, pack_parameters, pack_state
from rlstack.sim.batch.dynamics import Model
from rlstack.sim.batch.layout import PARAMETER_WIDTH, STATE_WIDTH
from rlstack.tasks.core.arrays import NoiseTable, learning_device, zero_rows
from rlstack.tasks.core.interface import StepResult
from rlstack.tasks.core.pipeline import Pipeline, TermInfo
from rlstack.tasks.quadrotor.privileged import Privileged, privileged_terms
from rlstack.tasks.quadrotor.rollout import QuadrotorRollout
from rlstack.tasks.quadrotor.step import NOISE_WIDTH, QuadrotorStep

POOL_SIZE = 65_536
"""Episodes drawn ahead; a reset picks one of them, so resets cost a gather and a scatter whatever is randomised."""

PATH_POOL_SIZE = 512
"""Paths drawn ahead, for tasks that follow one; they go with any episode of the pool."""


NOISE_TABLE = 1 << 20
"""Least number of unit normals drawn ahead; a step reads them from a random place on, since drawing them anew takes
longer than the step."""


@dataclass(frozen=True)
class _Side:
    """One of two sets of arrays: a step reads one and writes the other, so that none is made anew, nor any view."""

    state: Tensor  # (rows, N), as all of them
    memory: Tensor
    seen: Tensor  # the critic's observation, whose first rows are the actor's
    reward: Tensor
    terms: Tensor
    lost: Tensor
    observed: tuple[Tensor, Tensor]  # (N, columns) of the actor and of the critic
    earned: dict[str, Tensor]  # (N,) by term


class QuadrotorEnvironment:
    """N copies of a quadrotor's task in the batch simulator.

    An algorithm that learns from samples calls :meth:`step`, which resets robots by itself. One that differentiates
    through the simulator goes through a :meth:`window`, and calls :meth:`restart` between windows.

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
        self, task: Any, robot: Quadrotor, pipeline: Pipeline, count: int, device: str = "cpu", seed: int = 0
    ) -> None:
        self.task, self.robot, self.count, self.pipeline = task, robot, count, pipeline
        self.device = learning_device(device)
        self.max_steps = round(task.episode_s * task.rate_hz)
        self.generator = torch.Generator(device=self.device).manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.autoreset = True
        self.start_scale = 1.0
        self._privileged = privileged_terms(task, robot)
        model = Model(1.0 / task.rate_hz, max_delay_s=task.max_delay_s)
        self.task_step = step = QuadrotorStep(task, robot, pipeline, self._privileged, model, str(self.device))
        self._term_names = (*step.terms, "lost")
        self.critic_size = sum(term.size for term in self.critic_table())
        """Columns of the critic's observation: the actor's, then what the actor cannot see."""
        self._sides = [self._side(), self._side()]
        self.parameters = self._rows(PARAMETER_WIDTH)
        self._action = self._rows(pipeline.action_size)
        self._commands = self._rows(pipeline.action_size * (len(step.past) + 1))
        self._goal = self._rows(step.goal_width).unsqueeze(1)
        self._noise = self._rows(NOISE_WIDTH).unsqueeze(1)
        self._turn = 0
        """Steps so far, until all arrays are back in their places: which of them is read and which written."""
        self._launches: dict[int, tuple[Callable[[], None], Callable[[], None]]] = {}
        self.age = torch.zeros(count, dtype=torch.long, device=self.device)
        """Steps since each robot's reset; it times out at ``max_steps``."""
        self.path_step = torch.zeros(count, dtype=torch.long, device=self.device)
        """Steps along each robot's path."""
        self.pick = torch.zeros(count, dtype=torch.long, device=self.device)
        """Which of the pool's paths each robot follows."""
        self._table = NoiseTable(self.generator, seed + 1, NOISE_TABLE, times=4)
        self.refill_pool()
        self.reset_all()

    @property
    def state(self) -> Tensor:
        """(STATE_WIDTH, N) as in :data:`rlstack.sim.batch.layout.STATE`; another array after each step."""
        return self._sides[self._turn % 2].state

    @property
    def memory(self) -> Tensor:
        """(rows, N): the pipeline's memory, then the last action; another array after each step."""
        return self._sides[self._turn % 2].memory

    @property
    def past(self) -> list[Tensor]:
        """(rotors, N) rad/s each: past commands that may still act, newest first."""
        return self._turned_commands()[1:]

    def critic_table(self) -> list[TermInfo]:
        """Return one row for each term of the critic's observation, in order."""
        return critic_table(self.pipeline, self.robot, self._privileged, bool(self.task_step.window))

    def seed(self, seed: int) -> None:
        """Seed the generators anew; the pool of episodes stays."""
        self.generator.manual_seed(seed)
        self._table.seed(seed + 1)

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
        # an episode's numbers side by side, so that a reset reads one place
        rows = [pack_state(scenario.state), pack_parameters(self.robot, scenario.perturbation)]
        self._pool = torch.from_numpy(np.concatenate(rows, axis=1)).to(self.device)
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
        pick = torch.randint(len(self._pool), (len(index),), generator=self.generator, device=self.device)
        drawn = self._pool.index_select(0, pick).T
        self.state.index_copy_(1, index, drawn[:STATE_WIDTH])
        self.parameters.index_copy_(1, index, drawn[STATE_WIDTH:])
        self.memory.index_fill_(1, index, 0.0)
        if self.task_step.past:
            # nothing was commanded but what the rotors do
            held = drawn[STATE["rotor_speed"]].repeat(len(self.task_step.past) + 1, 1)
            self._commands.index_copy_(1, index, held)
        self.age.index_fill_(0, index, 0)
        if self.task_step.window:
            paths = self._paths.shape[1] // self._path_length
            self.path_step.index_fill_(0, index, 0)
            self.pick[index] = torch.randint(paths, (len(index),), generator=self.generator, device=self.device)

    def observe(self) -> tuple[Tensor, Tensor]:
        """Return the actor's (N, size) and the critic's (N, critic_size) observations of the present.

        The noise is new each time; the arrays are written again by the next call and in the step after the next.
        """
        self.fill_noise(self._noise, 1)
        if self.task_step.window:
            self.fill_goal(self._goal, 1)
        self._launch()[0]()
        return self._sides[self._turn % 2].observed

    def step(self, action: Tensor) -> StepResult:
        """Apply actions (N, actions); they are clipped to -1..1. Call :meth:`observe` once before the first step."""
        self._action.copy_(action.detach().T)
        self._launch()[1]()
        self._turn = (self._turn + 1) % (2 * (len(self.task_step.past) + 1))
        made = self._sides[self._turn % 2]
        self.passed(1)
        lost = made.lost[0].bool()
        timed_out = self.ended(lost)
        done = lost | timed_out
        over = done.nonzero().squeeze(-1)
        if self.autoreset and len(over):
            self.restart(over)
        actor, critic = self.observe()
        return StepResult(actor, critic, made.reward[0], done, timed_out, dict(made.earned))

    def window(self, steps: int, steepest: float) -> QuadrotorRollout:
        """Return a window over the robots; see :class:`rlstack.tasks.core.rollout.Window`."""
        return QuadrotorRollout(self, steps, steepest)

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
            "past": self.past,
            "memory": self.memory,
            "age": self.age,
            "path_step": self.path_step,
            "pick": self.pick,
            "noise": self._noise,
            **self._table.state_dict(),
            "goal": self._goal,
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
        for mine, saved in zip(self.past, state["past"]):
            mine.copy_(saved)
        for name in ("age", "path_step", "pick"):
            setattr(self, name, state[name].to(self.device))
        self._table.load_state_dict(state)
        self.generator.set_state(state["generator"].cpu())

    def fill_noise(self, array: Tensor, slots: int) -> None:
        """Write unit normals into the first ``slots`` of ``array`` (rows, slots, >= N)."""
        self._table.fill(array, slots)

    def fill_goal(self, array: Tensor, slots: int) -> None:
        """Write what the robots are to follow at the present and the steps after it into ``array``."""
        last = self._path_length - 1
        ahead = torch.tensor([*self.task_step.window, 1, 0], device=self.device)  # after the step, and now
        times = torch.arange(slots, device=self.device)
        index = (self.path_step + ahead[:, None, None] + times[:, None]).clamp_(max=last)
        index += self.pick * self._path_length
        wanted = array.unflatten(0, (3, len(ahead)))[:, :, :slots, : self.count]
        for axis, path in zip(wanted, self._paths):
            axis.copy_(path.index_select(0, index.view(-1)).view(index.shape))
        after, now = wanted[:, -2], wanted[:, -1]
        now.neg_().add_(after).mul_(self.task.rate_hz)  # the reference's velocity

    def _launch(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return what observes the present and what acts on it, into the arrays whose turn it is."""
        if self._turn not in self._launches:
            step, now, after = self.task_step, self._sides[self._turn % 2], self._sides[(self._turn + 1) % 2]
            noise, goal = self._noise[:, 0], self._goal[:, 0]
            given = {"state": now.state, "parameters": self.parameters, "memory": now.memory, "noise": noise}
            given = {**given, "goal": goal} if step.window else given
            command, *past = self._turned_commands()
            columns = self.pipeline.size
            observe = step.observe.prepare({**given, "actor": now.seen[:columns], "privileged": now.seen[columns:]})
            act = step.act.prepare(
                {
                    **given,
                    **dict(zip(step.past, past)),
                    "action": self._action,
                    "next_state": after.state,
                    "next_memory": after.memory,
                    "command": command,
                    "reward": after.reward,
                    "terms": after.terms,
                    "lost": after.lost,
                }
            )
            self._launches[self._turn] = observe, act
        return self._launches[self._turn]

    def _side(self) -> _Side:
        state, memory = self._rows(STATE_WIDTH), self._rows(self.task_step.memory_width)
        seen, terms = self._rows(self.critic_size), self._rows(len(self._term_names))
        observed = seen[: self.pipeline.size].T, seen.T
        earned = dict(zip(self._term_names, terms))
        return _Side(state, memory, seen, self._rows(1), terms, self._rows(1), observed, earned)

    def _turned_commands(self) -> list[Tensor]:
        """Return the commands' arrays: the one to be written next, then the past ones, newest first."""
        arrays = self._commands.split(self.pipeline.action_size)
        first = -self._turn % len(arrays)
        return [*arrays[first:], *arrays[:first]]

    def _rows(self, rows: int) -> Tensor:
        return zero_rows(rows, self.count, self.device)


def critic_table(pipeline: Pipeline, robot: Quadrotor, privileged: Privileged, path: bool = False) -> list[TermInfo]:
    """Return one row for each term of the critic's observation: the policy's, then what only the critic sees."""
    rows = pipeline.table()
    rotors = ("rotor_speed", len(robot.rotors), "-1..1", "true rotor speeds, scaled as actions")
    others = [(n, size, "spread", m) for n, size, m in zip(privileged.names, privileged.sizes, privileged.meanings)]
    if path:
        others.append(("reference", 3, "m", "where the path will be after the step, world"))
    for name, size, unit, meaning in [rotors, *others]:
        rows.append(TermInfo(name, rows[-1].start + rows[-1].size, size, unit, meaning))
    return rows
