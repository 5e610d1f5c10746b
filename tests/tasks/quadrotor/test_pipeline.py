"""The frame that all quadrotors share: the thrust of a command follows the training's curve on every robot."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import robot_names
from rlstack.tasks.catalog.quadrotor_foundation import FoundationTask
from rlstack.tasks.quadrotor.family import nominal_robot

ACTIONS = st.lists(st.floats(-1.0, 1.0, width=32), min_size=4, max_size=4)


def commanded(robot: Quadrotor, action: list[float]) -> np.ndarray:
    """Return the speeds (4,) rad/s that the same action of all four places commands."""
    inputs = {name: torch.from_numpy(v).float().unsqueeze(0) for name, v in robot.family.inputs(robot).items()}
    # neighbours at the places front right, back right, back left, front left
    corner = torch.zeros(1, 4, 4)
    signs = np.sign(robot.rotor_positions[:, :2])
    for place, (x, y) in enumerate(((1, -1), (-1, -1), (-1, 1), (1, 1))):
        corner[0, :, place] = torch.from_numpy(((signs == [x, y]).all(axis=1)).astype(np.float32))
    pipeline = FoundationTask().pipeline(robot)
    speed: np.ndarray = pipeline.command(torch.tensor([action]), {**inputs, "rotor_corner": corner})[0].numpy()
    return speed[corner[0].argmax(dim=0).numpy()]


@settings(deadline=None, max_examples=30)
@given(action=ACTIONS)
def test_on_the_family_an_action_is_a_share_of_the_speeds(action: list[float]) -> None:
    robot = nominal_robot(load_quadrotor("crazyflie"))
    share = (np.array(action) + 1.0) / 2.0
    np.testing.assert_allclose(commanded(robot, action), share * robot.rotor_model.speed_max_rad_s, atol=0.02)


@pytest.mark.parametrize("name", robot_names("quadrotor"))
@settings(deadline=None, max_examples=15)
@given(action=ACTIONS)
def test_thrust_rises_with_the_action_as_in_training(name: str, action: list[float]) -> None:
    robot, family = load_quadrotor(name), nominal_robot(load_quadrotor("crazyflie"))
    model, speed = robot.rotor_model, commanded(robot, action)
    assert (speed >= model.speed_min_rad_s).all() and (speed <= model.speed_max_rad_s * (1.0 + 1e-6)).all()

    def risen(robot: Quadrotor, speed: np.ndarray) -> np.ndarray:
        model = robot.rotor_model
        low, high = model.thrust(np.array([model.speed_min_rad_s, model.speed_max_rad_s]))
        return np.asarray((model.thrust(speed) - low) / (high - low))

    trained = (np.array(action) + 1.0) / 2.0 * family.rotor_model.speed_max_rad_s
    np.testing.assert_allclose(risen(robot, speed), risen(family, trained), atol=2e-4)
