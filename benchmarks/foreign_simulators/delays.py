"""What is seen late: the signals of some control periods ago."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Delay:
    """Passes readings on after whole control periods; until the first is due, the first.

    Args:
        delay_s: A multiple of the period.
        period_s: The control period.
    """

    def __init__(self, delay_s: float, period_s: float) -> None:
        steps = round(delay_s / period_s)
        if abs(steps * period_s - delay_s) > 1e-9:
            raise ValueError(f"a delay of {delay_s:g} s is no multiple of the control period, {period_s:g} s")
        self._held: deque[dict[str, Array]] = deque(maxlen=steps + 1)

    def __call__(self, reading: Mapping[str, Array]) -> dict[str, Array]:
        """Keep the present reading and return the one that is due."""
        self._held.append(dict(reading))
        return dict(self._held[0])
