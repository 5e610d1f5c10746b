"""Instructions of language-conditioned policies: text as the bytes that a graph receives, and its known words.

A policy file names the words that it was trained with, and may name others that its graph takes for one of these. Words
beyond these are replaced by the nearest known one where that is plainly a misspelling, and are otherwise left for the
policy to ignore; the user is told of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlstack.interfaces.signals import INSTRUCTION_BYTES

_WORD = re.compile(r"[A-Za-z0-9\u0080-\U0010ffff]+")
"""A word; everything else separates words, as in the graph's tokeniser."""

_LETTERS_PER_TYPO = 3
"""A word is a misspelling of a known one if they differ by at most one edit for so many of its letters."""

_NEAREST = 3
"""Number of known words that are named for one that is unknown."""


@dataclass(frozen=True, kw_only=True)
class TextInput:
    """The text that a policy was trained to understand.

    Raises:
        ValueError: There are no words, or one is not in lower case or holds a separator.
    """

    words: tuple[str, ...]
    """Known words, in lower case."""
    examples: tuple[str, ...] = ()
    """Some instructions as in training."""
    meanings: tuple[tuple[str, str], ...] = ()
    """Other words, each with the known one that the graph takes it for."""

    def __post_init__(self) -> None:
        if not self.words:
            raise ValueError("words: an empty list is not allowed: name the words that the policy knows.")
        for word in self.words:
            if split_words(word) != [word]:
                raise ValueError(f"words: {word!r} is not allowed: must be one word in lower case.")
        lost = [meant for _, meant in self.meanings if meant not in self.words]
        if lost:
            raise ValueError(f"meanings: {lost[0]!r} is not allowed: must be one of the words.")


def split_words(text: str) -> list[str]:
    """Return the words of an instruction, A to Z in lower case."""
    return [_lower(found.group()) for found in _WORD.finditer(text)]


def encoded(text: str) -> NDArray[np.uint8]:
    """Return an instruction as the signal ``instruction`` (128,): its UTF-8 bytes, 0 after its end.

    Raises:
        ValueError: It is empty, too long, or not text; the sentence says what to do.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("an instruction that is not UTF-8 is not allowed: send text") from error
    if not split_words(text):
        raise ValueError(
            "an instruction without words is not allowed: say what to do, such as 'push the red block to the left'"
        )
    if b"\0" in data:
        raise ValueError("an instruction with a zero byte is not allowed: send text")
    if len(data) > INSTRUCTION_BYTES:
        raise ValueError(
            f"an instruction of {len(data)} bytes is not allowed: it has at most {INSTRUCTION_BYTES}; shorten it"
        )
    signal = np.zeros(INSTRUCTION_BYTES, dtype=np.uint8)
    signal[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    return signal


def decoded(signal: ArrayLike) -> str:
    """Return the text of a signal ``instruction`` (128,); bytes that are not UTF-8 appear as a replacement mark."""
    data = np.asarray(signal).astype(np.uint8).tobytes()
    return data.partition(b"\0")[0].decode(errors="replace")


def understood(text: str, known: Sequence[str], meanings: Sequence[tuple[str, str]] = ()) -> tuple[str, list[str]]:
    """Return an instruction with misspelt words corrected, and a sentence for each unknown word.

    Args:
        text: The instruction.
        known: The words that the policy knows, in lower case.
        meanings: Other words that its graph takes for one of these, and that one.
    """
    words, meant, told, parts, end = frozenset(known), dict(meanings), [], [], 0
    for found in _WORD.finditer(text):
        word = _lower(found.group())
        parts.append(text[end : found.start()])
        end = found.end()
        if word in words:
            parts.append(found.group())
            continue
        if word in meant:
            parts.append(found.group())
            told.append(f"the policy does not know the word '{found.group()}', and takes it for '{meant[word]}'")
            continue
        nearest = sorted(words, key=lambda other: (edits(word, other), other))[:_NEAREST]
        if edits(word, nearest[0]) <= max(1, len(word) // _LETTERS_PER_TYPO):
            parts.append(nearest[0])
            told.append(f"the policy does not know the word '{found.group()}', and takes it for '{nearest[0]}'")
        else:
            parts.append(found.group())
            told.append(
                f"the policy does not know the word '{found.group()}', and ignores it; the nearest that it knows are"
                f" {', '.join(repr(other) for other in nearest)}"
            )
    return "".join([*parts, text[end:]]), told


def edits(one: str, other: str) -> int:
    """Return the least number of inserted, deleted, replaced or swapped neighbouring letters between two words."""
    before, row = [0] * (len(other) + 1), list(range(len(other) + 1))
    for i, a in enumerate(one):
        older, before, row = before, row, [i + 1]
        for j, b in enumerate(other):
            cost = min(before[j] + (a != b), before[j + 1] + 1, row[j] + 1)
            if i and j and a == other[j - 1] and one[i - 1] == b:
                cost = min(cost, older[j - 1] + 1)
            row.append(cost)
    return row[-1]


def _lower(text: str) -> str:
    return "".join(_lowered(text))


def _lowered(text: str) -> Iterator[str]:
    """Yield letters with A to Z in lower case: the graph knows no other alphabets' cases."""
    for letter in text:
        yield letter.lower() if letter.isascii() else letter
