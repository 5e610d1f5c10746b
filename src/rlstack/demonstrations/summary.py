"""A text summary of a dataset."""

from __future__ import annotations

from pathlib import Path

from rlstack.data.lerobot import Dataset
from rlstack.demonstrations import metadata


def describe(path: str | Path) -> str:
    """Describe a dataset: robot, rate, task, features, and each episode with length and success.

    Raises:
        UserError: It is not a dataset.
    """
    dataset = Dataset(path, quiet=True)
    frames = dataset.info.total_frames
    lines = [
        f"{path}: {len(dataset)} episodes, {frames} frames, {frames / dataset.fps:.1f} s at {dataset.fps:g} Hz,"
        f" robot {dataset.robot_type or 'unknown'}"
    ]
    if dataset.cut_off:
        lines.append(dataset.cut_off)
    for name, feature in dataset.features.items():
        size = " x ".join(map(str, feature.shape))
        lines.append(f"  {name:<30} {feature.dtype:<8} {size:<12} {_short(', '.join(feature.names))}".rstrip())
    for episode in dataset.episodes:
        success, hand_share = _flags(dataset, episode.index)
        told = {True: "succeeded", False: "did not succeed", None: "success not recorded"}[success]
        hand = f", {100 * hand_share:.0f}% by hand" if hand_share else ""
        task = f": {', '.join(episode.tasks)}" if episode.tasks else ""
        seconds = episode.length / dataset.fps
        lines.append(f"episode {episode.index}: {episode.length} frames, {seconds:.2f} s, {told}{hand}{task}")
    return "\n".join(lines)


def _flags(dataset: Dataset, episode: int) -> tuple[bool | None, float]:
    """Return whether an episode succeeded (None: not recorded), and the share of it recorded by hand."""
    wanted = [name for name in (metadata.SUCCESS, metadata.INTERVENTION) if name in dataset.features]
    frames = dataset.read(episode, wanted) if wanted else {}
    success = bool(frames[metadata.SUCCESS][-1, 0]) if metadata.SUCCESS in frames else None
    by_hand = float(frames[metadata.INTERVENTION].mean()) if metadata.INTERVENTION in frames else 0.0
    return success, by_hand


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
