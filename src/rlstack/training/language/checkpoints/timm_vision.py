"""Vision transformers with the names of timm, as OpenVLA's checkpoints have them: DINOv2 with registers, and SigLIP.

Sizes follow from the tensors' shapes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlstack.training.language.checkpoints.transformer import attended, split

_HEADS, _EPSILON = 16, 1e-6
"""Of both published transformers."""


class _Scale(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale_factor = nn.Parameter(torch.ones(width))

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens * self.scale_factor


class _Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.proj(attended(*(split(part, _HEADS) for part in self.qkv(tokens).chunk(3, dim=-1))))
        return found


class _Dense(nn.Module):
    def __init__(self, width: int, dense: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, dense), nn.Linear(dense, width)

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.fc2(functional.gelu(self.fc1(tokens)))
        return found


class _Block(nn.Module):
    def __init__(self, width: int, dense: int, scaled: bool) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width, _EPSILON), _Attention(width)
        self.ls1 = _Scale(width) if scaled else nn.Identity()
        self.norm2, self.mlp = nn.LayerNorm(width, _EPSILON), _Dense(width, dense)
        self.ls2 = _Scale(width) if scaled else nn.Identity()

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.ls1(self.attn(self.norm1(tokens)))
        through: Tensor = tokens + self.ls2(self.mlp(self.norm2(tokens)))
        return through


class _Patches(nn.Module):
    def __init__(self, width: int, patch: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch, patch)


class TimmVision(nn.Module):
    """From square images to the patches' tokens after the last block but one, which are what OpenVLA uses.

    Args:
        shapes: Of the transformer's tensors, by their names within it.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__()
        width, _, patch, _ = shapes["patch_embed.proj.weight"]
        count = shapes["pos_embed"][1]
        self.side, self.width = math.isqrt(count) * patch, width
        self.patch_embed = _Patches(width, patch)
        self.pos_embed = nn.Parameter(torch.zeros(1, count, width))
        for name in ("cls_token", "reg_token"):
            if name in shapes:
                setattr(self, name, nn.Parameter(torch.zeros(shapes[name])))
        blocks = sum(name.endswith(".norm1.weight") for name in shapes) - 1
        dense, scaled = shapes["blocks.0.mlp.fc1.weight"][0], "blocks.0.ls1.scale_factor" in shapes
        self.blocks = nn.ModuleList(_Block(width, dense, scaled) for _ in range(blocks))
        self.unused = (f"blocks.{blocks}.", "norm.", "attn_pool.")
        """Beginnings of the names of tensors after that block."""

    def forward(self, images: Tensor) -> Tensor:
        """Return (batch, patches, width) of images (batch, 3, side, side)."""
        tokens = self.patch_embed.proj(images).flatten(start_dim=2).transpose(1, 2) + self.pos_embed
        first = [getattr(self, name) for name in ("cls_token", "reg_token") if hasattr(self, name)]
        before = sum(int(one.shape[1]) for one in first)
        tokens = torch.cat([one + torch.zeros_like(tokens[:, :1]) for one in first] + [tokens], dim=1)
        for block in self.blocks:
            tokens = block(tokens)
        return tokens[:, before:]
