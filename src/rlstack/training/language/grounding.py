"""Teaches a policy's network where the things are that a sentence names, which only a simulator knows, in training."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from rlstack.training.language.network import Network

_SPREAD = 0.05
"""Deviation of the object's place in a map that is taught, of half an image."""


def unlike(network: Network, maps: list[Tensor], places: Tensor) -> Tensor:
    """Return the divergence of the first maps from those with a Gaussian at the places of things, a mean.

    Places outside an image do not count.

    Args:
        network: Says where the cells of maps are.
        maps: Of each camera (batch, points, cells) scores.
        places: (batch, cameras, things, 2).
    """
    total, count = torch.zeros(()), torch.zeros(())
    for k, scores in enumerate(maps):
        there = places[:, k]
        far = (network.cells(k) - there[:, :, None]).square().sum(dim=-1)
        wanted = torch.softmax(far * (-0.5 / _SPREAD**2), dim=-1)
        found = torch.log_softmax(scores[:, : there.shape[1]].float(), dim=-1)
        inside = (there.abs().amax(dim=-1) < 1.0).float()
        total = total + (inside * functional.kl_div(found, wanted, reduction="none").sum(dim=-1)).sum()
        count = count + inside.sum()
    return total / count.clamp(min=1.0)
