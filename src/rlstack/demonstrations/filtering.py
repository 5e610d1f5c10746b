"""Filter demonstrations that conflict with the rest of their dataset, or with another dataset.

Each demonstration is scored by an ensemble trained on others, with the compatibility measure of
:mod:`rlstack.data.compatibility`: where the members agree on an action, a different one conflicts; where they disagree,
any action is informative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlstack.data.compatibility import ImitationEnsemble, Thresholds, compatibility, losses, thresholds_from, variances
from rlstack.data.lerobot import Dataset, check_fits
from rlstack.data.lerobot.copying import check_other, copy_episodes
from rlstack.data.lerobot.layout import INFO
from rlstack.demonstrations import metadata
from rlstack.demonstrations.task_file import copy_task_file, recorded_task
from rlstack.errors import UserError

LEAST = 0.7
"""Mean compatibility below which a demonstration may be flagged. Measured on `arm_pick_place`, each among
others: 16 of the expert 0.81 to 0.92, two with noise of 0.6 on every action 0.39 and 0.44."""

APART = 4.0
"""A flagged demonstration must also lie this many standard deviations (from the median deviation) below the median of
its judges: in a small dataset all demonstrations fit each other badly."""

LOSS_QUANTILE = 0.9
"""Quantile of the errors on held-out demonstrations: the largest tenth may be the outliers sought."""

FOLDS = 5
"""Cross-validation folds of a dataset without a base: each is scored by an ensemble trained on the others."""

FEWEST = 6
"""Least number of demonstrations to train an ensemble on."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on a demonstration.

    Attributes:
        episode: Its number.
        frames: Its length.
        success: Whether the task succeeded; None: not recorded.
        compatibility: Mean over its frames, 0 to 1.
        sure: Share of its frames in which the ensemble is certain.
        why: Reason to drop it, in words, or nothing.
    """

    episode: int
    frames: int
    success: bool | None
    compatibility: float
    sure: float
    why: str

    @property
    def kept(self) -> bool:
        """Whether to keep it."""
        return not self.why

    def describe(self) -> str:
        """Format the verdict."""
        found = f"compatibility {self.compatibility:.2f}, sure in {100 * self.sure:.0f}% of {self.frames} frames"
        return f"episode {self.episode}: {'dropped: ' + self.why if self.why else 'kept'} ({found})"


def judge(path: str | Path, base: str | Path | None = None, least: float = LEAST, seed: int = 0) -> list[Verdict]:
    """Return a verdict on each demonstration.

    Args:
        path: The dataset's folder.
        base: A trusted dataset to compare with; None: the demonstrations of ``path`` are compared with each other.
        least: Mean compatibility below which a demonstration is flagged.
        seed: Seed of the ensembles.

    Raises:
        UserError: It is not a dataset, there are too few demonstrations, or the base has another robot, rate or task.
    """
    if not 0 <= least <= 1:
        raise UserError(f"The least compatibility is a share between 0 and 1, not {least}.")
    dataset = Dataset(path)
    if not len(dataset):
        raise UserError(f"{path} holds no complete demonstration.")
    shown = _shown(dataset)
    if base is None:
        if len(shown) < FEWEST:
            raise UserError(
                f"{path} holds {len(shown)} demonstrations, and at least {FEWEST} are needed: record more, or give a"
                " trusted dataset with --base."
            )
        predictions = _among_each_other(shown, seed)
        held, others = predictions, shown
    else:
        given = Dataset(base)
        wanted = (dataset.robot_type, dataset.fps, {name: dataset.features[name] for name in _used(dataset)})
        check_fits((given.robot_type, given.fps, given.features), wanted, str(base))
        _same_task(dataset, given)
        others = _shown(given)
        if len(others) < FEWEST:
            raise UserError(f"{base} holds {len(others)} demonstrations, and at least {FEWEST} are needed.")
        held = _among_each_other(others, seed)
        ensemble = ImitationEnsemble(*_columns(others), seed=seed)
        predictions = [ensemble(one["seen"]) for one in shown]
    thresholds = thresholds_from(held, [one["done"] for one in others], loss_quantile=LOSS_QUANTILE)
    usual = np.array([compatibility(p, one["done"], thresholds).mean() for p, one in zip(held, others)])
    middle = np.median(usual)
    deviation = 1.4826 * np.median(np.abs(usual - middle))  # of a normal distribution
    least = min(least, float(middle - APART * deviation))
    names = dataset.features[metadata.ACTION].names
    return [
        _verdict(k, one, predicted, thresholds, least, names, dataset.fps)
        for k, (one, predicted) in enumerate(zip(shown, predictions))
    ]


def check_out(path: str | Path, out: str | Path) -> None:
    """Raise ``UserError`` if the folder ``out`` already holds a dataset."""
    check_other(out, path)
    if (Path(out) / INFO).is_file():
        raise UserError(f"{out} holds a dataset already: give a new folder (--out), or remove it.")


def filtered(path: str | Path, out: str | Path, verdicts: list[Verdict]) -> int:
    """Write the kept demonstrations into a dataset in the folder ``out``; return their number.

    Raises:
        UserError: The folder already holds a dataset, or no demonstration is kept.
    """
    check_out(path, out)
    held = Dataset(path, quiet=True)  # judge() has reported missing data
    if not any(verdict.kept for verdict in verdicts):
        raise UserError(f"None of the demonstrations in {path} would be kept: nothing was written.")
    count = copy_episodes(held, out, (verdict.episode for verdict in verdicts if verdict.kept))
    copy_task_file(held.path, Path(out))
    return count


def _verdict(
    episode: int,
    one: Mapping[str, np.ndarray],
    predicted: np.ndarray,
    thresholds: Thresholds,
    least: float,
    names: tuple[str, ...],
    fps: float,
) -> Verdict:
    values = compatibility(predicted, one["done"], thresholds)
    mean, sure = float(values.mean()), float(np.mean(variances(predicted) < thresholds.variance))
    success = bool(one["success"][-1, 0]) if "success" in one else None
    why = ""
    if success is not None and not success:
        why = "it did not succeed"
    elif mean < least:
        sure_where = variances(predicted) < thresholds.variance
        worst = int(np.where(sure_where, losses(predicted, one["done"]), -1.0).argmax())
        wanted = predicted.mean(axis=0)[worst]
        element = int(np.abs(wanted - one["done"][worst]).argmax())
        called = names[element] if names else f"element {element}"
        why = (
            f"it conflicts with the others, most at frame {worst} ({worst / fps:.2f} s), where {called} is"
            f" {one['done'][worst, element]:.2f} and theirs {wanted[element]:.2f}"
        )
    return Verdict(episode, len(values), success, mean, sure, why)


def _among_each_other(shown: list[dict[str, np.ndarray]], seed: int) -> list[np.ndarray]:
    """Return the actions in each demonstration of ensembles trained on the others."""
    part = np.random.default_rng(seed).permutation(len(shown)) % min(FOLDS, len(shown))
    found: list[np.ndarray] = [np.empty(0)] * len(shown)
    for fold in range(part.max() + 1):
        ensemble = ImitationEnsemble(*_columns([one for one, p in zip(shown, part) if p != fold]), seed=seed + fold)
        for k in np.flatnonzero(part == fold):
            found[k] = ensemble(shown[k]["seen"])
    return found


def _columns(shown: list[dict[str, np.ndarray]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return [one["seen"] for one in shown], [one["done"] for one in shown]


def _used(dataset: Dataset) -> list[str]:
    """Return the features to compare demonstrations by: the policy network's observations, or else the raw signals.

    Raises:
        UserError: The dataset lacks actions, or all observations other than images.
    """
    if metadata.ACTION not in dataset.features:
        raise UserError(f"{dataset.path} has no feature '{metadata.ACTION}'.")
    seen = (
        [metadata.OBSERVATION]
        if metadata.OBSERVATION in dataset.features
        else [metadata.STATE, metadata.ENVIRONMENT_STATE]
    )
    seen = [name for name in seen if name in dataset.features]
    if not seen:
        raise UserError(f"{dataset.path} has no feature '{metadata.STATE}': images alone cannot be compared.")
    return [*seen, metadata.ACTION]


def _shown(dataset: Dataset) -> list[dict[str, np.ndarray]]:
    *seen, action = _used(dataset)
    success = [metadata.SUCCESS] if metadata.SUCCESS in dataset.features else []
    found = []
    for episode in range(len(dataset)):
        frames = dataset.read(episode, [*seen, action, *success])
        one = {"seen": np.concatenate([frames[name] for name in seen], axis=1), "done": frames[action]}
        found.append({**one, **({"success": frames[metadata.SUCCESS]} if success else {})})
    return found


def _same_task(one: Dataset, other: Dataset) -> None:
    names = [recorded_task(dataset.path) for dataset in (one, other)]
    if None not in names and names[0] != names[1]:
        raise UserError(f"{one.path} is for the task {names[0]} and {other.path} for {names[1]}: they do not match.")
