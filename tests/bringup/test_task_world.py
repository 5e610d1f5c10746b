from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack.bringup.deploy import checked_deployment
from rlstack.bringup.task_world import is_task_world, with_task_world
from rlstack.errors import UserError
from rlstack.sim.world import load_world


def options(world: str = "task:3", **more: Any) -> dict[str, Any]:
    return {"world": world, **more}


def test_a_policys_world_is_that_of_a_trial_of_its_task() -> None:
    found = with_task_world("arm_pick_place", "panda", options())
    world = load_world(found["world"])
    (box,) = world.obstacles
    assert box.is_handled and 0.3 < np.hypot(*box.position_m[:2]) < 0.8
    assert len(found["goal"]) == 3 and found["goal"] != box.position_m
    assert "instruction" not in found
    again, other = (with_task_world("arm_pick_place", "panda", options(f"task:{seed}")) for seed in (3, 4))
    assert again == found
    assert load_world(other["world"]).obstacles != world.obstacles
    Path(found["world"]).unlink(), Path(other["world"]).unlink()


def test_a_goal_that_is_given_stays() -> None:
    assert with_task_world("arm_pick_place", "panda", options(goal=(0.5, 0.0, 0.1)))["goal"] == (0.5, 0.0, 0.1)


def test_the_deployment_simulates_it() -> None:
    system = checked_deployment("arm_pick_place", world="task:3")
    robot = next(process for process in system.processes if process.node_name == "robot")
    assert load_world(str(robot.parameters["world"])).obstacles[0].name == "object"


@pytest.mark.parametrize(
    ("policy", "robot", "given", "refusal"),
    [
        ("", "panda", options(), "give --policy"),
        ("arm_reach", "panda", options("task:x"), "give task, or task:7"),
        ("arm_reach", "panda", options("task:²"), "give task, or task:7"),
        ("arm_reach", "panda", options(count=2), "for one robot"),
        ("quadrotor_hover", "crazyflie", options(), "quadrotor_hover have no world of their own"),
    ],
)
def test_what_has_no_such_world_is_refused(policy: str, robot: str, given: dict[str, Any], refusal: str) -> None:
    with pytest.raises(UserError, match=refusal):
        with_task_world(policy, robot, given)


def test_other_worlds_are_none() -> None:
    assert [is_task_world(name) for name in ("task", "task:7", "tasks", "warehouse:7", "")] == [
        True,
        True,
        *[False] * 3,
    ]
