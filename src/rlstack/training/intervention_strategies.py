"""Who intervenes, when, and with which action: the protocol, and scripts that stand in for a human.

The scripts are those of Luo et al., "RLIF: Interactive Imitation Learning as Reinforcement Learning" (arXiv
2311.12996): one that takes over at random, and one that takes over where a finished run's critics think less of the
policy's action than of the expert's. The third takes over after it saw the policy do something else than the expert.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.tasks.core.interface import ScriptedEnvironment
from rlstack.training.soft_actor_critic import Critics

_ENDED = -1
"""Of the steps that an intervention has left, after its last one."""


@dataclass(frozen=True)
class Intervention:
    """What is done in the coming step."""

    now: Tensor  # (N,) bool: where the policy is overruled
    action: Tensor  # (N, actions) what is done, in -1..1: the policy's where it is not


class Intervener(Protocol):
    """Whoever intervenes: a script, or a human's hand (:mod:`rlstack.training.human_intervention`)."""

    def decide(self, observation: Tensor, proposed: Tensor, begins: Tensor) -> Intervention:
        """Return what is done in the coming step.

        Args:
            observation: (N, columns) of the present.
            proposed: (N, actions) what the policy would do.
            begins: (N,) bool: whose episode begins with that step.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return what it needs to go on, without what it does at the moment."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""


@dataclass(frozen=True, kw_only=True)
class IntervenerSettings:
    """Who intervenes: a script, or a hand."""

    kind: Literal["random", "action", "value", "hand"] = "random"
    """When: at random; after an action of the policy that was far from the expert's; where critics think less of it;
    when a human's hand takes over."""
    teleop: str = ""
    """Hand: its device: keyboard, gamepad, spacemouse, script:FILE; or topic: whatever publishes teleop/twist and
    teleop/intervene."""
    namespace: str = ""
    """Hand: of these topics; left out, it is the robot's name."""
    view: bool = False
    """Hand: show the simulated arm in a window."""
    rate: float = value(0.3, at_least=0.0, at_most=1.0)
    """Random: how often a step begins an intervention."""
    right: float = value(0.95, at_least=0.0, at_most=1.0)
    """All but random: how often it judges right whether to intervene; RLIF's beta."""
    tolerance: float = value(0.5, at_least=0.0)
    """Action: how far the policy's action may be from the expert's, root mean square over its elements."""
    share: float = value(0.97, above=0.0, at_most=1.0)
    """Value: how much of the expert's value the policy's must have; RLIF's alpha."""
    critics: str = ""
    """Value: folder of a finished run of sac or rlpd on the same task, whose critics judge."""
    patience: int = value(1, at_least=1)
    """All but random: steps in a row that the policy may do badly before it is judged that somebody should step in."""
    overdue: int = value(0, at_least=0)
    """Steps of an episode after which somebody should intervene whatever the policy does; 0: never for that."""
    hold: int = value(4, at_least=1)
    """Steps that an intervention lasts; RLIF has 4. Long enough for the expert to get somewhere is more."""
    steps: int = value(0, at_least=0)
    """Steps of all robots together after which nobody intervenes any more; 0: somebody always may."""
    skill: float = value(1.0, at_least=0.0, at_most=1.0)
    """Share of interventions that do what the expert would do; the others do one random action all along."""

    def __post_init__(self) -> None:
        if self.kind == "hand" and not self.teleop:
            raise ValueError("teleop: a device must be given with kind: hand, such as keyboard.")
        if self.kind != "hand" and (self.teleop or self.namespace or self.view):
            raise ValueError(f"teleop, namespace and view are a hand's, not allowed with kind: {self.kind}: set hand.")


def needs_human(settings: Any) -> bool:
    """Return whether an algorithm's settings let a human's hand intervene."""
    intervener = getattr(settings, "intervener", None)
    return isinstance(intervener, IntervenerSettings) and intervener.kind == "hand"


def intervener_of(settings: IntervenerSettings, environment: ScriptedEnvironment, seed: int) -> Intervener:
    """Return the script that intervenes; where a hand shall, nobody does until it is there.

    Raises:
        UserError: Critics are asked for that are not there, or are of another task.
    """
    return NoIntervention() if settings.kind == "hand" else ScriptedIntervener(settings, environment, seed)


class NoIntervention:
    """See :class:`Intervener`: a hand that is not there, as where a run is only read."""

    def decide(self, observation: Tensor, proposed: Tensor, begins: Tensor) -> Intervention:
        """Return what the policy would do."""
        return Intervention(torch.zeros(len(proposed), dtype=torch.bool), proposed)

    def state_dict(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing."""


class ScriptedIntervener:
    """See :class:`Intervener`.

    Args:
        settings: When and how well.
        environment: Whose expert acts.
        seed: Of what is drawn.

    Raises:
        UserError: Critics are asked for that are not there, or are of another task.
    """

    def __init__(self, settings: IntervenerSettings, environment: ScriptedEnvironment, seed: int) -> None:
        self.settings, self.environment = settings, environment
        self.generator = torch.Generator().manual_seed(seed)
        columns, actions = environment.pipeline.size, environment.pipeline.action_size
        self._critics = _critics(settings.critics, columns + actions) if settings.kind == "value" else None
        self._steps = 0
        self._left = torch.zeros(environment.count, dtype=torch.long)
        self._off = torch.zeros(environment.count, dtype=torch.long)
        """Steps in a row that the policy did badly."""
        self._age = torch.zeros(environment.count, dtype=torch.long)
        """Steps of the episode so far."""
        self._wrong = torch.zeros(environment.count, dtype=torch.bool)
        self._astray = torch.zeros(environment.count, actions)

    def decide(self, observation: Tensor, proposed: Tensor, begins: Tensor) -> Intervention:
        """Return what is done in the coming step; see the protocol."""
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
        # the policy has its turn after an intervention of several steps
        given_back = _ENDED if settings.hold > 1 else 0
        self._left = torch.where(left > 1, left - 1, torch.where(now, given_back, 0))
        if settings.kind == "action":
            off = torch.where((proposed - expert).square().mean(dim=1).sqrt() > settings.tolerance, off + 1, 0)
        self._off = torch.where(now, 0, off)
        told = torch.where(self._wrong[:, None], self._astray, expert)
        return Intervention(now, torch.where(now[:, None], told, proposed))

    def state_dict(self) -> dict[str, Any]:
        """Return its random state, and how many steps it has seen."""
        return {"generator": self.generator.get_state(), "steps": self._steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`; nobody is being intervened then."""
        self.generator.set_state(state["generator"])
        self._steps = state["steps"]
        self._left.zero_()
        self._off.zero_()

    def _worse(self, observation: Tensor, proposed: Tensor, expert: Tensor) -> Tensor:
        """Return (N,) whether critics think that much less of the policy's action than of the expert's."""
        assert self._critics is not None
        with torch.no_grad():
            own, best = (self._critics(observation, action).mean(dim=0) for action in (proposed, expert))
        # alpha is a share of a value above 0; of one below, as those of -1 a step are, it leaves as much room
        return own < best - (1.0 - self.settings.share) * best.abs()


def _critics(folder: str, columns: int) -> Critics:
    """Return the critics of a run."""
    from rlstack.training.checkpoint import load_checkpoint
    from rlstack.training.folder import recipe_of

    if not folder:
        raise UserError("intervener: kind: value is not allowed without critics: name a run's folder, or set action.")
    state = load_checkpoint(Path(folder))["algorithm"]
    settings = recipe_of(Path(folder)).algorithm_settings
    try:
        critics = Critics(columns, settings.hidden, settings.critics, settings.layer_norm)
        critics.load_state_dict(state["learner"]["critics"])
    except (AttributeError, KeyError, RuntimeError) as error:
        raise UserError(f"{folder} has no critics of this task: name a run of sac or rlpd on the same task.") from error
    return critics.requires_grad_(False)
