"""What a head of a policy's network is: from a feature for each planned step to actions."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlstack.errors import UserError

Exploration = Literal["noise", "sde", "sde_step"]
"""How a flow is sampled: with learned noise in each step (Flow-Noise), as a stochastic differential equation with the
flow's own distribution at each time (Flow-SDE), or with one random step of it and the others without noise."""


class Head(nn.Module):
    """From features (batch, steps, width) to chunks of actions (batch, steps, axes) in -1..1.

    A *choice* is what was sampled, from which log-probabilities follow; its first two axes are batch and steps.
    """

    axes: int

    def explore_by(self, exploration: Exploration) -> None:
        """Choose how actions are sampled.

        Raises:
            UserError: The head has no such choice.
        """
        if exploration != get_args(Exploration)[0]:
            raise UserError(
                f"algorithm_settings: exploration: {exploration} is not allowed with a head that is no flow: set head"
                " to flow, or leave exploration away."
            )

    @abstractmethod
    def loss(self, features: Tensor, actions: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the supervised loss (batch, steps) of actions (batch, steps, axes)."""

    @abstractmethod
    def forward(self, features: Tensor) -> Tensor:
        """Return the deterministic actions (batch, steps, axes)."""

    @abstractmethod
    def sample(
        self, features: Tensor, temperature: float, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return sampled actions (batch, steps, axes) and the choice; a temperature above 1 explores more."""

    @abstractmethod
    def log_prob(self, features: Tensor, choice: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """Return the log-probability and the entropy, both (batch, steps, axes), of a choice at a temperature."""

    @abstractmethod
    def divergence(self, features: Tensor, reference: Tensor, choice: Tensor) -> Tensor:
        """Return the KL divergence (batch, steps, axes) from a reference policy.

        Args:
            features: (batch, steps, width) of the policy.
            reference: What the reference's :meth:`distribution` returned.
            choice: What was sampled.
        """

    @abstractmethod
    def distribution(self, features: Tensor, choice: Tensor) -> Tensor:
        """Return what :meth:`divergence` needs of the reference policy's features."""


def gaussian(value: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Return the log-probability of each value."""
    return functional.gaussian_nll_loss(mean, value, std.square().expand_as(mean), full=True, reduction="none").neg()
