"""Instructions for tasks on a table: blocks by colour and shape, sentences from templates, and held-out ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from rlstack.interfaces.instruction import TextInput, split_words

Colour = tuple[float, float, float]
Item = TypeVar("Item")

Words = Literal["train", "held_out", "all"]
"""Which sentences and which blocks are asked for."""

COLOURS: Mapping[str, Colour] = {
    "red": (0.85, 0.12, 0.10),
    "green": (0.12, 0.62, 0.18),
    "blue": (0.12, 0.28, 0.88),
    "yellow": (0.92, 0.80, 0.12),
    "purple": (0.52, 0.14, 0.68),
}
"""Colours of blocks: far enough apart to be told apart under all lights of training."""

SHAPES: Mapping[str, tuple[str, ...]] = {"cube": ("cube", "block"), "tile": ("tile", "block")}
"""Nouns of each shape; the last one is any shape's."""

HELD_OUT = frozenset({("green", "tile"), ("purple", "cube"), ("yellow", "tile")})
"""Blocks, by colour and shape, that no training sentence asks for; they lie beside others in training."""


@dataclass(frozen=True)
class Block:
    """A block's look.

    Args:
        colour: A name in :data:`COLOURS`.
        shape: A name in :data:`SHAPES`.
    """

    colour: str
    shape: str

    @property
    def held_out(self) -> bool:
        """Whether no training sentence asks for it."""
        return (self.colour, self.shape) in HELD_OUT


@dataclass(frozen=True)
class Templates:
    """Sentences with places in braces.

    Args:
        train: Sentences of training.
        held_out: Others, with known words in other places and unknown words between them.
        words: By place, the words for each value in training and the held-out ones; ``thing`` is a block.
    """

    train: tuple[str, ...]
    held_out: tuple[str, ...]
    words: Mapping[str, Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]]

    def sentence(
        self, rng: np.random.Generator, words: Words, things: Mapping[str, str], values: Mapping[str, str]
    ) -> str:
        """Return a sentence.

        Args:
            rng: Draws the template and the words.
            words: Which of them.
            things: Descriptions of blocks by place, see :func:`describe`.
            values: Value by place of :attr:`words`.
        """
        held_out = words == "held_out" or (words == "all" and rng.random() < 0.5)
        template = _one(rng, self.held_out if held_out else self.train)
        said = dict(things)
        for place, value in values.items():
            trained, others = self.words[place][value]
            said[place] = _one(rng, others if held_out and others else trained)
        return template.format(**said)

    def text(self, examples: int = 4) -> TextInput:
        """Return the words of training, and some of its sentences."""
        known: set[str] = set()
        for template in self.train:
            known.update(split_words(template.format_map(_Blank())))
        for meanings in self.words.values():
            for trained, _ in meanings.values():
                known.update(word for phrase in trained for word in split_words(phrase))
        known.update(("the", *COLOURS, *(noun for nouns in SHAPES.values() for noun in nouns)))
        rng, colours = np.random.default_rng(0), list(COLOURS)
        shown = []
        places = [name for name in ("thing", "other") if any(f"{{{name}}}" in t for t in self.train)]
        for k in range(examples):
            things = {place: f"the {colours[(k + n) % len(colours)]} cube" for n, place in enumerate(places)}
            values = {place: _one(rng, tuple(self.words[place])) for place in self.words}
            shown.append(self.sentence(rng, "train", things, values))
        return TextInput(words=tuple(sorted(known)), examples=tuple(dict.fromkeys(shown)))


def describe(rng: np.random.Generator, block: Block, others: Sequence[Block]) -> str:
    """Return words for a block that fit none of the ``others``."""
    like = [other for other in others if other.colour == block.colour]
    nouns = SHAPES[block.shape]
    return f"the {block.colour} {nouns[0] if like else _one(rng, nouns)}"


def draw_blocks(rng: np.random.Generator, words: Words, count: int, alike: float, asked: int = 1) -> list[Block]:
    """Draw different blocks, those that are asked for first.

    Args:
        rng: Random generator.
        words: Which blocks are asked for.
        count: Number of blocks.
        alike: Probability that a block beside has the colour of the first one, and the other shape.
        asked: Number of blocks that the sentence names.
    """
    every = [Block(colour, shape) for colour in COLOURS for shape in SHAPES]
    chosen: list[Block] = []
    for k in range(count):
        left = [one for one in every if one not in chosen]
        if k == 0 and words != "all":
            left = [one for one in left if one.held_out == (words == "held_out")]
        elif 0 < k < asked and words == "train":
            left = [one for one in left if not one.held_out]
        fresh = [one for one in left if one.colour not in {other.colour for other in chosen}]
        twins = [one for one in left if one.colour == chosen[0].colour] if chosen and k >= asked else []
        chosen.append(_one(rng, tuple(twins if twins and rng.random() < alike else fresh or left)))
    return chosen


class _Blank(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return ""


def _one(rng: np.random.Generator, items: Sequence[Item]) -> Item:
    return items[int(rng.integers(len(items)))]
