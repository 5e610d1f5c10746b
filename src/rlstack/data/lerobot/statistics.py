"""LeRobot's statistics of features, per episode and of a whole dataset.

Those of images are of the colours' values between 0 and 1, shape (3, 1, 1). Quantiles of several episodes are the means
of theirs, weighted by frames, as in LeRobot: near the true ones, not equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}

Statistics = dict[str, np.ndarray]
"""min, max, mean, std and quantiles, each of the feature's shape, and count (1,)."""


class Colours:
    """Histogram of an episode's images, which gives exact statistics without keeping the images."""

    def __init__(self) -> None:
        self._counts = np.zeros((3, 256), np.int64)
        self._images = 0

    def add(self, image: np.ndarray) -> None:
        """Count an image, uint8 (height, width, 3)."""
        self._images += 1
        for channel in range(3):
            self._counts[channel] += np.bincount(image[..., channel].reshape(-1), minlength=256)

    def statistics(self) -> Statistics:
        """Return the statistics, each (3, 1, 1)."""
        values = np.arange(256) / 255.0
        share = self._counts / self._counts.sum(1, keepdims=True)
        mean = share @ values
        present = self._counts > 0
        found = {
            "min": values[present.argmax(1)],
            "max": values[255 - present[:, ::-1].argmax(1)],
            "mean": mean,
            "std": np.sqrt(np.sum(share * (values - mean[:, None]) ** 2, 1)),
        }
        below = np.cumsum(share, 1)
        found |= {name: values[(below >= q - 1e-12).argmax(1)] for name, q in QUANTILES.items()}
        return {name: value.reshape(3, 1, 1) for name, value in found.items()} | {"count": np.array([self._images])}


def of_values(values: np.ndarray) -> Statistics:
    """Return the statistics (elements,) of an episode's vectors (frames, elements)."""
    floats = values.astype(np.float64)
    found = {"min": values.min(0), "max": values.max(0), "mean": floats.mean(0), "std": floats.std(0)}
    found |= dict(zip(QUANTILES, np.quantile(floats, list(QUANTILES.values()), axis=0)))
    return found | {"count": np.array([len(values)])}


def together(several: Iterable[Mapping[str, Statistics]]) -> dict[str, Statistics]:
    """Merge the statistics of parts, by feature."""
    parts = list(several)
    return {
        name: _of_feature([part[name] for part in parts if name in part]) for name in {n: 0 for p in parts for n in p}
    }


def _of_feature(parts: list[Statistics]) -> Statistics:
    counts = np.stack([part["count"] for part in parts])
    weights = counts.reshape(-1, *(1,) * parts[0]["mean"].ndim) / counts.sum()

    def averaged(name: str) -> np.ndarray:
        return np.sum(weights * np.stack([part[name] for part in parts]), 0)

    mean = averaged("mean")
    variances = np.stack([part["std"] ** 2 + (part["mean"] - mean) ** 2 for part in parts])
    found = {
        "min": np.min([part["min"] for part in parts], 0),
        "max": np.max([part["max"] for part in parts], 0),
        "mean": mean,
        "std": np.sqrt(np.sum(weights * variances, 0)),
        "count": counts.sum(0),
    }
    return found | {name: averaged(name) for name in QUANTILES if all(name in part for part in parts)}
