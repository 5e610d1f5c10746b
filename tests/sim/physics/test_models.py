"""Which models are on: the robot's file, a world's switches, and what is refused."""

from __future__ import annotations

import pytest

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.physics.models import MODELS, NO_MODELS, PhysicsModels, models_of
from tests.support.robots import crazyflie, large


@pytest.mark.parametrize("name", ["crazyflie", "x500"])
def test_what_a_shipped_robot_has_on(name: str) -> None:
    assert models_of(load_quadrotor(name)) == PhysicsModels(ground_effect=True, downwash=True)


def test_a_robot_without_numbers_has_nothing() -> None:
    assert models_of(large()) == NO_MODELS


def test_switches_win_over_the_file() -> None:
    robot = crazyflie()
    assert models_of(robot, {"ground_effect": False, "downwash": False}) == NO_MODELS
    assert models_of(robot, {"battery": True, "rotor_drag": True}) == PhysicsModels(True, True, True, False, True)
    assert models_of(robot, wind=True).wind and not models_of(robot, {"wind": False}, wind=True).wind
    assert not models_of(robot, floor=False).ground_effect


def test_a_kernel_for_several_robots_has_what_any_of_them_has() -> None:
    assert models_of(crazyflie()) | models_of(large()) == models_of(crazyflie())
    assert PhysicsModels(wind=True) | PhysicsModels(battery=True) == PhysicsModels(wind=True, battery=True)
    assert MODELS == ("ground_effect", "rotor_drag", "downwash", "wind", "battery")


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match=r"the world 'room': .*physics model 'downwahs'.*downwash"):
        models_of(crazyflie(), {"downwahs": True}, where="the world 'room'")
    with pytest.raises(UserError, match=r"rotor_drag is on, and large has no numbers.*'aerodynamics.rotor_drag'"):
        models_of(large(), {"rotor_drag": True})
    with pytest.raises(UserError, match=r"battery is on, and large has no numbers for it: add the section 'battery'"):
        models_of(large(), {"battery": True})
    with pytest.raises(UserError, match=r"wind is on, and there is none"):
        models_of(crazyflie(), {"wind": True})
    assert models_of(large(), {"battery": False}) == NO_MODELS
