"""The reference is trusted by other tests, so it is held against closed forms and its own convergence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import frames
from rlstack.robots.spec import STANDARD_GRAVITY
from tests.support.reference import ReferenceQuadrotor


@pytest.fixture(scope="module")
def robot() -> Quadrotor:
    return load_quadrotor("crazyflie")


def without_drag(robot: Quadrotor) -> Quadrotor:
    return replace(robot, body=replace(robot.body, linear_drag_n_s_per_m=(0.0, 0.0, 0.0)))


def test_free_fall_is_a_parabola_and_keeps_energy_and_angular_momentum(robot: Quadrotor) -> None:
    inertia = (3.0e-6, 4.0e-6, 6.0e-6)
    body = replace(robot.body, inertia_kg_m2=inertia, linear_drag_n_s_per_m=(0.0, 0.0, 0.0))
    quad = ReferenceQuadrotor(replace(robot, body=body))
    rate = np.array([5.0, -3.0, 8.0])
    quad.state.update(linear_velocity=np.array([1.0, 2.0, 3.0]), angular_velocity=rate)
    state = quad.step(np.zeros(4), 1.0)
    np.testing.assert_allclose(state["position"], [1.0, 2.0, 3.0 - STANDARD_GRAVITY / 2], atol=1e-12)
    np.testing.assert_allclose(state["linear_velocity"], [1.0, 2.0, 3.0 - STANDARD_GRAVITY], atol=1e-12)
    now = state["angular_velocity"]
    assert np.linalg.norm(now - rate) > 1.0  # it tumbles, so keeping the momentum means something
    np.testing.assert_allclose((inertia * now) @ now, (inertia * rate) @ rate, rtol=1e-8)
    np.testing.assert_allclose(frames.rotate(state["orientation"], inertia * now), inertia * rate, rtol=1e-6)


def test_motor_lag_is_exponential_with_its_own_rise_and_fall(robot: Quadrotor) -> None:
    model = replace(robot.rotor_model, rise_time_constant_s=0.1, fall_time_constant_s=0.2)
    quad = ReferenceQuadrotor(replace(robot, rotor_model=model))
    quad.state["rotor_speed"] = np.array([0.0, 0.0, 1000.0, 1000.0])
    speed = quad.step([1000.0, 0.0, 0.0, 1000.0], 0.1)["rotor_speed"]
    np.testing.assert_allclose(speed, [1000 * (1 - np.exp(-1)), 0.0, 1000 * np.exp(-0.5), 1000.0], rtol=1e-9)


def test_hovers_at_the_hover_speed_and_drifts_under_a_constant_force(robot: Quadrotor) -> None:
    quad = ReferenceQuadrotor(without_drag(robot))
    hover = np.full(4, robot.hover_speed_rad_s)
    quad.state["rotor_speed"] = hover.copy()
    force = 0.05 * robot.weight_n
    state = quad.step(hover, 1.0, force=(force, 0.0, 0.0))
    np.testing.assert_allclose(state["position"], [0.025 * STANDARD_GRAVITY, 0.0, 0.0], atol=1e-9)


@pytest.mark.parametrize(
    ("faster", "axis", "sign"),
    [(("m2", "m3"), 1, 1.0), (("m1", "m2"), 0, -1.0), (("m2", "m4"), 2, 1.0)],
    ids=["rear rotors push the nose down", "right rotors roll to the left", "clockwise rotors yaw to the left"],
)
def test_rotors_turn_the_body_the_way_the_file_says(
    robot: Quadrotor, faster: tuple[str, ...], axis: int, sign: float
) -> None:
    quad = ReferenceQuadrotor(robot)
    quad.state["rotor_speed"] = np.array([1600.0 if name in faster else 1400.0 for name in robot.rotor_names])
    rate = quad.step(quad.state["rotor_speed"], 0.01)["angular_velocity"]
    assert sign * rate[axis] > 0.01
    assert np.all(np.abs(np.delete(rate, axis)) < 1e-6 * abs(rate[axis]))


def test_drag_acts_along_body_axes(robot: Quadrotor) -> None:
    body = replace(robot.body, linear_drag_n_s_per_m=(0.027, 0.0, 0.0))
    quad = ReferenceQuadrotor(replace(robot, body=body))
    quad.state.update(orientation=frames.from_yaw(np.pi / 2), linear_velocity=np.array([1.0, 1.0, 0.0]))
    velocity = quad.step(np.zeros(4), 0.5)["linear_velocity"]
    np.testing.assert_allclose(velocity[:2], [1.0, np.exp(-0.5)], rtol=1e-9)  # only the world's y is the body's x


def test_gyroscopic_term_keeps_the_momentum_of_body_and_rotors_together(robot: Quadrotor) -> None:
    model = replace(robot.rotor_model, thrust_coefficients=(0.0, 0.0, 1e-20), torque_per_thrust_m=0.0)
    idle = without_drag(robot)
    object.__setattr__(idle, "rotor_model", model)  # rotors that spin but do not lift, which no file may say
    quad = ReferenceQuadrotor(idle, gyroscopic=True)
    quad.state.update(angular_velocity=np.array([2.0, -1.0, 0.5]), rotor_speed=np.array([2000.0, 500.0, 1500.0, 100.0]))
    inertia, spin = np.array(robot.body.inertia_kg_m2), -robot.yaw_torque_signs * model.spin_inertia_kg_m2

    def momentum() -> np.ndarray:
        own = inertia * quad.state["angular_velocity"] + [0.0, 0.0, float(spin @ quad.state["rotor_speed"])]
        return frames.rotate(quad.state["orientation"], own)

    before, rate = momentum(), quad.state["angular_velocity"]
    quad.step([0.0, 2000.0, 0.0, 2000.0], 0.5)
    np.testing.assert_allclose(momentum(), before, atol=1e-9 * np.linalg.norm(before))
    assert np.linalg.norm(quad.state["angular_velocity"] - rate) > 0.1


def test_halving_the_step_changes_nothing_that_matters(robot: Quadrotor) -> None:
    ends = []
    for step_s in (1e-3, 2.5e-4):
        quad = ReferenceQuadrotor(robot, step_s=step_s)
        quad.state["rotor_speed"] = np.full(4, 1500.0)
        random = np.random.default_rng(3)
        for _ in range(50):
            quad.step(random.uniform(1300.0, 1800.0, 4), 0.01)
        ends.append(np.concatenate(list(quad.state.values())))
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-6, atol=1e-6)


def test_the_floor_stops_a_fall(robot: Quadrotor) -> None:
    quad = ReferenceQuadrotor(robot, floor_m=-0.1)
    state = quad.step(np.zeros(4), 1.0)
    assert state["position"][2] == -0.1
    assert np.all(state["linear_velocity"] == 0.0)
