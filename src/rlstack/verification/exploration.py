"""Exploration trials in grid worlds: coverage over steps, for policies and planners."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from rlstack.arrays import Array, Mask
from rlstack.errors import UserError
from rlstack.sim.grids.sites import Sites
from rlstack.sim.vector import BATCH
from rlstack.tasks.wheeled_base.exploration.setting import ExplorationSetting
from rlstack.verification.records import ExplorationRecord
from rlstack.verification.runner import Driver, Trials, run


def explore(
    explorer: Driver, expedition: ExplorationSetting, sites: Sites, steps: int | None = None, name: str = ""
) -> ExplorationRecord:
    """Run ``explorer`` on N sites, each alone.

    A rover sent into an occupied cell stays where it is, and the step counts as a crash.

    Args:
        explorer: The explorer, which is reset first.
        expedition: The setting.
        sites: The grid worlds.
        steps: Number of steps; default: the setting's. The record has this length even if all finish earlier.
        name: Name of the explorer, for reports.

    Raises:
        UserError: A waypoint is not the centre of the rover's cell or of a neighbouring one.
    """
    begin = time.monotonic()
    rovers = _Rovers(expedition, sites, expedition.steps if steps is None else steps)
    run(explorer, rovers)
    return ExplorationRecord(
        simulator=BATCH,
        rate_hz=1.0,
        driver=name,
        wall_s=time.monotonic() - begin,
        coverage=rovers.coverage,
        done=np.asarray(rovers.coverage[:, -1] > expedition.enough),
        contacts=rovers.crashed,
        moves=True,
        enough=expedition.enough,
    )


class _Rovers(Trials):
    """Grid worlds explored together; a trial is over when coverage suffices."""

    def __init__(self, expedition: ExplorationSetting, sites: Sites, steps: int) -> None:
        super().__init__(len(sites), 1.0)
        self._setting, self._total, self._steps = expedition, sites.total, steps
        self._worlds = expedition.worlds(len(sites))
        self._worlds.place(np.arange(len(sites)), sites.occupied, sites.start)
        self.coverage = np.empty((len(sites), steps + 1))
        self.crashed = np.zeros(len(sites), dtype=np.intp)

    def observe(self, k: int) -> Mask:
        self.coverage[:, k:] = (self._worlds.known() / self._total)[:, None]
        return (self.coverage[:, k] > self._setting.enough) | (k == self._steps)

    def signals(self, names: Sequence[str]) -> Mapping[str, Array]:
        return self._setting.inputs(self._worlds)

    def step(self, command: Array, over: Mask) -> None:
        choice = self._setting.choice(self._worlds, command)
        if (choice < -1).any():
            raise UserError(
                "A waypoint leads to a cell that is not beside the rover's. On grids, give the centre of one that is."
            )
        self.crashed += self._worlds.move(np.maximum(choice, 0), ~over & (choice >= 0))
