"""Layers of published vision and language models, with their tensors' published names, in ordinary tensor operations.

Vision transformers are of the form of SigLIP (arXiv 2303.15343), language models of that of Llama (arXiv 2302.13971):
root-mean-square norms, rotary positions, keys and values shared by several queries, gated dense layers. Those of Gemma
(arXiv 2403.08295) differ in what the norms' weights are added to and in the gate's activation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN = 1e4
"""What is taken from the score of a token that must not be attended to: its share is then 0 in float32."""


class RMSNorm(nn.Module):
    """Scales tokens to a root mean square of 1, then by learned weights, or in Gemma by 1 and them."""

    def __init__(self, width: int, epsilon: float, gemma: bool = False) -> None:
        super().__init__()
        self.weight, self.epsilon, self.gemma = nn.Parameter(torch.ones(width)), epsilon, gemma

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (..., width)."""
        exact = tokens.float()
        weight = 1.0 + self.weight if self.gemma else self.weight
        return weight * (exact * torch.rsqrt(exact.square().mean(dim=-1, keepdim=True) + self.epsilon))


def rotated(tokens: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    """Return tokens (batch, heads, n, size) turned by their positions (batch, n) (RoPE, arXiv 2104.09864)."""
    half = int(tokens.shape[-1]) // 2
    rates = base ** (torch.arange(half, dtype=torch.float32) * (-1.0 / half))
    angle = positions[:, None, :, None] * rates
    sine, cosine = torch.sin(angle), torch.cos(angle)
    one, other = tokens.float().split(half, dim=-1)
    return torch.cat([one * cosine - other * sine, other * cosine + one * sine], dim=-1)


def attended(queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None = None) -> Tensor:
    """Return what queries find among keys and values, (batch, n, heads * size).

    Args:
        queries: (batch, heads, n, size).
        keys: (batch, groups, m, size): neighbouring heads share a group's.
        values: Likewise.
        hidden: (batch or 1, n or 1, m) 1 where a query must not attend; None: all may.
    """
    heads, n, size = sizes_of(queries)
    groups = int(keys.shape[1])
    asked = queries.reshape(-1, groups, heads // groups, n, size)
    scores = (asked @ keys[:, :, None].transpose(-1, -2)) * size**-0.5
    if hidden is not None:
        scores = scores - HIDDEN * hidden[:, None, None]
    found = torch.softmax(scores.float(), dim=-1).to(values.dtype) @ values[:, :, None]
    return found.reshape(-1, heads, n, size).transpose(1, 2).reshape(-1, n, heads * size)


def split(tokens: Tensor, heads: int) -> Tensor:
    """Return (batch, heads, n, size) of (batch, n, heads * size)."""
    n, width = sizes_of(tokens)
    return tokens.reshape(-1, n, heads, width // heads).transpose(1, 2)


def sizes_of(tensor: Tensor) -> list[int]:
    """Return all sizes but the batch's: the same for every input, so that a graph has them as constants."""
    return [int(size) for size in tensor.shape[1:]]


@dataclass(frozen=True)
class LanguageSizes:
    """Sizes of a language model's layers."""

    width: int
    dense: int
    heads: int
    groups: int
    """Heads of keys and values."""
    head: int
    """Width of a head."""
    layers: int
    epsilon: float
    attended: int = 0
    """Width of what keys and values are made of; 0: that of the tokens."""
    gemma: bool = False
    """Whether norms and gates are Gemma's, in place of Llama's."""


class Projections(nn.Module):
    """Queries, keys, values and the way back of a language model's layer."""

    def __init__(self, sizes: LanguageSizes) -> None:
        super().__init__()
        self.sizes, memory = sizes, sizes.attended or sizes.width
        self.q_proj = nn.Linear(sizes.width, sizes.heads * sizes.head, bias=False)
        self.k_proj = nn.Linear(memory, sizes.groups * sizes.head, bias=False)
        self.v_proj = nn.Linear(memory, sizes.groups * sizes.head, bias=False)
        self.o_proj = nn.Linear(sizes.heads * sizes.head, sizes.width, bias=False)


class Gated(nn.Module):
    """Gated dense layers: SwiGLU, or in Gemma GeGLU (arXiv 2002.05202)."""

    def __init__(self, width: int, dense: int, gemma: bool = False) -> None:
        super().__init__()
        self.gemma = gemma
        self.gate_proj = nn.Linear(width, dense, bias=False)
        self.up_proj = nn.Linear(width, dense, bias=False)
        self.down_proj = nn.Linear(dense, width, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (..., width)."""
        gate = self.gate_proj(tokens)
        gate = functional.gelu(gate, approximate="tanh") if self.gemma else functional.silu(gate)
        found: Tensor = self.down_proj(gate * self.up_proj(tokens))
        return found


class LanguageLayer(nn.Module):
    """A layer of a language model, whose caller does the attention between :meth:`asks` and :meth:`after`."""

    def __init__(self, sizes: LanguageSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.self_attn, self.mlp = Projections(sizes), Gated(sizes.width, sizes.dense, sizes.gemma)
        self.input_layernorm = RMSNorm(sizes.width, sizes.epsilon, sizes.gemma)
        self.post_attention_layernorm = RMSNorm(sizes.width, sizes.epsilon, sizes.gemma)

    def asks(self, tokens: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
        """Return the queries (batch, heads, n, size) of tokens at positions (batch, n)."""
        asked = self.self_attn.q_proj(self.input_layernorm(tokens))
        return rotated(split(asked, self.sizes.heads), positions, base)

    def holds(self, tokens: Tensor, positions: Tensor, base: float = 10_000.0) -> tuple[Tensor, Tensor]:
        """Return the keys and values (batch, groups, n, size) of tokens at positions (batch, n)."""
        seen, own, groups = self.input_layernorm(tokens), self.self_attn, self.sizes.groups
        return rotated(split(own.k_proj(seen), groups), positions, base), split(own.v_proj(seen), groups)

    def after(self, tokens: Tensor, found: Tensor) -> Tensor:
        """Return the tokens (batch, n, width) after what attention found for them (batch, n, heads * size)."""
        tokens = tokens + self.self_attn.o_proj(found)
        through: Tensor = tokens + self.mlp(self.post_attention_layernorm(tokens))
        return through


class Layers(nn.Module):
    """Layers of a language model's form, and their last norm.

    Args:
        sizes: Of each layer.
    """

    def __init__(self, sizes: Sequence[LanguageSizes]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(LanguageLayer(each) for each in sizes)
        self.norm = RMSNorm(sizes[-1].width, sizes[-1].epsilon, sizes[-1].gemma)

    def each(self) -> Iterator[LanguageLayer]:
        """Yield the layers."""
        for layer in self.layers:
            assert isinstance(layer, LanguageLayer)
            yield layer


class Language(Layers):
    """Embedding of a language model's tokens, and its layers."""

    def __init__(self, vocabulary: int, sizes: LanguageSizes) -> None:
        super().__init__([sizes] * sizes.layers)
        self.embed_tokens = nn.Embedding(vocabulary, sizes.width)


def resizing(size: int, wanted: int, mode: str = "bilinear") -> Tensor:
    """Return the matrix (wanted, size) that resizes an axis as ``interpolate`` does, which graphs need no more.

    Args:
        size: Pixels.
        wanted: Pixels after it.
        mode: ``bilinear`` between neighbours, or ``bicubic`` over all pixels that become one.
    """
    lines = torch.eye(size)[None, None]
    smooth = mode == "bicubic"
    return functional.interpolate(lines, size=(wanted, size), mode=mode, align_corners=False, antialias=smooth)[0, 0]


class Fitted(nn.Module):
    """Resizes images (batch, rows, columns, 3), 0 to 255, to squares (batch, 3, side, side), 0 to 1, undistorted.

    What is left stays black.

    Args:
        rows: Of the images.
        columns: Of the images.
        side: Of the square, pixels.
        centred: Whether that is on both sides, in place of at the left and at the top.
    """

    rows: Tensor
    columns: Tensor

    def __init__(self, rows: int, columns: int, side: int, centred: bool = False) -> None:
        super().__init__()
        ratio = max(rows / side, columns / side)
        for name, size in (("rows", rows), ("columns", columns)):
            wanted = int(size / ratio)
            before = (side - wanted) // 2 if centred else side - wanted
            after = torch.zeros(side - wanted - before, size)
            matrix = torch.cat([torch.zeros(before, size), resizing(size, wanted), after])
            self.register_buffer(name, matrix, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return the squares."""
        return self.rows @ (images.permute(0, 3, 1, 2) * (1.0 / 255.0)) @ self.columns.T
