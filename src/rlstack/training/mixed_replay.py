"""Batches of own steps and, as a fixed share (RLPD's symmetric sampling: half), of demonstrations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlstack.training.hindsight_replay import ReplaySampler, dealt

AT_ONCE = 16
"""Batches sampled together, which costs little more than one."""


class MixedReplay:
    """Draws batches for RLPD and its variants.

    Args:
        settings: :class:`rlstack.training.algorithms.rlpd.RLPDSettings`.
        own: Steps of the policy.
        prior: Demonstrations; None: batches are of own steps.
        corrections: Steps of interventions, which are sampled like demonstrations.
        unrewarded: Whether demonstrations have zero reward whatever the task's reward is, and corrections may be
            suboptimal, so that they are not cloned.
    """

    def __init__(
        self,
        settings: Any,
        own: ReplaySampler,
        prior: ReplaySampler | None,
        corrections: ReplaySampler | None = None,
        unrewarded: bool = False,
    ) -> None:
        self.settings, self.own, self.prior, self.corrections = settings, own, prior, corrections
        self.unrewarded = unrewarded

    def batches(self, count: int) -> list[dict[str, Tensor]]:
        """Return batches for a soft actor-critic, with ``demonstrated`` (n,)."""
        settings = self.settings
        some = max(1, int(settings.batch * settings.prior_share)) if self._shown() or self._corrected() else 0
        own = self._drawn(self.own, count * (settings.batch - some), settings.hindsight, 0.0)
        if not some:  # no demonstrations yet
            return dealt(own, count)
        shown = self.shown(count * some, settings.hindsight)
        return [
            {name: torch.cat([mine[name], others[name]]) for name in mine if name in others}
            for mine, others in zip(dealt(own, count), dealt(shown, count))
        ]

    def shown(self, count: int, hindsight: float = 0.0) -> dict[str, Tensor]:
        """Return a batch of demonstrations, then corrections, in proportion to their numbers."""
        corrected = self._corrected()
        some = round(count * corrected / (corrected + self._shown()))
        right = 0.0 if self.unrewarded else 1.0
        if self.corrections is not None and some == count:
            return self._drawn(self.corrections, count, 0.0, right)
        assert self.prior is not None
        batch = self._drawn(self.prior, count - some, hindsight, 1.0)
        if self.unrewarded:
            batch["reward"].zero_()
        if self.corrections is None or not some:
            return batch
        more = self._drawn(self.corrections, some, 0.0, right)
        return {name: torch.cat([batch[name], more[name]]) for name in batch}

    def state_dict(self) -> dict[str, Any]:
        """Return the random states of the samplers."""
        return {name: replay.state_dict() for name, replay in self._all().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        for name, replay in self._all().items():
            replay.load_state_dict(state[name])

    def _shown(self) -> int:
        return len(self.prior) if self.prior is not None else 0

    def _corrected(self) -> int:
        return len(self.corrections) if self.corrections is not None else 0

    def _all(self) -> dict[str, ReplaySampler]:
        every = {"own": self.own, "prior": self.prior, "corrections": self.corrections}
        return {name: replay for name, replay in every.items() if replay is not None}

    def _drawn(self, replay: ReplaySampler, count: int, hindsight: float, demonstrated: float) -> dict[str, Tensor]:
        batch = replay.sample(count, hindsight, self.settings.ahead, self.settings.gamma)
        return {**batch, "demonstrated": torch.full((count,), demonstrated)}
