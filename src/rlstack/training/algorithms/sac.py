"""Soft actor-critic with automatic temperature and hindsight replay.

Haarnoja et al., "Soft Actor-Critic Algorithms and Applications" (arXiv 1812.05905); Andrychowicz et al., "Hindsight
Experience Replay" (arXiv 1707.01495). One process can move the robots and another learn (``apart``), as in Luo et al.,
"Precise and Dexterous Robotic Manipulation via Human-in-the-Loop Reinforcement Learning" (arXiv 2410.21845).
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.tasks.core.learning_environment import GoalStep, LearningEnvironment, failed
from rlstack.training.algorithm import Actor, IterationResult, RolloutTotals, check_finite, check_observation
from rlstack.training.episode_outcomes import OutcomeEnvironment, with_outcomes
from rlstack.training.hindsight_replay import REPLAY, HindsightReplay, dealt
from rlstack.training.learner_process import LearnerProcess
from rlstack.training.mixed_replay import AT_ONCE
from rlstack.training.replay_journal import Acted, HowToAct, ReplayJournal, write
from rlstack.training.rollout_fleet import RolloutFleet, check_shares, start_fleet
from rlstack.training.rollout_worker import Order
from rlstack.training.soft_actor_critic import CHANGEABLE, Further, SoftActorCriticLearner, SoftActorCriticSettings

_WORKERS_NICE = 10
"""By how much workers give way to the learner, for which they wait anyhow: with as many cores as workers it would share
a core with them otherwise."""


@dataclass(frozen=True, kw_only=True)
class SACSettings(SoftActorCriticSettings):
    """Settings of soft actor-critic."""

    rollout: int = value(8, at_least=1)
    """Steps per robot in an iteration."""
    updates: float = value(1.0, above=0.0)
    """Critic updates per step of each robot."""
    actor_every: int = value(1, at_least=1)
    """Critic updates per policy update."""
    warm_up: int = value(1000, at_least=0)
    """Steps of all robots with random actions before learning begins."""
    hindsight: float = value(0.8, at_least=0.0, at_most=1.0)
    """Share of steps relabelled with a goal that was achieved later; for sparse rewards."""
    ahead: int = value(1, at_least=1)
    """Steps of n-step targets; more learns faster, but with bias."""
    capacity: int = value(1_000_000, at_least=1000)
    """Most stored steps."""
    apart: bool = False
    """Whether to learn in a separate process, on a core of its own, while the robots go on. If it dies, the robots
    finish their episodes and wait for its restart."""
    lead: int = value(4, at_least=1)
    """Largest number of iterations by which the robots may be ahead of that learner; large for real robots."""
    workers: int = value(0, at_least=0)
    """Rollout workers beside that learner, each a process with its share of the robots; 0: the run's process moves
    them. With `rlstack train --ray`, actors of a Ray cluster."""
    staleness: int = value(1000, at_least=0)
    """Largest number of critic updates by which a worker's policy may be older than the newest before the others wait
    for it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.workers and not self.apart:
            raise ValueError(f"workers: {self.workers} is not allowed without apart: true: they need a learner apart.")

    def cloning_at(self, done: float) -> float:
        """Return the weight of a behaviour-cloning loss after a share of the run, 0 to 1."""
        return 0.0


_WAIT_S = 0.005
"""Time between polls of a separate learner."""


class SAC:
    """Learns from replayed steps; see :class:`rlstack.training.algorithm.Algorithm`.

    Raises:
        UserError: The task has no goals, or its rewards do not fit hindsight.
    """

    Settings = SACSettings
    needs_gradients = False
    fine_tunes: ClassVar[str] = "run"
    changeable: ClassVar[tuple[str, ...]] = (*CHANGEABLE, "updates", "actor_every", "hindsight", "ahead")
    unrewarded = False
    """Whether demonstrations have zero reward, whatever the task's rewards are."""
    sources: ClassVar[tuple[str, ...]] = (REPLAY,)
    """Folders in a run's folder with own steps, demonstrations and corrections, for a separate learner."""

    def __init__(self, settings: SACSettings, environment: LearningEnvironment) -> None:
        task = environment.task
        told = with_outcomes(environment)
        if told is None:
            raise UserError(
                f"algorithm: {type(self).__name__.lower()} is not allowed: {type(task).__name__} does not report what"
                " its steps achieve, which replay needs: choose ppo."
            )
        if settings.hindsight and getattr(task, "rewards", "sparse") != "sparse":
            raise UserError(
                f"algorithm_settings: hindsight: {settings.hindsight} is not allowed with task_settings: rewards:"
                f" {task.rewards}: hindsight needs sparse rewards. Set hindsight to 0 or rewards to sparse."
            )
        if settings.hindsight and isinstance(told, OutcomeEnvironment):
            raise UserError(
                f"algorithm_settings: hindsight: {settings.hindsight} is not allowed: {type(task).__name__} has no"
                " goals to relabel: set 0."
            )
        self.settings, self.environment = settings, told
        self.steps_per_iteration = settings.rollout * environment.count
        pipeline = environment.pipeline
        # a separate generator, so that draws here do not affect the environment's
        self.generator = torch.Generator().manual_seed(torch.initial_seed() % 2**63)
        self.learner = SoftActorCriticLearner(settings, pipeline.size, pipeline.action_size, self.generator)
        self._experience: HindsightReplay | None = None
        self._drawn: dict[str, Any] | None = None
        """Replay state of a resumed run, until it is opened."""
        self._observation: Tensor | None = None
        self._begun = torch.zeros(environment.count, dtype=torch.bool)
        """Robots at the start of an episode."""
        self._held = torch.zeros(environment.count, dtype=torch.bool)
        """Waiting robots: they do nothing, and their steps are neither counted nor stored."""
        self._steps, self._updates, self._owed = 0, 0, 0.0
        self._able = False
        """Whether the policy acts in the warm-up, too: it is another run's."""
        self._cloning = 0.0
        """Weight of the behaviour-cloning loss."""
        self.learner_process: LearnerProcess | None = None
        self.fleet: RolloutFleet | None = None
        self._journal = ReplayJournal()
        """Of a worker."""
        self.ray = ""
        """Address of a Ray cluster for the workers; empty: processes of this machine."""
        self.extra_steps = 0
        """Steps of all robots outside of iterations, to finish episodes after a learner died."""
        self._figures: dict[str, float] = {}
        """Figures of an iteration's steps, each the sum of the steps' means over the robots."""

    def open(self, folder: Path | None) -> None:
        """Open the steps in a run's folder, None: in a temporary one, and start the learner if it is separate.

        Raises:
            UserError: A separate learner needs a folder.
        """
        if self.settings.apart and folder is None:
            raise UserError("apart: true needs a run's folder, which robots and learner share.")
        check_shares(self.settings.workers, self.environment.count)
        self._prepare(folder)
        if self.settings.apart and folder is not None:
            seed = torch.initial_seed() % 2**32
            self.learner_process = LearnerProcess(
                folder, self.learner, self.settings, self.sources, self.unrewarded, seed
            )
            self.learner_process.start()
            if self.settings.workers:
                robots, threads = self.environment.count, torch.get_num_threads()
                about = (folder, self.settings.workers, robots, threads, self.ray)
                self.fleet = start_fleet(
                    *about, lambda: self._steps, self.settings.staleness, self._fixed(), _WORKERS_NICE
                )

    def close(self) -> None:
        """Stop workers and a separate learner, and take over all that it has learned."""
        if self.fleet is not None:
            self.fleet.close()
        if self.learner_process is not None:
            self.learner_process.close()
            self.learner.load_state_dict(self.learner_process.state())

    def iterate(self, done: float) -> IterationResult:
        """Step the robots and learn; raise ``NotFinite`` naming the term that is not finite."""
        if self._experience is None:
            self.open(None)
        assert self._experience is not None
        settings = self.settings
        self._cloning = settings.cloning_at(done)
        if self.fleet is not None:
            return self._gathered(done)
        apart = self._wait_for_learner(done) if self.learner_process is not None else {}
        self._begin(done)
        totals = RolloutTotals()
        logged: dict[str, Tensor] = {}
        for _ in range(settings.rollout):
            totals.add(self._advance())
            if self.learner_process is None and self._steps > settings.warm_up:
                self._owed += settings.updates * self.environment.count
            while self._owed >= 1.0:
                count = min(int(self._owed), AT_ONCE)
                self._owed -= count
                for batch in self._batches(count):
                    logged.update(self._learn(batch))
        if self.learner_process is not None:
            self.learner_process.report(self._steps, done)
        return self._told(totals, {**self.learner.check(logged), **apart}, {})

    def begin_as_worker(self, fixed: Any) -> None:
        """Act for a learner elsewhere; see :class:`rlstack.training.rollout_worker.RollsOut`."""
        capacity = self.settings.capacity
        self._experience = HindsightReplay(self.environment, capacity, versioned=True, journal=self._journal)

    def roll_out(self, order: Order) -> Acted:
        """Step the robots by a policy; see :class:`rlstack.training.rollout_worker.RollsOut`."""
        if order.weights is not None:
            self.learner.actor.load_state_dict(order.weights)
        self._set_version(order.version)
        how: HowToAct = order.how
        self._steps, self._able = how.steps, how.able
        self._begin(how.done)
        totals = RolloutTotals()
        for _ in range(self.settings.rollout):
            totals.add(self._advance())
        return Acted(self._journal.taken(), totals, self._figures)

    def actor(self) -> Actor:
        """Return a copy of the current actor."""
        return copy.deepcopy(self.learner.actor).eval().requires_grad_(False)

    def change(self, settings: Any) -> None:
        """Go on with other settings; see :class:`rlstack.training.algorithm.ChangesInRun`."""
        self.settings = settings
        self.learner.change(settings)

    def start_from(self, actor: Mapping[str, Tensor], state: Mapping[str, Any] | None) -> None:
        """Take over the networks of a run's end; see :class:`rlstack.training.algorithm.FineTunes`."""
        assert state is not None
        self.learner.start_from(state["learner"])
        self._able = True

    def state_dict(self) -> dict[str, Any]:
        """Return networks, optimisers, environment and random state; replayed steps stay in their files."""
        return {
            "learner": self.learner.state_dict(),
            "environment": copy.deepcopy(self.environment.state_dict()),
            "experience": None if self._experience is None else self._experience.state_dict(),
            "steps": self._steps,
            "updates": self._updates,
            "owed": self._owed,
            "able": self._able,
            "extra_steps": self.extra_steps,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self.learner.load_state_dict(state["learner"])
        self.environment.load_state_dict(state["environment"])
        self._steps, self._updates, self._owed = state["steps"], state["updates"], state["owed"]
        self._drawn, self._able = state["experience"], state.get("able", False)
        self.extra_steps = state.get("extra_steps", 0)  # older runs lack it
        if self._experience is not None and self._drawn is not None:
            self._experience.load_state_dict(self._drawn)
        self._observation = None

    def _prepare(self, folder: Path | None) -> None:
        """Open all steps, and learn what comes before the first one."""
        self._experience = self._kept(folder, REPLAY, self.settings.capacity)
        if self._drawn is not None:
            self._experience.load_state_dict(self._drawn)

    def _begin(self, done: float) -> None:
        """Make ready for an iteration's steps."""
        assert self._experience is not None
        self._figures = {}
        self.environment.set_progress(done)
        if self._observation is None:  # at the start or after resuming, when stored steps end earlier
            self._observation = self.environment.observe()[0].clone()
            self._experience.begin(self._observation)

    def _told(self, totals: RolloutTotals, losses: Mapping[str, float], more: Mapping[str, float]) -> IterationResult:
        """Return an iteration's result."""
        figures = {f"train/{name}": total / self.settings.rollout for name, total in self._figures.items()}
        scalars = {
            "train/success": totals.success,
            **figures,
            **{f"loss/{name}": loss for name, loss in losses.items()},
        }
        return totals.result(self.environment.task.rate_hz / self.settings.rollout, {**scalars, **more})

    def _buffers(self) -> dict[str, HindsightReplay]:
        """Return where steps are stored, by the folders' names."""
        assert self._experience is not None
        return {REPLAY: self._experience}

    def _fixed(self) -> Any:
        """Return what workers need and is not learned any more; see :class:`.WorkerPlan`."""
        return None

    def _set_version(self, version: int) -> None:
        for one in self._buffers().values():
            one.version = version

    def _gathered(self, done: float) -> IterationResult:
        """Store as many blocks of the workers as make an iteration, and let them go on."""
        fleet, learner, workers = self.fleet, self.learner_process, self.settings.workers
        assert fleet is not None and learner is not None
        robots, buffers = self.environment.count // workers, {n: one.buffer for n, one in self._buffers().items()}
        blocks: list[Acted] = []
        logged: dict[str, float] = {}
        while len(blocks) < workers:
            logged |= learner.take(self.learner.actor)
            if not learner.running:
                learner.start()
            if not self._ahead(learner):
                how = HowToAct(self._steps, done, self._able)
                fleet.give(learner.updates, self.learner.actor.state_dict(), how)
            for number, block in fleet.arrived(learner.updates, _WAIT_S, workers - len(blocks)):
                acted: Acted = block.made
                blocks.append(acted)
                write(acted.written, buffers, number * robots)
                self._steps += sum(one.steps for one in acted.written if one.where == REPLAY)
                learner.report(self._steps, done)
        self._figures = {}
        for one in blocks:
            for name, figure in one.figures.items():
                self._figures[name] = self._figures.get(name, 0.0) + figure / len(blocks)
        return self._told(RolloutTotals.together([one.totals for one in blocks]), logged, fleet.figures())

    def _ahead(self, learner: LearnerProcess) -> bool:
        """Return whether the robots are as far ahead of the learner as they may be."""
        settings = self.settings
        behind = settings.updates * (self._steps - settings.warm_up) - learner.updates
        return behind > settings.updates * settings.lead * self.steps_per_iteration

    def _wait_for_learner(self, done: float) -> dict[str, float]:
        """Wait for the learner, with all episodes finished if it died; take its policy, and return its losses."""
        learner = self.learner_process
        assert learner is not None
        logged: dict[str, float] = {}
        while True:
            logged |= learner.take(self.learner.actor)
            if not learner.running:
                self._end_episodes()
                learner.report(self._steps, done)
                learner.start()
            if not self._ahead(learner):
                return logged
            time.sleep(_WAIT_S)

    def _end_episodes(self) -> None:
        """Let every robot finish its episode, and wait at the start of the next one until all have."""
        if self._observation is None:  # none has begun
            return
        before, self._held = self._steps, self._begun
        waited = torch.zeros_like(self._held)
        while not self._held.all():
            waited = waited | self._held
            self._held = self._held | self._advance().done
        self._held = torch.zeros_like(waited)
        self.extra_steps += self._steps - before
        if waited.any():
            self.environment.restart(waited.nonzero().flatten())  # time passed for them while they waited
            self._observation = None

    def _kept(self, folder: Path | None, name: str, capacity: int, lanes: int | None = None) -> HindsightReplay:
        where = None if folder is None else folder / name
        versioned = bool(self.settings.workers)
        return HindsightReplay(self.environment, capacity, where, torch.initial_seed() % 2**32, lanes, versioned)

    def _advance(self) -> GoalStep:
        """Step the robots once, store the result, and return it."""
        assert self._observation is not None
        action = torch.where(self._held[:, None], 0.0, self._action(self._observation))
        result = self.environment.step(action)
        result = replace(result, reward=self._earned(result))
        check_observation(result.actor, self.environment.pipeline.table(), "The observation term '{}' is not finite")
        check_finite(result.terms, "The reward term '{}' is not finite")
        self._keep(action, result)
        self._observation, self._begun = result.actor.clone(), result.done.clone()
        self._steps += self.environment.count - int(self._held.sum())
        return result

    def _action(self, observation: Tensor) -> Tensor:
        if self._able or self._steps >= self.settings.warm_up:
            return self.learner.act(observation)
        shape = (self.environment.count, self.environment.pipeline.action_size)
        return 2.0 * torch.rand(shape, generator=self.generator) - 1.0

    def _keep(self, action: Tensor, result: GoalStep) -> None:
        assert self._experience is not None
        self._experience.add(action, result, ~self._held)

    def _earned(self, result: GoalStep) -> Tensor:
        """Return the reward (N,) of a step; if only time costs, failing early costs all the remaining time."""
        if getattr(self.environment.task, "rewards", "") != "sparse":
            return result.reward
        return torch.where(failed(result), result.reward.clamp(max=self._for_ever), result.reward)

    @property
    def _for_ever(self) -> float:
        """Return of -1 per step for ever."""
        return -1.0 / max(1.0 - self.settings.gamma, 1e-3)

    def _learn(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return self._update(batch)

    def _update(
        self,
        batch: Mapping[str, Tensor],
        further: Further | None = None,
        actor_penalty: Callable[[], Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """Update critics and, as often as is set, the policy, with further losses of theirs; return scalars to log."""
        logged = self.learner.update_critics(batch, further)
        self._updates += 1
        if self._updates % self.settings.actor_every == 0:
            logged.update(self.learner.update_actor(batch, self._cloning, actor_penalty))
        return logged

    def _batches(self, count: int) -> list[dict[str, Tensor]]:
        assert self._experience is not None
        settings = self.settings
        rows = count * settings.batch
        return dealt(self._experience.sample(rows, settings.hindsight, settings.ahead, settings.gamma), count)


ALGORITHM = SAC
