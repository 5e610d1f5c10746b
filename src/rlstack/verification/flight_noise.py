"""Random numbers of many flights, each from a stream of its own: the same in every simulator, however many fly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstack.arrays import Array

_AHEAD = 768
"""Numbers drawn at a time for each flight."""


class FlightNormals:
    """Gives standard normals to whoever asks for them for all flights at once, as a numpy generator does.

    Args:
        seed: Of all flights, at least 0.
        flights: The number of each flight, which with the seed makes its stream.
    """

    def __init__(self, seed: int, flights: Sequence[int]) -> None:
        self._streams = [np.random.default_rng([seed, flight]) for flight in flights]
        self._drawn: Array = np.empty((len(self._streams), 0))
        self._used = 0

    def standard_normal(self, size: tuple[int, ...]) -> Array:
        """Return normals (flights, width)."""
        count, width = size
        if count != len(self._streams):
            raise ValueError(f"the shape {size} is not allowed: there are {len(self._streams)} flights.")
        if self._used + width > self._drawn.shape[1]:
            self._drawn = np.stack([stream.standard_normal(max(_AHEAD, width)) for stream in self._streams])
            self._used = 0
        self._used += width
        return self._drawn[:, self._used - width : self._used]
