"""Supervised updates of a vision-language-action policy."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.training.algorithm import cosine_decay
from rlstack.training.gradient_averaging import Averaged
from rlstack.training.language.actor import LanguageActor, PolicySettings, Seen, reduced
from rlstack.training.language.grounding import apart, told, unlike, unlike_looks
from rlstack.training.language.network import Placed
from rlstack.training.language.tokeniser import NO_WORD, UNKNOWN
from rlstack.training.optimisers import AdamW
from rlstack.training.vision_encoder import shifted

_WARM_UP = 0.03
"""Share of the run in which the learning rate rises."""
_STRANGE = 3
"""Largest number of unknown words that are put into a sentence."""


@dataclass(frozen=True, kw_only=True)
class SupervisedSettings(PolicySettings):
    """Settings of a policy and its supervised updates."""

    learning_rate: float = value(1e-3, above=0.0)
    """Largest learning rate; it decays to 0 along a cosine."""
    weight_decay: float = value(1e-4, at_least=0.0)
    batch: int = value(128, at_least=1)
    """Batch size of an update."""
    accumulated: int = value(1, at_least=1)
    """Batches whose gradients make an update."""
    labels: float = value(3.0, at_least=0.0)
    """Weight of the loss on where the object and its goal are, which only a simulator knows, in training; 0: learn from
    actions alone. A checkpoint's network always does."""
    places: float = value(0.3, at_least=0.0)
    """Weight of the loss on where the object is in the images, likewise; it needs labels."""
    distance: float = value(0.0, at_least=0.0)
    """Weight of the distance, of half an image, between where they are and where they are found; it needs places, and
    finds them more exactly."""
    looking: float = value(0.2, at_least=0.0, at_most=0.9)
    """Share of the updates, from the beginning, that learn labels and places alone: it is cheap, and grounds words."""
    looking_rate: float = value(3e-3, above=0.0)
    """Learning rate of these."""
    told: int = value(0, at_least=0)
    """Updates beside each one from images, in which the simulator tells where the things are and what they are like, in
    place of what is seen: a small part of the work. Only for a network with ``looks``."""
    told_batch: int = value(256, at_least=1)
    """Chunks of these."""
    told_error: float = value(0.008, at_least=0.0)
    """Standard deviation with which it tells where they are, of half an image: about that of what is seen."""
    shift: int = value(1, at_least=0)
    """Largest random shift of images, pixels."""
    brightness: float = value(0.1, at_least=0.0, at_most=0.9)
    """Largest random change of an image's brightness, as a share."""
    strange: float = value(0.5, at_least=0.0, at_most=1.0)
    """Share of the sentences with up to three unknown words at random places, so that others' sentences say as much."""
    loose: tuple[str, ...] = ()
    """Known words without which each sentence still says all, such as verbs where a direction or a second thing tells
    what is asked: in these sentences half of them become unknown, and half of the added words are among them, so that
    "take the cube and push it left" is no sentence about taking."""


class Known(NamedTuple):
    """What only a simulator knows of a batch."""

    offsets: Tensor
    """(batch, labels) where the object and its goal are, dm."""
    places: Tensor | None = None
    """(batch, cameras, things, 2 or more) where the object, and further things, are in the images: right and down, -1
    to 1, or beyond for what is not there, and then what they are like; None: not known."""


class Lesson(NamedTuple):
    """A batch of chunks to learn."""

    seen: Seen
    action: Tensor
    """(batch, chunk, actions)."""
    inside: Tensor
    """(batch, chunk) 1 for actions that count."""
    known: Known | None = None
    """None: nothing."""

    def told(self, error: float, generator: torch.Generator) -> Lesson:
        """Return the same with what a simulator tells in place of images; see :func:`.grounding.told`."""
        assert self.known is not None and self.known.places is not None
        return self._replace(seen=self.seen._replace(images=told(self.known.places, error, generator)))


class Supervised:
    """Trains a policy on chunks of actions.

    Args:
        settings: Its settings.
        actor: The policy.
        generator: Draws augmentations.
        labels: Number of labels; 0: none.
    """

    def __init__(
        self, settings: SupervisedSettings, actor: LanguageActor, generator: torch.Generator, labels: int = 0
    ) -> None:
        self.settings, self.actor, self.generator = settings, actor, generator
        self.averaged: Averaged | None = None
        """What averages gradients over processes; None: there is this one alone."""
        self._loose = _tokens_of(settings.loose, actor.tokeniser.words)
        known = actor.grounded.offsets if actor.grounded else None
        guesses = labels and settings.labels and actor.grounded
        self._guess = (known or nn.Linear(settings.network.width, labels)) if guesses else None
        """Guesses labels: the network itself does, or what is needed to teach it alone."""
        guess = [] if self._guess is None or known else [*self._guess.parameters()]
        self._parameters = [*actor.trained(), *guess]
        self._apart = actor.grounded is not None and settings.network.sees_apart and not actor.fixed_eyes
        """Whether what sees learns apart from what acts; then neither's gradients make the other's smaller."""
        self._parts = [self._parameters]
        if self._apart and actor.grounded is not None:
            eyes = {id(one) for one in actor.grounded.eyesight()}
            self._parts = [[one for one in self._parameters if (id(one) in eyes) is sees] for sees in (True, False)]
        self._optimiser = AdamW(self._parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay)

    @property
    def sees_alone(self) -> bool:
        """Whether lessons from images need to teach to see alone, since what is told teaches to act."""
        return self._apart and self.settings.told > 0

    def guess_by(self, lesson: Lesson) -> None:
        """Let labels be guessed as well as the network allows that is there, by least squares on a batch.

        A guess that knows nothing would unteach a network where things are.
        """
        network, guess = self.actor.grounded, self._guess
        if network is None or guess is None or guess is network.offsets or lesson.known is None:
            return
        with torch.no_grad():
            feature = torch.relu(network.place(*lesson.seen).feature)
            given = torch.cat([feature, torch.ones(len(feature), 1)], dim=1)
            found = torch.linalg.lstsq(given.double(), lesson.known.offsets.double(), driver="gelsd").solution.float()
            guess.weight.copy_(found[:-1].T)
            guess.bias.copy_(found[-1])

    def update(
        self, lessons: Iterator[Lesson], share: float, stills: bool = False, told: bool = False
    ) -> dict[str, Tensor]:
        """Update the policy once; return the losses.

        Args:
            lessons: Batches to learn.
            share: Completed share of the updates.
            stills: Whether lessons teach labels and places alone; where a network sees apart, places alone.
            told: Whether the simulator tells what is seen: lessons are of :meth:`Lesson.told`.
        """
        settings = self.settings
        looking = settings.looking if self._guess is not None and not told else 0.0
        share, begins = (share - looking) / (1.0 - looking), share < looking
        warm = min(1.0, (share + 1e-3) / _WARM_UP)
        rate = settings.looking_rate if begins else warm * cosine_decay(settings.learning_rate, 0.0, share)
        looks = begins or stills
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.zero_grad(set_to_none=True)
        logged: list[dict[str, Tensor]] = []
        for _ in range(settings.accumulated):
            seen, actions, inside, known = next(lessons)
            grounded = self.actor.grounded
            images = seen.images
            if not told:
                images = augmented(images, settings.shift, settings.brightness, self.generator)
            seen = seen._replace(
                images=images,
                tokens=with_strange(seen.tokens, settings.strange if grounded else 0.0, self.generator, self._loose),
            )
            seen = seen if told else self.actor.sighted(seen)
            loss, losses = torch.zeros(()), dict[str, Tensor]()
            place: Placed | None = None
            with reduced(settings.precision):
                if looks and grounded and self._apart:
                    place = Placed(torch.zeros(0), *grounded.found(seen.tokens, seen.images), [])
                elif looks and grounded:
                    place = grounded.place(*seen)
                else:
                    features, place = grounded.both(*seen) if grounded else (self.actor.features(seen), place)
                    wrong = self.actor.head.loss(features, actions, self.generator)
                    count = inside.sum() if self.averaged is None else self.averaged.mean(inside.sum())
                    loss = (wrong * inside).sum() / count.clamp(min=1.0)  # of moments alone nothing is inside
                    losses["actions"] = loss.detach()
            if self._guess is not None and known is not None and grounded and place:
                if len(place.feature):
                    where = (self._guess(torch.relu(place.feature.float())) - known.offsets).abs().mean()
                    loss, losses["labels"] = loss + settings.labels * where, where.detach()
                if known.places is not None and place.maps:
                    shown = unlike(grounded, place.maps, known.places)
                    loss, losses["places"] = loss + settings.places * shown, shown.detach()
                    if settings.distance:
                        far = apart(grounded, place.points, known.places)
                        loss, losses["distance"] = loss + settings.distance * far, far.detach()
                    if settings.network.looks:
                        taken = unlike_looks(grounded, place.points, known.places)
                        loss, losses["looks"] = loss + settings.places * taken, taken.detach()
            (loss / settings.accumulated).backward()  # type: ignore[no-untyped-call]
            logged.append(losses)
        if self.averaged is not None:
            self.averaged.average([one.grad for one in self._parameters if one.grad is not None])
        for part in self._parts:
            nn.utils.clip_grad_norm_(part, 1.0)
        self._optimiser.step()
        return {name: torch.stack([one[name] for one in logged]).mean() for name in logged[0]}

    def state_dict(self) -> dict[str, Any]:
        """Return network, optimiser and random state."""
        state = {"actor": self.actor.state_dict(), "optimiser": self._optimiser.state_dict()}
        state["guess"] = {} if self._guess is None else self._guess.state_dict()
        return copy.deepcopy({**state, "random": self.generator.get_state()})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self.actor.load_state_dict(state["actor"])
        if self._guess is not None:
            self._guess.load_state_dict(state["guess"])
        self._optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["random"])


def with_strange(tokens: Tensor, share: float, generator: torch.Generator, loose: Tensor | None = None) -> Tensor:
    """Return tokens (batch, words) with up to :data:`_STRANGE` further words among some; the last may be dropped.

    Args:
        tokens: (batch, words).
        share: Share of the sentences that change.
        generator: Draws the changes.
        loose: (n,) tokens of which half of the added words are, and of which half become unknown; else all added words
            are unknown.
    """
    if not share:
        return tokens
    batch, words = tokens.shape
    length = (tokens > NO_WORD).sum(dim=1, keepdim=True)
    chosen = torch.rand((batch, 1), generator=generator) < share
    added = chosen & (torch.rand((batch, _STRANGE), generator=generator) < 0.5)
    at = torch.rand((batch, _STRANGE), generator=generator) * length - 0.5
    places = torch.arange(words).expand(batch, -1) + (words + 1.0) * (tokens == NO_WORD)
    order = torch.cat([places, torch.where(added, at, 3.0 * words)], dim=1).argsort(dim=1)[:, :words]
    further = torch.full((batch, _STRANGE), UNKNOWN, dtype=tokens.dtype)
    if loose is not None and len(loose):
        said = loose[torch.randint(len(loose), further.shape, generator=generator)].to(tokens.dtype)
        further = torch.where(torch.rand(further.shape, generator=generator) < 0.5, said, further)
        lost = chosen & torch.isin(tokens.long(), loose) & (torch.rand(tokens.shape, generator=generator) < 0.5)
        tokens = torch.where(lost, UNKNOWN, tokens)
    both = torch.cat([tokens, torch.where(added, further, NO_WORD)], dim=1)
    return both.gather(1, order)


def _tokens_of(loose: tuple[str, ...], words: tuple[str, ...]) -> Tensor:
    """Return the tokens (n,) of some words of a vocabulary; raise ``UserError`` naming one that is not in it."""
    for word in loose:
        if word not in words:
            raise UserError(
                f"algorithm_settings: loose: '{word}' is not allowed: no sentence of this task's training says it."
                f" Choose from {', '.join(words)}."
            )
    return torch.tensor([words.index(word) + 2 for word in loose], dtype=torch.long)


def augmented(images: Tensor, shift: int, brightness: float, generator: torch.Generator) -> Tensor:
    """Return images (batch, cameras, rows, columns, 3), 0 to 255, each shifted and with another brightness."""
    moved = shifted(images, shift, generator)
    if not brightness:
        return moved
    scale = 1.0 + brightness * (2.0 * torch.rand((len(images), images.shape[1], 1, 1, 1), generator=generator) - 1.0)
    return (moved * scale).clamp(0.0, 255.0)
