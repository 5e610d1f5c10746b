from __future__ import annotations

import numpy as np
import pytest

from rlstack.control.hover import Descent, HoverController
from tests.support import robots
from tests.support.reference import ReferenceQuadrotor


@pytest.mark.parametrize("floor_m", [-0.1, 0.0, 0.4])
@pytest.mark.parametrize("robot", [robots.crazyflie(), robots.large()], ids=lambda r: r.name)
def test_comes_down_at_the_given_speed_and_stops_on_any_floor(robot, floor_m: float) -> None:
    quad, controller = ReferenceQuadrotor(robot, step_s=5e-3, floor_m=floor_m), HoverController(robot)
    start = np.array([0.3, -0.2, 1.0])
    quad.state.update(position=start, rotor_speed=np.full(4, robot.hover_speed_rad_s))
    controller.reset()
    descent, dt, speed = Descent(start, 0.3), 1.0 / robot.control_rate_hz, []
    landed_s = None
    while landed_s is None and quad.time_s < 12.0:
        s = quad.state
        if descent.step(s["position"], s["linear_velocity"], dt):
            landed_s = quad.time_s
        speed.append(s["linear_velocity"][2])
        quad.step(
            controller.command(
                s["position"], s["orientation"], s["linear_velocity"], s["angular_velocity"], descent.goal, 0.0, dt
            ),
            dt,
        )
    drop = 1.0 - floor_m
    assert landed_s is not None
    assert drop / 0.3 < landed_s < drop / 0.3 + 3.0
    assert min(speed) > -0.45  # the touch is soft
    assert quad.state["position"][2] == pytest.approx(floor_m, abs=0.01)
    np.testing.assert_allclose(quad.state["position"][:2], start[:2], atol=0.05)


def test_a_robot_held_up_for_a_moment_has_not_landed() -> None:
    descent = Descent([0.0, 0.0, 1.0], 0.3)
    still = [0.0, 0.0, 0.0]
    assert not any(descent.step([0.0, 0.0, 1.0], still, 0.01) for _ in range(130))
    assert not any(descent.step([0.0, 0.0, 1.0], [0.0, 0.0, -0.3], 0.01) for _ in range(200))  # goes down again
    assert any(descent.step([0.0, 0.0, 1.0], still, 0.01) for _ in range(60))


def test_the_goal_never_runs_far_ahead_of_a_robot_that_does_not_follow() -> None:
    descent = Descent([0.0, 0.0, 1.0], 0.3)
    for _ in range(1000):
        descent.step([0.0, 0.0, 1.0], [0.0, 0.0, 0.2], 0.01)
    assert descent.goal[2] == pytest.approx(0.7)
