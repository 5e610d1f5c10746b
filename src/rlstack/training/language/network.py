"""Network of a vision-language-action policy: images, words and proprioception to one feature for each planned step.

Words choose colours, whose positions are found among the pixels, and modulate the convolutions (FiLM, Perez et al.,
arXiv 1709.07871). They are tokens beside those of the images: positions of colours and of features by soft-argmax, and
patches. A query for each planned step attends to all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlstack.schema import value
from rlstack.training.language.attention import Layer
from rlstack.training.networks import Normalised
from rlstack.training.vision_encoder import SoftArgmax

_POINT_TOKENS, _PATCHES = 4, 4
"""Tokens that the positions of features make, and patches along each side of an image."""
_COLOURS, _SHARPNESS = 16, 4.0
"""Mixtures of a pixel's colours that spots are made of, and the factor of their softmax."""
_NAMES = 64
"""Width of the words that choose colours; they are few and small, since a sharp choice at random has no gradient."""
_DARK, _CHROMA = 20.0, 4.0
"""Brightness, of 255, below which colours count less; scale of colours relative to brightness."""
_LEAST_STD = 4.0
"""Smallest standard deviation of pixels to divide by, of 255."""


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Size of the network."""

    channels: tuple[int, ...] = value((24, 48, 48), at_least=1)
    """Channels of the convolutions."""
    points: int = value(16, at_least=1)
    """Features whose positions in an image are found."""
    spots: int = value(8, at_least=1)
    """Colours whose positions are found, which the instruction chooses."""
    width: int = value(128, at_least=8)
    """Width of tokens."""
    heads: int = value(4, at_least=1)
    """Heads of attention."""
    layers: int = value(1, at_least=0)
    """Layers in which images, words and proprioception attend to each other."""
    decoder_layers: int = value(2, at_least=1)
    """Layers in which the planned steps attend to them."""
    words: int = value(16, at_least=1)
    """Words of an instruction; further ones are dropped."""

    def __post_init__(self) -> None:
        if len(self.channels) < 2:
            raise ValueError(f"channels: {list(self.channels)} is not allowed: give at least two convolutions.")
        if self.width % self.heads:
            raise ValueError(f"heads: {self.heads} is not allowed: must divide width ({self.width}).")


class Network(Normalised):
    """Encodes what the robot sees, was told and feels into a feature for each step of a chunk.

    Args:
        proprioception: Columns of the robot's own state.
        images: Cameras, rows, columns, 3.
        vocabulary: Number of tokens of the tokeniser.
        steps: Planned steps.
        settings: Size.
    """

    def __init__(
        self,
        proprioception: int,
        images: tuple[int, int, int, int],
        vocabulary: int,
        steps: int,
        settings: NetworkSettings,
    ) -> None:
        super().__init__(proprioception)
        self.settings, self.steps, self.images = settings, steps, images
        width, heads, cameras = settings.width, settings.heads, images[0]
        self.register_buffer("pixel_mean", torch.full((3,), 127.5))
        self.register_buffer("pixel_scale", torch.full((3,), 1.0 / 64.0))
        self.word = nn.Embedding(vocabulary, width)
        self.word_place = nn.Parameter(0.02 * torch.randn(settings.words, width))
        self.reader, self.read_norm = Layer(width, heads), nn.LayerNorm(width)
        self.eyes = nn.ModuleList(_Eye(images[1], images[2], width, settings) for _ in range(cameras))
        self.camera_place = nn.Parameter(0.02 * torch.randn(cameras, _POINT_TOKENS + _PATCHES**2, width))
        self.feel = nn.Linear(proprioception, width)
        self.mixer = nn.ModuleList(Layer(width, heads) for _ in range(settings.layers))
        self.mixed_norm = nn.LayerNorm(width)
        spots = 3 * settings.spots * cameras
        self.name = nn.Embedding(vocabulary, _NAMES)
        with torch.no_grad():
            self.name.weight.mul_(0.5)
        self.placer = nn.Sequential(
            nn.Linear(spots + proprioception + _NAMES, 128),
            nn.ReLU(),
            nn.Linear(128, 128),
            nn.ReLU(),
            nn.Linear(128, width),
        )
        self.placed = nn.Linear(width, width)
        summary = (2 + cameras) * width + 3 * (settings.points + settings.spots) * cameras
        self.summary = nn.Sequential(nn.Linear(summary, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.query = nn.Parameter(0.02 * torch.randn(steps, width))
        self.decoder = nn.ModuleList(Layer(width, heads, crosses=True) for _ in range(settings.decoder_layers))
        self.decoded_norm = nn.LayerNorm(width)

    pixel_mean: Tensor
    pixel_scale: Tensor

    def standardise_by(self, images: Tensor) -> None:
        """Set the standardisation of pixels to mean and deviation of images (samples, cameras, rows, columns, 3)."""
        pixels = images.reshape(-1, 3).float()
        self.pixel_mean.copy_(pixels.mean(dim=0))
        self.pixel_scale.copy_(1.0 / pixels.std(dim=0).clamp(min=_LEAST_STD))

    def forward(self, proprioception: Tensor, tokens: Tensor, images: Tensor) -> Tensor:
        """Return (batch, steps, width); see :meth:`both`."""
        return self.both(proprioception, tokens, images)[0]

    def place(self, proprioception: Tensor, tokens: Tensor, images: Tensor) -> Tensor:
        """Return a feature (batch, width) of where things are, from colours alone, without the rest of the network.

        Args as of :meth:`both`.
        """
        return self._place(proprioception, tokens, self._scaled(images))[0]

    def both(self, proprioception: Tensor, tokens: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return a feature for each step (batch, steps, width), and what :meth:`place` returns.

        Args:
            proprioception: (batch, columns).
            tokens: (batch, words) of the tokeniser, whole numbers.
            images: (batch, cameras, rows, columns, 3), 0 to 255.
        """
        words, absent, said = self._read(tokens)
        felt = self.feel(self.normalised(proprioception))
        scaled = self._scaled(images)
        place, spots = self._place(proprioception, tokens, scaled)
        placed = self.placed(torch.relu(place))
        memory, summary = [words, felt[:, None], placed[:, None]], [felt + said, placed]
        for k, eye in enumerate(self.eyes):
            points, seen = eye(scaled[k], said, spots[k])
            memory.append(seen + self.camera_place[k])
            summary += [points, seen[:, 0]]
        none = torch.zeros_like(absent[:, :1])
        hidden = torch.cat([absent, none.expand(-1, 2 + len(self.eyes) * self.camera_place.shape[1])], dim=1)
        mixed = torch.cat(memory, dim=1)
        for layer in self.mixer:
            mixed = layer(mixed, hidden)
        mixed = self.mixed_norm(mixed)
        steps = self.query + self.summary(torch.cat(summary, dim=1))[:, None]
        for layer in self.decoder:
            steps = layer(steps, hidden, mixed)
        return self.decoded_norm(steps), place

    def _place(self, proprioception: Tensor, tokens: Tensor, scaled: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return a feature (batch, width) of where things are, and each camera's spots (batch, 3 spots)."""
        there = (1.0 - torch.relu(1.0 - tokens.float()))[:, :, None]
        named = (self.name(tokens.long()) * there).sum(dim=1) / there.sum(dim=1).clamp(min=1.0)
        spots = [eye.spots(scaled[k], named) for k, eye in enumerate(self.eyes)]  # type: ignore[operator]
        return self.placer(torch.cat([*spots, self.normalised(proprioception), named], dim=1)), spots

    def _read(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return words (batch, words, width), which of them are absent (batch, words), and a summary (batch, width)."""
        absent = torch.relu(1.0 - tokens.float())
        words = self.word(tokens.long()) + self.word_place
        words = self.reader(words, absent)
        there = (1.0 - absent)[:, :, None]
        said = self.read_norm((words * there).sum(dim=1) / there.sum(dim=1).clamp(min=1.0))
        return words, absent, said

    def _scaled(self, images: Tensor) -> Tensor:
        """Return images (cameras, batch, 6, rows, columns): standardised, and relative to the brightness."""
        pixels = images.float()
        grey = pixels.mean(dim=-1, keepdim=True)
        colour = (pixels - grey) / (grey + _DARK) * _CHROMA  # the same in light and shade
        scaled = torch.cat([(pixels - self.pixel_mean) * self.pixel_scale, colour], dim=-1)
        return scaled.permute(1, 0, 4, 2, 3)


class _Eye(nn.Module):
    """Convolutions of one camera, modulated by the instruction, with tokens for positions of features and patches."""

    def __init__(self, rows: int, columns: int, width: int, settings: NetworkSettings) -> None:
        super().__init__()
        channels = settings.channels
        kernels = [5] + [3] * (len(channels) - 1)
        strides = [2, 2] + [1] * (len(channels) - 2)
        self.layers = nn.ModuleList()
        before = 6
        self.pixel = nn.Conv2d(before, _COLOURS, 1)
        self.choose = nn.Linear(_NAMES, settings.spots * _COLOURS)
        self.spot = SoftArgmax(rows // 2, columns // 2)
        for after, kernel, stride in zip(channels, kernels, strides):
            self.layers.append(nn.Conv2d(before, after, kernel, stride))
            rows, columns, before = (rows - kernel) // stride + 1, (columns - kernel) // stride + 1, after
        self.modulated = [2 * n for n in channels[1:]]
        self.film = nn.Linear(width, sum(self.modulated))
        nn.init.normal_(self.film.weight, std=0.02)
        nn.init.zeros_(self.film.bias)
        self.point = nn.Conv2d(before, settings.points, 1)
        self.where = SoftArgmax(rows, columns)
        self.pool = (-(-rows // _PATCHES), -(-columns // _PATCHES))
        self.margin = (0, _PATCHES * self.pool[1] - columns, 0, _PATCHES * self.pool[0] - rows)
        self.of_points = nn.Linear(3 * (settings.points + settings.spots), _POINT_TOKENS * width)
        self.of_patches = nn.Linear(before, width)

    def forward(self, image: Tensor, said: Tensor, spots: Tensor) -> tuple[Tensor, Tensor]:
        """Return positions (batch, 3 for each spot and point) and tokens (batch, tokens, width).

        Args:
            image: (batch, 6, rows, columns): standardised, and relative to the brightness.
            said: (batch, width) summary of the instruction.
            spots: (batch, 3 spots) of :meth:`spots`.
        """
        first, *others = self.layers
        seen = torch.relu(first(image))
        modulations = self.film(said).split(self.modulated, dim=1)
        for layer, modulation in zip(others, modulations):
            scale, shift = modulation[:, :, None, None].chunk(2, dim=1)
            seen = torch.relu(layer(seen) * (1.0 + scale) + shift)
        points = torch.cat([spots, self.where(self.point(seen))], dim=1)
        patches = functional.avg_pool2d(functional.pad(seen, self.margin), self.pool).flatten(start_dim=2)
        tokens = self.of_points(points).reshape(points.shape[0], _POINT_TOKENS, -1)
        return points, torch.cat([tokens, self.of_patches(patches.transpose(1, 2))], dim=1)

    def spots(self, image: Tensor, named: Tensor) -> Tensor:
        """Return the positions (batch, 3 spots) of the colours that the instruction chooses."""
        colours = torch.relu(self.pixel(functional.avg_pool2d(image, 2)))
        chosen = self.choose(named).reshape(image.shape[0], -1, _COLOURS)
        likeness = chosen @ colours.flatten(start_dim=2)
        found: Tensor = self.spot(_SHARPNESS * likeness.reshape(image.shape[0], -1, *colours.shape[2:]))
        return found
