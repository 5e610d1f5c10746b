"""The quick grid tries required margins only, those of robots all at once, and says what does not hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.kinds.quadrotor.verification_reality import flight_axes
from rlstack.policies import load_policy
from rlstack.policies.released import find_policy
from rlstack.robots import load_robot
from rlstack.sim.vector import BATCH
from rlstack.tasks import TASKS
from rlstack.verification.quick_grid import _result, quick_grid
from rlstack.verification.reality import Reality
from rlstack.verification.request import Request


def test_a_released_policy_holds_what_is_asked_and_robots_of_both_conditions_fly_at_once() -> None:
    path, robot = find_policy("quadrotor_hover"), load_robot("crazyflie")
    loaded = load_policy(path, robot=robot)
    request = Request(
        policy=path,
        given=str(path),
        loaded=loaded,
        sha256=loaded.sha256,
        task=TASKS.load("quadrotor_hover")(),
        task_name="quadrotor_hover",
        robot=robot,
        named="crazyflie",
        robot_option="",
        names=(BATCH,),
        topics=False,
        episodes=8,
        seed=5,
        margins=("mass_scale",),
    )
    held = quick_grid(request)
    assert held.failures == [] and held.trials == 8
    (one,) = held.axes
    assert (one.axis.key, one.axis.required, one.policy.margin) == ("mass_scale", 1.1, 1.1)
    nominal, heavier = (point.figures["error_m"] for point in one.policy.points)
    assert heavier != nominal


def test_what_does_not_hold_is_said() -> None:
    axis = next(one for one in flight_axes(load_quadrotor("crazyflie"), 100.0) if one.key == "thrust_scale")

    def failures(nominal: float, there: float) -> list[str]:
        result = _result(axis, {"success": nominal}, {"success": there}, 0.95)
        return Reality(axes=(result,), simulator=BATCH, trials=64, baseline_trials=0).failures

    assert failures(1.0, 0.96) == []
    assert failures(1.0, 0.94)[0].startswith(
        "Reality: thrust: the margin is under x0.85, but x0.85 is required, with 94.0%"
    )
    assert failures(0.9, 1.0)[0].startswith("Reality: thrust: the margin is none")


def test_joined_episodes_are_those_of_the_parts() -> None:
    robot: Any = load_robot("crazyflie")
    drawn = TASKS.load("quadrotor_hover")().held_out(np.random.default_rng(0), 6, robot)
    joined = type(drawn).joined([drawn.take(slice(0, 2)), drawn.take(slice(2, 6))])
    assert len(joined) == 6 and (joined.state["position"] == drawn.state["position"]).all()
    assert (joined.perturbation.mass_scale == drawn.perturbation.mass_scale).all()
    assert (joined.labels == drawn.labels).all()
