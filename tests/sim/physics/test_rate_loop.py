"""The rate loop of an autopilot: as fast as its robot file says in every simulator, and saturated in order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlstack.kinds.quadrotor.simulation_vector import quadrotor_vector
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.kinds.quadrotor.spec_allocation import allocation, inverse_allocation
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.physics.rate_loop import mixed, speed_for_thrust
from rlstack.sim.vector import BATCH

RACER, CRAZYFLIE = load_quadrotor("racer_rates"), load_quadrotor("crazyflie_rates")
STEPS = np.array([[2.0, 0.0, 0.0, 9.81], [0.0, -2.0, 0.0, 9.81], [0.0, 0.0, 1.0, 9.81], [0.0, 0.0, 0.0, 14.0]])


def flown(simulator: str, robot: Quadrotor, commands: np.ndarray, periods: int, **changes: np.ndarray) -> dict:
    """Return states by name (periods, N, width) from hover, high up, under constant commands."""
    count = len(commands)
    robots = quadrotor_vector(simulator, robot, count, 100.0)
    robots.set_perturbation(replace(Perturbation.none(count), **changes))
    still = np.zeros((count, 3))
    robots.set_state(
        {
            "position": still + np.array([0.0, 0.0, 50.0]),
            "orientation": np.tile([0.0, 0.0, 0.0, 1.0], (count, 1)),
            "linear_velocity": still,
            "angular_velocity": still,
            "rotor_speed": np.full((count, 4), robot.hover_speed_rad_s),
        }
    )
    states = []
    for _ in range(periods):
        robots.step(commands)
        states.append(robots.state())
    robots.close()
    return {name: np.stack([state[name] for state in states]) for name in states[0]}


@pytest.mark.parametrize("simulator", [BATCH, "mujoco", "pybullet"])
@pytest.mark.parametrize("robot", [RACER, CRAZYFLIE], ids=lambda robot: robot.name)
def test_rates_cover_63_percent_of_a_step_in_the_files_time(simulator: str, robot: Quadrotor) -> None:
    path = flown(simulator, robot, STEPS, 60)
    loop, times = robot.rate_loop, 0.01 * np.arange(1, 61)
    assert loop is not None
    for axis, lag in enumerate((loop.time_constant_s, loop.time_constant_s, loop.yaw_time_constant_s)):
        share = path["angular_velocity"][:, axis, axis] / STEPS[axis, axis]
        reached = np.interp(0.63, share, times)
        assert 0.75 * lag < reached < 1.25 * lag, axis
        assert share[-1] == pytest.approx(1.0, abs=0.02) and share.max() < 1.05
    climbed = np.diff(path["linear_velocity"][-20:, 3, 2]).mean() / 0.01
    drag = robot.body.linear_drag_n_s_per_m[2] * path["linear_velocity"][-10, 3, 2] / robot.body.mass_kg
    assert climbed + drag == pytest.approx(14.0 - 9.81, rel=0.03)


@pytest.mark.parametrize("simulator", [BATCH, "mujoco"])
def test_a_torque_is_cancelled_as_far_as_the_loop_can(simulator: str) -> None:
    torque = np.array(RACER.body.inertia_kg_m2) * [10.0, 0.0, 0.0]  # 10 rad/s^2 about roll
    rejection = np.array([1.0, 0.5, 0.0])
    hover = np.tile(RACER.hover_command, (3, 1))
    made = flown(simulator, RACER, hover, 40, torque_n_m=np.tile(torque, (3, 1)), rate_rejection_scale=rejection)[
        "angular_velocity"
    ][-1, :, 0]
    np.testing.assert_allclose(made, 10.0 * 0.03 * (1.0 - rejection), atol=0.02)


def test_a_slower_loop_is_slower() -> None:
    lags = np.array([1.0, 2.0])
    made = flown(BATCH, RACER, np.tile(STEPS[0], (2, 1)), 6, rate_lag_scale=lags)["angular_velocity"][:, :, 0]
    assert made[5, 1] == pytest.approx(made[2, 0], rel=0.1)


def test_saturated_rotors_give_roll_first_then_thrust_then_yaw() -> None:
    inverse, matrix = inverse_allocation(RACER), allocation(RACER)
    columns, top = [inverse[:, k] for k in range(4)], 7.0

    def given(lift: float, *torque: float) -> np.ndarray:
        thrusts = mixed(columns, lift, np.array(torque), 0.0, top)
        assert (thrusts >= 0.0).all() and (thrusts <= top).all()
        return matrix @ thrusts

    np.testing.assert_allclose(given(10.0, 0.2, -0.1, 0.02), [10.0, 0.2, -0.1, 0.02], atol=1e-9)
    lift, roll, pitch, yaw = given(28.0, 0.5, 0.0, 0.2)  # full thrust leaves no room to turn
    assert roll == pytest.approx(0.5) and pitch == pytest.approx(0.0, abs=1e-9)
    assert lift < 28.0 and abs(yaw) < 1e-9
    lift, roll, _, _ = given(0.0, 0.5, 0.0, 0.0)  # and none is taken from below 0
    assert roll == pytest.approx(0.5) and lift > 0.0
    assert given(14.0, 99.0, 0.0, 0.0)[1] == pytest.approx(2.0 * top * 2.0 * 0.0981 / 2.0, rel=1e-6)


@pytest.mark.parametrize("name", ["crazyflie", "crazyflie_brushless", "flightmare", "racer", "x500"])
def test_speeds_give_their_thrust(name: str) -> None:
    model = load_quadrotor(name).rotor_model
    speed = np.linspace(0.3, 1.0, 8) * model.speed_max_rad_s
    found = speed_for_thrust(model.thrust(speed), np.array(model.thrust_coefficients), model.speed_max_rad_s)
    np.testing.assert_allclose(found, speed, rtol=5e-3)


def test_a_robot_in_an_engine_that_is_stopped_falls_and_one_at_rest_stays_off_until_commanded() -> None:
    from rlstack.sim.backends.mujoco import MujocoBackend

    backend = MujocoBackend(RACER)
    backend.connect()
    backend.reset()
    backend.step(0.2)
    assert backend.read().signals["measured_rotor_speed"].max() == 0.0
    assert backend.commanded == ("rates_thrust",)
    sent = backend.write({"rates_thrust": np.array([99.0, 0.0, 0.0, 12.0])})
    assert sent["rates_thrust"].tolist() == [8.0, 0.0, 0.0, 12.0]
    backend.step(0.1)
    assert backend.read().signals["measured_rotor_speed"].min() > RACER.rotor_model.speed_min_rad_s
    backend.disarm()
    backend.step(0.3)
    assert backend.read().signals["measured_rotor_speed"].max() < 1.0
    with pytest.raises(ValueError, match="must hold 'rates_thrust' alone"):
        backend.write({"rotor_speed": np.zeros(4)})
    backend.close()
