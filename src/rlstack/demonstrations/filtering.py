"""Filtering demonstrations: which of a dataset conflict with the others, or with those of another dataset.

Each demonstration is judged by an ensemble that has learnt from others and not from it, by the compatibility measure of
:mod:`rlstack.data.compatibility`: where the ensemble's members agree on what to do, one that does something else fights
it; where they do not, anything is news and welcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlstack.data.compatibility import ImitationEnsemble, Thresholds, compatibility, losses, thresholds_from, variances
from rlstack.data.demonstrations import check_other, copy_episodes
from rlstack.data.lerobot import Dataset, check_fits
from rlstack.data.lerobot.layout import INFO
from rlstack.demonstrations import metadata
from rlstack.errors import UserError

LEAST = 0.7
"""Mean compatibility below which a demonstration may be flagged. Measured with `arm_pick_place` (16 of the expert among
others): 0.81 to 0.92; two with noise of 0.6 on every action: 0.39 and 0.44."""

APART = 4.0
"""It must also be so many standard deviations, by the median deviation, below the median of those that judge it: where
few have been recorded, they all fit each other badly, and none is to blame."""

LOSS_QUANTILE = 0.9
"""Of the errors on demonstrations that were kept back: the tenth that is further off may be what is looked for."""

FOLDS = 5
"""Parts of a dataset that is judged by itself: each by an ensemble that learnt from the others."""

FEWEST = 6
"""Demonstrations that it takes to judge some by others."""


@dataclass(frozen=True)
class Verdict:
    """What is to be said of a demonstration.

    Attributes:
        episode: Its number.
        frames: Its length.
        success: Whether the task was done; None: the dataset does not say.
        compatibility: Mean over its frames, 0 to 1.
        sure: Share of its frames in which the ensemble is sure what to do.
        why: In words, why it is not to be kept, or nothing.
    """

    episode: int
    frames: int
    success: bool | None
    compatibility: float
    sure: float
    why: str

    @property
    def kept(self) -> bool:
        """Whether it is to be kept."""
        return not self.why

    def describe(self) -> str:
        """Return it in words."""
        found = f"compatibility {self.compatibility:.2f}, sure in {100 * self.sure:.0f}% of {self.frames} frames"
        return f"episode {self.episode}: {'dropped: ' + self.why if self.why else 'kept'} ({found})"


def judge(path: str | Path, base: str | Path | None = None, least: float = LEAST, seed: int = 0) -> list[Verdict]:
    """Return a verdict on each demonstration.

    Args:
        path: The dataset's folder.
        base: A dataset that is held to be good: its demonstrations judge. None: those of ``path`` judge each other.
        least: Mean compatibility below which one is flagged.
        seed: Of the ensembles.

    Raises:
        UserError: It is no dataset, there are too few demonstrations to judge by, or the base is of another robot,
            rate or task.
    """
    if not 0 <= least <= 1:
        raise UserError(f"The least compatibility is a share between 0 and 1, not {least}.")
    dataset = Dataset(path)
    if not len(dataset):
        raise UserError(f"{path} holds no demonstration that is whole.")
    shown = _shown(dataset)
    if base is None:
        if len(shown) < FEWEST:
            raise UserError(
                f"{path} holds {len(shown)} demonstrations, and it takes {FEWEST} to judge some by others: record more,"
                " or give a dataset that is good with --base."
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
            raise UserError(f"{base} holds {len(others)} demonstrations, and it takes {FEWEST} to judge by them.")
        held = _among_each_other(others, seed)
        ensemble = ImitationEnsemble(*_columns(others), seed=seed)
        predictions = [ensemble(one["seen"]) for one in shown]
    thresholds = thresholds_from(held, [one["done"] for one in others], loss_quantile=LOSS_QUANTILE)
    usual = np.array([compatibility(p, one["done"], thresholds).mean() for p, one in zip(held, others)])
    middle = np.median(usual)
    deviation = 1.4826 * np.median(np.abs(usual - middle))  # as of a normal distribution
    least = min(least, float(middle - APART * deviation))
    names = dataset.features[metadata.ACTION].names
    return [
        _verdict(k, one, predicted, thresholds, least, names, dataset.fps)
        for k, (one, predicted) in enumerate(zip(shown, predictions))
    ]


def check_out(path: str | Path, out: str | Path) -> None:
    """Raise ``UserError`` unless the folder ``out`` is free: what was written into it before is judged once only."""
    check_other(out, path)
    if (Path(out) / INFO).is_file():
        raise UserError(f"{out} holds a dataset already: give a new folder (--out), or remove it.")


def filtered(path: str | Path, out: str | Path, verdicts: list[Verdict]) -> int:
    """Write the demonstrations that are to be kept into a dataset in the folder ``out``; return how many.

    Raises:
        UserError: There is a dataset already.
    """
    check_out(path, out)
    held = Dataset(path, quiet=True)  # who judged has told what is missing
    if not any(verdict.kept for verdict in verdicts):
        raise UserError(f"None of the demonstrations in {path} would be kept: nothing was written.")
    count = copy_episodes(held, out, (verdict.episode for verdict in verdicts if verdict.kept))
    metadata.copy_metadata(held.path, Path(out))
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
            f"it fights the others, most at frame {worst} ({worst / fps:.2f} s), where {called} is"
            f" {one['done'][worst, element]:.2f} and theirs {wanted[element]:.2f}"
        )
    return Verdict(episode, len(values), success, mean, sure, why)


def _among_each_other(shown: list[dict[str, np.ndarray]], seed: int) -> list[np.ndarray]:
    """Return what ensembles that learnt from others would do in each demonstration."""
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
    """Return the features by which demonstrations are judged: what the policy's network sees, or else what is sensed.

    Raises:
        UserError: It holds nothing that was done, or nothing that was seen but pictures.
    """
    if metadata.ACTION not in dataset.features:
        raise UserError(f"{dataset.path} has no feature '{metadata.ACTION}': nobody can say what was done.")
    seen = [metadata.SEEN] if metadata.SEEN in dataset.features else [metadata.STATE, metadata.WORLD]
    seen = [name for name in seen if name in dataset.features]
    if not seen:
        raise UserError(f"{dataset.path} has no feature '{metadata.STATE}': pictures alone are not judged.")
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
    names = [metadata.name_in(dataset.path) for dataset in (one, other)]
    if None not in names and names[0] != names[1]:
        raise UserError(f"{one.path} is of the task {names[0]} and {other.path} of {names[1]}: they do not fit.")
