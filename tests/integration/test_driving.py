"""Drives shared out over processes are those of one process."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from rlstack.control.navigation import PLANNERS
from rlstack.verification.navigation_trials import drive
from rlstack.verification.parallel import run_trials
from tests.support.bases import turtlebot
from tests.support.drives import course_of, room

pytestmark = pytest.mark.integration

ROBOT = turtlebot()


def test_how_many_processes_drive_does_not_change_what_is_driven() -> None:
    course = course_of(ROBOT, [room(1, metres=0.7), room(2, metres=0.6)], limit_s=5.0)
    told: list[tuple[int, int]] = []
    one, two = (
        run_trials(
            drive,
            course,
            make_driver=partial(PLANNERS.load("dwa"), ROBOT),
            robot=ROBOT,
            simulator="mujoco",
            name="dwa",
            rate_hz=10.0,
            arrival_m=0.2,
            seed=3,
            workers=workers,
            on_progress=lambda done, count: told.append((done, count)),
        )
        for workers in (1, 2)
    )
    assert one.ending.tolist() == two.ending.tolist() == ["arrived", "arrived"]
    np.testing.assert_array_equal(one.pose, two.pose)
    assert two.wall_s > 0.0 and told[-1] == (2, 2)
