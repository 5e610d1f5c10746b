"""Transformer layers of a policy's network, in matrix products that every ONNX runtime has."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Multi-head attention (Vaswani et al., arXiv 1706.03762) of queries over a memory.

    Args:
        width: Width of all tokens.
        heads: Number of heads, which divides the width.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.asks, self.has, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, queries: Tensor, memory: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Return (batch, queries, width).

        Args:
            queries: (batch, queries, width).
            memory: (batch, tokens, width).
            hidden: (batch, tokens) 1 where a token must not be attended to; None: there is none.
        """
        asked = self._split(self.asks(queries))
        keys, values = (self._split(part) for part in self.has(memory).chunk(2, dim=-1))
        scores = asked @ keys.transpose(-1, -2) * self.size**-0.5
        if hidden is not None:
            scores = scores - 1e4 * hidden[:, None, None]
        found = (torch.softmax(scores, dim=-1) @ values).transpose(1, 2)
        attended: Tensor = self.out(found.flatten(start_dim=2))
        return attended

    def _split(self, tokens: Tensor) -> Tensor:
        """Return (batch, heads, tokens, size)."""
        return tokens.reshape(tokens.shape[0], tokens.shape[1], self.heads, self.size).transpose(1, 2)


class Layer(nn.Module):
    """A transformer layer with normalisation first: self-attention, attention over a memory if any, dense layers.

    Args:
        width: Width of all tokens.
        heads: Number of heads.
        crosses: Whether it attends to a memory.
    """

    def __init__(self, width: int, heads: int, crosses: bool = False) -> None:
        super().__init__()
        self.own, self.own_norm = Attention(width, heads), nn.LayerNorm(width)
        self.cross = Attention(width, heads) if crosses else None
        self.cross_norm = nn.LayerNorm(width) if crosses else None
        self.dense_norm = nn.LayerNorm(width)
        self.dense = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, tokens: Tensor, hidden: Tensor | None = None, memory: Tensor | None = None) -> Tensor:
        """Return (batch, tokens, width).

        Args:
            tokens: (batch, tokens, width).
            hidden: Tokens not to attend to: of the memory if it crosses, else of its own; see :class:`Attention`.
            memory: (batch, memory's tokens, width), if it crosses.
        """
        seen = self.own_norm(tokens)
        tokens = tokens + self.own(seen, seen, None if self.cross else hidden)
        if self.cross is not None and self.cross_norm is not None and memory is not None:
            tokens = tokens + self.cross(self.cross_norm(tokens), memory, hidden)
        through: Tensor = tokens + self.dense(self.dense_norm(tokens))
        return through
