"""Compatibility of demonstrations with a learned policy.

Gandhi et al., "Eliciting Compatible Demonstrations for Multi-Human Imitation Learning" (CoRL 2022, arXiv 2210.08073):
where the policy is uncertain, any action counts as compatible; where it is certain, compatibility falls with the
distance to its action. Certainty is the agreement of an ensemble trained on the same demonstrations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of the compatibility measure.

    Attributes:
        loss: Squared error at which an action is fully incompatible (the paper's lambda), in squared action units;
            mean over the action's elements.
        variance: Ensemble variance below which the policy is certain (the paper's eta is its root), likewise.
    """

    loss: float
    variance: float

    def __post_init__(self) -> None:
        if not (0 < self.loss < np.inf and 0 < self.variance < np.inf):
            raise UserError(
                f"Thresholds of compatibility must be above 0 and finite, not {self.loss}, {self.variance}."
            )


def losses(predictions: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Return the squared error (steps,) of the ensemble's mean action, mean over the elements.

    Args:
        predictions: Actions predicted by each member (members, steps, elements).
        actions: Demonstrated actions (steps, elements).

    Raises:
        UserError: The shapes do not match, or a value is not finite.
    """
    predictions, actions = _checked(predictions, actions)
    return np.mean((predictions.mean(0) - actions) ** 2, -1)


def variances(predictions: np.ndarray) -> np.ndarray:
    """Return the members' disagreement: their variance, mean over the elements (steps,)."""
    predictions, _ = _checked(predictions, np.asarray(predictions)[0])
    return np.mean(predictions.var(0), -1)


def compatibility(predictions: np.ndarray, actions: np.ndarray, thresholds: Thresholds) -> np.ndarray:
    """Return each action's compatibility (steps,) with the policy, 0 to 1; arguments as of :func:`losses`.

    It is 1 - min(loss / threshold, 1) where the policy is certain, and 1 where it is uncertain.
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
    """Return thresholds estimated from the ensemble's training demonstrations, or better, from held-out ones.

    The paper chooses both thresholds by hand for each task. Here, an action is fully incompatible when its error
    exceeds nearly all of those in these demonstrations, and the policy is certain where its members disagree no more
    than ``variance_factor`` times the median.

    Args:
        predictions: For each demonstration, actions predicted by each member (members, steps, elements).
        actions: For each demonstration, its actions (steps, elements).
        loss_quantile: Share of the actions with a loss below the threshold.
        variance_factor: Multiple of the median variance.

    Raises:
        UserError: There is no demonstration, all members are identical, or there is no error at all.
    """
    if not len(actions) or len(actions) != len(predictions):
        raise UserError("Thresholds need at least one demonstration, and predictions for each.")
    off = np.concatenate([losses(p, a) for p, a in zip(predictions, actions)])
    spread = np.concatenate([variances(p) for p in predictions])
    loss, variance = float(np.quantile(off, loss_quantile)), float(variance_factor * np.median(spread))
    if not loss > 0 or not variance > 0:
        raise UserError(
            "The ensemble's members are identical on these demonstrations, or have no error: train them from different"
            " seeds and on different parts of the demonstrations."
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
        raise UserError("One policy alone has no certainty: give the predictions of two or more.")
    if not (np.isfinite(predictions).all() and np.isfinite(actions).all()):
        raise UserError(
            "A prediction or an action is not finite: the ensemble has diverged, or the demonstration is damaged."
        )
    return predictions, actions


class ImitationEnsemble:
    """A small ensemble that imitates demonstrations; NumPy only, fitted in tens of milliseconds.

    Each member is a ridge regression on its own random Fourier features (Rahimi and Recht, "Random Features for
    Large-Scale Kernel Machines", 2007), fitted to its own resampling of the episodes (bagging, Breiman 1996). Members
    agree where training data is dense, and differ elsewhere.

    Args:
        observations: Observations of each episode (frames, columns).
        actions: Actions of each episode (frames, elements).
        members: Number of members, 2 or more.
        features: Number of features of each member.
        ridge: Regularization weight.
        seed: Seed of features and resampling.

    Raises:
        UserError: There are fewer than two episodes.
    """

    def __init__(
        self,
        observations: Sequence[np.ndarray],
        actions: Sequence[np.ndarray],
        *,
        members: int = 5,
        features: int = 200,
        ridge: float = 1.0,
        seed: int = 0,
    ) -> None:
        if len(observations) < 2 or len(observations) != len(actions):
            raise UserError(f"{len(observations)} episodes are too few to learn from: two or more are needed.")
        rng = np.random.default_rng(seed)
        inputs = np.concatenate([np.asarray(frames, dtype=float) for frames in observations])
        self._mean, spread = inputs.mean(axis=0), inputs.std(axis=0)
        self._scale = np.where(spread > 1e-9, spread, 1.0)  # a constant column carries no information
        columns = inputs.shape[1]
        self._members: list[tuple[Array, Array, Array]] = []
        for _ in range(members):
            # a Gaussian kernel of width sqrt(columns): frames that differ by one deviation in every column are near
            frequency = rng.normal(size=(columns, features)) / np.sqrt(columns)
            phase = rng.uniform(0.0, 2.0 * np.pi, features)
            chosen = rng.integers(0, len(observations), len(observations))
            known = self._features(np.concatenate([observations[k] for k in chosen]), frequency, phase)
            wanted = np.concatenate([np.asarray(actions[k], dtype=float) for k in chosen])
            square = known.T @ known + ridge * np.eye(known.shape[1])
            self._members.append((frequency, phase, np.linalg.solve(square, known.T @ wanted)))

    def __call__(self, frames: np.ndarray) -> Array:
        """Return each member's actions (members, frames, elements) for observations (frames, columns)."""
        return np.stack([self._features(frames, f, phase) @ weights for f, phase, weights in self._members])

    def _features(self, frames: np.ndarray, frequency: Array, phase: Array) -> Array:
        scaled = (np.asarray(frames, dtype=float) - self._mean) / self._scale
        waves = np.sqrt(2.0 / len(phase)) * np.cos(scaled @ frequency + phase)
        return np.concatenate([waves, scaled / np.sqrt(scaled.shape[1]), np.ones((len(scaled), 1))], axis=1)
