"""Vision encoder: convolutions and spatial soft-argmax from images to a few features for a policy.

Spatial soft-argmax, which returns each feature's position in the image, follows Levine et al., "End-to-End Training of
Deep Visuomotor Policies" (arXiv 1504.00702).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlstack.errors import UserError
from rlstack.tasks.core.camera_observations import CameraImages
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.training.algorithm import Actor
from rlstack.training.networks import Normalised, relu_layers

LABELS = 5
"""Values of an object's pose: three for its position, two for its yaw."""

_KERNELS, _STRIDES = (5, 3, 3), (2, 2, 1)
"""Strides of the convolutions; further ones have the last."""


@dataclass(frozen=True)
class Split:
    """Split of an observation into state columns and, after them, images.

    Args:
        state: Columns before the images.
        shape: Cameras, rows, columns, 3.
    """

    state: int
    shape: tuple[int, int, int, int]

    def images(self, observation: Tensor) -> Tensor:
        """Return the images (batch, cameras, rows, columns, 3), 0 to 255, of observations (batch, columns)."""
        return observation[:, self.state :].reshape(-1, *self.shape)


def split_of(pipeline: Pipeline, algorithm: str) -> Split:
    """Return the split of a task's observation into state and images.

    Raises:
        UserError: There are no images at its end.
    """
    seen = [term for term in pipeline.terms if isinstance(term, CameraImages)]
    rows = pipeline.table()
    if not seen or rows[-1].name != seen[-1].name:
        raise UserError(
            f"algorithm: {algorithm} is not allowed: this task's observation has no images, or not at its end. Choose"
            " a task with cameras, such as arm_pick_place_camera."
        )
    return Split(rows[-1].start, seen[-1].shape)  # type: ignore[arg-type]


class SoftArgmax(nn.Module):
    """Spatial soft-argmax: (batch, features, rows, columns) to (batch, 3 features): x, y in -1..1 and concentration."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        y, x = torch.meshgrid(torch.linspace(-1.0, 1.0, rows), torch.linspace(-1.0, 1.0, columns), indexing="ij")
        self.register_buffer("grid", torch.stack([x.flatten(), y.flatten()], dim=1))

    grid: Tensor

    def forward(self, features: Tensor) -> Tensor:
        """Return the positions and, as the sum of squared weights, the concentration of each feature."""
        share = functional.softmax(features.flatten(start_dim=2), dim=-1)
        place = share @ self.grid
        return torch.cat([place.flatten(start_dim=1), share.square().sum(dim=-1)], dim=1)


class Encoder(Normalised):
    """Encodes images and the state into a few features, of which the first can have a supervised meaning.

    Args:
        split: Split of the observation.
        channels: Channels of the convolutions; each camera has its own.
        hidden: Widths of the dense layers.
        size: Number of features.
    """

    def __init__(self, split: Split, channels: Sequence[int], hidden: Sequence[int], size: int) -> None:
        super().__init__(split.state)
        self.split, self.size = split, size
        cameras, rows, columns, _ = split.shape
        self.looks = nn.ModuleList(_convolutions(channels, rows, columns) for _ in range(cameras))
        widths = [split.state + cameras * 3 * channels[-1], *hidden, size]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(self, state: Tensor, images: Tensor) -> Tensor:
        """Return (batch, size).

        Args:
            state: (batch, columns).
            images: (batch, cameras, rows, columns, 3), 0 to 255.
        """
        # torch wants rows and columns last; colours stay innermost in memory, which is faster for convolutions
        scaled = images.permute(1, 0, 4, 2, 3) * (1.0 / 255.0) - 0.5
        places = [look(scaled[k]) for k, look in enumerate(self.looks)]
        return relu_layers(self.layers, torch.cat([self.normalised(state), *places], dim=1))


class VisionActor(Actor):
    """An encoder, then a policy on the state and the encoder's features.

    Args:
        encoder: Encoder of the images.
        head: Policy whose observation is the state and the features.
    """

    def __init__(self, encoder: Encoder, head: Actor) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.memory = head.memory

    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the action (batch, actions) and the head's memory after it."""
        action: tuple[Tensor, dict[str, Tensor]] = self.head(encoded(self.encoder, observation), memory)
        return action


def encoded(encoder: Encoder, observation: Tensor) -> Tensor:
    """Return observations (batch, columns) with features in place of images."""
    state = observation[:, : encoder.split.state]
    return torch.cat([state, encoder(state, encoder.split.images(observation))], dim=1)


def shifted(images: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """Return images (batch, cameras, rows, columns, 3), each shifted by up to ``most`` pixels with its border repeated.

    Kostrikov et al., "Image Augmentation Is All You Need" (DrQ, arXiv 2004.13649).
    """
    if not most:
        return images
    batch, cameras, rows, columns, _ = images.shape
    by = torch.randint(-most, most + 1, (2, batch, cameras, 1), generator=generator)
    down = (torch.arange(rows) + by[0]).clamp(0, rows - 1)
    right = (torch.arange(columns) + by[1]).clamp(0, columns - 1)
    one, camera = torch.arange(batch)[:, None, None, None], torch.arange(cameras)[:, None, None]
    return images[one, camera, down[:, :, :, None], right[:, :, None, :]]


def _convolutions(channels: Sequence[int], rows: int, columns: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for k, (a, b) in enumerate(pairwise([3, *channels])):
        kernel, stride = (given[min(k, len(given) - 1)] for given in (_KERNELS, _STRIDES))
        layers += [nn.Conv2d(a, b, kernel, stride), nn.ReLU()]
        rows, columns = ((length - kernel) // stride + 1 for length in (rows, columns))
    layers.pop()
    return nn.Sequential(*layers, SoftArgmax(rows, columns))


def turned(cos_sin: Tensor, quaternion: Tensor) -> Tensor:
    """Return cos and sin (batch, 2) of 4 times the yaw from ``cos_sin`` to ``quaternion`` (batch, 4) xyzw."""
    x, y, z, w = quaternion.unbind(dim=-1)
    yaw = torch.atan2(2.0 * (x * y + w * z), 1.0 - 2.0 * (y * y + z * z)) - torch.atan2(cos_sin[:, 1], cos_sin[:, 0])
    return torch.stack([torch.cos(4.0 * yaw), torch.sin(4.0 * yaw)], dim=1)
