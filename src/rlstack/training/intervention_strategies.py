"""Intervention strategies: the protocol, and scripts that stand in for a person.

The scripts are those of Luo et al., "RLIF: Interactive Imitation Learning as Reinforcement Learning" (arXiv
2311.12996): one takes over at random, one where a finished run's critics value the policy's action less than the
expert's. The third takes over after the policy's action differed from the expert's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.tasks.core.learning_environment import ScriptedEnvironment
from rlstack.training.critics import Critics

_ENDED = -1
"""Number of remaining steps after an intervention's last one."""


@dataclass(frozen=True)
class Intervention:
    """Actions of the coming step."""

    now: Tensor  # (N,) bool: robots with an intervention
    action: Tensor  # (N, actions) in -1..1: the intervener's, or else the policy's


class Intervener(Protocol):
    """Intervenes: a script, or a person (:mod:`rlstack.training.human_intervention`)."""

    def decide(self, observation: Tensor, proposed: Tensor, begins: Tensor) -> Intervention:
        """Return the actions of the coming step.

        Args:
            observation: (N, columns), the present one.
            proposed: (N, actions) of the policy.
            begins: (N,) bool: robots whose episode begins with that step.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return the state needed to resume, without the current interventions."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""


@dataclass(frozen=True, kw_only=True)
class IntervenerSettings:
    """Settings of a script, or of a person, who intervenes."""

    kind: Literal["random", "action", "value", "hand"] = "random"
    """When to intervene: at random; after an action far from the expert's; where critics value it less; when a person
    takes over (hand)."""
    teleop: str = ""
    """Hand: the device: keyboard, gamepad, spacemouse, script:FILE, or topic for any publisher of teleop/twist and
    teleop/intervene."""
    namespace: str = ""
    """Hand: namespace of these topics; default: the robot's name."""
    view: bool = False
    """Hand: show the simulated arm in a viewer."""
    rate: float = value(0.3, at_least=0.0, at_most=1.0)
    """Random: probability that a step begins an intervention."""
    right: float = value(0.95, at_least=0.0, at_most=1.0)
    """All but random: probability of a correct decision to intervene; RLIF's beta."""
    tolerance: float = value(0.5, at_least=0.0)
    """Action: largest root mean square difference between the policy's action and the expert's."""
    share: float = value(0.97, above=0.0, at_most=1.0)
    """Value: least ratio of the policy's value to the expert's; RLIF's alpha."""
    critics: str = ""
    """Value: folder of a finished run of sac or rlpd on the same task, for its critics."""
    patience: int = value(1, at_least=1)
    """All but random: consecutive bad steps before an intervention is due."""
    overdue: int = value(0, at_least=0)
    """Steps of an episode after which an intervention is due in any case; 0: never."""
    hold: int = value(4, at_least=1)
    """Steps of an intervention; 4 in RLIF. The expert needs more to make progress."""
    steps: int = value(0, at_least=0)
    """Steps, over all robots, after which interventions end; 0: never."""
    skill: float = value(1.0, at_least=0.0, at_most=1.0)
    """Share of interventions with the expert's actions; the others hold one random action."""

    def __post_init__(self) -> None:
        if self.kind == "hand" and not self.teleop:
            raise ValueError("teleop: kind: hand needs a device, such as keyboard.")
        if self.kind != "hand" and (self.teleop or self.namespace or self.view):
            raise ValueError(f"teleop, namespace and view are a hand's, not allowed with kind: {self.kind}: set hand.")


def needs_human(settings: Any) -> bool:
    """Return whether an algorithm's settings let a person intervene."""
    intervener = getattr(settings, "intervener", None)
    return isinstance(intervener, IntervenerSettings) and intervener.kind == "hand"


def intervener_of(settings: IntervenerSettings, environment: ScriptedEnvironment, seed: int) -> Intervener:
    """Return the scripted intervener; for kind hand, a placeholder until the person's device is open."""
    return NoIntervention() if settings.kind == "hand" else ScriptedIntervener(settings, environment, seed)


class NoIntervention:
    """An :class:`Intervener` that never intervenes, in place of a person, as when a run is only read."""

    def decide(self, observation: Tensor, proposed: Tensor, begins: Tensor) -> Intervention:
        """Return the policy's actions."""
        return Intervention(torch.zeros(len(proposed), dtype=torch.bool), proposed)

    def state_dict(self) -> dict[str, Any]:
        """Return an empty state."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """No-op."""


class ScriptedIntervener:
    """See :class:`Intervener`.

    Args:
        settings: Timing and quality of interventions.
        environment: Environment with the expert.
        seed: Seed of random decisions.

    Raises:
        UserError: The critics are missing, or of another task.
    """

    def __init__(self, settings: IntervenerSettings, environment: ScriptedEnvironment, seed: int) -> None:
        self.settings, self.environment = settings, environment
        self.generator = torch.Generator().manual_seed(seed)
        columns, actions = environment.pipeline.size, environment.pipeline.action_size
        self._critics = _critics(settings.critics, columns + actions) if settings.kind == "value" else None
        self._steps = 0
        self._left = torch.zeros(environment.count, dtype=torch.long)
        self._off = torch.zeros(environment.count, dtype=torch.long)
        """Consecutive bad steps of the policy."""
        self._age = torch.zeros(environment.count, dtype=torch.long)
        """Steps of the episode so far."""
        self._wrong = torch.zeros(environment.count, dtype=torch.bool)
        self._astray = torch.zeros(environment.count, actions)

    def decide(self, observation: Tensor, proposed: Tensor, begins: Tensor) -> Intervention:
        """Return the actions of the coming step; see the protocol."""
        settings, count = self.settings, len(proposed)
        expert = self.environment.expert_action()
        left, ended = torch.where(begins, 0, self._left), torch.where(begins, False, self._left == _ENDED)
        left = left.clamp(min=0)
        chance = torch.full((count,), settings.rate)
        off = torch.where(begins, 0, self._off)
        if settings.kind != "random":
            if self._critics is not None:
                off = torch.where(self._worse(observation, proposed, expert), off + 1, 0)
            chance = torch.where(off >= settings.patience, settings.right, 1.0 - settings.right)
        self._age = torch.where(begins, 0, self._age + 1)
        if settings.overdue:
            chance = torch.where(self._age >= settings.overdue, settings.right, chance)
        self._steps += count
        if settings.steps and self._steps > settings.steps:
            chance = torch.zeros(count)
        starts = (torch.rand(count, generator=self.generator) < chance) & (left == 0) & ~ended
        wrong = torch.rand(count, generator=self.generator) >= settings.skill
        astray = 2.0 * torch.rand(proposed.shape, generator=self.generator) - 1.0
        self._wrong = torch.where(starts, wrong, self._wrong)
        self._astray = torch.where(starts[:, None], astray, self._astray)
        left = torch.where(starts, settings.hold, left)
        now = left > 0
        # the policy acts for a step after an intervention of several steps
        after = _ENDED if settings.hold > 1 else 0
        self._left = torch.where(left > 1, left - 1, torch.where(now, after, 0))
        if settings.kind == "action":
            off = torch.where((proposed - expert).square().mean(dim=1).sqrt() > settings.tolerance, off + 1, 0)
        self._off = torch.where(now, 0, off)
        corrected = torch.where(self._wrong[:, None], self._astray, expert)
        return Intervention(now, torch.where(now[:, None], corrected, proposed))

    def state_dict(self) -> dict[str, Any]:
        """Return its random state and step count."""
        return {"generator": self.generator.get_state(), "steps": self._steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned; no intervention is in progress then."""
        self.generator.set_state(state["generator"])
        self._steps = state["steps"]
        self._left.zero_()
        self._off.zero_()

    def _worse(self, observation: Tensor, proposed: Tensor, expert: Tensor) -> Tensor:
        """Return (N,) whether critics value the policy's action that much less than the expert's."""
        assert self._critics is not None
        with torch.no_grad():
            own, best = (self._critics(observation, action).mean(dim=0) for action in (proposed, expert))
        # alpha is a ratio for positive values; for negative ones, as with -1 per step, it allows the same margin
        return own < best - (1.0 - self.settings.share) * best.abs()


def _critics(folder: str, columns: int) -> Critics:
    """Return the critics of a run."""
    from rlstack.training.run_folder import load_checkpoint, recipe_of

    if not folder:
        raise UserError("intervener: kind: value needs critics: name a run's folder, or set kind: action.")
    state = load_checkpoint(Path(folder))["algorithm"]
    settings = recipe_of(Path(folder)).algorithm_settings
    try:
        critics = Critics(columns, settings.hidden, settings.critics, settings.layer_norm)
        critics.load_state_dict(state["learner"]["critics"])
    except (AttributeError, KeyError, RuntimeError) as error:
        raise UserError(f"{folder} has no critics of this task: name a run of sac or rlpd on the same task.") from error
    return critics.requires_grad_(False)
