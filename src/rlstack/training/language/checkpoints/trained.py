"""What of a checkpoint is trained, and how the rest is kept: low-rank adapters, and frozen layers in less memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlstack.libraries import import_library
from rlstack.training.language.checkpoints.weights import EXTRA

Trained = Literal["lora", "expert", "all"]
Kept = Literal["float32", "bfloat16", "int8"]

_ADAPTED = r".*(self_attn\.(q|k|v|o)_proj|mlp\.(gate|up|down)_proj)"
"""Layers of language models that get adapters."""


class FrozenLinear(nn.Linear):
    """A dense layer that is not trained, with its weights in two bytes or one, and computed in the tokens' own type.

    Args:
        layer: The layer.
        kept: bfloat16, or int8 with a scale for each output.
    """

    scale: Tensor

    def __init__(self, layer: nn.Linear, kept: Kept) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        weight = layer.weight.detach().float()
        scale = torch.ones(len(weight), 1)
        if kept == "int8":
            scale = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-8) / 127.0
        self.register_buffer("scale", scale)
        self.register_buffer("weight", (weight / scale).round().to(torch.int8) if kept == "int8" else weight.bfloat16())
        self.bias = layer.bias

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (..., out_features)."""
        return functional.linear(tokens, self.weight.to(tokens.dtype) * self.scale.to(tokens.dtype), self.bias)


def prepare(parts: dict[str, nn.Module], small: tuple[nn.Module, ...], trained: Trained, rank: int, kept: Kept) -> None:
    """Choose what is trained, in place.

    Args:
        parts: ``eyes``, ``language`` and ``expert``; what there is of them.
        small: Layers of the robot's own state and actions, which are always trained.
        trained: Adapters of the language model and the expert; the expert; or everything.
        rank: Of the adapters.
        kept: How layers are kept that are not trained.
    """
    whole = {"lora": (), "expert": ("expert",), "all": tuple(parts)}[trained]
    for name, part in parts.items():
        part.requires_grad_(name in whole)
    if kept != "float32":
        for part in parts.values():
            _reduce(part, kept)
    if trained == "lora":
        for name in ("language", "expert"):
            if name in parts:
                _adapt(parts[name], rank)
    for layer in small:
        layer.requires_grad_(True)


def _reduce(module: nn.Module, kept: Kept) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and not child.weight.requires_grad:
            setattr(module, name, FrozenLinear(child, kept))
        else:
            _reduce(child, kept)


def _adapt(module: nn.Module, rank: int) -> None:
    """Give dense layers low-rank adapters, which change nothing at first (LoRA, arXiv 2106.09685)."""
    peft = import_library("peft", EXTRA)
    targets = [name for name, _ in module.named_modules() if re.fullmatch(_ADAPTED, name)]
    peft.inject_adapter_in_model(peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets), module)


def frozen(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield what of a module is not trained, by name: parameters, and the weights of frozen layers."""
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            yield name, parameter
    for name, child in module.named_modules():
        if isinstance(child, FrozenLinear):
            yield f"{name}.weight", child.weight
            yield f"{name}.scale", child.scale
