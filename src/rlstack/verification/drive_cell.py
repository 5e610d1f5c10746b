"""One driver in one simulator: a cell of the transfer table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlstack.verification.metrics import wilson
from rlstack.verification.records import NavigationRecord
from rlstack.verification.transfer import Estimate, mean


@dataclass(frozen=True)
class DriveCell:
    """How one driver did.

    Args:
        episodes: How many ways.
        success: Share that arrived without contact; interval after Wilson.
        collided: Share that touched something; likewise.
        time_s: Mean time to the goal of those that arrived, with the interval of a mean; None: none did.
    """

    episodes: int
    success: Estimate
    collided: Estimate
    time_s: Estimate | None

    def texts(self) -> dict[str, str]:
        """Return each figure with its interval, by what it is."""
        s, c, t = self.success, self.collided, self.time_s
        return {
            "success, %": f"{100 * s.value:.1f} [{100 * s.low:.1f}, {100 * s.high:.1f}]",
            "collisions, %": f"{100 * c.value:.1f} [{100 * c.low:.1f}, {100 * c.high:.1f}]",
            "time, s": "-" if t is None else f"{t.value:.1f} [{t.low:.1f}, {t.high:.1f}]",
        }


def drive_cell(drives: NavigationRecord) -> DriveCell:
    """Return the figures of drives."""
    count, there = len(drives), drives.success
    hit = int((drives.ending == "collided").sum())
    arrived = int(there.sum())
    return DriveCell(
        episodes=count,
        success=Estimate(arrived / count, *wilson(arrived, count)),
        collided=Estimate(hit / count, *wilson(hit, count)),
        time_s=mean(np.asarray(drives.time_s[there])) if arrived else None,
    )
