"""Training environments of instructed tasks: chunks of actions, and images only where they are observed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlstack.arrays import Array, Mask
from rlstack.tasks.core.camera_observations import CameraImages
from rlstack.tasks.core.curriculum import SuccessCurriculum
from rlstack.tasks.core.learning_environment import GoalStep
from rlstack.tasks.core.mujoco_environment import MujocoEnvironment, Outcome
from rlstack.tasks.core.pipeline import TermInfo

NOT_THERE = 2.0
"""Place in an image, whose own are -1 to 1, of what is not there."""


@dataclass(frozen=True)
class ChunkStep(GoalStep):
    """Result of a chunk of steps: rewards are summed over it, and ``success`` is of its last step.

    An episode that ends within the chunk counts until then. ``next_actor`` is ``actor``, but for the episodes that have
    ended: it has their last columns, and black images, since these are not rendered.
    """

    steps: Tensor  # (N,) number of steps until the chunk's or the episode's end
    privileged: Tensor  # (N, privileged_size) after automatic resets
    next_privileged: Tensor  # (N, privileged_size) before them


class ChunkEnvironment(MujocoEnvironment):
    """N robots at an instructed task, whose observation ends with images.

    It is also a :class:`rlstack.tasks.core.learning_environment.ScriptedEnvironment`.
    """

    _group = 1
    """Number of neighbouring robots that begin the same trial."""
    trial_kinds = 0
    """Number of kinds of trials that a curriculum tells apart; 0: it has none."""
    curriculum: SuccessCurriculum | None = None
    """Draws trials by success; None: all alike."""

    @abstractmethod
    def privileged_table(self) -> list[TermInfo]:
        """Return one row for each term of :meth:`privileged`, in order."""

    @abstractmethod
    def privileged(self) -> Tensor:
        """Return what a critic may know and a policy does not, (N, privileged_size), without noise."""

    @abstractmethod
    def expert_action(self) -> Tensor:
        """Return the scripted expert's actions (N, actions)."""

    @abstractmethod
    def _waiting(self) -> Array:
        """Return the command (N, width) under which robots stay as they are."""

    def image_places(self) -> Tensor:
        """Return where the named things are in the observed images, and what they are like.

        (N, cameras, things, 2 or more): right and down, -1 to 1, or beyond for what is not in an image, or not named;
        then, of tasks that tell that, what a thing is like, such as its shape, each number within about -1 to 1.
        """
        return torch.from_numpy(self.scene.cameras.places()[:, :, :1].astype(np.float32))

    def render(self, images: bool) -> None:
        """Render images from now on, or leave them black, which is cheaper; :meth:`image_places` is known either way.

        Restart all robots afterwards.
        """
        self.scene.cameras.renderer.renders = images

    @property
    def privileged_size(self) -> int:
        """Number of columns of :meth:`privileged`."""
        return sum(row.size for row in self.privileged_table())

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume exactly."""
        held = {} if self.curriculum is None else {"curriculum": self.curriculum.state_dict()}
        return {**super().state_dict(), **held}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        super().load_state_dict(state)
        if self.curriculum is not None:
            self.curriculum.load_state_dict(state["curriculum"])

    def noisy_actions(self) -> Tensor:
        """Return (N or 1, actions): 1 for the actions that noise on demonstrations may act on now, 0 for others."""
        return torch.ones(1, self.pipeline.action_size)

    def restart_alike(self, group: int) -> None:
        """Reset all robots; each ``group`` of neighbouring ones, which divides N, begins the same trial.

        Scene, sentence and departures are the same; the cameras' rates, latencies and appearances are not.
        """
        self._group = group
        try:
            self.restart(torch.arange(self.count))
        finally:
            self._group = 1

    def chunk_step(self, actions: Tensor) -> ChunkStep:
        """Apply chunks of actions (N, steps, actions); see :meth:`roll`."""
        following = iter(actions.detach().unbind(dim=1))
        return self.roll(lambda: next(following), actions.shape[1])

    def roll(self, act: Callable[[], Tensor], count: int) -> ChunkStep:
        """Apply ``count`` actions (N, actions), and reset the robots that are lost, done or out of time.

        ``act`` returns each action when its time has come, such as an expert's.

        Images are rendered only for the observations that it returns. A robot whose episode ends within the chunk
        holds its joints until the end of it.
        """
        going, timed_out, success = np.ones(self.count, np.bool_), *np.zeros((2, self.count), np.bool_)
        steps = np.zeros(self.count, np.intp)
        terms = {name: np.zeros(self.count) for name in self.term_names()}
        last = {name: torch.zeros(0) for name in ("columns", "privileged", "achieved", "desired")}
        for _ in range(count):
            lost, outcome = self._act(act(), going)
            for name, term in outcome.terms.items():
                terms[name] += np.where(going, term, 0.0)
            steps += going
            kept = torch.from_numpy(going.copy())[:, None]
            now = {"privileged": self.privileged(), "columns": self._columns()}
            now.update(achieved=self.achieved_goal(), desired=self.desired_goal())
            last = {n: torch.where(kept, t, last[n]) if last[n].numel() else t for n, t in now.items()}
            late = (self._age >= self.task.steps) & ~lost & ~outcome.finished
            success = np.where(going, outcome.success, success)
            timed_out |= going & (late | (outcome.finished & outcome.continuing))
            going = going & ~(lost | outcome.finished | late)
        ended = np.flatnonzero(~going)
        if self.curriculum is not None:
            self.curriculum.record(ended, success[ended])
        index = torch.from_numpy(ended)
        if self.autoreset and len(index):
            self.restart(index)
        actor, _ = self.observe()
        following = actor.clone()
        following[index] = 0.0
        following[index, : last["columns"].shape[1]] = last["columns"][index]
        named = {name: torch.from_numpy(term.astype(np.float32)) for name, term in terms.items()}
        return ChunkStep(
            actor=actor,
            critic=actor,
            reward=torch.stack(list(named.values())).sum(dim=0),
            done=torch.from_numpy(~going),
            timed_out=torch.from_numpy(timed_out),
            terms=named,
            next_actor=following,
            achieved=last["achieved"],
            desired=last["desired"],
            success=torch.from_numpy(success),
            steps=torch.from_numpy(steps),
            privileged=self.privileged(),
            next_privileged=last["privileged"],
        )

    def _act(self, action: Tensor, going: Mask) -> tuple[Mask, Outcome]:
        """Apply actions (N, actions) where ``going`` (N,); return (N,) which robots are lost, and the outcome."""
        prepared = self._sensed()
        with torch.no_grad():
            clipped = self.pipeline.clip(action)
            command = self.pipeline.command(clipped, prepared)
            self._memory = self.pipeline.remember_command(prepared, self._memory, clipped, command)
        driven = command.numpy().astype(np.float64)
        self._drive(np.where(going[:, None], driven, self._waiting()))
        self._age += 1
        lost = self.scene.lost()
        if lost.any() and len(diverged := np.flatnonzero(~np.isfinite(self.worlds.state).all(axis=1))):
            self._start(diverged)  # keep values that are not finite from everything after
        with torch.no_grad():
            self._prepared = self._without_images()
        taken = clipped.numpy().astype(np.float64)
        outcome = self._outcome(taken, lost)
        self._last_action = taken
        return lost, outcome

    def _sensed(self) -> dict[str, Tensor]:
        """Return the pipeline's prepared inputs of the present: after a restart, without images, which cost time."""
        if self._prepared is None:
            with torch.no_grad():
                self._prepared = self._without_images()
        return self._prepared

    def _without_images(self) -> dict[str, Tensor]:
        sensed = self._noisy(self.scene.true(images=False), slice(None))
        named = {n: torch.from_numpy(sensed[n].astype(np.float32)) for n in self.task.inputs if n in sensed}
        prepared: dict[str, Tensor] = self.pipeline.prepare(named, self._memory)
        return prepared

    def _columns(self) -> Tensor:
        """Return the present observation (N, columns) without its images, which are last."""
        with torch.no_grad():
            terms = [term for term in self.pipeline.terms if not isinstance(term, CameraImages)]
            return torch.cat([term.observe(self._sensed(), self._memory) for term in terms], dim=-1)
