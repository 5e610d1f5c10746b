"""What a simulation is made with: whatever cannot be is refused in a sentence before anything is built."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.backends.mujoco import MujocoBackend, MujocoEngine
from rlstack.sim.input_checks import check_options
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.simulated_robot import SimulatedRobot
from rlstack.sim.simulation import Simulation
from rlstack.sim.spawn import start_places
from rlstack.sim.world import World
from tests.support.worlds import VOID

ROBOT = load_quadrotor("crazyflie")
BALL = Obstacle(name="ball", shape="sphere", size_m=(0.2, 0.2, 0.2), position_m=(2.0, 0.0, 0.1), mass_kg=0.1)


def made(robots: Any = (ROBOT, ROBOT), **options: Any) -> Simulation:
    return Simulation(MujocoEngine, robots, **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"starts_m": [0.0, 0.0, 0.0]}, r"starts_m: the shape \(3,\) .* must be \(2, 3\)"),
        ({"starts_m": np.zeros((3, 3))}, r"starts_m: the shape \(3, 3\)"),
        ({"starts_m": [[0.0, 0.0, np.nan]] * 2}, "starts_m: .* must be finite"),
        ({"starts_m": "here"}, "starts_m: 'here' .* must be numbers"),
        ({"world": 7}, "world: a int is not allowed"),
        ({"world": {"generator": "empty"}}, "world: a dict is not allowed"),
        ({"physics_rate_hz": "1 kHz"}, "physics_rate_hz: '1 kHz' .* must be a number"),
        ({"physics_rate_hz": True}, "physics_rate_hz: True"),
        ({"physics_rate_hz": [1000.0]}, "physics_rate_hz"),
        ({"seed": -1}, "seed: -1 .* whole number from 0 on"),
        ({"seed": 0.5}, "seed: 0.5"),
        ({"wrold": "empty"}, "'wrold'. Nearest: world"),
        ({"physics_rate": 500.0}, "'physics_rate'. Nearest: physics_rate_hz"),
        ({"robots": ()}, "at least one"),
        ({"robots": ROBOT}, r"robots: crazyflie alone .* \[crazyflie\]"),
        ({"robots": ["crazyflie"]}, "robots: 'crazyflie' .*load_robot"),
        ({"isolated": True, "world": replace(VOID, obstacles=(BALL,))}, r"can be pushed \(ball\).* mass_kg"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says) as told:
        made(**options)
    assert str(told.value).endswith(".")


@pytest.mark.parametrize("seed", [-1, 1.5, "3", False])
def test_a_seed_of_noise_that_cannot_be_is_refused(seed: Any) -> None:
    with pytest.raises(UserError, match=r"noise_seed: .* whole number from 0 on"):
        MujocoBackend(ROBOT, noise_seed=seed)


@pytest.mark.parametrize(("option", "meant"), [("noise_sed", "noise_seed"), ("gyroscopc", "gyroscopic")])
def test_an_unknown_option_of_one_robot_names_what_was_meant(option: str, meant: str) -> None:
    with pytest.raises(UserError, match=f"'{option}'. Nearest: {meant}"):
        MujocoBackend(ROBOT, **{option: 1})


def test_an_engines_own_options_are_known() -> None:
    class WithOptions(MujocoEngine):
        options = ("headless",)

    check_options(["headless", "world"], WithOptions, Simulation)
    with pytest.raises(UserError, match=r"'headles'\. Nearest: headless"):
        check_options(["headles"], WithOptions, Simulation)


def test_isolated_robots_may_be_in_a_world_where_nothing_can_be_pushed() -> None:
    made(isolated=True, world=replace(VOID, obstacles=(replace(BALL, mass_kg=0.0),)))


def test_parts_that_move_in_a_mujoco_model_are_refused_to_isolated_robots_too(tmp_path: Any) -> None:
    model = tmp_path / "box.xml"
    model.write_text(
        "<mujoco><worldbody><body><freejoint/><geom type='box' size='.1 .1 .1'/></body></worldbody></mujoco>"
    )
    made(world=model).open()
    with pytest.raises(UserError, match="parts that move"):
        made(world=model, isolated=True).open()


@pytest.mark.parametrize("index", [-1, 2, 1.0, True])
def test_a_robot_that_there_is_not_cannot_be_taken(index: Any) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        SimulatedRobot(made(), index)


def test_robots_without_places_stand_on_a_grid_and_a_world_must_have_enough() -> None:
    grid = start_places(5)
    assert len({tuple(place) for place in grid}) == 5 and not grid[:, 2].any()
    world = World(name="w", seed=0, floor=True, obstacles=(), bounds_m=VOID.bounds_m, starts_m=((0.0, 0.0, 0.0),))
    with pytest.raises(UserError, match="1 start places for 2"):
        start_places(2, world)
    np.testing.assert_array_equal(start_places(2, world, isolated=True), np.zeros((2, 3)))
