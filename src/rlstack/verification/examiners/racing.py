"""Racing is examined by a lap from rest on each of some held-out tracks in the batch simulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.maps.tracks import HELD_OUT_SEEDS, draw_track
from rlstack.verification.examiner import Marks
from rlstack.verification.racing import race
from rlstack.verification.runner import Steppable

VALIDATION = 100_000
"""The last so many of the held-out seeds are what runs choose their best policy by; no report uses them."""


class RacingExaminer:
    """See :class:`rlstack.verification.examiner.Examiner`."""

    def __init__(self, task: Any, robot: WheeledBase, episodes: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        chosen = HELD_OUT_SEEDS[-VALIDATION:].start + rng.choice(VALIDATION, episodes, replace=False)
        self._tracks = [draw_track(int(number)) for number in chosen]
        self._cars = task.draw_parameters(robot, episodes, rng)
        self._task, self._robot, self._seed = task, robot, seed

    def examine(self, policy: Steppable) -> Marks:
        """Return how ``policy`` drove cars that depart from the file as in training."""
        driven = race(
            policy,
            self._tracks,
            self._robot,
            rate_hz=self._task.rate_hz,
            laps=1,
            parameters=self._cars,
            seed=self._seed,
        )
        clean = np.isfinite(driven.lap_s[:, 0])
        success = float(clean.mean())
        speed = float((driven.length_m[clean] / driven.lap_s[clean, 0]).mean()) if clean.any() else 0.0
        figures = {
            "episodes": len(clean),
            "success": success,
            "contacts": int(driven.contact.sum()),
            "speed_m_s": round(speed, 4),
        }
        return Marks(success, (round(success, 3), speed), figures)


EXAMINER = RacingExaminer
