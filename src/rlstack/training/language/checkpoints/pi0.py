"""pi0 (arXiv 2410.24164) from LeRobot's checkpoints: PaliGemma, and an expert that acts by a flow.

Both have as many layers, and in each the expert's tokens attend to PaliGemma's keys and values as to their own. Images
and words attend to each other, the robot's state to these too, and the planned actions to all and to each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlstack.errors import UserError
from rlstack.training.language.checkpoints.expert import ExpertHead, check_room
from rlstack.training.language.checkpoints.pieces import Pieces, Reader, model_of, read_pieces
from rlstack.training.language.checkpoints.transformer import (
    Fitted,
    Language,
    LanguageSizes,
    Layers,
    attended,
    split,
)
from rlstack.training.language.checkpoints.vision import Vision, VisionSizes
from rlstack.training.language.checkpoints.weights import Weights, fill
from rlstack.training.networks import Normalised

_BOTH = "model.paligemma_with_expert."
EYES, PROJECTOR = f"{_BOTH}paligemma.model.vision_tower.vision_model.", f"{_BOTH}paligemma.model.multi_modal_projector."
LANGUAGE, EXPERT = f"{_BOTH}paligemma.model.language_model.", f"{_BOTH}gemma_expert.model."
STATE = "model.state_proj."
_WORDS, _ANSWERS = f"{LANGUAGE}embed_tokens.weight", f"{_BOTH}paligemma.lm_head.weight"
"""The same tensor, of which a file may hold either."""
UNUSED = (_ANSWERS, f"{_BOTH}gemma_expert.lm_head.")
"""Tensors that no action depends on."""
_TOKENISER = "google/paligemma-3b-pt-224"
_HEADS, _EYES_HEADS, _EPSILON = 8, 16, 1e-6
"""Of all variants of Gemma that pi0 has, and of SigLIP so400m."""
_VARIANTS = ("gemma_2b", "gemma_300m")


class _Held(Weights):
    """A checkpoint's tensors by the names that LeRobot writes now; some lack its prefix, or hold words by answers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        held = super().shapes()
        self._at = {name if name.startswith("model.") else f"model.{name}": name for name in held}
        if _ANSWERS in self._at:
            self._at.setdefault(_WORDS, self._at[_ANSWERS])

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each tensor."""
        held = super().shapes()
        return {name: held[at] for name, at in self._at.items()}

    def tensor(self, name: str) -> Tensor:
        """Return a tensor as it is in its file."""
        return super().tensor(self._at[name])


@dataclass(frozen=True)
class Sizes:
    """Sizes of the network, and how it is used."""

    vision: VisionSizes
    language: LanguageSizes
    vocabulary: int
    expert: LanguageSizes
    state: int
    """Width that states are filled up to with zeros."""
    action: int
    """Width that actions are filled up to."""
    steps: int
    """From noise to actions."""
    chunk: int
    """Actions that it plans."""
    periods: tuple[float, float]
    """Shortest and longest period of how it is told the time."""


def read_sizes(config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], where: str) -> Sizes:
    """Return the sizes by a checkpoint's ``config.json``, which names variants, and by its tensors' shapes.

    Raises:
        UserError: Something is missing, or is used in a way that is not known here.
    """
    for name, meant in (("use_relative_actions", False), ("empty_cameras", 0)):
        if config.get(name, meant) != meant:
            raise UserError(f"{where}: {name}: {config[name]} is not read: a checkpoint without it is.")
    for name in ("paligemma_variant", "action_expert_variant"):
        if config.get(name) not in _VARIANTS:
            raise UserError(f"{where}: {name} {config.get(name)} must be one of {', '.join(_VARIANTS)}.")
    try:
        places, width = shapes[f"{EYES}embeddings.position_embedding.weight"]
        patch = shapes[f"{EYES}embeddings.patch_embedding.weight"][-1]
        vision = VisionSizes(
            width=width,
            dense=shapes[f"{EYES}encoder.layers.0.mlp.fc1.weight"][0],
            heads=_EYES_HEADS,
            layers=_layers(shapes, EYES, "layer_norm1.weight"),
            side=math.isqrt(places) * patch,
            patch=patch,
            epsilon=_EPSILON,
        )
        if (fitted := [int(one) for one in config["image_resolution"]]) != [vision.side, vision.side]:
            raise UserError(
                f"{where}: image_resolution {fitted} must be [{vision.side}, {vision.side}], as the model's."
            )
        language, expert = _language(shapes, LANGUAGE), _language(shapes, EXPERT)
        alike = [(one.layers, one.groups, one.head) for one in (language, expert)]
        if alike[0] != alike[1]:
            raise UserError(f"{where}: language model and expert must have as many layers, keys and values.")
        return Sizes(
            vision=vision,
            language=language,
            vocabulary=shapes[_WORDS][0],
            expert=expert,
            state=int(config["max_state_dim"]),
            action=int(config["max_action_dim"]),
            steps=int(config["num_inference_steps"]),
            chunk=int(config["chunk_size"]),
            periods=(float(config["min_period"]), float(config["max_period"])),
        )
    except KeyError as error:
        lacks = "the tensor" if str(error.args[0]).startswith("model.") else "in config.json"
        raise UserError(f"{Path(where).parent} lacks {lacks} '{error.args[0]}'.") from error
    except (TypeError, ValueError, IndexError) as error:
        raise UserError(f"{where} does not say {error} as pi0's config.json does ({type(error).__name__}).") from error


def _language(shapes: Mapping[str, tuple[int, ...]], prefix: str) -> LanguageSizes:
    asked, width = shapes[f"{prefix}layers.0.self_attn.q_proj.weight"]
    head = asked // _HEADS
    return LanguageSizes(
        width=width,
        dense=shapes[f"{prefix}layers.0.mlp.gate_proj.weight"][0],
        heads=_HEADS,
        groups=shapes[f"{prefix}layers.0.self_attn.k_proj.weight"][0] // head,
        head=head,
        layers=_layers(shapes, prefix, "input_layernorm.weight"),
        epsilon=_EPSILON,
        gemma=True,
    )


def _layers(shapes: Mapping[str, tuple[int, ...]], prefix: str, last: str) -> int:
    return sum(name.startswith(prefix) and name.endswith(f".{last}") for name in shapes)


class Pi0Network(Normalised):
    """From what the robot sees, was told and feels to keys and values of each layer.

    Args:
        sizes: Sizes.
        state: Columns of the robot's state.
        images: Cameras, rows, columns, 3.
        pieces: The model's tokens of the words.
        expert: The head's, which also reads the robot's state.
    """

    def __init__(
        self, sizes: Sizes, state: int, images: tuple[int, int, int, int], pieces: Pieces, expert: Layers
    ) -> None:
        super().__init__(state)
        self.sizes, self.cameras = sizes, images[0]
        self._filled = sizes.state - state
        self._expert = (expert,)  # a tuple: its tensors are the head's
        with torch.device("meta"):
            self.eyes = Vision(sizes.vision)
            self.projector = nn.ModuleDict({"linear": nn.Linear(sizes.vision.width, sizes.language.width)})
            self.language = Language(sizes.vocabulary, sizes.language)
            self.state_proj = nn.Linear(sizes.state, sizes.expert.width)
        self.fitted = Fitted(images[1], images[2], sizes.vision.side, centred=True)
        self.reader = Reader(pieces)

    @property
    def held(self) -> int:
        """Width of a layer's keys, and of its values."""
        return self.sizes.language.groups * self.sizes.language.head

    def parts(self) -> dict[str, nn.Module]:
        """Return what has tensors in a checkpoint, by the prefix of their names."""
        seen = {EYES: self.eyes, PROJECTOR: self.projector}
        return {**seen, LANGUAGE: self.language, STATE: self.state_proj}

    def forward(self, state: Tensor, tokens: Tensor, images: Tensor) -> Tensor:
        """Return (batch, tokens, 1 + 2 keys' width for each layer): whether there is a token, its keys, its values.

        The last token is the robot's state.

        Args:
            state: (batch, columns).
            tokens: (batch, words) of the graph's own tokeniser, whole numbers.
            images: (batch, cameras, rows, columns, 3), 0 to 255.
        """
        seen = [self._see(images[:, camera].float()) for camera in range(self.cameras)]
        ids, said = self.reader(tokens)
        read = self.language.embed_tokens(ids) * math.sqrt(self.sizes.language.width)
        now: Tensor = torch.cat([*seen, read], dim=1)
        there = torch.cat([torch.ones_like(now[:, : sum(part.shape[1] for part in seen), 0]), said], dim=1)
        felt: Tensor = self.state_proj(functional.pad(self.normalised(state), (0, self._filled)))[:, None]
        places, place = torch.cumsum(there, dim=1) - 1.0, there.sum(dim=1, keepdim=True)
        every = torch.cat([there, torch.ones_like(place)], dim=1)
        hidden, unseen, kept = (1.0 - there)[:, None], (1.0 - every)[:, None], [every[:, :, None]]
        for layer, acting in zip(self.language.each(), self._expert[0].each()):
            keys, values = layer.holds(now, places)
            every_key, every_value = (torch.cat(two, dim=2) for two in zip((keys, values), acting.holds(felt, place)))
            kept += [part.transpose(1, 2).flatten(start_dim=2) for part in (every_key, every_value)]
            now = layer.after(now, attended(layer.asks(now, places), keys, values, hidden))
            felt = acting.after(felt, attended(acting.asks(felt, place), every_key, every_value, unseen))
        return torch.cat(kept, dim=-1)

    def _see(self, image: Tensor) -> Tensor:
        """Return an image's tokens (batch, tokens, width)."""
        found: Tensor = self.projector["linear"](self.eyes(self.fitted(image) * 2.0 - 1.0))
        return found


class Pi0Head(ExpertHead):
    """The expert: a velocity from noise to actions.

    Args:
        sizes: Sizes.
        axes: Action axes; those that they are filled up to follow the flow, but are no actions.
        chunk: Planned steps. All that the expert was trained for attend to each other, and the first ones are returned.
    """

    def __init__(self, sizes: Sizes, axes: int, chunk: int) -> None:
        further = sizes.chunk - chunk
        super().__init__(axes, chunk, further, sizes.expert.width, sizes.action, sizes.steps, sizes.periods)
        self.sizes = sizes
        with torch.device("meta"):
            self.expert = Layers([sizes.expert] * sizes.expert.layers)

    def parts(self) -> dict[str, nn.Module]:
        """Return what has tensors in a checkpoint, by the prefix of their names."""
        return {EXPERT: self.expert, **self.action_parts()}

    def velocity_at(self, features: Tensor, now: Tensor, time: Tensor) -> Tensor:
        """Return the velocity where the flow is ``now``; the expert's own time runs from actions to noise."""
        sizes = self.sizes.expert
        there, *kept = features.split([1, *[sizes.groups * sizes.head] * (2 * sizes.layers)], dim=-1)
        places = there.sum(dim=1) + torch.arange(self.sizes.chunk, dtype=torch.float32)
        own = torch.zeros_like(there[:, :1]).repeat(1, self.sizes.chunk, 1)
        hidden = torch.cat([1.0 - there, own], dim=1).transpose(1, 2)  # (batch, 1, tokens)
        tokens: Tensor = self.begun(now, 1.0 - time)
        for k, layer in enumerate(self.expert.each()):
            held = (split(one, sizes.groups) for one in kept[2 * k : 2 * k + 2])
            keys, values = (torch.cat(pair, dim=2) for pair in zip(held, layer.holds(tokens, places)))
            tokens = layer.after(tokens, attended(layer.asks(tokens, places), keys, values, hidden))
        towards_noise: Tensor = self.own["action_out_proj"](self.expert.norm(tokens).float())
        return -towards_noise


def load_pi0(
    folder: Path,
    config: Mapping[str, Any],
    words: tuple[str, ...],
    robot: tuple[int, tuple[int, int, int, int], int],
    chunk: int,
) -> tuple[Pi0Network, Pi0Head]:
    """Return network and head with a checkpoint's weights.

    Args:
        folder: The checkpoint's.
        config: Its ``config.json``.
        words: Vocabulary.
        robot: Columns of the state, shape of the images, action axes.
        chunk: Planned steps.

    Raises:
        UserError: The checkpoint is not whole, or does not fit the robot or the chunk.
    """
    weights = _Held(folder)
    sizes = read_sizes(config, weights.shapes(), str(folder / "config.json"))
    state, images, axes = robot
    check_room(folder, (chunk, sizes.chunk), (state, sizes.state), (axes, sizes.action))
    pieces, _ = read_pieces(model_of(folder, _TOKENISER), words, end="\n")
    head = Pi0Head(sizes, axes, chunk)
    network = Pi0Network(sizes, state, images, pieces, head.expert)
    fill({**network.parts(), **head.parts()}, weights, unused=UNUSED)
    return network, head
