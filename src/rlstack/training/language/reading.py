"""How a network reads a sentence: each word among the others, and the words' names whatever their order."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlstack.training.language.attention import Layer

NAMES = 64
"""Width of the words that modulate convolutions, beside those that were read in their order."""


class Reads(nn.Module):
    """A network that reads."""

    def add_reading(self, vocabulary: int, words: int, width: int, heads: int) -> None:
        """Add what reads.

        Args:
            vocabulary: Number of tokens of the tokeniser.
            words: Words of a sentence.
            width: Of a word that was read.
            heads: Of attention.
        """
        self.word = nn.Embedding(vocabulary, width)
        self.word_place = nn.Parameter(0.02 * torch.randn(words, width))
        self.reader, self.read_norm = Layer(width, heads), nn.LayerNorm(width)
        self.name = nn.Embedding(vocabulary, NAMES)

    def words(self) -> list[nn.Module]:
        """Return what reads, but ``word_place``."""
        return [self.word, self.reader, self.read_norm, self.name]

    def read(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return words (batch, words, width), which of them are absent (batch, words), and a summary (batch, width)."""
        absent = torch.relu(1.0 - tokens.float())
        words = self.word(tokens.long()) + self.word_place
        words = self.reader(words, absent)
        there = (1.0 - absent)[:, :, None]
        said = self.read_norm((words * there).sum(dim=1) / there.sum(dim=1).clamp(min=1.0))
        return words, absent, said

    def named(self, tokens: Tensor, absent: Tensor) -> Tensor:
        """Return the mean (batch, columns) of the words' names, whatever their order."""
        there = (1.0 - absent)[:, :, None]
        found: Tensor = (self.name(tokens.long()) * there).sum(dim=1) / there.sum(dim=1).clamp(min=1.0)
        return found


class Reading(Reads):
    """What reads, alone; arguments as of :meth:`Reads.add_reading`."""

    def __init__(self, vocabulary: int, words: int, width: int, heads: int) -> None:
        super().__init__()
        self.add_reading(vocabulary, words, width, heads)
