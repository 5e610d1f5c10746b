"""The guard in closed loop with the reference quadrotor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlstack.guard import CommonMode
from rlstack.kinds.quadrotor.guard import QuadrotorGuard, QuadrotorMode
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.robots import frames
from rlstack.sim.backends.mujoco import MujocoEngine
from rlstack.sim.simulation import Simulation
from tests.kinds.quadrotor.guard_loop import Loop, good_policy
from tests.support import robots

AIR = (0.2, -0.1, 1.0)
ROBOTS = {
    "crazyflie": robots.crazyflie(),
    "large": robots.large(),
    "racer_rates": load_quadrotor("racer_rates"),
}


def airborne(name: str = "crazyflie", **overrides: float) -> Loop:
    robot = ROBOTS[name]
    loop = Loop(QuadrotorGuard(robot, QuadrotorGuardConfig.from_robot(robot, **overrides)), AIR)
    loop.observe()
    assert loop.guard.arm(0.0)[0]
    return loop


@pytest.mark.parametrize("name", ROBOTS)
def test_a_killed_policy_ends_in_hover_then_on_the_floor_disarmed_within_all_limits(name: str) -> None:
    loop = airborne(name)
    config = loop.guard.config
    loop.run(1.0, good_policy(loop.robot, (1.0, -1.0, 1.0)))
    assert loop.guard.mode is CommonMode.POLICY
    where, when = loop.quad.state["position"].copy(), loop.time_s
    loop.run(16.0, None, until=CommonMode.DISARMED)

    assert loop.transitions() == [CommonMode.POLICY, QuadrotorMode.HOVER, QuadrotorMode.LAND, CommonMode.DISARMED]
    assert loop.guard.interventions == 1
    hover_from = loop.modes.index(QuadrotorMode.HOVER) / loop.robot.control_rate_hz
    assert hover_from - when <= config.staleness_s + 2 * config.period_s
    assert "landed" in loop.guard.reason
    assert "late" in loop.guard.reason
    assert loop.quad.state["position"][2] == pytest.approx(0.0, abs=0.01)
    assert np.linalg.norm(loop.quad.state["position"][:2] - where[:2]) < 0.3
    assert max(loop.tilts) < config.tilt_rad
    assert max(loop.speeds) < config.linear_velocity_m_s
    assert loop.decisions[-1].command is None or np.all(loop.decisions[-1].command == 0.0)
    assert np.all(loop.applied == 0.0)


@pytest.mark.parametrize("name", ROBOTS)
def test_asked_to_end_in_fast_flight_it_lands_within_the_time_it_says_and_is_not_given_back(name: str) -> None:
    loop = airborne(name)
    guard, policy = loop.guard, good_policy(loop.robot, (1.5, -1.0, 1.3))
    loop.run(1.0, policy)
    decision = guard.end(loop.time_s, "asked to end by SIGINT", "Again: now.")
    assert decision.mode is QuadrotorMode.LAND and decision.command is not None
    began_s, where = loop.time_s, loop.quad.state["position"].copy()
    loop.run(15.0, policy, until=CommonMode.DISARMED)
    assert loop.transitions() == [CommonMode.POLICY, QuadrotorMode.LAND, CommonMode.DISARMED]
    assert guard.reason == "landed (asked to end by SIGINT)" and not guard.rest_is_late(loop.time_s)
    assert loop.time_s - began_s < guard.config.rest_within_s
    assert max(position[2] for position in loop.positions[-10:]) < 0.02
    assert np.linalg.norm(loop.positions[-1][:2] - where[:2]) < 1.0 and max(loop.tilts) < guard.config.tilt_rad


def test_asked_to_end_on_the_ground_or_without_odometry_it_switches_off() -> None:
    robot = ROBOTS["crazyflie"]
    waiting = Loop(QuadrotorGuard(robot), (0.0, 0.0, 0.0))
    waiting.observe()
    assert waiting.guard.end(0.0, "asked").mode is CommonMode.DISARMED
    assert waiting.guard.arm(0.0)[0] and waiting.guard.mode is QuadrotorMode.TAKEOFF
    assert waiting.guard.end(0.0, "asked").mode is CommonMode.DISARMED
    flying = airborne()
    flying.guard.end(flying.time_s, "asked")
    for k in range(1, 40):
        flying.guard.on_tick(flying.time_s + 0.01 * k)
    assert flying.guard.mode is CommonMode.DISARMED and "no valid observation" in flying.guard.reason


def test_a_policy_that_comes_back_in_time_flies_again() -> None:
    loop = airborne()
    policy = good_policy(loop.robot, AIR)
    loop.run(0.5, policy)
    loop.run(0.5, None)
    assert loop.guard.mode is QuadrotorMode.HOVER
    loop.run(0.9, policy)
    assert loop.guard.mode is QuadrotorMode.HOVER  # not yet for a whole second
    loop.run(0.3, policy)
    assert loop.guard.mode is CommonMode.POLICY
    assert "on time again" in loop.guard.reason
    loop.run(1.0, policy)
    assert np.linalg.norm(loop.quad.state["position"] - AIR) < 0.1


@pytest.mark.parametrize("late_s", [0.0, 0.01])
def test_it_takes_over_a_robot_with_a_weak_motor_that_the_policy_knew_and_it_does_not(late_s: float) -> None:
    robot = ROBOTS["crazyflie"]
    weak = robots.weakened(robot, 1, 0.7)
    loop = Loop(QuadrotorGuard(robot), AIR, plant=weak)
    loop.late_s = late_s
    loop.quad.state["rotor_speed"] = weak.hover_command
    for _ in range(5):
        loop.observe()
        loop.quad.step(weak.hover_command, 0.01)
    loop.observe()
    assert loop.guard.arm(loop.time_s)[0]
    loop.run(0.7, good_policy(weak, (1.0, -1.0, 1.2), 2.0))
    assert loop.guard.mode is CommonMode.POLICY
    taken = len(loop.modes)
    loop.run(2.0, None)
    assert set(loop.modes[taken + 5 :]) == {QuadrotorMode.HOVER}
    assert max(loop.tilts) < loop.guard.config.tilt_rad
    assert np.linalg.norm(loop.positions[-1] - loop.positions[-50]) < 0.2 and loop.speeds[-1] < 0.4


def test_it_takes_off_with_a_weak_motor() -> None:
    robot = ROBOTS["crazyflie"]
    guard, simulation = QuadrotorGuard(robot), Simulation(MujocoEngine, [robots.weakened(robot, 2, 0.8)])
    simulation.open()
    tilts = []
    for k in range(170):
        seen = simulation.motion(0)
        tilts.append(float(frames.tilt(seen["orientation"])))
        seen["linear_velocity"] = frames.rotate_inverse(seen["orientation"], seen["linear_velocity"])
        decision = guard.on_observation(0.01 * k, 0.01 * k, seen)
        if k == 0:
            assert guard.arm(0.0)[0]
        if decision.command is not None:
            simulation.command(decision.command[None])
        simulation.step(0.01)
    simulation.close()
    assert guard.mode is not CommonMode.DISARMED and max(tilts) < guard.config.tilt_rad
    assert seen["position"][2] == pytest.approx(0.8, abs=0.3)


def test_a_policy_that_tilts_away_is_caught_inside_the_fence_and_never_flies_again() -> None:
    loop = airborne()
    low, high = np.array(loop.guard.config.geofence_min_m), np.array(loop.guard.config.geofence_max_m)
    hover = loop.robot.hover_speed_rad_s

    def nose_down(seen: dict[str, np.ndarray]) -> np.ndarray:
        return hover * np.array([0.98, 1.04, 1.04, 0.98])

    loop.run(12.0, nose_down, until=QuadrotorMode.HOVER)
    assert loop.transitions() == [
        *[CommonMode.POLICY, QuadrotorMode.RETURN] * 3,
        CommonMode.POLICY,
        QuadrotorMode.HOVER,
    ]
    assert "3 turn-backs" in loop.guard.reason
    loop.run(4.5, good_policy(loop.robot, AIR))  # good commands now, but the trust is gone
    assert loop.guard.mode is QuadrotorMode.HOVER
    positions = np.array(loop.positions)
    assert np.all(positions > low)
    assert np.all(positions < high)
    assert loop.guard.interventions == 4
    assert loop.speeds[-1] < 0.1


@pytest.mark.parametrize("speed_m_s", [0.5, 1.0, 2.6])
@pytest.mark.parametrize("goal", [(4.0, 0.0, 1.0), (-2.0, -5.0, 1.5), (0.0, 0.0, 6.0)])
def test_a_policy_that_flies_to_the_fence_is_stopped_inside_it(
    goal: tuple[float, float, float], speed_m_s: float
) -> None:
    loop = airborne()
    loop.run(40.0, good_policy(loop.robot, goal, speed_m_s), until=QuadrotorMode.LAND)
    assert QuadrotorMode.RETURN in loop.modes
    assert loop.modes[-1] is QuadrotorMode.LAND or speed_m_s < 1.0  # a slow one is turned back more rarely
    assert "geofence" in loop.guard.reason or loop.guard.mode is CommonMode.POLICY
    assert np.all(np.min(loop.positions, axis=0) > loop.guard.config.geofence_min_m)
    assert np.all(np.max(loop.positions, axis=0) < loop.guard.config.geofence_max_m)


def test_one_command_that_is_not_a_number_is_never_passed_on_and_ends_the_flight() -> None:
    loop = airborne()
    policy = good_policy(loop.robot, AIR)
    loop.run(0.5, policy)
    calls = iter(range(1000))
    loop.run(0.5, lambda seen: policy(seen) * (np.nan if next(calls) == 0 else 1.0))
    assert loop.guard.mode is QuadrotorMode.HOVER
    assert "not finite" in loop.guard.reason
    loop.run(12.0, policy, until=CommonMode.DISARMED)
    assert loop.transitions()[-2:] == [QuadrotorMode.LAND, CommonMode.DISARMED]
    assert all(np.all(np.isfinite(d.command)) for d in loop.decisions if d.command is not None)


@pytest.mark.parametrize("name", ROBOTS)
def test_takes_off_from_the_floor_and_hands_over(name: str) -> None:
    robot = ROBOTS[name]
    loop = Loop(QuadrotorGuard(robot), (0.5, 0.5, 0.0))
    loop.observe()
    assert loop.guard.arm(0.0) == (True, "armed on the ground")
    policy = good_policy(robot, (0.5, 0.5, 1.2))
    loop.run(6.0, policy, until=CommonMode.POLICY)
    assert loop.transitions() == [QuadrotorMode.TAKEOFF, CommonMode.POLICY]
    assert abs(loop.quad.state["position"][2] - 1.0) < 0.16
    loop.run(3.0, policy)
    assert loop.guard.mode is CommonMode.POLICY
    np.testing.assert_allclose(loop.quad.state["position"], (0.5, 0.5, 1.2), atol=0.1)
    assert loop.guard.interventions == 0


def test_takes_off_without_a_policy_waits_and_lands() -> None:
    robot = ROBOTS["crazyflie"]
    loop = Loop(QuadrotorGuard(robot), (0.0, 0.0, 0.0))
    loop.observe()
    loop.guard.arm(0.0)
    loop.run(20.0, None, until=CommonMode.DISARMED)
    assert loop.transitions() == [QuadrotorMode.TAKEOFF, QuadrotorMode.HOVER, QuadrotorMode.LAND, CommonMode.DISARMED]
    hovering = [p[2] for p, m in zip(loop.positions, loop.modes) if m is QuadrotorMode.HOVER]
    assert np.abs(np.array(hovering[100:]) - 1.0).max() < 0.1


def test_takeoff_that_is_held_down_gives_up() -> None:
    robot = ROBOTS["crazyflie"]
    guard = QuadrotorGuard(robot)
    loop = Loop(guard, (0.0, 0.0, 0.0))
    loop.observe()
    guard.arm(0.0)
    for _ in range(1200):
        loop.quad.state.update(position=np.zeros(3), linear_velocity=np.zeros(3), angular_velocity=np.zeros(3))
        loop.run(0.01, None)
        if guard.mode is CommonMode.DISARMED:
            break
    assert loop.transitions() == [QuadrotorMode.TAKEOFF, QuadrotorMode.LAND, CommonMode.DISARMED]


@pytest.mark.parametrize(("name", "near_m"), [("crazyflie", 0.02), ("racer_rates", 0.06)])
def test_lost_observations_are_bridged_by_a_prediction_and_then_stop_the_motors(name: str, near_m: float) -> None:
    loop = airborne(name)
    loop.run(0.5, good_policy(loop.robot, (1.0, 0.5, 1.2)))
    position, errors, decisions = loop.quad.state["position"], [], []
    for _ in range(40):
        decision = loop.guard.on_tick(loop.time_s)
        decisions.append(decision)
        if decision.command is not None and decision.mode is not CommonMode.DISARMED:
            loop.applied = decision.command
            if loop.guard.mode is QuadrotorMode.HOVER:
                predicted = loop.guard._fallback.predicted(loop.time_s, loop.guard._newest, loop.guard._seen_t)
                errors.append(np.linalg.norm(predicted.position - loop.quad.state["position"]))
        loop.quad.step(loop.applied, 0.01)
    modes = [d.mode for d in decisions]
    assert QuadrotorMode.HOVER in modes
    stop = modes.index(CommonMode.DISARMED)
    assert 0.29 <= 0.01 * stop <= 0.32
    assert np.all(decisions[stop].command == 0.0)
    assert decisions[stop].changed
    assert all(d.command is None for d in decisions[stop + 1 :])
    assert len(errors) > 20 and max(errors) < near_m  # it hovers on what it knows
    assert np.linalg.norm(loop.quad.state["position"] - position) < 0.4


def test_a_link_that_returns_in_time_finds_the_robot_hovering_and_the_policy_goes_on() -> None:
    loop = airborne()
    policy = good_policy(loop.robot, (1.0, 0.5, 1.2))
    loop.run(0.5, policy)
    for _ in range(25):
        loop._publish(loop.guard.on_tick(loop.time_s))
        loop.quad.step(loop.applied, 0.01)
    assert loop.guard.mode is QuadrotorMode.HOVER
    loop.run(3.0, policy)
    assert loop.guard.mode is CommonMode.POLICY
    assert np.linalg.norm(loop.quad.state["position"] - (1.0, 0.5, 1.2)) < 0.3
    assert max(loop.tilts) < 0.8


def test_tumbled_robot_stops_its_motors() -> None:
    loop = airborne()
    loop.run(0.2, good_policy(loop.robot, AIR))
    for _ in range(120):
        loop.quad.state.update(orientation=np.array([1.0, 0.0, 0.0, 0.0]), position=np.array(AIR))
        loop.run(0.01, None)
    assert loop.guard.mode is CommonMode.DISARMED
    assert "on its side or back" in loop.guard.reason


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("late_s", [0.02, 0.15])
def test_late_odometry_ends_in_a_hover_and_a_landing_although_the_robot_is_not_quite_as_in_its_file(
    name: str, late_s: float
) -> None:
    robot = ROBOTS[name]
    body = robot.body
    lighter = replace(body, mass_kg=1.1 * body.mass_kg, inertia_kg_m2=tuple(0.8 * j for j in body.inertia_kg_m2))
    guard = QuadrotorGuard(robot, QuadrotorGuardConfig.from_robot(robot, hover_before_landing_s=2.0))
    loop = Loop(guard, AIR, plant=replace(robot, body=lighter))
    loop.observe()
    assert guard.arm(0.0)[0]
    loop.run(0.8, good_policy(robot, (1.0, -1.0, 1.0)))
    loop.late_s = late_s
    loop.run(10.0, None, until=CommonMode.DISARMED)
    assert loop.transitions() == [CommonMode.POLICY, QuadrotorMode.HOVER, QuadrotorMode.LAND, CommonMode.DISARMED]
    assert "landed" in guard.reason
    assert max(loop.tilts) < guard.config.tilt_rad
    assert max(loop.speeds) < guard.config.linear_velocity_m_s


def test_a_policy_that_turns_and_climbs_beyond_its_range_is_limited_in_rates_and_thrust() -> None:
    loop = airborne("racer_rates")
    guard, limits = loop.guard, loop.robot.rate_loop
    assert limits is not None
    seen = loop.observe()
    guard.on_policy_command(0.0, 0.0, loop.robot.hover_command)
    before = loop.robot.hover_command
    for k in range(1, 4):
        guard.on_observation(0.01 * k, 0.01 * k, {**seen, "position": seen["position"] + 1e-4 * k})
        decision = guard.on_policy_command(0.01 * k, 0.01 * k, np.array([99.0, -99.0, 99.0, 999.0]))
        assert decision.clipped and decision.command is not None
        step = np.abs(decision.command - before)
        assert (step[:3] <= 0.01 * limits.rate_change_rad_s2 + 1e-9).all()
        assert step[3] <= 0.01 * limits.thrust_change_m_s3 + 1e-9
        before = decision.command
    np.testing.assert_allclose(before, [8.0, -8.0, 4.0, loop.robot.thrust_max_m_s2])
