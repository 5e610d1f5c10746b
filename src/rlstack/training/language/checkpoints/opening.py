"""Checkpoints by their folder: which network it is, and whether it fits the robot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rlstack.data.lerobot.processors import ACTION_FEATURE, read_json, read_scales
from rlstack.errors import UserError
from rlstack.policies.limits import hint, limits
from rlstack.schema import value
from rlstack.training.language.checkpoints.openvla import OpenVLAHead, OpenVLANetwork, load_openvla
from rlstack.training.language.checkpoints.pi0 import Pi0Head, Pi0Network, load_pi0
from rlstack.training.language.checkpoints.smolvla import SmolVLAHead, SmolVLANetwork, load_smolvla
from rlstack.training.language.checkpoints.trained import Kept, Trained, prepare

_STATE = "observation.state"
_TEXT_STEPS = ("smolvla_new_line_processor", "pi0_new_line_processor", "tokenizer_processor")
_OTHER_STEPS = (*_TEXT_STEPS, "relative_actions_processor", "absolute_actions_processor")
"""Steps of processors that are done here, or not at all: a checkpoint with relative actions is refused."""


@dataclass(frozen=True, kw_only=True)
class CheckpointSettings:
    """A published network to go on from, instead of the small one."""

    folder: str = value("")
    """Folder of a checkpoint, of SmolVLA or pi0 as LeRobot writes them or of OpenVLA; empty: the small network."""
    trained: Trained = "lora"
    """What is trained: adapters of the language model and the expert, the whole expert, or all; layers of the robot's
    state and actions always are."""
    rank: int = value(16, at_least=1)
    """Rank of the adapters."""
    frozen: Kept = "float32"
    """How layers are kept that are not trained; int8 takes a quarter of the memory and rounds."""
    statistics: str = value("demonstrations", one_of=("demonstrations", "checkpoint"))
    """Where the normalisation of states and actions is from; that of the checkpoint is for the same robot and
    motions."""


@dataclass(frozen=True)
class Fit:
    """What a checkpoint has to fit."""

    words: tuple[str, ...]
    state: int
    """Columns of the robot's state."""
    images: tuple[int, int, int, int]
    """Cameras, rows, columns, 3."""
    axes: int
    """Of an action."""
    chunk: int


CheckpointNetwork = SmolVLANetwork | Pi0Network | OpenVLANetwork
CheckpointHead = SmolVLAHead | Pi0Head | OpenVLAHead


def open_checkpoint(settings: CheckpointSettings, fit: Fit) -> tuple[CheckpointNetwork, CheckpointHead]:
    """Return network and head of a checkpoint.

    Raises:
        UserError: It is of another kind, not whole, or does not fit.
    """
    folder = Path(settings.folder).expanduser()
    config = read_json(folder, "config.json", {})
    kind = config.get("type") or config.get("model_type")
    opened = {"smolvla": _lerobot, "pi0": _lerobot, "openvla": _openvla}.get(str(kind))
    if opened is None:
        raise UserError(f"checkpoint: {folder} is of the type '{kind}'; smolvla, pi0 and openvla are read.")
    network, head, parts, small = opened(folder, config, settings, fit)
    count = sum(weights.numel() for part in (network, head) for weights in part.parameters())
    if 4 * count > limits().file_bytes:
        raise UserError(
            f"checkpoint: {folder} has {count / 1e6:.0f} million parameters, too many for a policy file of"
            f" {limits().file_bytes / 2**20:.0f} MiB.{hint()} Whatever runs the policy needs it, too."
        )
    if settings.trained == "expert" and "expert" not in parts:
        raise UserError(f"checkpoint: trained: expert is not allowed: {folder} has none; choose lora or all.")
    prepare(parts, small, settings.trained, settings.rank, settings.frozen)
    return network, head


_Opened = tuple[CheckpointNetwork, CheckpointHead, dict[str, nn.Module], tuple[nn.Module, ...]]
"""Network, head, their parts by name, and layers of the robot's own state and actions."""


def _lerobot(folder: Path, config: dict[str, Any], settings: CheckpointSettings, fit: Fit) -> _Opened:
    network: SmolVLANetwork | Pi0Network
    head: SmolVLAHead | Pi0Head
    robot = fit.state, fit.images, fit.axes
    if config["type"] == "pi0":
        network, head = load_pi0(folder, config, fit.words, robot, fit.chunk)
        eyes: dict[str, nn.Module] = {"eyes": network.eyes, "projector": network.projector}
    else:
        network, head = load_smolvla(folder, config, fit.words, robot, fit.chunk)
        eyes = {"eyes": network.eyes, "connector": network.connector}
    if settings.statistics == "checkpoint":
        cameras = [name for name in config.get("input_features", {}) if name.startswith("observation.images.")]
        _check_same(folder, "cameras", fit.images[0], len(cameras))
        _check_same(folder, f"elements of {_STATE}", fit.state, _size(config["input_features"], _STATE))
        _check_same(folder, "elements of action", fit.axes, _size(config["output_features"], ACTION_FEATURE))
        scales = read_scales(folder, config, {}, _OTHER_STEPS)
        scale, offset = (torch.from_numpy(one) for one in scales[_STATE])
        network.mean, network.scale = -offset / scale, scale
        head.action_std, head.action_mean = (torch.from_numpy(one) for one in scales[ACTION_FEATURE])
    return network, head, {**eyes, "language": network.language, "expert": head.expert}, (network.state_proj, head.own)


def _openvla(folder: Path, config: dict[str, Any], settings: CheckpointSettings, fit: Fit) -> _Opened:
    about = read_json(folder, "preprocessor_config.json", {})
    if about.get("image_resize_strategy", "resize-naive") != "resize-naive":
        raise UserError(f"{folder / 'preprocessor_config.json'}: image_resize_strategy must be resize-naive.")
    try:
        colours = torch.tensor([about["means"], about["stds"]])
        network, head = load_openvla(folder, config, fit.words, fit.images, fit.axes, fit.chunk, colours)
        if settings.statistics == "checkpoint":
            held = config["norm_stats"]
            if len(held) != 1:
                raise UserError(
                    f"checkpoint: {folder} has statistics of {len(held)} datasets ({', '.join(held)}): keep one."
                )
            ((_, one),) = held.items()
            low, high = (torch.tensor(one["action"][name]) for name in ("q01", "q99"))
            _check_same(folder, "elements of action", fit.axes, len(low))
            masked = torch.tensor(one["action"].get("mask", [True] * len(low)))
            head.low, head.high = torch.where(masked, low, -1.0), torch.where(masked, high, 1.0)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder}: its configuration lacks {error}, which OpenVLA's has.") from error
    eyes = {"eyes": network.eyes, "fused": network.fused, "projector": network.projector}
    return network, head, {**eyes, "language": network.language, "answers": head.lm_head}, ()


def _check_same(folder: Path, what: str, here: int, there: int) -> None:
    if here != there:
        raise UserError(
            f"checkpoint: {folder} is of another robot: it has {there} {what}, and this task {here}. Learn from"
            " demonstrations, with statistics: demonstrations."
        )


def _size(features: dict[str, dict[str, list[int]]], name: str) -> int:
    return int(features[name]["shape"][0]) if name in features else 0
