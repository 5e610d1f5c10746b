"""OpenVLA (arXiv 2406.09246) from its checkpoints: a language model that answers with action tokens.

It sees one image, by two vision transformers, and reads a question with the instruction; it does not feel the robot's
state. The last 256 tokens of its vocabulary are bins of the action axes, and it says one for each axis after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlstack.errors import UserError
from rlstack.training.language.checkpoints.pieces import Pieces, Reader, read_pieces
from rlstack.training.language.checkpoints.timm_vision import TimmVision
from rlstack.training.language.checkpoints.transformer import Language, LanguageSizes, attended, resizing, split
from rlstack.training.language.checkpoints.weights import Weights, fill
from rlstack.training.language.head import Head

EYES, FUSED = "vision_backbone.featurizer.", "vision_backbone.fused_featurizer."
LANGUAGE = "language_model.model."
BINS = 255
"""Between 256 edges from -1 to 1."""

_QUESTION, _END = "In: What action should the robot take to ", "?\nOut:"
_ANSWER = "▁"
"""Token that the answer begins after."""


class _Projector(nn.Module):
    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = (
            nn.Linear(into, out) for out, into in (shapes[f"projector.{name}.weight"] for name in ("fc1", "fc2", "fc3"))
        )

    def forward(self, patches: Tensor) -> Tensor:
        found: Tensor = self.fc3(functional.gelu(self.fc2(functional.gelu(self.fc1(patches)))))
        return found


class OpenVLANetwork(nn.Module):
    """What the language model holds before it answers: keys and values of each layer.

    Args:
        shapes: Of the checkpoint's tensors.
        sizes: Of the language model.
        images: 1 camera, rows, columns, 3.
        pieces: The model's tokens of the words.
        colours: Means and deviations of the pixels for each vision transformer, (2, 3) each, 0 to 1.
    """

    colours: Tensor

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        sizes: LanguageSizes,
        images: tuple[int, int, int, int],
        pieces: Pieces,
        colours: Tensor,
    ) -> None:
        super().__init__()
        self.sizes = sizes
        with torch.device("meta"):
            self.eyes, self.fused = (TimmVision(_within(shapes, prefix)) for prefix in (EYES, FUSED))
            self.projector = _Projector(shapes)
            self.language = Language(shapes[f"{LANGUAGE}embed_tokens.weight"][0], sizes)
        self.register_buffer("rows", resizing(images[1], self.eyes.side, "bicubic"), persistent=False)
        self.register_buffer("columns", resizing(images[2], self.eyes.side, "bicubic"), persistent=False)
        self.register_buffer("colours", colours[..., None, None], persistent=False)
        self.reader = Reader(pieces)

    rows: Tensor
    columns: Tensor

    def forward(self, state: Tensor, tokens: Tensor, images: Tensor) -> Tensor:
        """Return (batch, tokens, 1 + 2 keys' width for each layer): whether there is a token, its keys, its values.

        Args:
            state: (batch, columns), which is not used.
            tokens: (batch, words) of the graph's own tokeniser, whole numbers.
            images: (batch, 1, rows, columns, 3), 0 to 255.
        """
        pixels = self.rows @ (images[:, 0].float().permute(0, 3, 1, 2) * (1.0 / 255.0)) @ self.columns.T
        scaled = [(pixels - mean) / std for mean, std in zip(*self.colours)]
        seen = self.projector(torch.cat([self.eyes(scaled[0]), self.fused(scaled[1])], dim=-1))
        ids, there = self.reader(tokens)
        said = self.language.embed_tokens(ids)
        # the image is between the token that every text begins with and the question
        now = torch.cat([said[:, :1], seen, said[:, 1:]], dim=1)
        there = torch.cat([there[:, :1], torch.ones_like(seen[:, :, 0]), there[:, 1:]], dim=1)
        places = torch.cumsum(there, dim=1) - 1.0
        order = torch.arange(there.shape[1])
        later = (order > order[:, None]).float()
        hidden = torch.maximum((1.0 - there)[:, None], later)
        kept = [there[:, :, None]]
        for layer in self.language.each():
            keys, values = layer.holds(now, places)
            kept += [part.transpose(1, 2).flatten(start_dim=2) for part in (keys, values)]
            now = layer.after(now, attended(layer.asks(now, places), keys, values, hidden))
        return torch.cat(kept, dim=-1)


class OpenVLAHead(Head):
    """The language model's answer: a bin for each axis of each step, one after the other.

    Args:
        language: The language model, which is a part of the network.
        vocabulary: Tokens before those that fill it up.
        padded: All tokens.
        answer: Token that the answer begins after.
        axes: Action axes.
        chunk: Planned steps.
    """

    low: Tensor
    high: Tensor

    def __init__(self, language: Language, vocabulary: int, padded: int, answer: int, axes: int, chunk: int) -> None:
        super().__init__()
        self.axes, self.chunk, self._vocabulary, self._answer = axes, chunk, vocabulary, answer
        self._language = (language,)  # a tuple: its tensors are the network's
        self._layers, self._sizes = len(language.layers), next(language.each()).sizes
        with torch.device("meta"):
            self.lm_head = nn.Linear(self._sizes.width, padded, bias=False)
        self.register_buffer("low", torch.full((axes,), -1.0))
        self.register_buffer("high", torch.ones(axes))

    def loss(self, features: Tensor, actions: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the cross-entropy (batch, steps) of the bins that actions are in."""
        scaled = 2.0 * (actions - self.low) / (self.high - self.low) - 1.0
        choice = ((scaled + 1.0) * (0.5 * BINS)).floor().clamp(0.0, BINS - 1.0).long()
        return -self.distribution(features, choice).gather(-1, choice[..., None])[..., 0].sum(dim=-1)

    def forward(self, features: Tensor) -> Tensor:
        """Return the centres (batch, steps, axes) of the likeliest bins, each given those before."""
        return self._actions(self._said(features, lambda logits: logits.argmax(dim=-1)))

    def sample(
        self, features: Tensor, temperature: float, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return sampled actions (batch, steps, axes) and their bins."""

        def drawn(logits: Tensor) -> Tensor:
            return torch.multinomial(torch.softmax(logits / temperature, dim=-1), 1, generator=generator)[:, 0]

        choice = self._said(features, drawn)
        return self._actions(choice), choice

    def log_prob(self, features: Tensor, choice: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """Return the log-probability and the entropy, both (batch, steps, axes)."""
        found = self._log(features, choice, temperature)
        return found.gather(-1, choice[..., None])[..., 0], -(found.exp() * found).sum(dim=-1)

    def divergence(self, features: Tensor, reference: Tensor, choice: Tensor) -> Tensor:
        """Return the KL divergence (batch, steps, axes) from the reference's log-probabilities."""
        found = self._log(features, choice)
        return (found.exp() * (found - reference)).sum(dim=-1)

    def distribution(self, features: Tensor, choice: Tensor) -> Tensor:
        """Return the log-probabilities (batch, steps, axes, bins), each given the bins before."""
        return self._log(features, choice)

    def _log(self, features: Tensor, choice: Tensor, temperature: float = 1.0) -> Tensor:
        """Read a whole answer at once."""
        spoken = choice.flatten(start_dim=1)
        begin = torch.full_like(spoken[:, :1], self._answer)
        ids = torch.cat([begin, self._vocabulary - 1 - spoken[:, :-1]], dim=1)
        there, memory = self._held(features)
        count = self.chunk * self.axes
        order = torch.arange(count)
        later = (order > order[:, None]).float()[None] + torch.zeros_like(there[:, :1, None])
        hidden = torch.cat([(1.0 - there)[:, None].repeat(1, count, 1), later], dim=2)
        logits, _ = self._read(ids, there.sum(dim=1, keepdim=True) + order, memory, hidden)
        found = torch.log_softmax(logits / temperature, dim=-1)
        return found.reshape(-1, self.chunk, self.axes, BINS)

    def _said(self, features: Tensor, choose: Any) -> Tensor:
        """Return the bins (batch, steps, axes) of an answer, chosen one after the other."""
        there, memory = self._held(features)
        place = there.sum(dim=1, keepdim=True)
        ids = torch.full_like(place, self._answer).long()
        hidden, chosen = (1.0 - there)[:, None], list[Tensor]()
        for k in range(self.chunk * self.axes):
            hidden = torch.cat([hidden, torch.zeros_like(hidden[:, :, :1])], dim=2)
            logits, memory = self._read(ids, place + float(k), memory, hidden)
            chosen.append(choose(logits[:, 0]))
            ids = (self._vocabulary - 1 - chosen[-1])[:, None]
        return torch.stack(chosen, dim=1).reshape(-1, self.chunk, self.axes)

    def _held(self, features: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Return whether there is a token (batch, tokens), and each layer's keys and values by heads."""
        width = self._sizes.groups * self._sizes.head
        there, *kept = features.split([1, *[width] * (2 * self._layers)], dim=-1)
        parts = [split(one, self._sizes.groups) for one in kept]
        return there[:, :, 0], list(zip(parts[::2], parts[1::2]))

    def _read(
        self, ids: Tensor, places: Tensor, memory: list[tuple[Tensor, Tensor]], hidden: Tensor
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Return the logits (batch, n, bins) after tokens (batch, n), and keys and values with theirs."""
        language, after = self._language[0], list[tuple[Tensor, Tensor]]()
        now: Tensor = language.embed_tokens(ids)
        for layer, (keys, values) in zip(language.each(), memory):
            own_keys, own_values = layer.holds(now, places)
            keys, values = torch.cat([keys, own_keys], dim=2), torch.cat([values, own_values], dim=2)
            after.append((keys, values))
            now = layer.after(now, attended(layer.asks(now, places), keys, values, hidden))
        every = self.lm_head(language.norm(now)).float()
        first = self._vocabulary - BINS
        # bin 0 is the last token of the vocabulary
        return every[..., first : self._vocabulary].flip(-1), after

    def _actions(self, choice: Tensor) -> Tensor:
        share = (choice.float() + 0.5) * (1.0 / BINS)
        return self.low + share * (self.high - self.low)


def load_openvla(
    folder: Path,
    config: Mapping[str, Any],
    words: tuple[str, ...],
    images: tuple[int, int, int, int],
    axes: int,
    chunk: int,
    colours: Tensor,
) -> tuple[OpenVLANetwork, OpenVLAHead]:
    """Return network and head with a checkpoint's weights.

    Args:
        folder: The checkpoint's, with its tokeniser's file.
        config: Its ``config.json``.
        words: Vocabulary.
        images: Cameras, rows, columns, 3.
        axes: Action axes.
        chunk: Planned steps.
        colours: Means and deviations of pixels; see :class:`OpenVLANetwork`.

    Raises:
        UserError: The checkpoint is not whole, or the robot has several cameras.
    """
    if images[0] != 1:
        raise UserError(f"checkpoint: {folder} sees one camera, and this task has {images[0]}: choose one.")
    weights = Weights(folder)
    shapes = weights.shapes()
    said = config.get("text_config") or {}
    try:
        padded, width = shapes[f"{LANGUAGE}embed_tokens.weight"]
        heads = int(said.get("num_attention_heads", 32))
        sizes = LanguageSizes(
            width=width,
            dense=shapes[f"{LANGUAGE}layers.0.mlp.gate_proj.weight"][0],
            heads=heads,
            groups=int(said.get("num_key_value_heads", heads)),
            head=width // heads,
            layers=sum(name.startswith(LANGUAGE) and name.endswith(".input_layernorm.weight") for name in shapes),
            epsilon=float(said.get("rms_norm_eps", 1e-6)),
        )
        pieces, answer = read_pieces(folder, words, before=_QUESTION, end=_END, also=_ANSWER)
        network = OpenVLANetwork(shapes, sizes, images, pieces, colours)
        vocabulary = padded - int(config.get("pad_to_multiple_of", 64))
        head = OpenVLAHead(network.language, vocabulary, padded, answer, axes, chunk)
    except KeyError as error:
        raise UserError(f"{folder} lacks the tensor {error}.") from error
    parts = {EYES: network.eyes, FUSED: network.fused, "projector.": network.projector, LANGUAGE: network.language}
    unused = [prefix + name for prefix, eye in ((EYES, network.eyes), (FUSED, network.fused)) for name in eye.unused]
    fill({**parts, "language_model.lm_head.": head.lm_head}, weights, unused)
    return network, head


def _within(shapes: Mapping[str, tuple[int, ...]], prefix: str) -> dict[str, tuple[int, ...]]:
    return {name.removeprefix(prefix): shape for name, shape in shapes.items() if name.startswith(prefix)}
