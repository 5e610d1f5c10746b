"""How much of unknown grid worlds is seen, step by step, by whatever explores them: a policy file or a planner."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.sim.grids.sites import Sites
from rlstack.sim.vector import BATCH
from rlstack.tasks.wheeled_base.exploration.setting import ExplorationSetting
from rlstack.verification.records import ExplorationRecord


class Explorer(Protocol):
    """A policy file, or a planner behind the same calls."""

    def reset(self, batch: int = 1) -> None:
        """Set the recurrent state to zero for ``batch`` rovers."""

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return ``waypoint`` (N, 3) m, odom, for inputs with a leading batch axis."""


def explore(
    explorer: Explorer, expedition: ExplorationSetting, sites: Sites, steps: int | None = None, name: str = ""
) -> ExplorationRecord:
    """Let ``explorer`` explore N sites, each alone.

    A rover that is sent into what is not free stays where it is, and the step counts as a crash.

    Args:
        explorer: Is reset first.
        expedition: The setting.
        sites: Where.
        steps: As many as the setting's if not given; the same where all are done before.
        name: Of the explorer, for reports.

    Raises:
        UserError: A waypoint is not the middle of a cell beside the rover's, or of its own.
    """
    begin, count = time.monotonic(), len(sites)
    worlds = expedition.worlds(count)
    worlds.place(np.arange(count), sites.occupied, sites.start)
    steps = expedition.steps if steps is None else steps
    coverage = np.empty((count, steps + 1))
    coverage[:, 0] = worlds.known() / sites.total
    crashed = np.zeros(count, dtype=np.intp)
    explorer.reset(count)
    for k in range(steps):
        moving = coverage[:, k] <= expedition.enough
        if not moving.any():
            coverage[:, k + 1 :] = coverage[:, k : k + 1]
            break
        waypoint = explorer.step(expedition.inputs(worlds))["waypoint"]
        choice = expedition.choice(worlds, waypoint)
        if (choice < -1).any():
            raise UserError(
                "A waypoint leads to a cell that is not beside the rover's. On grids, name the middle of one that is."
            )
        crashed += worlds.move(np.maximum(choice, 0), moving & (choice >= 0))
        coverage[:, k + 1] = worlds.known() / sites.total
    return ExplorationRecord(
        simulator=BATCH,
        rate_hz=1.0,
        driver=name,
        wall_s=time.monotonic() - begin,
        coverage=coverage,
        done=np.asarray(coverage[:, -1] > expedition.enough),
        contacts=crashed,
        moves=True,
        enough=expedition.enough,
    )
