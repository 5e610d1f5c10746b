"""Checkpoints by their folder: which network it is, and whether it fits the robot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from rlstack.data.lerobot.processors import ACTION_FEATURE, read_json, read_scales
from rlstack.errors import UserError
from rlstack.policies.limits import hint, limits
from rlstack.schema import value
from rlstack.training.language.checkpoints.smolvla import SmolVLAHead, SmolVLANetwork, load_smolvla
from rlstack.training.language.checkpoints.trained import Kept, Trained, prepare

_STATE, _TEXT_STEPS = "observation.state", ("smolvla_new_line_processor", "tokenizer_processor")


@dataclass(frozen=True, kw_only=True)
class CheckpointSettings:
    """A published network to go on from, instead of the small one."""

    folder: str = value("")
    """Folder of a SmolVLA checkpoint, as LeRobot writes it; empty: the small network."""
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


def open_checkpoint(settings: CheckpointSettings, fit: Fit) -> tuple[SmolVLANetwork, SmolVLAHead]:
    """Return network and head of a checkpoint.

    Raises:
        UserError: It is of another kind, not whole, or does not fit.
    """
    folder = Path(settings.folder).expanduser()
    config = read_json(folder, "config.json", {})
    if config.get("type") != "smolvla":
        kind = config.get("type") or config.get("model_type")
        raise UserError(f"checkpoint: {folder} is of the type '{kind}', and 'smolvla' alone is read.")
    cameras = [name for name in config.get("input_features", {}) if name.startswith("observation.images.")]
    robot = (fit.state, fit.images, fit.axes)
    network, head = load_smolvla(folder, config, fit.words, robot, fit.chunk)
    count = sum(weights.numel() for part in (network, head) for weights in part.parameters())
    if 4 * count > limits().file_bytes:
        raise UserError(
            f"checkpoint: {folder} has {count / 1e6:.0f} million parameters, too many for a policy file of"
            f" {limits().file_bytes / 2**20:.0f} MiB.{hint()} Whatever runs the policy needs it, too."
        )
    if settings.statistics == "checkpoint":
        for what, here, there in (
            ("cameras", fit.images[0], len(cameras)),
            (f"elements of {_STATE}", fit.state, _size(config["input_features"], _STATE)),
            (f"elements of {ACTION_FEATURE}", fit.axes, _size(config["output_features"], ACTION_FEATURE)),
        ):
            if here != there:
                raise UserError(
                    f"checkpoint: {folder} is of another robot: it has {there} {what}, and this task {here}. Learn from"
                    " demonstrations, with statistics: demonstrations."
                )
        scales = read_scales(folder, config, {}, _TEXT_STEPS)
        scale, offset = (torch.from_numpy(one) for one in scales[_STATE])
        network.mean, network.scale = -offset / scale, scale
        head.action_std, head.action_mean = (torch.from_numpy(one) for one in scales[ACTION_FEATURE])
    prepare(
        {"eyes": network.eyes, "connector": network.connector, "language": network.language, "expert": head.expert},
        (network.state_proj, head.own),
        settings.trained,
        settings.rank,
        settings.frozen,
    )
    return network, head


def _size(features: dict[str, dict[str, list[int]]], name: str) -> int:
    return int(features[name]["shape"][0]) if name in features else 0
