"""Whether a demonstration fits what a policy has learnt: the compatibility measure of Gandhi et al.

K. Gandhi, S. Karamcheti, M. Liao, D. Sadigh: "Eliciting Compatible Demonstrations for Multi-Human Imitation Learning"
(CoRL 2022, arXiv 2210.08073). Where the policy does not know what to do, any action teaches it something and is
compatible. Where it knows, an action is the less compatible the further it is from the policy's. What the policy knows
is told by an ensemble: members that were trained alike agree there. Arrays in, arrays out: any learner will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError


@dataclass(frozen=True)
class Thresholds:
    """Where sure begins and compatible ends.

    Attributes:
        loss: The squared error at which an action is not compatible at all (the paper's lambda), in actions' units
            squared; it is the mean over the action's elements.
        variance: The ensemble's variance below which the policy is sure (the paper's eta is its root), likewise.
    """

    loss: float
    variance: float

    def __post_init__(self) -> None:
        if not (0 < self.loss < np.inf and 0 < self.variance < np.inf):
            raise UserError(
                f"Thresholds of compatibility must be above 0 and finite, not {self.loss}, {self.variance}."
            )


def losses(predictions: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Return how far the ensemble's mean action is from the one that was demonstrated.

    Args:
        predictions: What each member would have done (members, steps, elements).
        actions: What was demonstrated (steps, elements).

    Returns:
        Squared error, mean over the elements (steps,).

    Raises:
        UserError: The shapes do not fit, or a number is not finite.
    """
    predictions, actions = _checked(predictions, actions)
    return np.mean((predictions.mean(0) - actions) ** 2, -1)


def variances(predictions: np.ndarray) -> np.ndarray:
    """Return how much the members disagree: their variance, mean over the elements (steps,)."""
    predictions, _ = _checked(predictions, np.asarray(predictions)[0])
    return np.mean(predictions.var(0), -1)


def compatibility(predictions: np.ndarray, actions: np.ndarray, thresholds: Thresholds) -> np.ndarray:
    """Return how compatible each action of a demonstration is: 1 - min(loss / threshold, 1) where the policy is sure.

    Args:
        predictions: What each member of the ensemble would have done (members, steps, elements).
        actions: What was demonstrated (steps, elements).
        thresholds: Where sure begins and compatible ends.

    Returns:
        From 0, which fights the policy, to 1 (steps,); 1 wherever the policy is not sure.
    """
    sure = variances(predictions) < thresholds.variance
    return np.where(sure, 1.0 - np.minimum(losses(predictions, actions) / thresholds.loss, 1.0), 1.0)


def thresholds_from(
    predictions: Sequence[np.ndarray],
    actions: Sequence[np.ndarray],
    *,
    loss_quantile: float = 0.99,
    variance_factor: float = 2.0,
) -> Thresholds:
    """Return thresholds from demonstrations that the ensemble was trained with, or better, from some kept back.

    The paper chooses its two thresholds by hand for each task. Here, an action is not compatible at all when it is
    further off than nearly all of those that the policy learnt from; and the policy is sure where its members disagree
    no more than ``variance_factor`` times as much as they usually do among these.

    Args:
        predictions: For each demonstration, what each member would have done (members, steps, elements).
        actions: For each demonstration, what was demonstrated (steps, elements).
        loss_quantile: The share of actions that are nearer than the threshold.
        variance_factor: Of the median variance.

    Raises:
        UserError: There is no demonstration, or they say nothing: members that are all the same, or no error at all.
    """
    if not len(actions) or len(actions) != len(predictions):
        raise UserError("Thresholds need at least one demonstration, and predictions for each.")
    off = np.concatenate([losses(p, a) for p, a in zip(predictions, actions)])
    spread = np.concatenate([variances(p) for p in predictions])
    loss, variance = float(np.quantile(off, loss_quantile)), float(variance_factor * np.median(spread))
    if not loss > 0 or not variance > 0:
        raise UserError(
            "The ensemble's members are all the same on these demonstrations, or never off: train them from different"
            " starts and on different parts of the demonstrations."
        )
    return Thresholds(loss, variance)


def _checked(predictions: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    predictions, actions = np.asarray(predictions, float), np.asarray(actions, float)
    if predictions.ndim != 3 or actions.ndim != 2 or predictions.shape[1:] != actions.shape or not predictions.size:
        raise UserError(
            f"Predictions of the shape {predictions.shape}, which is (members, steps, elements), do not fit actions of"
            f" the shape {actions.shape}, which is (steps, elements)."
        )
    if len(predictions) < 2:
        raise UserError("One policy alone cannot tell where it is sure: give the predictions of two or more.")
    if not (np.isfinite(predictions).all() and np.isfinite(actions).all()):
        raise UserError(
            "A prediction or an action is not finite: the ensemble has diverged, or the demonstration is damaged."
        )
    return predictions, actions


class ImitationEnsemble:
    """A small ensemble that imitates demonstrations; NumPy only, fitted in tens of milliseconds.

    Each member is a ridge regression on its own random Fourier features (Rahimi and Recht, "Random Features for
    Large-Scale Kernel Machines", 2007), fitted to its own resampling of the episodes (bagging, Breiman 1996). Members
    agree where there was much to learn from, and differ elsewhere.

    Args:
        seen: Of each episode, what was seen (frames, columns).
        done: Of each episode, what was done (frames, elements).
        members: How many there are, 2 or more.
        features: Of each member.
        ridge: How much large weights cost.
        seed: Of features and resampling.

    Raises:
        UserError: There are no two episodes to learn from.
    """

    def __init__(
        self,
        seen: Sequence[np.ndarray],
        done: Sequence[np.ndarray],
        *,
        members: int = 5,
        features: int = 200,
        ridge: float = 1.0,
        seed: int = 0,
    ) -> None:
        if len(seen) < 2 or len(seen) != len(done):
            raise UserError(f"{len(seen)} episodes are too few to learn from: two or more are needed.")
        rng = np.random.default_rng(seed)
        inputs = np.concatenate([np.asarray(frames, dtype=float) for frames in seen])
        self._mean, spread = inputs.mean(axis=0), inputs.std(axis=0)
        self._scale = np.where(spread > 1e-9, spread, 1.0)  # a column that never changes tells nothing
        columns = inputs.shape[1]
        self._members: list[tuple[Array, Array, Array]] = []
        for _ in range(members):
            # as a Gaussian kernel of the width sqrt(columns): frames that differ by one deviation everywhere are near
            frequency = rng.normal(size=(columns, features)) / np.sqrt(columns)
            phase = rng.uniform(0.0, 2.0 * np.pi, features)
            chosen = rng.integers(0, len(seen), len(seen))
            known = self._raised(np.concatenate([seen[k] for k in chosen]), frequency, phase)
            wanted = np.concatenate([np.asarray(done[k], dtype=float) for k in chosen])
            square = known.T @ known + ridge * np.eye(known.shape[1])
            self._members.append((frequency, phase, np.linalg.solve(square, known.T @ wanted)))

    def __call__(self, seen: np.ndarray) -> Array:
        """Return what each member would do (members, frames, elements) where this is seen (frames, columns)."""
        return np.stack([self._raised(seen, frequency, phase) @ weights for frequency, phase, weights in self._members])

    def _raised(self, seen: np.ndarray, frequency: Array, phase: Array) -> Array:
        scaled = (np.asarray(seen, dtype=float) - self._mean) / self._scale
        waves = np.sqrt(2.0 / len(phase)) * np.cos(scaled @ frequency + phase)
        return np.concatenate([waves, scaled / np.sqrt(scaled.shape[1]), np.ones((len(scaled), 1))], axis=1)
