"""Network of a vision-language-action policy: images, words and proprioception to one feature for each planned step.

Words modulate the convolutions (FiLM, Perez et al., arXiv 1709.07871), which end in maps of features. They are tokens
beside those of the images: positions of features by soft-argmax, and patches. A query for each planned step attends to
all of them. The maps of the first features can be taught where things are, such as the object that the words name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlstack.errors import UserError
from rlstack.training.language.attention import Layer
from rlstack.training.language.efficientnet import EfficientNetLite
from rlstack.training.language.network_settings import INSTRUCTION, NetworkSettings
from rlstack.training.language.reading import NAMES, Reading, Reads
from rlstack.training.networks import Normalised
from rlstack.training.vision_encoder import SoftArgmax

_POINT_TOKENS, _PATCHES = 4, 4
"""Tokens that the positions of features make, and patches along each side of an image."""
_PLANES, _DARK = 4, 20.0
"""Of an image: brightness and three colours; brightness, of 255, below which colours count less."""
_LEAST_STD = 0.02
"""Smallest standard deviation of planes to divide by."""


class Placed(NamedTuple):
    """Where things are."""

    feature: Tensor
    """(batch, width)."""
    points: list[Tensor]
    """Of each camera (batch, 3 points): right, down, -1 to 1, and concentration. With ``looks`` (batch, points x
    (2 + looks)): right, down, and what there is, of each."""
    maps: list[Tensor]
    """Of each camera (batch, points, cells) scores of the features' positions, whose softmax is their distribution;
    empty for what was seen before."""
    patches: list[Tensor]
    """Of each camera (batch, channels, patches); none with ``looks``."""


class Network(Normalised, Reads):
    """Encodes what the robot sees, was told and feels into a feature for each step of a chunk.

    Args:
        proprioception: Columns of the robot's own state.
        images: Cameras, rows, columns, 3.
        vocabulary: Number of tokens of the tokeniser.
        steps: Planned steps.
        settings: Size.
        acts_without: Columns of the robot's own state by which it does not act.
    """

    def __init__(
        self,
        proprioception: int,
        images: tuple[int, int, int, int],
        vocabulary: int,
        steps: int,
        settings: NetworkSettings,
        acts_without: Sequence[int] = (),
    ) -> None:
        super().__init__(proprioception)
        self.settings, self.steps, self.images = settings, steps, images
        width, heads, cameras = settings.width, settings.heads, images[0]
        self.register_buffer("plane_mean", torch.zeros(_PLANES))
        self.register_buffer("plane_scale", torch.ones(_PLANES))
        self.add_reading(vocabulary, settings.words, width, heads)
        self.reading = Reading(vocabulary, settings.words, width, heads) if settings.sees_apart else None
        """Of what is seen, if it has one of its own."""
        self.naming = nn.Linear(width, settings.points) if settings.composed else None
        """How far words name each of the things."""
        known = settings.pictures != "small"
        self.known = EfficientNetLite(images[1], images[2], settings.tuned) if known else None
        """What is known of pictures beforehand, for all cameras."""
        self.eyes = nn.ModuleList(_Eye(images[1], images[2], width, settings, self.known) for _ in range(cameras))
        tokens = _POINT_TOKENS + (0 if settings.looks else _PATCHES**2)
        self.camera_place = nn.Parameter(0.02 * torch.randn(cameras, tokens, width))
        self.feel = nn.Linear(proprioception, width)
        felt = [float(column not in acts_without) for column in range(proprioception)]
        self.register_buffer("felt", torch.tensor(felt) if acts_without else None, persistent=False)
        self.mixer = nn.ModuleList(Layer(width, heads) for _ in range(settings.layers))
        self.mixed_norm = nn.LayerNorm(width)
        points = _columns(settings) * cameras
        self.placer = nn.Sequential(
            nn.Linear(points + proprioception + NAMES, 128),
            nn.ReLU(),
            nn.Linear(128, 128),
            nn.ReLU(),
            nn.Linear(128, width),
        )
        self.placed = nn.Linear(width, width)
        self.offsets = nn.Linear(width, settings.offsets) if settings.offsets else None
        """Says where things are, if that is all that the robot acts by."""
        by = 2 * width + settings.offsets if settings.offsets else (3 + cameras) * width + points
        self.planner = nn.Sequential(
            nn.Linear(by, 256),
            nn.ReLU(),
            nn.Linear(256, 256),
            nn.ReLU(),
            nn.Linear(256, steps * width),
        )
        self.decoder = nn.ModuleList(Layer(width, heads, crosses=True) for _ in range(settings.decoder_layers))
        self.decoded_norm = nn.LayerNorm(width)

    plane_mean: Tensor
    plane_scale: Tensor
    felt: Tensor | None
    """Of each column of the robot's own state: 1, or 0 for those by which it does not act. None: by all."""

    def standardise_by(self, images: Tensor) -> None:
        """Set the standardisation of images to mean and deviation of some (samples, cameras, rows, columns, 3)."""
        if self.known is not None:
            self.known.standardise_by(images.flatten(end_dim=1))
            return
        planes = _planes(images).movedim(2, -1).reshape(-1, _PLANES)
        self.plane_mean.copy_(planes.mean(dim=0))
        self.plane_scale.copy_(1.0 / planes.std(dim=0).clamp(min=_LEAST_STD))

    def forward(self, proprioception: Tensor, tokens: Tensor, images: Tensor) -> Tensor:
        """Return (batch, steps, width); see :meth:`both`."""
        return self.both(proprioception, tokens, images)[0]

    def place(self, proprioception: Tensor, tokens: Tensor, images: Tensor) -> Placed:
        """Return where things are, without the rest of the network; arguments as of :meth:`both`."""
        return self._place(self.normalised(proprioception), tokens, *self.read(tokens), images)

    def found(self, tokens: Tensor, images: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Return points and maps as of :class:`Placed`, by what :meth:`eyesight` lists alone."""
        points, maps, _ = self._look(self._asked(tokens, *self.read(tokens)), images)
        return points, maps

    def sight(self, tokens: Tensor, images: Tensor) -> Tensor:
        """Return what is seen (batch, cameras, columns): positions of features, and patches.

        It may stand for the images wherever they are asked for, as long as :meth:`eyesight` does not change.
        """
        points, _, patches = self._look(self._asked(tokens, *self.read(tokens)), images)
        return torch.stack([torch.cat([a, b.flatten(start_dim=1)], dim=1) for a, b in zip(points, patches)], dim=1)

    def eyesight(self) -> list[nn.Parameter]:
        """Return the parameters on which :meth:`sight` depends."""
        parts = [*(self.reading or self).words(), *(eye.film for eye in self.eyes)]
        parts += [layer for eye in self.eyes for layer in (eye.layers, eye.point)]  # type: ignore[misc]
        parts += [eye.like for eye in self.eyes if self.settings.looks]
        parts += [one for one in (self.known, self.naming) if one is not None]
        place = (self.reading or self).word_place
        return [place, *(one for part in parts for one in part.parameters())]  # type: ignore[union-attr]

    def both(self, proprioception: Tensor, tokens: Tensor, images: Tensor) -> tuple[Tensor, Placed]:
        """Return a feature for each step (batch, steps, width), and what :meth:`place` returns.

        Args:
            proprioception: (batch, columns).
            tokens: (batch, words) of the tokeniser, whole numbers.
            images: (batch, cameras, rows, columns, 3), 0 to 255; or what :meth:`sight` returned.
        """
        words, absent, said = self.read(tokens)
        state = self.normalised(proprioception)
        place = self._place(state, tokens, words, absent, said, images)
        if self.offsets is not None:
            with _exact():
                where = self.offsets(torch.relu(place.feature)).detach()  # labels alone teach where things are
                felt = self.feel(state if self.felt is None else state * self.felt)
                if INSTRUCTION in self.settings.acts_without:
                    said = torch.zeros_like(said)
                return self.decoded_norm(self._planned([felt, said, where])), place
        with _exact():
            felt, placed = self.feel(state), self.placed(torch.relu(place.feature))
        memory, summary = [words, felt[:, None], placed[:, None]], [felt, said, placed]
        for k, (eye, points) in enumerate(zip(self.eyes, self._told(place.points))):
            seen = eye.tokens(points, place.patches[k])  # type: ignore[operator]
            memory.append(seen + self.camera_place[k])
            summary += [points, seen[:, 0]]
        none = torch.zeros_like(absent[:, :1])
        hidden = torch.cat([absent, none.expand(-1, 2 + len(self.eyes) * self.camera_place.shape[1])], dim=1)
        mixed = torch.cat(memory, dim=1)
        for layer in self.mixer:
            mixed = layer(mixed, hidden)
        mixed = self.mixed_norm(mixed)
        with _exact():
            steps = self._planned(summary)
        for layer in self.decoder:
            steps = layer(steps, hidden, mixed)
        return self.decoded_norm(steps), place

    def _planned(self, summary: list[Tensor]) -> Tensor:
        """Return what the dense network plans (batch, steps, width) by columns."""
        steps: Tensor = self.planner(torch.cat(summary, dim=1).float())
        return steps.reshape(steps.shape[0], self.steps, -1)

    def cells(self, camera: int) -> Tensor:
        """Return the positions (cells, 2) of a camera's map: right and down, -1 to 1."""
        where: Tensor = self.eyes[camera].where.grid  # type: ignore[union-attr, assignment]
        return where

    def _place(
        self, state: Tensor, tokens: Tensor, words: Tensor, absent: Tensor, said: Tensor, images: Tensor
    ) -> Placed:
        named = self.named(tokens, absent)
        asked = self._asked(tokens, words, absent, said) if images.dim() > 3 else said
        points, maps, patches = self._look(asked, images)
        with _exact():
            feature = self.placer(torch.cat([*self._told(points), state, named], dim=1))
        return Placed(feature, points, maps, patches)

    def _told(self, points: list[Tensor]) -> list[Tensor]:
        """Return what planning gets of what is seen: with ``looks`` it teaches nothing to see, like what is told."""
        return [one.detach() for one in points] if self.settings.looks else points

    def _asked(self, tokens: Tensor, words: Tensor, absent: Tensor, said: Tensor) -> Tensor:
        """Return what the convolutions are to look for (batch, columns); arguments as :meth:`read` returned them."""
        by: Reads = self
        if self.reading is not None:
            by = self.reading
            words, absent, said = by.read(tokens)
        if self.naming is None:
            return torch.cat([said, by.named(tokens, absent)], dim=1)
        share = torch.sigmoid(self.naming(by.read_norm(words))) * (1.0 - absent)[:, :, None]
        return (share.transpose(1, 2) @ by.name(tokens.long())).flatten(start_dim=1)

    def _look(self, asked: Tensor, images: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Return points, maps and patches as of :class:`Placed`; of what was seen before nothing is ``asked``."""
        if images.dim() == 3:
            size = _columns(self.settings)
            shape = (len(images), self.settings.channels[-1], 0 if self.settings.looks else _PATCHES**2)
            cameras = images.unbind(dim=1)
            return [one[:, :size] for one in cameras], [], [one[:, size:].reshape(shape) for one in cameras]
        shown = self._scaled(images) if self.known is None else [self.known(one) for one in images.unbind(dim=1)]
        points, maps, patches = zip(*(eye(shown[k], asked) for k, eye in enumerate(self.eyes)))
        return list(points), list(maps), list(patches)

    def _scaled(self, images: Tensor) -> Tensor:
        """Return standardised planes (cameras, batch, planes, rows, columns)."""
        mean, scale = self.plane_mean[:, None, None], self.plane_scale[:, None, None]
        first, last = _band(self.settings, self.images[1])
        return ((_planes(images[:, :, first:last]) - mean) * scale).transpose(0, 1)


def _planes(images: Tensor) -> Tensor:
    """Return (batch, cameras, planes, rows, columns): brightness, and colours relative to it, as in light so in shade.

    Colours are taken apart first: arithmetic on whole planes is three times as fast as along an axis of three.
    """
    red, green, blue = images.permute(0, 1, 4, 2, 3).contiguous().float().unbind(dim=2)
    grey = (red + green + blue) * (1.0 / 3.0)
    light = 1.0 / (grey + _DARK)
    return torch.stack([grey * (1.0 / 255.0), *((one - grey) * light for one in (red, green, blue))], dim=2)


@contextmanager
def _exact() -> Iterator[None]:
    """Compute in float32 where all else may be of lower precision: millimetres would be lost."""
    with torch.autocast("cpu", enabled=False):
        yield


class _Eye(nn.Module):
    """Convolutions of one camera, modulated by the instruction, with tokens for positions of features and patches.

    Args:
        rows, columns: Of the images.
        width: Of tokens.
        settings: Size.
        known: What makes maps of images, which it then begins with.
    """

    def __init__(
        self, rows: int, columns: int, width: int, settings: NetworkSettings, known: EfficientNetLite | None
    ) -> None:
        super().__init__()
        if known is None:
            channels, before, size, more = settings.channels, _PLANES, (rows, columns), len(settings.channels) - 2
            kernels, margins = [5, 3] + [3] * more, [0, 0] + [0] * more
            # the same neighbourhoods as of coarse maps, whose weights therefore fit
            strides, apart = [2, 1 if settings.fine else 2] + [1] * more, [1, 1] + [2 if settings.fine else 1] * more
            top, bottom = _band(settings, rows)
            rows = bottom - top
        else:
            channels, before, size = settings.channels[-2:], known.channels, known.cells
            kernels, strides, margins, apart = [1, 3], [1, 1], [0, 1], [1, 1]
            (rows, columns), top = size, 0
        self.layers, reaches = nn.ModuleList(), [step * (kernel - 1) + 1 for kernel, step in zip(kernels, apart)]
        for after, kernel, stride, margin, step, reach in zip(channels, kernels, strides, margins, apart, reaches):
            self.layers.append(nn.Conv2d(before, after, kernel, stride, margin, step))
            rows, columns = ((length + 2 * margin - reach) // stride + 1 for length in (rows, columns))
            before = after
        if min(rows, columns) < 1:
            raise UserError(
                f"algorithm_settings: network: rows: {list(settings.rows)} is not allowed: convolutions need more of an"
                f" image of {size[0]} rows."
            )
        self.modulated, self.tilts = [2 * n for n in channels], 2 * settings.points * settings.tilted
        made = sum(self.modulated) + self.tilts
        self.film: nn.Module
        if settings.composed:
            self.film = nn.Linear(settings.points * NAMES, made)
        else:
            self.film = nn.Sequential(nn.Linear(width + NAMES, 64), nn.ReLU(), nn.Linear(64, made))
        self.point = nn.Conv2d(before, settings.points, 1)
        self.where = SoftArgmax(rows, columns)
        cells, self.sharpness = (rows, columns), settings.sharpness
        self.where.grid.copy_(_centres(reaches, strides, cells, size, top) if known is None else known.centres)
        self.pool = (-(-rows // _PATCHES), -(-columns // _PATCHES))
        self.margin = (0, _PATCHES * self.pool[1] - columns, 0, _PATCHES * self.pool[0] - rows)
        self.of_points = nn.Linear(_columns(settings), _POINT_TOKENS * width)
        if settings.looks:
            self.like = nn.Sequential(nn.Linear(before, 64), nn.ReLU(), nn.Linear(64, settings.looks))
        else:
            self.of_patches = nn.Linear(before, width)
        self.looks = settings.looks

    def forward(self, image: Tensor, asked: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return points and patches as of :class:`Placed`, between them the points' scores (batch, points, cells).

        Args:
            image: (batch, planes, rows, columns), standardised; or maps of it.
            asked: (batch, columns) what the instruction makes it look for.
        """
        seen = image
        parts = self.film(asked).split([*self.modulated, self.tilts] if self.tilts else self.modulated, dim=1)
        for layer, modulation in zip(self.layers, parts):
            scale, shift = modulation[:, :, None, None].chunk(2, dim=1)
            seen = torch.relu(layer(seen) * (1.0 + scale) + shift)
        scores = self.point(seen).float()
        if self.tilts:
            across = parts[-1].float().reshape(scores.shape[0], -1, 2) @ self.where.grid.T
            scores = scores + across.reshape(scores.shape)
        if self.looks:
            with _exact():
                share = torch.softmax(self.sharpness * scores.flatten(start_dim=2), dim=-1)
                there = share.detach() @ seen.flatten(start_dim=2).transpose(1, 2).float()
                points = torch.cat([share @ self.where.grid, self.like(there)], dim=-1)
            return points.flatten(start_dim=1), scores.flatten(start_dim=2), seen.flatten(start_dim=2)[..., :0]
        patches = functional.avg_pool2d(functional.pad(seen, self.margin), self.pool).flatten(start_dim=2)
        return self.where(self.sharpness * scores), scores.flatten(start_dim=2), patches

    def tokens(self, points: Tensor, patches: Tensor) -> Tensor:
        """Return tokens (batch, tokens, width) of what :meth:`forward` returned."""
        tokens: Tensor = self.of_points(points).reshape(points.shape[0], _POINT_TOKENS, -1)
        return tokens if self.looks else torch.cat([tokens, self.of_patches(patches.transpose(1, 2))], dim=1)


def _centres(
    reaches: Sequence[int], strides: Sequence[int], cells: tuple[int, int], size: tuple[int, int], top: int
) -> Tensor:
    """Return where the cells (rows * columns, 2) that convolutions end in are in an image: right and down, -1 to 1.

    Args:
        reaches: Length of what each convolution looks at, in cells of the map before it.
        strides: Of the convolutions.
        cells: Rows and columns of the last map.
        size: Of the image.
        top: Its first row that convolutions see.
    """
    before = [math.prod(strides[:k]) for k in range(len(strides))]
    first, apart = 0.5 + sum(0.5 * (reach - 1) * step for reach, step in zip(reaches, before)), math.prod(strides)
    down, right = (
        2.0 * (edge + first + apart * torch.arange(n)) / pixels - 1.0 for n, pixels, edge in zip(cells, size, (top, 0))
    )
    y, x = torch.meshgrid(down, right, indexing="ij")
    return torch.stack([x.flatten(), y.flatten()], dim=1)


def _columns(settings: NetworkSettings) -> int:
    """Return the columns of :attr:`Placed.points`."""
    return settings.points * (2 + settings.looks if settings.looks else 3)


def _band(settings: NetworkSettings, rows: int) -> tuple[int, int]:
    """Return the first row of an image that convolutions see, and the one after the last."""
    first, last = (round(rows * share) for share in settings.rows)
    return first, last
