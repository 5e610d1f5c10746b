"""Word tokeniser from UTF-8 bytes in float arithmetic, so that it is part of a policy file's graph.

A word is a run of ASCII letters, digits and bytes of other characters; ASCII letters count as lower case. A word's code
is a polynomial in its bytes modulo three primes: all numbers are whole and stay below 2^24, where float32 is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from rlstack.interfaces.instruction import split_words
from rlstack.interfaces.signals import INSTRUCTION_BYTES

NO_WORD, UNKNOWN = 0, 1
"""Tokens that are not of the vocabulary, whose words follow from 2 on."""

_PRIMES = (4093, 4091, 4079)
"""Products of two remainders are below 2^24; the three codes together have 36 bits."""
_BASES = (263, 1009, 2017)


class Tokeniser(nn.Module):
    """Maps the bytes of an instruction to tokens.

    Args:
        words: The vocabulary; token ``k + 2`` is word ``k``.
        words_max: Number of tokens; further words are dropped.
        length: Bytes of an instruction.
        meanings: Other words, and the word of the vocabulary whose token each gets.

    Raises:
        ValueError: The vocabulary is empty, has a word twice, something that is not a word, or two words with one code.
    """

    def __init__(
        self,
        words: Sequence[str],
        words_max: int = 16,
        length: int = INSTRUCTION_BYTES,
        meanings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.words, self.words_max, self.length = tuple(words), words_max, length
        bad = [word for word in words if split_words(word) != [word]]
        if bad or not words or len(set(words)) != len(words):
            raise ValueError(f"vocabulary: must be different words in lower case, got {bad or list(words)}.")
        places = torch.arange(length, dtype=torch.float64)
        self.register_buffer("primes", torch.tensor(_PRIMES, dtype=torch.float32)[:, None])
        self.register_buffer("powers", _table(_BASES, length))
        self.register_buffer("inverses", _table([pow(b, -1, p) for b, p in zip(_BASES, _PRIMES)], length))
        self.register_buffer("before", (places[:, None] <= places).float())
        self.register_buffer("numbers", torch.arange(1.0, words_max + 1.0)[:, None])
        self.register_buffer("tokens", torch.arange(2.0, len(words) + 2.0))
        self.register_buffer("codes", torch.zeros(len(words), len(_PRIMES)))
        self.codes = self._codes_of(words)
        if meanings:  # others' checkpoints have no such tensors
            self.register_buffer("other_codes", self._codes_of(list(meanings)))
            meant = [self.words.index(word) + 2.0 for word in meanings.values()]
            self.register_buffer("other_tokens", torch.tensor(meant))
        self._others = bool(meanings)
        every = torch.cat([self.codes, self.other_codes]) if meanings else self.codes
        if len(torch.unique(every, dim=0)) < len(every):
            raise ValueError("vocabulary: two words have the same code: leave one out.")

    primes: Tensor
    powers: Tensor
    inverses: Tensor
    before: Tensor
    numbers: Tensor
    tokens: Tensor
    codes: Tensor
    other_codes: Tensor
    other_tokens: Tensor

    @property
    def size(self) -> int:
        """Number of tokens that there are."""
        return len(self.words) + 2

    def forward(self, instruction: Tensor) -> Tensor:
        """Return the tokens (batch, words_max), whole numbers as floats, of bytes (batch, length) 0 to 255."""
        codes, there = self._codes(instruction)
        held, tokens = self.codes, self.tokens
        if self._others:
            held, tokens = torch.cat([held, self.other_codes]), torch.cat([tokens, self.other_tokens])
        apart = (codes[:, :, None] - held).abs().sum(dim=-1)
        same = _is_zero(apart)  # (batch, words_max, vocabulary)
        known = same.sum(dim=-1)
        return there * ((same * tokens).sum(dim=-1) + UNKNOWN * (1.0 - known))

    def _codes_of(self, words: Sequence[str]) -> Tensor:
        """Return the codes (words, primes) of some words."""
        letters = np.stack([np.frombuffer(w.encode().ljust(self.length, b"\0"), dtype=np.uint8) for w in words])
        return self._codes(torch.from_numpy(letters).float())[0][:, 0]

    def _codes(self, instruction: Tensor) -> tuple[Tensor, Tensor]:
        """Return the codes (batch, words_max, primes) of the words, and whether there is a word (batch, words_max)."""
        small = instruction + 32.0 * _between(instruction, 65.0, 90.0)
        letter = _between(small, 97.0, 122.0) + _between(small, 48.0, 57.0) + _between(small, 128.0, 255.0)
        start = letter * (1.0 - torch.cat([torch.zeros_like(letter[:, :1]), letter[:, :-1]], dim=1))
        number = start @ self.before  # of the word that a byte belongs to
        within = _is_zero(number[:, None] - self.numbers)  # (batch, words_max, length)
        starts = within * start[:, None]
        scaled = _modulo((small * letter)[:, None] * self.powers, self.primes)  # (batch, primes, length)
        summed = _modulo(scaled @ within.transpose(1, 2), self.primes)
        shifts = self.inverses @ starts.transpose(1, 2)
        return _modulo(summed * shifts, self.primes).transpose(1, 2), starts.sum(dim=-1)


def _table(bases: Sequence[int], length: int) -> Tensor:
    """Return the powers (primes, length) of a base for each prime."""
    rows = [[pow(base, k, prime) for k in range(length)] for base, prime in zip(bases, _PRIMES)]
    return torch.tensor(rows, dtype=torch.float32)


def _between(value: Tensor, low: float, high: float) -> Tensor:
    """Return 1 where whole numbers are from ``low`` to ``high``, else 0."""
    return (value - (low - 1.0)).clamp(0.0, 1.0) * ((high + 1.0) - value).clamp(0.0, 1.0)


def _is_zero(value: Tensor) -> Tensor:
    """Return 1 where whole numbers are 0, else 0."""
    return torch.relu(1.0 - value.abs())


def _modulo(value: Tensor, prime: Tensor) -> Tensor:
    """Return the remainder of whole numbers below 2^24; quotients are below 4,096, so that their floor is exact."""
    return value - prime * torch.floor(value / prime)
