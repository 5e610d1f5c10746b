"""The estimate of what each rotor gives, on robots flown by the hover controller with noisy rates."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.arrays import Array
from rlstack.control.hover import HoverController
from rlstack.control.rotor_effectiveness import LEAST, RotorEffectiveness
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.kinds.quadrotor.spec_allocation import allocation
from rlstack.robots import frames
from tests.support import robots
from tests.support.flights import measure
from tests.support.reference import ReferenceQuadrotor

PERIOD_S = 0.01


def turning(shares: Array, seconds: float = 1.0, late_s: float = 0.0, noise: float = 0.0) -> RotorEffectiveness:
    """Return the estimate after rotor speeds that change, of a Crazyflie whose rotors give ``shares`` of the file's."""
    robot, random = robots.crazyflie(), np.random.default_rng(0)
    found, rate, inertia = RotorEffectiveness(robot, 9.0), np.zeros(3), np.array(robot.body.inertia_kg_m2)
    known: list[Array] = []
    for k in range(round(seconds / PERIOD_S)):
        speed = robot.hover_speed_rad_s * (1.0 + 0.1 * np.sin(7.0 * k * PERIOD_S + np.arange(4)))
        found.drove(k * PERIOD_S, speed)
        known.append(rate)
        at = k - round(late_s / PERIOD_S)
        if at >= 0:
            found.observe(at * PERIOD_S, known[at] + random.normal(0.0, noise, 3))
        after = robot.hover_speed_rad_s * (1.0 + 0.1 * np.sin(7.0 * (k + 1) * PERIOD_S + np.arange(4)))
        thrust = 0.5 * (robot.rotor_model.thrust(speed) + robot.rotor_model.thrust(after))
        torque = allocation(robot)[1:] @ (shares * thrust) - np.cross(rate, inertia * rate)
        rate = rate + PERIOD_S * torque / inertia
    return found


@pytest.mark.parametrize("late_s", [0.0, 0.03])
@pytest.mark.parametrize("weak", range(4))
def test_a_weak_rotor_is_told_from_the_others_from_late_and_noisy_rates(weak: int, late_s: float) -> None:
    shares = np.ones(4)
    shares[weak] = 0.8
    found = turning(shares, late_s=late_s, noise=0.002)
    np.testing.assert_allclose(found.shares, shares, atol=0.01)


def test_rotors_that_are_all_weak_and_one_that_is_dead_give_shares_within_their_range() -> None:
    np.testing.assert_allclose(turning(np.full(4, 0.7)).shares, 1.0, atol=0.06)
    dead = turning(np.array([0.0, 1.0, 1.0, 1.0])).shares
    assert dead[0] == LEAST and dead[1:].min() > 0.5


def test_a_pause_or_a_gap_keeps_the_shares_and_a_reset_forgets_them() -> None:
    found = turning(np.array([1.0, 0.8, 1.0, 1.0]))
    known = found.shares.copy()
    found.pause()
    found.drove(2.0, np.zeros(4))
    found.observe(2.0, [9.0, -9.0, 9.0])
    found.drove(3.0, np.zeros(4))
    found.observe(3.0, [0.0, 0.0, 0.0])
    found.observe(3.01, [1e200, 0.0, 0.0])
    found.observe(3.02, [0.0, 0.0, 0.0])
    np.testing.assert_array_equal(found.shares, known)
    found.reset()
    np.testing.assert_array_equal(found.shares, 1.0)


@pytest.mark.parametrize(
    ("robot", "rotor"), [*((robots.crazyflie(), k) for k in range(4)), (robots.large(), 1)], ids=lambda x: str(x)[:2]
)
def test_a_rotor_that_weakens_to_80_percent_in_the_hover_is_held_with_late_and_noisy_odometry(
    robot: Quadrotor, rotor: int
) -> None:
    quad, controller = ReferenceQuadrotor(robots.weakened(robot, rotor, 0.8), step_s=5e-3), HoverController(robot)
    quad.state["rotor_speed"] = np.full(4, robot.hover_speed_rad_s)
    controller.reset()
    random, dt = np.random.default_rng(0), 1.0 / robot.control_rate_hz
    waiting, tilts = [np.full(4, robot.hover_speed_rad_s)], []
    for _ in range(round(2.0 / dt)):
        seen = measure(quad, random)
        velocity = frames.rotate(seen["orientation"], seen["linear_velocity"])
        state = (seen["position"], seen["orientation"], velocity, seen["angular_velocity"])
        controller.follow(dt)
        controller.observe(seen["angular_velocity"])
        waiting.append(controller.command(*state, np.zeros(3), 0.0, dt, motors_dt=0.0))
        tilts.append(float(frames.tilt(quad.step(waiting.pop(0), dt)["orientation"])))
    assert max(tilts) < 1.2
    assert np.linalg.norm(quad.state["position"]) < 0.25
    assert controller.effectiveness.shares[rotor] == pytest.approx(0.8, abs=0.02)
