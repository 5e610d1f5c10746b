"""What reinforcing a policy by its own sampled trials has in common: its settings, and trials without images."""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.schema import value
from rlstack.training.language.policy_gradient import PolicyGradientSettings
from rlstack.training.language.sampled_trials import SampledSettings


@dataclass(frozen=True, kw_only=True)
class ReinforcedSettings(PolicyGradientSettings, SampledSettings):
    """Settings of reinforcing a policy by policy gradients from its own trials."""

    blind: float = value(0.0, at_least=0.0, at_most=1.0)
    """Share of the iterations, from the beginning, in which no image is rendered: the policy acts by what the simulator
    tells of things. It needs ``fixed_eyes``, and a network with ``looks``."""
    told_error: float = value(0.008, at_least=0.0)
    """Standard deviation with which it tells where they are, of half an image: about that of what is seen."""

    def __post_init__(self) -> None:
        if self.blind and not (self.fixed_eyes and self.network.looks):
            raise ValueError(
                f"blind: {self.blind:g} is not allowed without fixed_eyes: true and looks of the network: nobody can"
                " tell what such a policy sees."
            )

    def told_at(self, done: float) -> float | None:
        """Return the error with which the simulator tells what would be seen, at a completed share of the run.

        None: images tell it.
        """
        return self.told_error if done < self.blind else None
