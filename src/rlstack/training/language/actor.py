"""The policy in a file: from instruction, images and proprioception to chunks of actions, which are its memory."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.tasks.core.camera_observations import CameraImages, Instruction
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.training.algorithm import PlanningActor
from rlstack.training.language.checkpoints.expert import ExpertHead
from rlstack.training.language.checkpoints.opening import CheckpointNetwork, CheckpointSettings, Fit, open_checkpoint
from rlstack.training.language.checkpoints.trained import frozen
from rlstack.training.language.flow import Flow
from rlstack.training.language.head import Head
from rlstack.training.language.heads import HeadName, make_head
from rlstack.training.language.meanings import meanings
from rlstack.training.language.network import Network, Placed
from rlstack.training.language.network_settings import INSTRUCTION, NetworkSettings
from rlstack.training.language.tokeniser import Tokeniser
from rlstack.training.networks import Normalised, multiplies_halves

Precision = Literal["float32", "bfloat16"]


@contextmanager
def reduced(precision: Precision) -> Iterator[None]:
    """Run convolutions and products in a precision: in float32 on a processor without bfloat16, which is slow there."""
    half = precision == "bfloat16" and multiplies_halves(torch.device("cpu"))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
        yield


class Seen(NamedTuple):
    """What the network gets of a batch of observations."""

    state: Tensor
    """(batch, columns) proprioception."""
    tokens: Tensor
    """(batch, words) of the tokeniser, whole numbers."""
    images: Tensor
    """(batch, cameras, rows, columns, 3), 0 to 255; uint8 where stored. Or what :meth:`.Network.sight` returned."""

    def take(self, index: Tensor) -> Seen:
        """Return those at ``index``."""
        return Seen(*(part[index] for part in self))


@dataclass(frozen=True)
class Layout:
    """Parts of an observation: proprioception, then the instruction's bytes, then images.

    Args:
        state: Columns of proprioception.
        images: Cameras, rows, columns, 3.
        length: Bytes of the instruction.
        terms: Name, first column and number of columns of each observation of proprioception, where they have names.
    """

    state: int
    images: tuple[int, int, int, int]
    length: int
    terms: tuple[tuple[str, int, int], ...] = ()

    def split(self, observation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return proprioception (batch, columns), bytes (batch, length), images (batch, cameras, rows, columns, 3)."""
        end = self.state + self.length
        images = observation[:, end:].reshape(-1, *self.images)
        return observation[:, : self.state], observation[:, self.state : end], images

    def columns(self, names: Sequence[str]) -> list[int]:
        """Return the columns of some observations of proprioception; raise ``UserError`` naming one that is unknown."""
        known = {name: range(start, start + size) for name, start, size in self.terms}
        for name in names:
            if name not in known:
                raise UserError(
                    f"algorithm_settings: network: acts_without: '{name}' is not allowed: choose from"
                    f" {', '.join([*known, INSTRUCTION])}."
                )
        return [column for name in names for column in known[name]]


def layout_of(pipeline: Pipeline, algorithm: str) -> Layout:
    """Return the parts of a task's observation.

    Raises:
        UserError: It does not end with an instruction and images.
    """
    rows, kinds = pipeline.table(), list(pipeline.terms)
    if len(rows) < 3 or not isinstance(kinds[-1], CameraImages) or not isinstance(kinds[-2], Instruction):
        raise UserError(
            f"algorithm: {algorithm} is not allowed: this task's observation does not end with an instruction and"
            " images. Choose a task with sentences, such as table_push."
        )
    terms = tuple((row.name, row.start, row.size) for row in rows[:-2])
    return Layout(rows[-2].start, kinds[-1].shape, rows[-2].size, terms)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class PolicySettings:
    """The policy's network, head and chunk."""

    checkpoint: CheckpointSettings = CheckpointSettings()
    """A published network instead of ``network`` and ``head``."""
    network: NetworkSettings = NetworkSettings()
    head: HeadName = "tokens"
    """How actions come from the network: bins of each axis, a flow from noise, or directly."""
    bins: int = value(33, at_least=3)
    """Bins of each action axis of the head ``tokens``."""
    chunk: int = value(4, at_least=1)
    """Actions planned, and executed before the next plan."""
    precision: Precision = "float32"
    """Of convolutions and matrix products in training; bfloat16 is twice as fast on processors that have it, such as
    those with AVX-512 BF16, and is float32 on others."""


class LanguageActor(PlanningActor):
    """A network with a head, and the rest of its last chunk as memory.

    Args:
        layout: Parts of the observation.
        words: Vocabulary.
        actions: Action axes.
        settings: Network, head and chunk.

    Raises:
        UserError: A checkpoint is not whole, or does not fit; word vectors are not installed.
    """

    def __init__(self, layout: Layout, words: tuple[str, ...], actions: int, settings: PolicySettings) -> None:
        super().__init__(settings.chunk, actions)
        self.layout, self.settings = layout, settings
        self.meanings = meanings(words, settings.network.vectors)
        """Other words, and those of the vocabulary that they are taken for."""
        self.tokeniser = Tokeniser(words, settings.network.words, layout.length, self.meanings)
        self.fixed_eyes = False
        """Whether what is seen no longer changes; see :meth:`fix_eyes`."""
        self._left_out: set[str] = set()
        """Tensors that are not trained, and stay in the checkpoint's folder."""
        self.network: Network | CheckpointNetwork
        self.head: Head
        if settings.checkpoint.folder:
            fit = Fit(words, layout.state, layout.images, actions, settings.chunk)
            self.network, self.head = open_checkpoint(settings.checkpoint, fit)
            self._left_out = {name for name, _ in frozen(self)}
        else:
            without = layout.columns([one for one in settings.network.acts_without if one != INSTRUCTION])
            self.network = Network(
                layout.state, layout.images, self.tokeniser.size, settings.chunk, settings.network, without
            )
            self.head = make_head(settings.head, settings.network.width, actions, settings.bins)
        if isinstance(self.head, Flow):
            further, axes = self.head.beyond
            self.noise = (settings.chunk + further, actions + axes)

    @property
    def grounded(self) -> Network | None:
        """The network, if it tells where the things are that words name."""
        return self.network if isinstance(self.network, Network) else None

    def fix_eyes(self) -> None:
        """Keep what is seen in images from changing; it is then computed once. Not for a checkpoint's network."""
        if isinstance(self.network, Network):
            self.fixed_eyes = True
            for one in self.network.eyesight():
                one.requires_grad_(False)

    def trained(self) -> list[nn.Parameter]:
        """Return the parameters that learn."""
        return [one for one in self.parameters() if one.requires_grad]

    def normalise_by(self, state: Tensor, images: Tensor, actions: Tensor) -> None:
        """Set the normalisation to that of demonstrations, unless it is to be a checkpoint's.

        Args:
            state: (samples, columns).
            images: (samples, cameras, rows, columns, 3).
            actions: (samples, axes).
        """
        if isinstance(self.network, Network):
            self.network.normalise_by(state)
            self.network.standardise_by(images)
        elif self.settings.checkpoint.statistics == "demonstrations" and isinstance(self.head, ExpertHead):
            assert isinstance(self.network, Normalised)
            self.network.normalise_by(state)
            self.head.normalise_by(actions)

    def copied(self) -> LanguageActor:
        """Return a copy that shares what of a checkpoint is not trained."""
        return copy.deepcopy(self, {id(tensor): tensor for tensor in self._frozen().values()})

    def for_file(self) -> LanguageActor:
        """Return a copy that learns no more and whose graph begins with the images, as a file's does."""
        one = self.copied().eval().requires_grad_(False)
        one.fixed_eyes = False
        return one

    def state_dict(self, *arguments: Any, **options: Any) -> dict[str, Any]:  # type: ignore[override]
        """Return all tensors but those of a checkpoint that are not trained, which stay in its folder."""
        return {n: t for n, t in super().state_dict(*arguments, **options).items() if n not in self._left_out}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Restore what :meth:`state_dict` returned."""
        return super().load_state_dict({**self._frozen(), **state_dict}, strict, assign)

    def _frozen(self) -> dict[str, Tensor]:
        held = {**dict(self.named_parameters()), **dict(self.named_buffers())} if self._left_out else {}
        return {name: held[name] for name in self._left_out}

    def seen(self, observation: Tensor) -> Seen:
        """Return what the network gets of observations (batch, columns)."""
        state, text, images = self.layout.split(observation)
        return self.sighted(Seen(state, self.tokeniser(text), images))

    def sighted(self, seen: Seen) -> Seen:
        """Return the same with what is seen in place of the images, if the eyes are fixed."""
        if not self.fixed_eyes or not isinstance(self.network, Network):
            return seen
        with torch.no_grad():
            return seen._replace(images=self.network.sight(seen.tokens, seen.images))

    def features(self, seen: Seen) -> Tensor:
        """Return features (batch, chunk, width), float32 whatever the precision of the network."""
        return self.placed(seen)[0]

    def placed(self, seen: Seen) -> tuple[Tensor, Placed | None]:
        """Return what :meth:`features` does, and where things are, if the network tells that."""
        place: Placed | None = None
        with reduced(self.settings.precision if self.training else "float32"):
            if isinstance(self.network, Network):
                features, place = self.network.both(*seen)
            else:
                features = self.network(*seen)
        return features.float(), place

    def plan(self, observation: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return deterministic chunks (batch, chunk, actions); see :meth:`.PlanningActor.plan`."""
        return self.planned(self.seen(observation), noise)

    def planned(self, seen: Seen, noise: Tensor | None = None) -> Tensor:
        """Return what :meth:`plan` does, of what the network gets."""
        features = self.features(seen)
        planned: Tensor = self.head(features) if noise is None else self.head(features, noise)
        return planned
