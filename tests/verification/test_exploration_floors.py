from __future__ import annotations

import numpy as np

from rlstack.control.navigation import PLANNERS
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import load_robot
from rlstack.sim.grids.terrain import Floors
from rlstack.verification.exploration_trials import explore_floors
from rlstack.verification.trial_records import ExplorationRecord


def test_a_base_sees_more_and_more_of_its_floor() -> None:
    robot = load_robot("turtlebot3_burger")
    assert isinstance(robot, WheeledBase)
    maps = Floors(kinds=("clutter", "corridors")).maps(np.random.default_rng(0), 2, held_out=True)
    driven = explore_floors(PLANNERS.load("frontier_greedy")(robot), maps, robot, duration_s=12)
    assert driven.coverage.shape == (2, 13)
    assert (np.diff(driven.coverage, axis=1) >= 0.0).all()
    assert (driven.coverage[:, 1] > 0.05).all() and (driven.coverage[:, -1] > driven.coverage[:, 1] + 0.02).all()
    assert (driven.coverage <= 1.0).all() and not driven.crashed.any()


def test_time_to_a_share_is_that_of_its_first_second() -> None:
    coverage = np.array([[0.1, 0.5, 0.95], [0.1, 0.2, 0.3]])
    driven = ExplorationRecord(
        simulator="batch", rate_hz=1.0, coverage=coverage, done=np.zeros(2, dtype=bool), contacts=np.zeros(2, dtype=int)
    )
    assert driven.time_to(0.5).tolist() == [1.0, 2.0]
