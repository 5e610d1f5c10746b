"""A vector simulator for any kind of robot in any engine: a backend for each robot."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.robots import load_robot
from rlstack.sim.vector import EngineVector, whole_steps

pytest.importorskip("mujoco")


def test_robots_of_any_kind_step_together_in_an_engine() -> None:
    panda = load_robot("panda")
    robots = EngineVector("mujoco", panda, 2, 20.0)
    assert robots.label == "mujoco (in process)" and robots.most == 2
    start = np.tile(robots.state()["joint_position"][0], (2, 1))
    robots.set_state({"joint_position": start})
    target = start.copy()
    target[1, 0] += 0.1
    for _ in range(10):
        robots.step(target)
    moved = robots.state()["joint_position"] - start
    assert moved.shape == start.shape and moved[1, 0] > 0.02 > abs(moved[0, 0])
    robots.close()


def test_what_is_not_a_simulator_with_an_engine_is_refused() -> None:
    with pytest.raises(UserError, match="not a simulator with an engine"):
        EngineVector("batch", load_robot("panda"), 2, 20.0)


@pytest.mark.parametrize(("physics_hz", "rate_hz", "steps"), [(500.0, 20.0, 25), (100.0, 100.0, 1), (90.0, 60.0, 2)])
def test_a_control_period_has_whole_physics_steps(physics_hz: float, rate_hz: float, steps: int) -> None:
    assert whole_steps(physics_hz, rate_hz) == steps
