"""SmolVLA (arXiv 2506.01844) from LeRobot's checkpoints: a vision-language model, and an expert that acts by a flow.

What the vision-language model makes of images, sentence and state are keys and values of each of its layers. The expert
reads them in every step from noise to actions: half of its layers attend to them alone, others to its own tokens too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlstack.data.lerobot.processors import read_json
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
from rlstack.training.language.checkpoints.vision import Connector, Vision, VisionSizes
from rlstack.training.language.checkpoints.weights import Weights, fill
from rlstack.training.networks import Normalised

VLM, STATE = "model.vlm_with_expert.vlm.model.", "model.state_proj."
EXPERT = "model.vlm_with_expert.lm_expert."
UNUSED = ("model.vlm_with_expert.vlm.lm_head.", "normalize_inputs.", "normalize_targets.", "unnormalize_outputs.")
"""Tensors that no action depends on, and statistics where LeRobot kept them before it had processors."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the network, and how it is used."""

    vision: VisionSizes
    factor: int
    """Patches along a side of what becomes one token."""
    language: LanguageSizes
    vocabulary: int
    expert: LanguageSizes
    own_every: int
    """Every so many layers of the expert attend to its own tokens, too; 0: none."""
    state: int
    """Width that states are filled up to with zeros."""
    action: int
    """Width that actions are filled up to."""
    steps: int
    """From noise to actions."""
    chunk: int
    """Actions that it was trained to plan."""
    periods: tuple[float, float]
    """Shortest and longest period of how it is told the time."""


def read_sizes(config: Mapping[str, Any], model: Mapping[str, Any], where: str) -> Sizes:
    """Return the sizes by a checkpoint's ``config.json`` and that of its vision-language model.

    Raises:
        UserError: Something is missing, or is used in a way that is not known here.
    """
    for name, meant in (("adapt_to_pi_aloha", False), ("add_image_special_tokens", False), ("empty_cameras", 0)):
        if config.get(name, meant) != meant:
            raise UserError(f"{where}: {name}: {config[name]} is not read: a checkpoint without it is.")
    if config.get("attention_mode", "cross_attn") != "cross_attn" or config.get("prefix_length", -1) > 0:
        raise UserError(f"{where}: attention_mode must be cross_attn, and prefix_length -1.")
    try:
        seen, said = model["vision_config"], model["text_config"]
        width, heads = int(said["hidden_size"]), int(said["num_attention_heads"])
        layers = int(config["num_vlm_layers"])
        layers = layers if layers > 0 else int(said["num_hidden_layers"])
        size = int(said.get("head_dim") or width // heads)
        groups, epsilon = int(said["num_key_value_heads"]), float(said["rms_norm_eps"])
        language = LanguageSizes(width, int(said["intermediate_size"]), heads, groups, size, layers, epsilon)
        narrow = int(width * float(config["expert_width_multiplier"]))
        if int(config.get("num_expert_layers", -1)) not in (-1, 0, layers):
            raise UserError(f"{where}: num_expert_layers must be -1: an expert of as many layers as the model has.")
        expert = replace(language, width=narrow, dense=_dense(narrow))
        side = int(seen["image_size"])
        fitted = config.get("resize_imgs_with_padding")
        if fitted is None or {int(length) for length in fitted} != {side}:
            raise UserError(
                f"{where}: resize_imgs_with_padding {fitted} must be [{side}, {side}], as the model's images."
            )
        return Sizes(
            vision=VisionSizes(
                width=int(seen["hidden_size"]),
                dense=int(seen["intermediate_size"]),
                heads=int(seen["num_attention_heads"]),
                layers=int(seen["num_hidden_layers"]),
                side=side,
                patch=int(seen["patch_size"]),
                epsilon=float(seen.get("layer_norm_eps", 1e-6)),
            ),
            factor=int(model["scale_factor"]),
            language=language,
            vocabulary=int(said["vocab_size"]),
            expert=expert,
            own_every=max(0, int(config["self_attn_every_n_layers"])),
            state=int(config["max_state_dim"]),
            action=int(config["max_action_dim"]),
            steps=int(config["num_steps"]),
            chunk=int(config["chunk_size"]),
            periods=(float(config["min_period"]), float(config["max_period"])),
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise UserError(
            f"{where} does not say {error} as SmolVLA's config.json does ({type(error).__name__})."
        ) from error


def _dense(width: int) -> int:
    """Return the width of the expert's dense layers: 8/3 of its tokens', in steps of 256."""
    return 256 * -(-int(4 * int(2 * width / 3)) // 256)


class SmolVLANetwork(Normalised):
    """The vision-language model: from what the robot sees, was told and feels to keys and values of each layer.

    Args:
        sizes: Sizes.
        state: Columns of the robot's state.
        images: Cameras, rows, columns, 3.
        pieces: The model's tokens of the words.
    """

    def __init__(self, sizes: Sizes, state: int, images: tuple[int, int, int, int], pieces: Pieces) -> None:
        super().__init__(state)
        self.sizes, self.cameras = sizes, images[0]
        self._filled = sizes.state - state
        with torch.device("meta"):
            self.eyes = Vision(sizes.vision)
            self.connector = Connector(sizes.vision.width, sizes.factor, sizes.language.width)
            self.language = Language(sizes.vocabulary, sizes.language)
            self.state_proj = nn.Linear(sizes.state, sizes.language.width)
        self.fitted = Fitted(images[1], images[2], sizes.vision.side)
        self.reader = Reader(pieces)

    @property
    def held(self) -> int:
        """Width of a layer's keys, and of its values."""
        return self.sizes.language.groups * self.sizes.language.head

    def parts(self) -> dict[str, nn.Module]:
        """Return what has tensors in a checkpoint, by the prefix of their names."""
        seen = {f"{VLM}vision_model.": self.eyes, f"{VLM}connector.": self.connector}
        return {**seen, f"{VLM}text_model.": self.language, STATE: self.state_proj}

    def forward(self, state: Tensor, tokens: Tensor, images: Tensor) -> Tensor:
        """Return (batch, tokens, 1 + 2 keys' width for each layer): whether there is a token, its keys, its values.

        Args:
            state: (batch, columns).
            tokens: (batch, words) of the graph's own tokeniser, whole numbers.
            images: (batch, cameras, rows, columns, 3), 0 to 255.
        """
        width = self.sizes.language.width
        seen = [self._see(images[:, camera].float()) for camera in range(self.cameras)]
        ids, there = self.reader(tokens)
        said = self.language.embed_tokens(ids)
        felt = functional.pad(self.normalised(state), (0, self._filled))
        now: Tensor = torch.cat([*seen, said * math.sqrt(width), self.state_proj(felt)[:, None]], dim=1)
        sighted = torch.ones_like(now[:, : sum(part.shape[1] for part in seen), 0])
        there = torch.cat([sighted, there, torch.ones_like(there[:, :1])], dim=1)
        places = torch.cumsum(there, dim=1) - 1.0
        # all attend to images and words, and the state alone to itself
        last = torch.zeros_like(there[:1])
        last[:, -1] = 1.0
        hidden = torch.maximum((1.0 - there)[:, None], last[:, None] * (1.0 - last)[:, :, None])
        kept = [there[:, :, None]]
        for layer in self.language.each():
            keys, values = layer.holds(now, places)
            kept += [part.transpose(1, 2).flatten(start_dim=2) for part in (keys, values)]
            now = layer.after(now, attended(layer.asks(now, places), keys, values, hidden))
        return torch.cat(kept, dim=-1)

    def _see(self, image: Tensor) -> Tensor:
        """Return an image's tokens (batch, tokens, width)."""
        patches = self.eyes(self.fitted(image) * 2.0 - 1.0)
        found: Tensor = self.connector(patches) * math.sqrt(self.sizes.language.width)
        return found


class SmolVLAHead(ExpertHead):
    """The expert: a velocity from noise to actions.

    Args:
        sizes: Sizes.
        axes: Action axes; those that they are filled up to follow the flow, but are no actions.
        chunk: Planned steps; the expert's are causal, so that fewer than it was trained for are its first ones.
    """

    def __init__(self, sizes: Sizes, axes: int, chunk: int) -> None:
        super().__init__(axes, chunk, 0, sizes.expert.width, sizes.action, sizes.steps, sizes.periods)
        self.sizes = sizes
        cross = replace(sizes.expert, attended=sizes.language.groups * sizes.language.head)
        with torch.device("meta"):
            self.expert = Layers([sizes.expert if self._own(k) else cross for k in range(sizes.expert.layers)])

    def parts(self) -> dict[str, nn.Module]:
        """Return what has tensors in a checkpoint, by the prefix of their names."""
        return {EXPERT: self.expert, **self.action_parts()}

    def _own(self, layer: int) -> bool:
        """Return whether a layer of the expert attends to its own tokens, too."""
        return bool(self.sizes.own_every) and layer % self.sizes.own_every == 0

    def velocity_at(self, features: Tensor, now: Tensor, time: Tensor) -> Tensor:
        """Return the velocity where the flow is ``now``; the expert's own time runs from actions to noise."""
        there, *kept = features.split([1, *[self._memory] * (2 * self.sizes.expert.layers)], dim=-1)
        steps = torch.arange(self.chunk, dtype=torch.float32)
        places = there.sum(dim=1) + steps
        hidden = (1.0 - there).transpose(1, 2)  # (batch, 1, tokens)
        later = (steps > steps[:, None]).float()[None]
        both = torch.cat([hidden.repeat(1, self.chunk, 1), later + torch.zeros_like(hidden[:, :, :1])], dim=2)
        tokens: Tensor = self.begun(now, 1.0 - time)
        for k, layer in enumerate(self.expert.each()):
            keys, values = kept[2 * k], kept[2 * k + 1]
            if self._own(k):
                own_keys, own_values = layer.holds(tokens, places)
                keys = torch.cat([self._heads(keys), own_keys], dim=2)
                values = torch.cat([self._heads(values), own_values], dim=2)
                found = attended(layer.asks(tokens, places), keys, values, both)
            else:
                keys, values = layer.self_attn.k_proj(keys), layer.self_attn.v_proj(values)
                asked = layer.asks(tokens, steps[None])
                found = attended(asked, self._heads(keys), self._heads(values), hidden)
            tokens = layer.after(tokens, found)
        towards_noise: Tensor = self.own["action_out_proj"](self.expert.norm(tokens).float())
        return -towards_noise

    @property
    def _memory(self) -> int:
        return self.sizes.language.groups * self.sizes.language.head

    def _heads(self, flat: Tensor) -> Tensor:
        return split(flat, self.sizes.expert.groups)


def load_smolvla(
    folder: Path,
    config: Mapping[str, Any],
    words: tuple[str, ...],
    robot: tuple[int, tuple[int, int, int, int], int],
    chunk: int,
) -> tuple[SmolVLANetwork, SmolVLAHead]:
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
    model_folder = model_of(folder, str(config.get("vlm_model_name", "")), "config.json")
    sizes = read_sizes(config, read_json(model_folder, "config.json", {}), str(folder / "config.json"))
    state, images, axes = robot
    check_room(folder, (chunk, sizes.chunk), (state, sizes.state), (axes, sizes.action))
    pieces, _ = read_pieces(model_folder, words, end="\n")
    network, head = SmolVLANetwork(sizes, state, images, pieces), SmolVLAHead(sizes, axes, chunk)
    fill({**network.parts(), **head.parts()}, Weights(folder), unused=UNUSED)
    return network, head
