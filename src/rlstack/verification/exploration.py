"""How much of unknown grid worlds is seen, step by step, by whatever explores them: a policy file or a planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.sim.grids.sites import Sites
from rlstack.tasks.wheeled_base.exploration.setting import ExplorationSetting


class Explorer(Protocol):
    """A policy file, or a planner behind the same calls."""

    def reset(self, batch: int = 1) -> None:
        """Set the recurrent state to zero for ``batch`` rovers."""

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return ``waypoint`` (N, 3) m, odom, for inputs with a leading batch axis."""


@dataclass(frozen=True)
class Explored:
    """What N rovers saw.

    Args:
        coverage: (N, steps + 1) share that was known after each step.
        crashed: (N,) steps that would have led into an obstacle or over the edge.
        enough: Share from which on an episode is over; what was known then counts until the end.
    """

    coverage: Array
    crashed: NDArray[np.intp]
    enough: float

    @property
    def done(self) -> NDArray[np.bool_]:
        """(N,) whether enough was seen."""
        return np.asarray(self.coverage[:, -1] > self.enough)

    def steps_to(self, share: float) -> Array:
        """Return (N,) how many steps it took to know more than a share of the cells; all steps where it never was."""
        there = self.coverage > share
        return np.where(there.any(axis=1), there.argmax(axis=1), self.coverage.shape[1] - 1).astype(float)

    def curve(self) -> Array:
        """Return (N, steps + 1) coverage as a share of what is enough: beyond it, nobody is asked to look."""
        return np.asarray(np.minimum(self.coverage / self.enough, 1.0))


def explore(explorer: Explorer, expedition: ExplorationSetting, sites: Sites, steps: int | None = None) -> Explored:
    """Let ``explorer`` explore N sites, each alone.

    A rover that is sent into what is not free stays where it is, and the step counts as a crash.

    Args:
        explorer: Is reset first.
        expedition: The setting.
        sites: Where.
        steps: As many as the setting's if not given; the same where all are done before.

    Raises:
        UserError: A waypoint is not the middle of a cell beside the rover's, or of its own.
    """
    count = len(sites)
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
    return Explored(coverage, crashed, expedition.enough)
