"""Obstacles that are moved from outside, as people are: seen where they are, felt by nobody."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS
from rlstack.robots import load_robot
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.world import World
from tests.support.isaacsim_standin.process import standing_in

ENGINES = ("mujoco", *(("pybullet",) if sys.version_info < (3, 12) else ()))
SOMEBODY = Obstacle(
    name="somebody", shape="cylinder", size_m=(0.5, 0.5, 1.7), position_m=(2.0, 0.0, 0.85), kinematic=True
)
PEOPLED = World(
    name="peopled",
    seed=0,
    floor=True,
    obstacles=(SOMEBODY,),
    bounds_m=((-9.0, -9.0, 0.0), (9.0, 9.0, 3.0)),
    starts_m=((0.0, 0.0, 0.0),),
)


@pytest.mark.parametrize("name", ENGINES)
def test_who_is_moved_is_seen_where_they_are_and_stops_nobody(name: str) -> None:
    robot = load_robot("turtlebot3_burger")
    backend = BACKENDS.load(name)(robot, world=PEOPLED, physics_rate_hz=250.0)
    backend.connect()
    backend.reset()
    ahead = int(np.argmin(np.abs(robot.lidars["scan"].angles_rad)))

    def seen() -> float:
        return float(backend.capture("scan").arrays["ranges"][ahead])

    mount = robot.lidars["scan"].position_m[0]
    assert seen() == pytest.approx(2.0 - 0.25 - mount, abs=0.02)
    backend.simulation.engine.move_obstacle("somebody", np.array([1.0, 0.0, 0.85]))
    assert seen() == pytest.approx(1.0 - 0.25 - mount, abs=0.02)
    backend.simulation.engine.move_obstacle("somebody", np.array([0.5, 0.0, 0.85]))
    for _ in range(60):
        backend.write({"twist": np.array([0.2, 0.0])})
        backend.step(0.1)
    assert backend.read().signals["position"][0] > 1.0  # through them: whoever drives must not
    backend.reset()
    assert seen() == pytest.approx(0.5 - 0.25 - mount, abs=0.02)  # a reset is of robots
    with pytest.raises(ValueError, match="the obstacles that are kinematic: \\['somebody'\\]"):
        backend.simulation.engine.move_obstacle("nobody", np.zeros(3))
    backend.close()


def test_isaac_sim_refuses_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with standing_in(monkeypatch, tmp_path):
        backend = BACKENDS.load("isaac")(load_robot("turtlebot3_burger"), world=PEOPLED)
        with pytest.raises(UserError, match="somebody is kinematic, which is not supported in Isaac Sim"):
            backend.connect()


def test_what_can_be_pushed_is_not_moved_from_outside() -> None:
    with pytest.raises(ValueError, match="leave one of the two out"):
        Obstacle(name="a", shape="sphere", size_m=(1, 1, 1), position_m=(0, 0, 0), mass_kg=1.0, kinematic=True)
