"""What disturbs experts in demonstrations: noise on what they do, and not on what they show.

Demonstrations then show recovery (Laskey et al., "DART: Noise Injection for Robust Imitation Learning", arXiv
1703.09327).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_KEPT = 0.85
"""Share of the noise that remains one step later."""
_DISTURBED = 0.5
"""Share of the chunks with noise."""


@dataclass(frozen=True)
class Disturbance:
    """How much experts are disturbed.

    Args:
        stray: Standard deviation of the noise on their executed actions, in half of the chunks; 0: none.
        kicks: Share of the chunks in which a random action is executed instead of their own, near the goal as well.
    """

    stray: float
    kicks: float = 0.0


class Strays:
    """Disturbs N experts.

    Of a chunk that is disturbed only the first action teaches: the others answer what a plan of the whole chunk could
    not foresee.

    Args:
        count: N.
        axes: Of an action.
        noise: How much.
        generator: Draws the noise.
    """

    def __init__(self, count: int, axes: int, noise: Disturbance, generator: torch.Generator) -> None:
        self._noise, self._generator = noise, generator
        self._strays, self._kick = torch.zeros(2, count, axes)
        self._noisy, self._kicked, self._disturbed = torch.zeros(3, count, 1)

    def begin(self) -> None:
        """Draw who is disturbed in the next chunk."""
        drawn = torch.rand(self._noisy.shape, generator=self._generator)
        self._noisy = (drawn < _DISTURBED).float() if self._noise.stray else torch.zeros_like(drawn)
        if self._noise.kicks:
            self._kicked = (torch.rand(drawn.shape, generator=self._generator) < self._noise.kicks).float()
            self._kick = 2.0 * torch.rand(self._kick.shape, generator=self._generator) - 1.0
        self._disturbed = self._kicked

    def disturbed(self, action: Tensor, free: Tensor) -> Tensor:
        """Return what is executed of actions (N, axes) of experts.

        Args:
            action: Theirs.
            free: (N or 1, axes) 1 for the axes that noise may act on now, 0 for others.
        """
        fresh = torch.randn(self._strays.shape, generator=self._generator)
        self._strays = _KEPT * self._strays + self._noise.stray * (1.0 - _KEPT**2) ** 0.5 * fresh
        noisy = self._noisy * free
        self._disturbed = torch.maximum(self._disturbed, noisy.amax(dim=1, keepdim=True))
        return torch.where(self._kicked > 0.0, self._kick, action + noisy * self._strays)

    def taught(self, steps: int) -> Tensor:
        """Return which actions (N, steps) of the chunk teach, 0 or 1."""
        taught = torch.ones(len(self._strays), steps)
        taught[:, 1:] -= self._disturbed
        return taught
