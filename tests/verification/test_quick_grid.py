"""The quick grid tries required margins only, those of robots all at once, and says what does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.kinds.quadrotor.verification_reality import flight_axes
from rlstack.policies import load_policy
from rlstack.policies.released import find_policy
from rlstack.robots import load_robot
from rlstack.sim.vector import BATCH
from rlstack.tasks import TASKS
from rlstack.verification.flight_trials import rollout, rollout_together
from rlstack.verification.quick_grid import _result, quick_figures, quick_grid
from rlstack.verification.reality import Conditions, Reality
from rlstack.verification.request import Request


def test_a_released_policy_holds_what_is_asked_and_robots_of_both_conditions_fly_at_once() -> None:
    path, robot = find_policy("quadrotor_hover"), load_robot("crazyflie")
    loaded = load_policy(path, robot=robot)
    task = TASKS.load("quadrotor_hover")()
    request = Request.of_policy(loaded, robot, "crazyflie", task=task, episodes=8, seed=5, margins=("mass_scale",))
    held = quick_grid(request)
    assert held.failures == [] and held.trials == 8
    (one,) = held.axes
    assert (one.axis.key, one.axis.required, one.policy.margin) == ("mass_scale", 1.1, 1.1)
    nominal, heavier = (point.figures["error_m"] for point in one.policy.points)
    assert heavier != nominal


class Beside:
    """Another process that is this one."""

    def begin(self, request: Request, keys: Sequence[str]) -> None:
        self.begun, self.keys = request, keys

    def figures(self) -> dict[str, Any]:
        return quick_figures(self.begun, self.keys)


def test_every_second_axis_may_be_flown_elsewhere() -> None:
    robot = load_robot("crazyflie")
    loaded = load_policy(find_policy("quadrotor_hover"), robot=robot)
    task, margins = TASKS.load("quadrotor_hover")(), ("mass_scale", "thrust_scale")
    request = Request.of_policy(loaded, robot, "crazyflie", task=task, episodes=2, seed=5, margins=margins)
    beside = Beside()
    both = quick_grid(request, beside)
    assert list(beside.keys) == ["thrust_scale"] and [one.axis.key for one in both.axes] == list(margins)
    assert both.to_json() == quick_grid(request).to_json()


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


def test_conditions_that_fly_at_the_same_time_are_those_that_fly_alone() -> None:
    path, robot = find_policy("quadrotor_hover"), load_quadrotor("crazyflie")
    loaded = load_policy(path, robot=robot)
    trials = TASKS.load("quadrotor_hover")().held_out(np.random.default_rng(0), 3, robot)
    nominal = Conditions(trials=trials, robot=robot)
    chosen = {"mass_scale": 1.2, "observation_jitter_s": 0.02, "lost_messages_share": 0.2, "noise_scale": 3.0}
    axes = {axis.key: axis for axis in flight_axes(robot, 100.0)}
    asked = [nominal, *(axes[key].apply(value, nominal) for key, value in chosen.items())]
    together = rollout_together(loaded, asked, 0.5, 7)
    for one, found in zip(asked, together, strict=True):
        alone = rollout(loaded, one.trials, one.robot, 0.5, noise_seed=7, departures=one.departures)
        np.testing.assert_allclose(found.position, alone.position, atol=1e-4)
        np.testing.assert_allclose(found.command, alone.command, atol=0.5)
    assert not np.allclose(together[0].position, together[1].position, atol=1e-3)
