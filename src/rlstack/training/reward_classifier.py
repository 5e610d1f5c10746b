"""Reward classifier: predicts success from observations, including images, as on a real robot.

Luo et al., "Precise and Dexterous Robotic Manipulation via Human-in-the-Loop Reinforcement Learning" (HIL-SERL, arXiv
2410.21845): before reinforcement learning, a classifier on frozen image features is fitted to examples of success and
failure, and a step has a reward where the predicted probability of success exceeds 0.85.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.tasks.core.learning_environment import GoalStep, ScriptedEnvironment
from rlstack.training.environment_wrappers import EnvironmentWrapper
from rlstack.training.networks import Normalised, relu_layers
from rlstack.training.optimisers import Adam

_FITTED_SHARE = 0.8
"""Share of the examples to fit; the rest measure precision and recall."""


@dataclass(frozen=True, kw_only=True)
class RewardClassifierSettings:
    """Settings of the classifier."""

    shown: int = value(12_000, at_least=100)
    """Example steps: half from the scripted expert with noise, half from deliberate failures."""
    stray: float = value(0.3, at_least=0.0)
    """Standard deviation of the noise on the expert's actions."""
    threshold: float = value(0.85, above=0.0, at_most=1.0)
    """Probability threshold of success; HIL-SERL's."""
    updates: int = value(1500, at_least=1)
    batch: int = value(256, at_least=2)
    hidden: tuple[int, ...] = value((64, 64), at_least=1)
    learning_rate: float = value(1e-3, above=0.0)


class RewardClassifier(Normalised):
    """Success classifier of observations.

    Args:
        columns: Observation columns.
        hidden: Widths of the dense layers.
    """

    least_std = 1e-2

    def __init__(self, columns: int, hidden: tuple[int, ...]) -> None:
        super().__init__(columns)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise([columns, *hidden, 1]))

    def forward(self, observation: Tensor) -> Tensor:
        """Return the logits (batch,) of success in observations (batch, columns)."""
        return relu_layers(self.layers, self.normalised(observation))[:, 0]


class ClassifiedEnvironment(EnvironmentWrapper):
    """Environment wrapper whose rewards and endings come from a success classifier.

    Args:
        inner: A task whose episodes success does not end.
        settings: Settings of the classifier.
        seed: Seed of sampling.

    Raises:
        UserError: Success ends the task's episodes, which leaks the true success.
    """

    def __init__(self, inner: ScriptedEnvironment, settings: RewardClassifierSettings, seed: int) -> None:
        super().__init__(inner)
        if getattr(self.task, "ends", False):
            raise UserError(
                "judged: true needs episodes that the task's own success does not end: set task_settings: ends: false."
            )
        self.settings, self.generator = settings, torch.Generator().manual_seed(seed % 2**63)
        self.judge = RewardClassifier(self.pipeline.size, settings.hidden)
        self.hold_steps = int(getattr(self.task, "hold_steps", 1))
        self.figures: dict[str, float] = {}
        """``precision`` and ``recall`` on held-out steps, 0 to 1."""
        self._held = torch.zeros(self.count, dtype=torch.long)

    def learn(self) -> None:
        """Fit the classifier to successes and failures, then reset all robots.

        Raises:
            UserError: The examples lack successes or failures.
        """
        settings = self.settings
        observation, done = self._examples()
        kept = round(_FITTED_SHARE * len(done))
        fitted, done_fitted = observation[:kept], done[:kept]
        if not 0 < int(done_fitted.sum()) < kept or not bool(done[kept:].any()):
            raise UserError(
                f"judged: of {len(done)} example steps, {int(done.sum())} were successful: a classifier needs"
                " both kinds. Collect more (judge.shown), or make the task easier."
            )
        self.judge.normalise_by(fitted)
        optimiser = Adam(self.judge.parameters(), lr=settings.learning_rate)
        kinds = [(done_fitted == kind).nonzero().flatten() for kind in (True, False)]
        half = settings.batch // 2
        target = torch.cat([torch.ones(half), torch.zeros(half)])
        for _ in range(settings.updates):
            drawn = torch.cat([rows[self._draw(len(rows), half)] for rows in kinds])
            loss = functional.binary_cross_entropy_with_logits(self.judge(fitted[drawn]), target)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        found, truth = self.predict(observation[kept:]), done[kept:]
        right = float((found & truth).sum())
        self.figures = {
            "precision": right / max(float(found.sum()), 1.0),
            "recall": right / max(float(truth.sum()), 1.0),
        }
        self.inner.reset_all()

    def predict(self, observation: Tensor) -> Tensor:
        """Return (batch,) bool: predicted success in observations (batch, columns)."""
        with torch.no_grad():
            return torch.sigmoid(self.judge(observation)) >= self.settings.threshold

    def step(self, action: Tensor) -> GoalStep:
        """Apply actions (N, actions), and reset robots whose predicted success has lasted long enough."""
        result = self.inner.step(action)
        success = self.predict(result.next_actor)
        reward = torch.where(success, 0.0, -1.0)
        self._held = torch.where(success, self._held + 1, 0)
        lost = result.done & ~result.timed_out
        finished = (self._held >= self.hold_steps) & ~lost
        fresh = finished & ~result.done
        actor = result.actor
        if fresh.any():
            self.inner.restart(fresh.nonzero().flatten())
            actor = torch.where(fresh[:, None], self.inner.observe()[0], actor)
        done = result.done | finished
        self._held[done] = 0
        return replace(
            result,
            actor=actor,
            critic=actor,
            reward=reward,
            terms={"judged": reward},
            done=done,
            timed_out=result.timed_out & ~finished,
            success=finished,
        )

    def reset_all(self) -> None:
        """Reset every robot."""
        self._held[:] = 0
        self.inner.reset_all()

    def restart(self, index: Tensor) -> None:
        """Reset the robots at ``index``."""
        self._held[index] = 0
        self.inner.restart(index)

    def term_names(self) -> tuple[str, ...]:
        """Return the names of the reward's terms, in order."""
        return ("judged",)

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume, including the classifier."""
        own = {"judge": {n: t.clone() for n, t in self.judge.state_dict().items()}, "figures": dict(self.figures)}
        random = self.generator.get_state()
        return {**own, "inner": self.inner.state_dict(), "held": self._held.clone(), "random": random}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self.judge.load_state_dict(state["judge"])
        self.figures, self._held = dict(state["figures"]), state["held"].clone()
        self.generator.set_state(state["random"])
        self.inner.load_state_dict(state["inner"])

    def _examples(self) -> tuple[Tensor, Tensor]:
        """Return example observations (n, columns) and the task's own success in them (n,)."""
        settings, count = self.settings, self.count
        actions = self.pipeline.action_size
        seen, done = [], []
        blunders = torch.arange(count) % 2 == 1  # for half of the robots, and in every other episode of each
        stuck, at = self._draw_failures(actions)
        self.inner.restart(torch.arange(count))
        self.inner.observe()
        for _ in range(-(-settings.shown // count)):
            action = self.inner.expert_action()
            action = action + settings.stray * torch.randn(action.shape, generator=self.generator)
            action = torch.where(blunders[:, None] & stuck, at, action).clamp(-1.0, 1.0)
            result = self.inner.step(action)
            seen.append(result.next_actor.clone())
            done.append(self.inner.reward_of(result.achieved, result.desired) == 0.0)
            blunders = blunders ^ result.done
            again, other = self._draw_failures(actions)
            stuck = torch.where(result.done[:, None], again, stuck)
            at = torch.where(result.done[:, None], other, at)
        return torch.cat(seen), torch.cat(done)

    def _draw_failures(self, actions: int) -> tuple[Tensor, Tensor]:
        """Draw failures: which of the actions (N, actions) bool is stuck, and at which value."""
        which = functional.one_hot(self._draw(actions, self.count), actions).bool()
        at = 2.0 * torch.rand((self.count, 1), generator=self.generator) - 1.0
        return which, at.expand(-1, actions)

    def _draw(self, below: int, count: int) -> Tensor:
        return torch.randint(below, (count,), generator=self.generator)
