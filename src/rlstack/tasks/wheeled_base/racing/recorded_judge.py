"""The rewards of recorded races, on a track that is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.batch_wheeled_base.layout import STATE
from rlstack.sim.batch_wheeled_base.parameters import base_model
from rlstack.sim.maps.tracks import draw_track
from rlstack.sim.world import World
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.tasks.core.recorded_judge import RecordedJudge, Signals
from rlstack.tasks.wheeled_base.racing.step import RacingStep
from rlstack.tasks.wheeled_base.racing.tracks import TrackTables
from rlstack.tasks.wheeled_base.recorded_judge import CONTACT_M, base_states

_TRACK = "track"


class RacingJudge(RecordedJudge):
    """See :class:`rlstack.tasks.core.recorded_judge.RecordedJudge`.

    Args:
        task: The task.
        robot: The car.
        pipeline: Its pipeline.
        world: The track.

    Raises:
        UserError: The world is no track.
    """

    def __init__(self, task: Any, robot: WheeledBase, pipeline: Pipeline, world: World) -> None:
        if world.name != _TRACK:
            raise UserError(
                f"The world {world.title} is no race track, and progress is along one: give --world {_TRACK}:SEED, the"
                " one that was driven on."
            )
        own = replace(task, through_m=-CONTACT_M)
        super().__init__(RacingStep(own, robot, pipeline, base_model(robot, task.rate_hz)))
        track = draw_track(world.seed)
        self._tables, self._middle = TrackTables([track], torch.device("cpu")), torch.tensor(track.middle)

    def states(self, signals: Signals, period_s: float) -> Tensor:
        """See the base class."""
        return base_states(self, signals, period_s)

    def surroundings(self, states: Tensor, signals: Signals) -> dict[str, Tensor]:
        """Return the track at each car."""
        offset = states[STATE["position"]].T[:, None].double() - self._middle
        nearest = (offset * offset).sum(dim=2).argmin(dim=1)
        return {"frame": self._tables.frame(torch.zeros_like(nearest), nearest).T.contiguous()}
