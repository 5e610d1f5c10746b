from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.policies import Envelope, contract_for
from rlstack.policies.contract import Contract
from rlstack.robots import frames
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.catalog.quadrotor_hover import HoverTask
from rlstack.tasks.catalog.quadrotor_rates import RatesTask
from rlstack.tasks.quadrotor import trajectories
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.verification.flight_baselines import BY_RATES, CONTROLLERS, STATE_INPUTS, baselines
from rlstack.verification.flight_trials import rollout
from tests.support import robots

GOAL_INPUTS = ("goal_position", "goal_orientation")
PATH_INPUTS = ("path_time", "path_position", "path_orientation")
NAMES = ("Lee geometric", "cascaded PID")


@pytest.fixture(scope="module")
def robot() -> Quadrotor:
    return robots.crazyflie()


def contract(robot: Quadrotor, *inputs: str, **changes) -> Contract:
    return contract_for(robot, inputs, ["rotor_speed"], name="learned", task="any", **changes)


def hovering(robot: Quadrotor, paths) -> Scenario:
    count = len(paths)
    state = {
        "position": np.zeros((count, 3)),
        "orientation": frames.from_yaw(paths.yaw[:, 0]),
        "linear_velocity": np.zeros((count, 3)),
        "angular_velocity": np.zeros((count, 3)),
        "rotor_speed": np.full((count, 4), robot.hover_speed_rad_s),
    }
    labels = np.full(count, "none")
    return Scenario(state, paths.position[:, 0], paths.yaw[:, 0], Perturbation.none(count), labels, path=paths)


def test_the_inputs_decide_what_is_flown(robot):
    assert tuple(CONTROLLERS) == NAMES
    hover = baselines(contract(robot, *STATE_INPUTS, *GOAL_INPUTS), robot)
    track = baselines(contract(robot, *STATE_INPUTS, *PATH_INPUTS, *GOAL_INPUTS, "measured_rotor_speed"), robot)
    assert tuple(hover) == tuple(track) == NAMES
    for found, inputs in ((hover, GOAL_INPUTS), (track, PATH_INPUTS)):
        for name, baseline in found.items():
            assert {port.name for port in baseline.contract.inputs} == {*STATE_INPUTS, *inputs}
            assert baseline.contract.name == name and str(baseline.path) == name
            assert baseline.contract.robot == robot.name and baseline.contract.state == ()


def test_they_see_all_of_a_path_however_far_the_policy_looks(robot):
    short = contract(robot, *STATE_INPUTS, *PATH_INPUTS, envelope={"path_ahead_s": 0.1})
    for baseline in baselines(short, robot).values():
        assert baseline.contract.envelope == Envelope()


@pytest.mark.parametrize("name", NAMES)
def test_who_is_not_told_a_heading_keeps_his(robot, name):
    still = trajectories.lissajous((0, 0, 0), (1, 1, 1), (0, 0, 0), 2.0, yaw=0.0)
    turned = replace(still, yaw=np.full_like(still.yaw, 1.0))
    for told in (("goal_position",), ("path_time", "path_position")):
        flown = baselines(contract(robot, *STATE_INPUTS, *told), robot)[name]
        assert {port.name for port in flown.contract.inputs} == {*STATE_INPUTS, *told}
        episodes = rollout(flown, hovering(robot, turned), robot, 2.0)
        np.testing.assert_allclose(frames.yaw(episodes.orientation[-1]), 1.0, atol=0.05)
        assert episodes.error_m.max() < 0.02


def test_a_task_that_they_cannot_fly_has_none(robot):
    assert baselines(contract(robot, *STATE_INPUTS), robot) == {}
    assert baselines(contract(robot, *STATE_INPUTS[:-1], *GOAL_INPUTS), robot) == {}
    told = contract(robot, *STATE_INPUTS, *GOAL_INPUTS)
    assert baselines(replace(told, outputs=(replace(told.outputs[0], name="rates"),)), robot) == {}


def test_gains_follow_the_rate_of_the_contract(robot):
    inputs = (*STATE_INPUTS, *GOAL_INPUTS)
    slow = baselines(replace(contract(robot, *inputs), rate_hz=50.0), robot)
    fast = baselines(contract(robot, *inputs), robot)
    for name in NAMES:
        assert slow[name].controller.gains.rate_per_s < fast[name].controller.gains.rate_per_s


@pytest.mark.parametrize("name", NAMES)
def test_hover_starts_are_caught_and_held_under_the_tasks_disturbances(robot, name):
    scenario = HoverTask().held_out(np.random.default_rng(5), 40, robot)
    flown = baselines(contract(robot, *STATE_INPUTS, *GOAL_INPUTS), robot)[name]
    error = rollout(flown, scenario, robot, 6.0).error_m
    assert (error.max(axis=0) < 2.0).mean() >= 0.95
    assert (error[300:].max(axis=0) < 0.1).mean() >= 0.95


def by_rates(robot: Quadrotor, *inputs: str) -> Contract:
    return contract_for(robot, inputs, ["rates_thrust"], name="learned", task="any")


def test_a_robot_that_takes_rates_has_a_controller_by_rates_which_catches_the_tasks_starts() -> None:
    robot = load_quadrotor("racer_rates")
    assert baselines(by_rates(robot, *STATE_INPUTS, *PATH_INPUTS), robot) == {}
    (flown,) = baselines(by_rates(robot, *STATE_INPUTS, *GOAL_INPUTS), robot).values()
    assert flown.contract.name == BY_RATES
    trials = RatesTask().held_out(np.random.default_rng(5), 40, robot)
    record = rollout(flown, trials, robot, 6.0)
    assert (record.error_m.max(axis=0) < 2.0).mean() >= 0.95
    assert (record.error_m[300:].max(axis=0) < 0.2).mean() >= 0.95
    assert np.abs(frames.yaw(record.orientation[-1])).max() < 0.1
    assert robot.rate_loop is not None
    assert (np.abs(record.command[..., :3]).max(axis=(0, 1)) <= robot.rate_loop.rates_max_rad_s).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_figure_eight_is_followed_from_hover(robot, name):
    flown = baselines(contract(robot, *STATE_INPUTS, *PATH_INPUTS), robot)[name]
    for ease, most in ((2.0, 0.03), (0.0, 0.1)):
        paths = trajectories.figure_eight(2, ease_s=ease)
        error = rollout(flown, hovering(robot, paths), robot, paths.duration_s).error_m
        assert np.sqrt((error**2).mean(axis=0)).max() < most


@pytest.mark.parametrize("name", NAMES)
def test_robots_are_flown_apart_and_a_reset_forgets(robot, name):
    """Two robots together fly as each alone does, and the second flight is like the first."""
    paths = trajectories.random_polynomials(np.random.default_rng(1), 2, robot, duration_s=1.0)
    scenario = hovering(replace(robot, sensors={}), paths)
    quiet = replace(robot, sensors={})
    flown = baselines(contract(robot, *STATE_INPUTS, *PATH_INPUTS), quiet)[name]
    both = rollout(flown, scenario, quiet, 1.0).command
    for n in (0, 1):
        alone = rollout(flown, scenario.take(slice(n, n + 1)), quiet, 1.0).command
        np.testing.assert_allclose(alone[:, 0], both[:, n], rtol=1e-6)
