"""The vision transformer of SmolVLM (SigLIP), with its tensors' published names."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from rlstack.training.language.checkpoints.transformer import attended, sizes_of, split


@dataclass(frozen=True)
class VisionSizes:
    """Sizes of a vision transformer."""

    width: int
    dense: int
    heads: int
    layers: int
    side: int
    """Of the square image, pixels."""
    patch: int
    """Pixels along a side of a patch."""
    epsilon: float


class _Embeddings(nn.Module):
    def __init__(self, sizes: VisionSizes) -> None:
        super().__init__()
        self.patch_embedding = nn.Conv2d(3, sizes.width, sizes.patch, sizes.patch)
        self.position_embedding = nn.Embedding((sizes.side // sizes.patch) ** 2, sizes.width)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patch_embedding(images).flatten(start_dim=2).transpose(1, 2)
        placed: Tensor = patches + self.position_embedding.weight
        return placed


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.k_proj, self.v_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.q_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        parts = (split(layer(tokens), self.heads) for layer in (self.q_proj, self.k_proj, self.v_proj))
        found: Tensor = self.out_proj(attended(*parts))
        return found


class _Dense(nn.Module):
    def __init__(self, width: int, dense: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, dense), nn.Linear(dense, width)

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.fc2(functional.gelu(self.fc1(tokens), approximate="tanh"))
        return found


class _Layer(nn.Module):
    def __init__(self, sizes: VisionSizes) -> None:
        super().__init__()
        self.layer_norm1 = nn.LayerNorm(sizes.width, sizes.epsilon)
        self.self_attn = _Attention(sizes.width, sizes.heads)
        self.layer_norm2 = nn.LayerNorm(sizes.width, sizes.epsilon)
        self.mlp = _Dense(sizes.width, sizes.dense)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.self_attn(self.layer_norm1(tokens))
        through: Tensor = tokens + self.mlp(self.layer_norm2(tokens))
        return through


class _Encoder(nn.Module):
    def __init__(self, sizes: VisionSizes) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(sizes) for _ in range(sizes.layers))

    def forward(self, tokens: Tensor) -> Tensor:
        for layer in self.layers:
            tokens = layer(tokens)
        return tokens


class Vision(nn.Module):
    """From square images to a token for each patch."""

    def __init__(self, sizes: VisionSizes) -> None:
        super().__init__()
        self.embeddings = _Embeddings(sizes)
        self.encoder = _Encoder(sizes)
        self.post_layernorm = nn.LayerNorm(sizes.width, sizes.epsilon)

    def forward(self, images: Tensor) -> Tensor:
        """Return (batch, patches, width) of images (batch, 3, side, side), -1..1."""
        found: Tensor = self.post_layernorm(self.encoder(self.embeddings(images)))
        return found


class Connector(nn.Module):
    """Makes one token of each square of neighbouring patches, for a language model.

    Args:
        width: Of the patches' tokens.
        factor: Patches along a side of a square.
        language: Width of the language model's tokens.
    """

    def __init__(self, width: int, factor: int, language: int) -> None:
        super().__init__()
        self.factor = factor
        self.modality_projection = nn.ModuleDict({"proj": nn.Linear(width * factor**2, language, bias=False)})

    def forward(self, patches: Tensor) -> Tensor:
        """Return (batch, patches / factor^2, language) of (batch, patches, width), by rows of the image."""
        count, width = sizes_of(patches)
        side, factor = math.isqrt(count), self.factor
        squares = patches.reshape(-1, side // factor, factor, side // factor, factor * width)
        found: Tensor = self.modality_projection["proj"](
            squares.transpose(2, 3).reshape(-1, (side // factor) ** 2, factor**2 * width)
        )
        return found
