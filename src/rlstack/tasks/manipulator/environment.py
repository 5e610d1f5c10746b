"""N arms that learn a task, in the same MuJoCo worlds that a policy is judged in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.tasks.core.goals import GoalStep
from rlstack.tasks.core.pipeline import TermInfo
from rlstack.tasks.core.rollout import DifferentiableRollout
from rlstack.tasks.manipulator.grasp import FINGERS, stopped
from rlstack.tasks.manipulator.pipeline import ArmPipeline
from rlstack.tasks.manipulator.scene import ArmScene
from rlstack.tasks.manipulator.terms import GOAL
from rlstack.tasks.manipulator.view import ArmView

if TYPE_CHECKING:
    from rlstack.tasks.manipulator.task import ArmTask


STARTS = 1024
"""Poses of the arm that are found ahead, by inverse kinematics; every restart takes one of them."""


class ArmEnvironment:
    """See :class:`rlstack.tasks.core.goals.ScriptedEnvironment`.

    Args:
        task: The task's configuration.
        robot: The arm.
        pipeline: Makes the observation, and joint targets of actions.
        count: N.
        device: That steps the worlds; see :func:`rlstack.sim.arms.devices.arm_worlds`. Tensors are on the CPU always.
        seed: Of starts, noise and generator.
        threads: That step the worlds on the CPU; None: as many as there are cores.

    Raises:
        UserError: The device is not there or lacks a package, or the arm cannot be where episodes start.
    """

    def __init__(
        self,
        task: ArmTask,
        robot: Manipulator,
        pipeline: ArmPipeline,
        count: int,
        *,
        device: str = "cpu",
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self.task, self.robot, self.pipeline, self.count = task, robot, pipeline, count
        self.device = torch.device("cpu")
        self.generator = torch.Generator().manual_seed(seed)
        self.critic_size, self.autoreset = pipeline.size, True
        self.bench = ArmScene(task, robot, count, seed, threads, device)
        self._rng = np.random.default_rng((seed, 0))
        self._starts = task.draw_starts(robot, self._rng, STARTS)
        (row,) = (term for term in pipeline.table() if term.name == GOAL)
        self._goal_columns = slice(row.start, row.start + row.size)
        self._age = np.zeros(count, dtype=np.intp)
        self._held = np.zeros(count, dtype=np.intp)
        self._last = np.zeros((count, pipeline.action_size))
        self._memory = pipeline.initial_memory(count)
        self._prepared: dict[str, Tensor] | None = None
        self.reset_all()

    def seed(self, seed: int) -> None:
        """Seed the generators anew; the arm's starts that were found ahead stay."""
        self.generator.manual_seed(seed)
        self._rng = np.random.default_rng((seed, 0))
        self.bench.seed(seed)

    def set_progress(self, done: float) -> None:
        """Do nothing: there is no curriculum."""

    def reset_all(self) -> None:
        """Start every arm anew, spread over the episode so that they do not end together."""
        self.restart(torch.arange(self.count))
        self._age = self._rng.integers(0, self.task.steps, self.count)

    def restart(self, index: Tensor) -> None:
        """Start the arms at ``index`` anew."""
        arms = index.numpy()
        self.bench.start(arms, self.task.draw(self.robot, self._rng, len(arms), self._starts))
        self._age[arms], self._held[arms], self._last[arms] = 0, 0, 0.0
        for memory in self._memory.values():
            memory[index] = 0.0
        self._prepared = None

    def observe(self) -> tuple[Tensor, Tensor]:
        """Return the actor's (N, size) and the critic's (N, critic_size) observations, which are the same."""
        with torch.no_grad():
            self._prepared = self._prepare()
            seen = self.pipeline.observe(self._prepared, self._memory)
        return seen, seen

    def step(self, action: Tensor) -> GoalStep:
        """Apply actions (N, actions), and restart those that are lost, done or out of time."""
        task = self.task
        if self._prepared is None:
            self.observe()
        assert self._prepared is not None
        with torch.no_grad():
            clipped = self.pipeline.clip(action.detach())
            command = self.pipeline.command(clipped, self._prepared)
            self._memory = self.pipeline.remember_command(self._prepared, self._memory, clipped, command)
        self.bench.worlds.step(command.numpy().astype(np.float64))
        self._age += 1
        lost = self.bench.lost()
        if lost.any():  # where they began is as good as any place for what is judged no more
            self._put_back(lost)
        actor, _ = self.observe()
        view = self._view(clipped.numpy().astype(np.float64))
        self._last = view.action
        success = view.success & ~lost
        self._held = np.where(success, self._held + 1, 0)
        finished = (self._held >= task.hold_steps) & task.ends
        timed_out = (self._age >= task.steps) & ~lost & ~finished
        done = lost | finished | timed_out
        if task.rewards == "dense":  # it earns where it is: what was done is worth what would be earned from there on
            timed_out = timed_out | finished
        terms = {name: torch.from_numpy(term.astype(np.float32)) for name, term in self._terms(view, lost).items()}
        desired = torch.from_numpy(self.bench.goal.astype(np.float32))
        achieved = torch.from_numpy(view.achieved.astype(np.float32))
        before, won = actor, self._won(success, finished)  # before what was held is forgotten
        if self.autoreset and done.any():
            actor = self._anew(torch.from_numpy(np.flatnonzero(done)), actor)
        return GoalStep(
            actor=actor,
            critic=actor,
            reward=torch.stack(list(terms.values())).sum(dim=0),
            done=torch.from_numpy(done),
            timed_out=torch.from_numpy(timed_out),
            terms=terms,
            next_actor=before,
            achieved=achieved,
            desired=desired,
            success=torch.from_numpy(won),
        )

    def achieved_goal(self) -> Tensor:
        """Return (N, 3) m what is achieved now; what is to be at :meth:`desired_goal`."""
        return torch.from_numpy(self._achieved().astype(np.float32))

    def desired_goal(self) -> Tensor:
        """Return (N, 3) m."""
        return torch.from_numpy(self.bench.goal.astype(np.float32))

    def reward_of(self, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return the sparse reward (...) of steps that led to ``achieved`` (..., 3) m if the goal was ``desired``."""
        judged = self.task.reward_of(achieved.numpy(), desired.numpy())
        return torch.from_numpy(np.asarray(judged, dtype=np.float32))

    def relabelled(self, observation: Tensor, achieved: Tensor, desired: Tensor) -> Tensor:
        """Return observations (..., size) as they would be with another goal.

        Args:
            observation: (..., size).
            achieved: (..., 3) m when each was made.
            desired: (..., 3) m.
        """
        seen = observation.clone()
        would = {"goal_position": desired, self.task.moved: achieved}
        seen[..., self._goal_columns] = self.pipeline.term(GOAL).observe(would, {})
        return seen

    def senses(self) -> dict[str, Array]:
        """Return what the pipeline prepared of now, for scripted experts, and what only they know, as arrays."""
        if self._prepared is None:
            self.observe()
        assert self._prepared is not None
        known = {name: array for name, array in self.bench.true().items() if name not in self._prepared}
        return {**known, **{name: tensor.numpy().astype(np.float64) for name, tensor in self._prepared.items()}}

    def expert_action(self) -> Tensor:
        """Return what the task's scripted expert would do now, (N, actions)."""
        return torch.from_numpy(self.task.expert().act(self.senses(), self.pipeline).astype(np.float32))

    def rollout(self, steps: int, steepest: float) -> DifferentiableRollout:
        """Refuse: MuJoCo has no gradients here.

        Raises:
            UserError: Always.
        """
        raise UserError("Arms are simulated by MuJoCo, through which there are no gradients: learn with ppo or sac.")

    def ended(self, lost: Tensor) -> Tensor:
        """Return (N,) bool: whose time is over, of those that are not ``lost``."""
        return torch.from_numpy(self._age >= self.task.steps) & ~lost

    def critic_table(self) -> list[TermInfo]:
        """Return the rows of the actor's observation: the critic sees no more."""
        return self.pipeline.table()

    def term_names(self) -> tuple[str, ...]:
        """Return the names of the reward's terms, in order."""
        return ("sparse",) if self.task.rewards == "sparse" else (*self.task.dense(), "lost")

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes as the environment runs, so that it can go on exactly."""
        bench = self.bench
        return {
            "worlds": torch.from_numpy(bench.worlds.state.copy()),
            "objects": {name: torch.from_numpy(array.copy()) for name, array in bench.drawn.items()},
            "goal": torch.from_numpy(bench.goal.copy()),
            "age": torch.from_numpy(self._age.copy()),
            "held": torch.from_numpy(self._held.copy()),
            "last": torch.from_numpy(self._last.copy()),
            "memory": {name: tensor.clone() for name, tensor in self._memory.items()},
            "prepared": None if self._prepared is None else {n: t.clone() for n, t in self._prepared.items()},
            "random": self._rng.bit_generator.state,
            "noise": bench.noise_state,
            "generator": self.generator.get_state(),
            **({} if bench.sight is None else {"sight": bench.sight.state_dict()}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`."""
        bench = self.bench
        bench.worlds.state[:] = state["worlds"].numpy()
        bench.goal[:] = state["goal"].numpy()
        bench.vary({name: tensor.numpy() for name, tensor in state["objects"].items()})
        self._age, self._held = state["age"].numpy().copy(), state["held"].numpy().copy()
        self._last = state["last"].numpy().copy()
        self._memory = {name: tensor.clone() for name, tensor in state["memory"].items()}
        prepared = state["prepared"]
        self._prepared = None if prepared is None else {n: t.clone() for n, t in prepared.items()}
        self._rng.bit_generator.state, bench.noise_state = state["random"], state["noise"]
        self.generator.set_state(state["generator"])
        if bench.sight is not None:
            bench.sight.load_state_dict(state["sight"])

    def close(self) -> None:
        """End the threads."""
        self.bench.close()

    def _prepare(self, index: Tensor | None = None) -> dict[str, Tensor]:
        """Return what all arms, or those at ``index``, sense now, prepared."""
        chosen = slice(None) if index is None else index.numpy()
        sensed = self.bench.noisy({name: array[chosen] for name, array in self.bench.true().items()})
        inputs = {name: torch.from_numpy(sensed[name].astype(np.float32)) for name in self.task.inputs}
        return self.pipeline.prepare(inputs, {name: memory[chosen] for name, memory in self._memory.items()})

    def _anew(self, index: Tensor, actor: Tensor) -> Tensor:
        """Start some arms anew; return the observations (N, size), which for the others are as they were."""
        kept = self._prepared
        assert kept is not None
        self.restart(index)
        with torch.no_grad():
            fresh = self._prepare(index)
            seen = self.pipeline.observe(fresh, {name: memory[index] for name, memory in self._memory.items()})
        self._prepared = {name: tensor.index_copy(0, index, fresh[name]) for name, tensor in kept.items()}
        return actor.index_copy(0, index, seen)

    def _achieved(self) -> Array:
        return self.bench.achieved()

    def _view(self, action: Array) -> ArmView:
        bench, prepared = self.bench, self._prepared
        assert prepared is not None
        tool, none = bench.tool(), np.zeros(self.count)
        thing = bench.true().get("object_position", tool)
        opening, held = none, none > 0.0
        if "opening" in prepared:
            seen = {name: prepared[name].numpy().astype(np.float64) for name in FINGERS}
            opening, held = seen["opening"][:, 0], stopped(seen, self.pipeline)
        achieved = self.task.achieved(tool, thing)
        return ArmView(
            tool=tool,
            goal=bench.goal,
            achieved=achieved,
            object=thing,
            half=bench.drawn["half"],
            opening=opening,
            stopped=held,
            action=action,
            last_action=self._last,
            success=self.task.done(achieved, bench.goal),
        )

    def _terms(self, view: ArmView, lost: NDArray[np.bool_]) -> dict[str, Array]:
        if self.task.rewards == "sparse":
            return {"sparse": self.task.reward_of(view.achieved, view.goal)}
        period = 1.0 / self.task.rate_hz
        terms = {name: weight * period * term(view) for name, (weight, term) in self.task.dense().items()}
        return {**terms, "lost": self.task.lost * lost.astype(np.float64)}

    def _won(self, success: NDArray[np.bool_], finished: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return finished if self.task.ends else success & (self._held >= self.task.hold_steps)

    def _put_back(self, lost: NDArray[np.bool_]) -> None:
        """Put arms whose numbers are not finite back to a start, so that nothing else sees those numbers."""
        broken = np.flatnonzero(lost & ~np.isfinite(self.bench.worlds.state).all(axis=1))
        if len(broken):
            self.bench.start(broken, self.task.draw(self.robot, self._rng, len(broken), self._starts))
