"""Of :mod:`rlstack.tasks.wheeled_base.pipeline`."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import frames, load_robot
from rlstack.tasks.catalog.base_crowd import CrowdTask
from rlstack.tasks.core.pipeline import Tensors
from rlstack.tasks.wheeled_base.pipeline import GoalAttraction

ROBOT = load_robot("turtlebot2")
assert isinstance(ROBOT, WheeledBase)
PIPELINE = CrowdTask().pipeline(ROBOT)
assert isinstance(PIPELINE, GoalAttraction)


def sensed(x: float, y: float, yaw: float, goal: tuple[float, float]) -> Tensors:
    inputs = {
        "position": torch.tensor([[x, y, 0.0]]),
        "orientation": torch.from_numpy(frames.from_yaw(np.array([yaw]))).float(),
        "goal_position": torch.tensor([[*goal, 0.0]]),
    }
    return PIPELINE.prepare(inputs, {})


@settings(deadline=None, max_examples=40)
@given(x=st.floats(-4, 4), y=st.floats(-4, 4), yaw=st.floats(-3.1, 3.1))
def test_without_actions_the_base_comes_to_its_goal(x: float, y: float, yaw: float) -> None:
    goal = (1.0, -2.0)
    for _ in range(400):
        if np.hypot(x - goal[0], y - goal[1]) < 0.3:
            return
        speed, turning = PIPELINE.command(torch.zeros(1, 2), sensed(x, y, yaw, goal))[0].tolist()
        x, y, yaw = x + 0.1 * speed * np.cos(yaw), y + 0.1 * speed * np.sin(yaw), yaw + 0.1 * turning
    raise AssertionError(f"after 40 s it is at {x}, {y}")


@settings(deadline=None, max_examples=60)
@given(
    action=st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
    yaw=st.floats(-3.1, 3.1),
    goal=st.tuples(st.floats(-5, 5), st.floats(-5, 5)),
)
def test_commands_are_within_the_limits(action: tuple[float, float], yaw: float, goal: tuple[float, float]) -> None:
    speed, turning = PIPELINE.command(torch.tensor([action]), sensed(0.0, 0.0, yaw, goal))[0].tolist()
    assert abs(speed) <= 0.5 + 1e-6 and abs(turning) <= 1.0 + 1e-6


def test_actions_overcome_the_goal() -> None:
    ahead = sensed(0.0, 0.0, 0.0, (5.0, 0.0))
    pull = {name: PIPELINE.command(torch.tensor([action]), ahead)[0].tolist() for name, action in ACTIONS.items()}
    assert pull["nothing"][0] == pytest.approx(0.5 * np.tanh(1.0), rel=1e-2) and pull["nothing"][1] == 0.0
    assert abs(pull["a quarter back"][0]) < 0.01
    assert pull["back"][0] < -0.49
    assert pull["left"][1] > 0.9 > -0.9 > pull["right"][1]


ACTIONS = {
    "nothing": [0.0, 0.0],
    "a quarter back": [-0.25, 0.0],
    "back": [-1.0, 0.0],
    "left": [0.0, 1.0],
    "right": [0.0, -1.0],
}
