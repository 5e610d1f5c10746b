"""Teaches a policy's network where the things are that a sentence names, which only a simulator knows, in training."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from rlstack.training.language.network import Network

_SPREAD = 0.05
"""Deviation of the object's place in a map that is taught, of half an image."""
_LEAST = 1e-3
"""Distance, of half an image, below which it counts as its square does: there the root has no gradient."""
_LOOKS = 0.25
"""Deviation with which it is told what things are like."""


def unlike(network: Network, maps: list[Tensor], places: Tensor) -> Tensor:
    """Return the divergence of the first maps from those with a Gaussian at the places of things, a mean.

    Places outside an image do not count.

    Args:
        network: Says where the cells of maps are.
        maps: Of each camera (batch, points, cells) scores.
        places: (batch, cameras, things, 2 or more).
    """
    total, count = torch.zeros(()), torch.zeros(())
    for k, scores in enumerate(maps):
        there = places[:, k, :, :2]
        far = (network.cells(k) - there[:, :, None]).square().sum(dim=-1)
        wanted = torch.softmax(far * (-0.5 / _SPREAD**2), dim=-1)
        found = torch.log_softmax(scores[:, : there.shape[1]].float(), dim=-1)
        inside = (there.abs().amax(dim=-1) < 1.0).float()
        total = total + (inside * functional.kl_div(found, wanted, reduction="none").sum(dim=-1)).sum()
        count = count + inside.sum()
    return total / count.clamp(min=1.0)


def apart(network: Network, points: list[Tensor], places: Tensor) -> Tensor:
    """Return the mean distance, of half an image, between the first positions that are found and places of things.

    A map that is like the wanted one may still have its mean beside it, and the mean is what the policy goes by. Both
    losses together find positions better than either (Nibali et al., "Numerical Coordinate Regression with
    Convolutional Neural Networks", arXiv 1801.07372).

    Args:
        network: Its settings say which columns of points are positions.
        points: Of each camera; see :attr:`.network.Placed.points`.
        places: (batch, cameras, things, 2 or more); those outside an image do not count.
    """
    seen, count = torch.stack(points, dim=1), network.settings.points
    # without looks all positions come first, and then how concentrated each is
    each = seen.unflatten(2, (count, -1)) if network.settings.looks else seen[..., : 2 * count].unflatten(2, (-1, 2))
    found = each[:, :, : places.shape[2], :2]
    inside = (places[..., :2].abs().amax(dim=-1) < 1.0).float()
    far = (found.float() - places[..., :2]).square().sum(dim=-1).add(_LEAST**2).sqrt()
    return (inside * far).sum() / inside.sum().clamp(min=1.0)


def unlike_looks(network: Network, points: list[Tensor], places: Tensor) -> Tensor:
    """Return the mean squared error of what the first things are taken for, of those that are in an image.

    Args:
        network: It has ``looks``.
        points: Of each camera; see :attr:`.network.Placed.points`.
        places: (batch, cameras, things, 2 + looks).
    """
    found = torch.stack(points, dim=1).unflatten(2, (network.settings.points, -1))[:, :, : places.shape[2], 2:]
    inside = (places[..., :2].abs().amax(dim=-1) < 1.0).float()
    wrong = (found - places[..., 2:]).square().mean(dim=-1)
    return (inside * wrong).sum() / inside.sum().clamp(min=1.0)


def told(places: Tensor, error: float, generator: torch.Generator) -> Tensor:
    """Return what a simulator tells of things (batch, cameras, columns), in place of what :meth:`.Network.sight` finds.

    Args:
        places: (batch, cameras, things, 2 + looks) where they are in the images, and what they are like.
        error: Standard deviation with which positions are told, of half an image.
        generator: Draws the errors.
    """
    scale = torch.full((places.shape[-1],), _LOOKS)
    scale[:2] = error
    found = places + scale * torch.randn(places.shape, generator=generator)
    # where nothing is to be found, anything is
    anything = 2.0 * torch.rand(places.shape, generator=generator) - 1.0
    return torch.where(places[..., :2].abs().amax(dim=-1, keepdim=True) < 1.0, found, anything).flatten(start_dim=2)
