"""Instructions of tasks: things by colour and shape, sentences from templates, and held-out ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlstack.interfaces.instruction import TextInput, encoded, split_words
from rlstack.interfaces.signals import INSTRUCTION_BYTES

Colour = tuple[float, float, float]
Item = TypeVar("Item")

Words = Literal["train", "held_out", "all"]
"""Which sentences, and which things, are asked for."""

Said = Literal["normal", "blank", "swapped"]
"""``blank``: the policy gets no sentence. ``swapped``: it gets one that says something else. Success is still what the
normal one says."""

COLOURS: Mapping[str, Colour] = {
    "red": (0.85, 0.12, 0.10),
    "green": (0.12, 0.62, 0.18),
    "blue": (0.12, 0.28, 0.88),
    "yellow": (0.92, 0.80, 0.12),
    "purple": (0.52, 0.14, 0.68),
}
"""Colours of things: far enough apart to be told apart under all lights of training."""


ANY = "one"
"""Noun of a thing that its colour alone tells apart."""


@dataclass(frozen=True)
class Thing:
    """A thing's look.

    Args:
        colour: A name in :data:`COLOURS`.
        shape: A name in :attr:`Things.shapes`.
    """

    colour: str
    shape: str


@dataclass(frozen=True)
class Things:
    """The things that a task's sentences name.

    Args:
        shapes: Nouns of each shape; the first one is its own.
        held_out: Colours and shapes that no training sentence combines; they are there beside others in training.
    """

    shapes: Mapping[str, tuple[str, ...]]
    held_out: frozenset[tuple[str, str]]

    @property
    def words(self) -> tuple[str, ...]:
        """Words that describe them."""
        return ("the", *COLOURS, *(noun for nouns in self.shapes.values() for noun in nouns))

    def is_held_out(self, thing: Thing) -> bool:
        """Return whether no training sentence asks for it."""
        return (thing.colour, thing.shape) in self.held_out

    def describe(self, rng: np.random.Generator, thing: Thing, others: Sequence[Thing], short: float = 0.0) -> str:
        """Return words for a thing that fit none of the ``others``.

        With probability ``short`` they are its colour or its noun alone, where that is enough.
        """
        like = [other for other in others if other.colour == thing.colour]
        nouns = self.shapes[thing.shape]
        if short and rng.random() < short:
            alone = [] if like else [f"the {thing.colour} {ANY}"]
            own = tuple(
                n for n in nouns if not any(n in of for shape, of in self.shapes.items() if shape != thing.shape)
            )
            if all(other.shape != thing.shape for other in others):
                alone.append(f"the {one_of(rng, own)}")
            if alone:
                return one_of(rng, tuple(alone))
        return f"the {thing.colour} {nouns[0] if like else one_of(rng, nouns)}"

    def draw(
        self, rng: np.random.Generator, words: Words, count: int, alike: float, asked: int = 1, halves: float = 0.0
    ) -> list[Thing]:
        """Draw different things, those that are asked for first.

        Args:
            rng: Random generator.
            words: Which of them are asked for.
            count: Number of things.
            alike: Probability that one beside has the colour of the first one, and another shape.
            asked: Number of things that the sentence names.
            halves: Probability, in training, that the first one is held out. It is the only one of its colour then, so
                that a sentence needs no more than that.
        """
        half = words == "train" and halves > 0.0 and rng.random() < halves
        every = [Thing(colour, shape) for colour in COLOURS for shape in self.shapes]
        chosen: list[Thing] = []
        for k in range(count):
            left = [one for one in every if one not in chosen]
            if k == 0 and words != "all":
                left = [one for one in left if self.is_held_out(one) == (half or words == "held_out")]
            elif 0 < k < asked and words == "train" and not half:
                left = [one for one in left if not self.is_held_out(one)]
            if half:
                named = {one.colour for one in chosen[:asked]}
                left = [one for one in left if one.colour not in named]
            fresh = [one for one in left if one.colour not in {other.colour for other in chosen}]
            twins = [one for one in left if one.colour == chosen[0].colour] if chosen and k >= asked else []
            chosen.append(one_of(rng, tuple(twins if twins and rng.random() < alike else fresh or left)))
        return chosen


@dataclass(frozen=True)
class Templates:
    """Sentences with places in braces.

    Args:
        train: Sentences of training.
        held_out: Others, with known words in other places and unknown words between them.
        words: By place, the words for each value in training and the held-out ones; ``thing`` is a thing.
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
            things: Descriptions of things by place, see :meth:`Things.describe`.
            values: Value by place of :attr:`words`.
        """
        held_out = words == "held_out" or (words == "all" and rng.random() < 0.5)
        template = one_of(rng, self.held_out if held_out else self.train)
        said = dict(things)
        for place, value in values.items():
            trained, others = self.words[place][value]
            said[place] = one_of(rng, others if held_out and others else trained)
        return template.format(**said)

    def text(self, things: Things, more: Iterable[str] = (), examples: int = 4) -> TextInput:
        """Return the words of training, with ``more`` of them, and some of its sentences."""
        known: set[str] = {*things.words, *more}
        for template in self.train:
            known.update(split_words(template.format_map(_Blank())))
        for meanings in self.words.values():
            for trained, _ in meanings.values():
                known.update(word for phrase in trained for word in split_words(phrase))
        rng, colours = np.random.default_rng(0), list(COLOURS)
        noun, shown = next(iter(things.shapes.values()))[0], []
        places = [name for name in ("thing", "other") if any(f"{{{name}}}" in t for t in self.train)]
        for k in range(examples):
            said = {place: f"the {colours[(k + n) % len(colours)]} {noun}" for n, place in enumerate(places)}
            values = {place: one_of(rng, tuple(self.words[place])) for place in self.words}
            shown.append(self.sentence(rng, "train", said, values))
        return TextInput(words=tuple(sorted(known)), examples=tuple(dict.fromkeys(shown)))


def instructions(said: Said, normal: Sequence[str], swapped: Sequence[str]) -> NDArray[np.uint8]:
    """Return the signals ``instruction`` (N, 128) of N trials.

    Args:
        said: What the policy gets.
        normal: Sentences that ask for what the trials do.
        swapped: Sentences that ask for something else.
    """
    text = np.zeros((len(normal), INSTRUCTION_BYTES), np.uint8)
    if said != "blank":
        for k, sentence in enumerate(swapped if said == "swapped" else normal):
            text[k] = encoded(sentence)
    return text


class _Blank(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return ""


def one_of(rng: np.random.Generator, items: Sequence[Item]) -> Item:
    """Return one of some items at random."""
    return items[int(rng.integers(len(items)))]
