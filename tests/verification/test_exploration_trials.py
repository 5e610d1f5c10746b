from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from rlstack.control.navigation.grid_frontier import GridFrontier, GridFrontierSettings
from rlstack.errors import UserError
from rlstack.tasks.wheeled_base.exploration.setting import TRAINING, ExplorationSetting
from rlstack.verification.exploration_trials import explore_grids


class Always:
    """Goes one way by so many cells."""

    def __init__(self, right: float, up: float) -> None:
        self._step, self.batch = np.array([right, up, 0.0]), 0

    def reset(self, batch: int = 1) -> None:
        self.batch = batch

    def step(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"waypoint": inputs["position"] + self._step * inputs["map_resolution"]}


def test_frontiers_are_followed_until_enough_is_seen() -> None:
    expedition = ExplorationSetting()
    terrain = expedition.held_out(7, 20)
    greedy = explore_grids(GridFrontier(GridFrontierSettings(choice="greedy")), expedition, terrain, 150)
    utility = explore_grids(GridFrontier(GridFrontierSettings(choice="utility")), expedition, terrain, 150)
    for explored in (greedy, utility):
        assert explored.done.all() and not explored.crashed.any()
        assert (np.diff(explored.coverage, axis=1) >= 0.0).all()
        assert explored.normalized().coverage.max() == 1.0
        np.testing.assert_array_less(explored.time_beyond(0.9), explored.time_beyond(0.95) + 0.5)
        # who is done stays where it was
        assert (explored.coverage[:, -1] < 0.99).any()
    assert utility.normalized().coverage[:, 30].mean() > greedy.normalized().coverage[:, 30].mean()


def test_crashes_are_counted_and_the_rover_stays() -> None:
    expedition = ExplorationSetting()
    pusher = Always(-1.0, 0.0)
    explored = explore_grids(pusher, expedition, expedition.held_out(0, 3), 5)
    assert pusher.batch == 3
    assert (explored.contacts == 5).all()
    assert (explored.coverage == explored.coverage[:, :1]).all()
    assert (explored.time_beyond(0.9) == 5.0).all()


def test_staying_is_no_crash() -> None:
    expedition = ExplorationSetting()
    assert not explore_grids(Always(0.0, 0.0), expedition, expedition.held_out(0, 2), 3).crashed.any()


def test_waypoints_beyond_the_next_cell_are_refused() -> None:
    expedition = ExplorationSetting()
    with pytest.raises(UserError, match="not beside"):
        explore_grids(Always(2.0, 0.0), expedition, expedition.held_out(0, 2), 3)


def test_held_out_terrain_is_not_trained_on() -> None:
    expedition = ExplorationSetting()
    held_out = {t.tobytes() for t in expedition.held_out(3, 200).occupied}
    assert held_out == {t.tobytes() for t in expedition.held_out(3, 200).occupied}
    trained = {t.tobytes() for t in expedition.training(np.random.default_rng((TRAINING, 3)), 2000).occupied}
    assert not held_out & trained
