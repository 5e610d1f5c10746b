"""What every simulator promises on top of the protocol: time, states, physics' signs, perturbations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.interfaces.backend import Backend
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import frames
from rlstack.robots.kind_models import rest_height
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.perturbation import Perturbation

TURNED = frames.from_rotation_vector([0.3, -0.2, 1.1])


def hovering(robot: Quadrotor, height: float = 1.0) -> dict[str, np.ndarray]:
    """Return the state of a robot that hangs level in the air."""
    speed = np.full(len(robot.rotors), robot.hover_speed_rad_s)
    return {"position": np.array([0.0, 0.0, height]), "rotor_speed": speed}


def flown(simulator: Any, commands: np.ndarray) -> np.ndarray:
    """Return positions after each of 10 ms commands."""
    path = []
    for command in commands:
        simulator.write({"rotor_speed": command})
        simulator.step(0.01)
        path.append(simulator.read().signals["position"])
    return np.array(path)


# ---- time


def test_time_is_the_sum_of_the_steps_whatever_their_length(simulator: Any) -> None:
    start = simulator.read().time_s
    for duration in (0.01, 0.0, 0.0003, 0.0003, 0.0004, 0.0333, 0.0333, 0.0334):
        simulator.step(duration)
    assert simulator.read().time_s - start == pytest.approx(0.111, abs=1e-9)


def test_a_duration_that_cannot_pass_is_refused(simulator: Any) -> None:
    for duration in (-0.01, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="duration_s"):
            simulator.step(duration)


def test_time_never_goes_back(simulator: Any) -> None:
    simulator.step(0.5)
    before = simulator.read().time_s
    simulator.reset()
    assert simulator.read().time_s >= before


# ---- states


def test_a_state_reads_back_with_the_velocity_in_base_link(simulator: Any, robot: Quadrotor, exactness: float) -> None:
    state = {
        "position": np.array([0.4, -0.3, 1.2]),
        "orientation": TURNED,
        "linear_velocity": np.array([0.5, -1.0, 0.25]),
        "angular_velocity": np.array([0.7, -0.1, 2.0]),
        "rotor_speed": np.array([100.0, 200.0, 300.0, 400.0]),
    }
    simulator.reset(state)
    signals = simulator.read().signals
    for name in ("position", "angular_velocity"):
        np.testing.assert_allclose(signals[name], state[name], rtol=exactness, atol=exactness, err_msg=name)
    np.testing.assert_allclose(signals["measured_rotor_speed"], state["rotor_speed"], atol=1e-9)
    assert abs(signals["orientation"] @ TURNED) == pytest.approx(1.0, abs=exactness * 1e-3)
    np.testing.assert_allclose(
        signals["linear_velocity"], frames.rotate_inverse(TURNED, state["linear_velocity"]), atol=exactness
    )


def test_what_a_state_leaves_out_is_zero_and_level(simulator: Any) -> None:
    simulator.reset(
        {"position": [0.0, 0.0, 2.0], "linear_velocity": [1.0, 1.0, 1.0], "angular_velocity": [1.0, 2.0, 3.0]}
    )
    simulator.reset({"position": [0.0, 0.0, 1.0]})
    signals = simulator.read().signals
    np.testing.assert_array_equal(signals["orientation"], [0.0, 0.0, 0.0, 1.0])
    for name in ("linear_velocity", "angular_velocity", "measured_rotor_speed"):
        np.testing.assert_array_equal(signals[name], np.zeros_like(signals[name]), err_msg=name)


def test_a_state_that_cannot_be_is_refused_and_changes_nothing(simulator: Any) -> None:
    simulator.reset({"position": [0.0, 0.0, 1.5]})
    for state in (
        {"position": [0.0, float("nan"), 1.0]},
        {"position": [0.0, 1.0]},
        {"orientation": [0.0, 0.0, 0.0, 0.0]},
        {"rotor_speed": [1.0, 2.0, 3.0]},
        {"velocity": [0.0, 0.0, 0.0]},
    ):
        with pytest.raises(ValueError, match=next(iter(state))):
            simulator.reset(state)
        np.testing.assert_allclose(simulator.read().signals["position"], [0.0, 0.0, 1.5], err_msg=str(state))


def test_readings_are_copies(simulator: Any, robot: Quadrotor) -> None:
    simulator.reset(hovering(robot))
    first = simulator.read()
    for value in first.signals.values():
        value[:] = 7.0
    np.testing.assert_allclose(simulator.read().signals["position"], [0.0, 0.0, 1.0])
    kept = simulator.read().signals["position"]
    simulator.step(0.5)
    np.testing.assert_allclose(kept, [0.0, 0.0, 1.0])


def test_a_refused_command_leaves_the_last_one(simulator: Any, robot: Quadrotor) -> None:
    simulator.reset(hovering(robot))
    simulator.write({"rotor_speed": np.full(4, robot.hover_speed_rad_s)})
    with pytest.raises(ValueError):
        simulator.write({"rotor_speed": np.array([0.0, 0.0, 0.0, np.nan])})
    simulator.step(0.2)
    np.testing.assert_allclose(simulator.read().signals["measured_rotor_speed"], robot.hover_speed_rad_s)


# ---- on the ground and in the air


def test_it_rests_on_the_ground_still_and_at_its_height(simulator: Any, robot: Quadrotor) -> None:
    simulator.reset()
    heights, rates, felt = [], [], []
    for _ in range(100):
        signals = simulator.read().signals
        heights.append(signals["position"][2])
        rates.append(np.abs([*signals["linear_velocity"], *signals["angular_velocity"]]).max())
        felt.append(signals["linear_acceleration"])
        simulator.write({"rotor_speed": np.zeros(4)})
        simulator.step(0.01)
    np.testing.assert_allclose(heights, rest_height(robot), atol=1e-4)  # 0.1 mm
    assert max(rates) < 1e-3
    np.testing.assert_allclose(felt, np.tile([0.0, 0.0, STANDARD_GRAVITY], (100, 1)), atol=0.02)


@pytest.mark.parametrize("start", ["reset", "its height in the file", "where it has come to rest"])
def test_the_first_milliseconds_on_the_ground_feel_the_ground(simulator: Any, robot: Quadrotor, start: str) -> None:
    simulator.step(0.3)
    height = rest_height(robot) if start.startswith("its") else simulator.read().signals["position"][2]
    simulator.reset(None if start == "reset" else {"position": [0.0, 0.0, height]})
    for _ in range(6):
        felt = simulator.read().signals["linear_acceleration"]
        np.testing.assert_allclose(felt, [0.0, 0.0, STANDARD_GRAVITY], atol=0.1)
        simulator.step(0.001)
    assert simulator.read().signals["position"][2] == pytest.approx(rest_height(robot), abs=1e-4)


def test_a_little_above_the_ground_nothing_is_felt(simulator: Any, robot: Quadrotor) -> None:
    simulator.reset({"position": [0.0, 0.0, rest_height(robot) + 0.01]})
    np.testing.assert_allclose(simulator.read().signals["linear_acceleration"], np.zeros(3), atol=1e-3)


def test_rotors_that_carry_more_than_the_weight_are_felt_at_once(simulator: Any, robot: Quadrotor) -> None:
    speed = 1.2 * robot.hover_speed_rad_s
    simulator.reset({"position": [0.0, 0.0, rest_height(robot)], "rotor_speed": np.full(4, speed)})
    assert simulator.read().signals["linear_acceleration"][2] > 1.2 * STANDARD_GRAVITY
    simulator.step(0.1)
    assert simulator.read().signals["position"][2] > rest_height(robot) + 0.01


def test_it_stays_put_on_the_ground_below_hover_thrust_and_lifts_off_above(simulator: Any, robot: Quadrotor) -> None:
    simulator.reset()
    simulator.write({"rotor_speed": np.full(4, 0.9 * robot.hover_speed_rad_s)})
    simulator.step(1.0)
    assert simulator.read().signals["position"][2] == pytest.approx(rest_height(robot), abs=1e-4)
    simulator.write({"rotor_speed": np.full(4, 1.2 * robot.hover_speed_rad_s)})
    simulator.step(1.0)
    assert simulator.read().signals["position"][2] > 0.3


def test_a_dropped_robot_comes_to_rest_on_the_ground(simulator: Any, robot: Quadrotor) -> None:
    simulator.reset({"position": [0.0, 0.0, 0.5], "angular_velocity": [1.0, -1.0, 1.0]})
    simulator.step(3.0)
    signals = simulator.read().signals
    assert signals["position"][2] == pytest.approx(rest_height(robot), abs=1e-3)
    assert np.linalg.norm(signals["linear_velocity"]) < 1e-2


def test_hover_speed_carries_the_weight(simulator: Any, robot: Quadrotor) -> None:
    simulator.reset(hovering(robot))
    simulator.write({"rotor_speed": np.full(4, robot.hover_speed_rad_s)})
    simulator.step(1.0)
    signals = simulator.read().signals
    np.testing.assert_allclose(signals["position"], [0.0, 0.0, 1.0], atol=1e-4)
    np.testing.assert_allclose(signals["linear_acceleration"], [0.0, 0.0, STANDARD_GRAVITY], atol=1e-3)


def test_free_fall_feels_no_acceleration(simulator: Any) -> None:
    simulator.reset({"position": [0.0, 0.0, 2.0]})
    np.testing.assert_allclose(simulator.read().signals["linear_acceleration"], np.zeros(3), atol=1e-6)
    simulator.step(0.1)
    np.testing.assert_allclose(simulator.read().signals["linear_velocity"], [0.0, 0.0, -0.981], rtol=0.02, atol=1e-9)


def test_the_accelerometer_feels_thrust_and_drag_along_its_own_axes(simulator: Any, robot: Quadrotor) -> None:
    velocity = np.array([1.0, -2.0, 0.5])
    simulator.reset({**hovering(robot), "orientation": TURNED, "linear_velocity": velocity})
    drag = np.array(robot.body.linear_drag_n_s_per_m) * frames.rotate_inverse(TURNED, velocity)
    expected = (np.array([0.0, 0.0, robot.weight_n]) - drag) / robot.body.mass_kg
    np.testing.assert_allclose(simulator.read().signals["linear_acceleration"], expected, rtol=1e-3)


@pytest.mark.parametrize("index", range(4))
def test_each_rotor_turns_the_body_as_its_place_and_sign_say(simulator: Any, robot: Quadrotor, index: int) -> None:
    simulator.reset(hovering(robot))
    command = np.full(4, robot.hover_speed_rad_s)
    command[index] += 100.0
    simulator.write({"rotor_speed": command})
    simulator.step(0.02)
    roll, pitch, yaw = simulator.read().signals["angular_velocity"]
    x, y, _ = robot.rotors[index].position_m
    assert np.sign(roll) == np.sign(y)
    assert np.sign(pitch) == -np.sign(x)
    assert np.sign(yaw) == robot.rotors[index].yaw_torque_sign


def test_motors_lag_by_their_time_constant(simulator: Any, robot: Quadrotor) -> None:
    simulator.reset({"position": [0.0, 0.0, 1.0]})
    simulator.write({"rotor_speed": np.full(4, 1000.0)})
    simulator.step(robot.rotor_model.rise_time_constant_s)
    np.testing.assert_allclose(
        simulator.read().signals["measured_rotor_speed"], 1000.0 * (1.0 - np.exp(-1.0)), rtol=1e-6
    )


def test_before_the_first_command_the_rotors_hold_their_speed(simulator: Any, robot: Quadrotor) -> None:
    simulator.write({"rotor_speed": np.full(4, 2000.0)})
    simulator.reset(hovering(robot))
    simulator.step(0.1)
    np.testing.assert_allclose(simulator.read().signals["measured_rotor_speed"], robot.hover_speed_rad_s)


def test_disarm_lets_the_rotors_run_down(simulator: Any, robot: Quadrotor) -> None:
    simulator.reset(hovering(robot))
    simulator.write({"rotor_speed": np.full(4, robot.hover_speed_rad_s)})
    simulator.disarm()
    simulator.step(1.0)
    assert simulator.read().signals["measured_rotor_speed"].max() < 0.01 * robot.hover_speed_rad_s


# ---- repeatability


def test_the_same_commands_give_the_same_flight_also_after_a_reset_and_with_readings_between(
    simulator: Any, robot: Quadrotor
) -> None:
    commands = np.random.default_rng(0).uniform(500.0, 2000.0, (40, 4))
    simulator.reset(hovering(robot))
    first = flown(simulator, commands)
    simulator.reset(hovering(robot))
    for command in commands:
        simulator.write({"rotor_speed": command})
        simulator.step(0.01)
    np.testing.assert_array_equal(simulator.read().signals["position"], first[-1])


def test_two_in_one_process_do_not_touch_each_other(
    make: Callable[..., Backend], robot: Quadrotor, one_at_a_time: bool
) -> None:
    if one_at_a_time:
        pytest.skip("a second one is refused, see below")
    alone, beside, other = make(), make(), make()
    for one in (alone, beside, other):
        one.connect()
        one.reset(hovering(robot))
    commands = np.random.default_rng(1).uniform(500.0, 2000.0, (20, 4))
    expected = flown(alone, commands)
    path = []
    for command in commands:
        other.write({"rotor_speed": np.zeros(4)})
        other.step(0.013)
        path.append(flown(beside, command[None])[0])
    np.testing.assert_array_equal(path, expected)


def test_where_one_world_is_all_a_second_is_refused_until_the_first_is_closed(
    make: Callable[..., Backend], robot: Quadrotor, one_at_a_time: bool
) -> None:
    if not one_at_a_time:
        pytest.skip("several work side by side, see above")
    first, second = make(), make()
    first.connect()
    with pytest.raises(UserError, match="close the other"):
        second.connect()
    first.reset(hovering(robot))
    first.step(0.01)
    first.close()
    second.connect()
    second.step(0.01)
    assert second.read().signals["position"][2] == pytest.approx(rest_height(robot), abs=1e-4)


def test_noise_comes_from_its_seed_and_leaves_the_flight_alone(make: Callable[..., Backend], robot: Quadrotor) -> None:
    commands = np.random.default_rng(5).uniform(500.0, 2000.0, (10, 4))
    readings, ends = [], []
    for options in ({}, {"noise_seed": 3}, {"noise_seed": 3}, {"noise_seed": 4}):
        one = make(**options)
        one.connect()
        one.reset(hovering(robot))
        readings.append(np.array([np.concatenate(list(one.read().signals.values())) for _ in range(400)]))
        flown(one, commands)
        ends.append(one.read().signals["position"])
        one.close()
    np.testing.assert_array_equal(readings[1], readings[2])
    assert not np.array_equal(readings[1], readings[3])
    position = readings[1][:, :3] - readings[0][:, :3]
    sensor = robot.sensors["odom"]
    np.testing.assert_allclose(position.std(axis=0), sensor.position_noise_m, rtol=0.15)
    turn = 2.0 * readings[1][:, 3:6]
    np.testing.assert_allclose(turn.std(axis=0), sensor.orientation_noise_rad, rtol=0.15)
    np.testing.assert_allclose(readings[1][:, 7:10].std(axis=0), sensor.linear_velocity_noise_m_s, rtol=0.15)
    np.testing.assert_allclose(readings[1][:, 10:13].std(axis=0), sensor.angular_velocity_noise_rad_s, rtol=0.15)
    assert np.abs(ends[0] - ends[1]).max() < 6.0 * sensor.position_noise_m


# ---- perturbations


def perturbed(simulator: Any, robot: Quadrotor, **changes: Any) -> dict[str, np.ndarray]:
    """Return the reading after 0.2 s of hover speed under a perturbation, from the hovering state."""
    simulator.perturb(replace(Perturbation.none(1), **{n: np.array([v], dtype=float) for n, v in changes.items()}))
    simulator.reset(hovering(robot))
    simulator.write({"rotor_speed": np.full(4, robot.hover_speed_rad_s)})
    simulator.step(0.2)
    return simulator.read().signals


def test_a_heavier_robot_sinks_with_the_missing_thrust(simulator: Any, robot: Quadrotor) -> None:
    signals = perturbed(simulator, robot, mass_scale=1.25, drag_scale=0.0)
    np.testing.assert_allclose(signals["linear_velocity"], [0.0, 0.0, -0.2 * STANDARD_GRAVITY * 0.2], atol=1e-6)


def test_weaker_thrust_sinks_too_and_one_weak_rotor_tips(simulator: Any, robot: Quadrotor) -> None:
    signals = perturbed(simulator, robot, thrust_scale=[0.9] * 4, drag_scale=0.0)
    np.testing.assert_allclose(signals["linear_velocity"], [0.0, 0.0, -0.1 * STANDARD_GRAVITY * 0.2], atol=1e-6)
    signals = perturbed(simulator, robot, thrust_scale=[0.9, 1.0, 1.0, 1.0])
    x, y, _ = robot.rotors[0].position_m
    assert np.sign(signals["angular_velocity"][0]) == -np.sign(y)
    assert np.sign(signals["angular_velocity"][1]) == np.sign(x)


def test_a_weak_motor_of_the_file_hovers_by_its_own_command(make_of: Callable[..., Backend], robot: Quadrotor) -> None:
    first, *others = robot.rotors
    weak = replace(robot, rotors=(replace(first, thrust_factor=0.8), *others))
    backend: Any = make_of(weak)
    backend.connect()
    if not backend.owns_time:
        pytest.skip("only for simulators")
    assert weak.hover_command[0] == pytest.approx(robot.hover_speed_rad_s / np.sqrt(0.8))
    for command, turns in ((weak.hover_command, False), (robot.hover_command, True)):
        backend.reset({"position": np.array([0.0, 0.0, 1.0]), "rotor_speed": command})
        backend.write({"rotor_speed": command})
        backend.step(0.1)
        assert (np.abs(backend.read().signals["angular_velocity"]).max() > 0.5) == turns


def test_force_and_torque_push_in_world_and_body(simulator: Any, robot: Quadrotor, exactness: float) -> None:
    force, torque = np.array([0.01, -0.02, 0.005]), np.array([0.0, 0.0, 2e-6])
    signals = perturbed(simulator, robot, force_n=force, drag_scale=0.0)
    np.testing.assert_allclose(signals["linear_velocity"], 0.2 * force / robot.body.mass_kg, rtol=max(1e-6, exactness))
    signals = perturbed(simulator, robot, torque_n_m=torque)
    np.testing.assert_allclose(
        signals["angular_velocity"], 0.2 * torque / np.array(robot.body.inertia_kg_m2), rtol=1e-4, atol=1e-9
    )


def test_inertia_and_arms_scale_the_turning(simulator: Any, robot: Quadrotor) -> None:
    def turning(**changes: Any) -> np.ndarray:
        simulator.perturb(replace(Perturbation.none(1), **{n: np.array([v], dtype=float) for n, v in changes.items()}))
        speeds = np.full(4, robot.hover_speed_rad_s)
        simulator.reset({**hovering(robot), "rotor_speed": speeds + np.array([20.0, 0.0, 0.0, 0.0])})
        simulator.step(0.001)
        return np.asarray(simulator.read().signals["angular_velocity"])

    plain = turning()
    np.testing.assert_allclose(turning(inertia_scale=[2.0, 3.0, 2.5]), plain / [2.0, 3.0, 2.5], rtol=1e-4)
    np.testing.assert_allclose(turning(arm_scale=[1.5, 0.5]), plain * [0.5, 1.5, 1.0], rtol=1e-4)
    np.testing.assert_allclose(turning(torque_scale=3.0), plain * [1.0, 1.0, 3.0], rtol=1e-4)


def test_drag_scale_slows(simulator: Any, robot: Quadrotor) -> None:
    def speed_after(scale: float) -> float:
        simulator.perturb(replace(Perturbation.none(1), drag_scale=np.array([scale])))
        simulator.reset({**hovering(robot, 2.0), "linear_velocity": np.array([2.0, 0.0, 0.0])})
        simulator.step(0.5)
        return float(simulator.read().signals["linear_velocity"][0])

    rate = robot.body.linear_drag_n_s_per_m[0] / robot.body.mass_kg
    assert speed_after(0.0) == pytest.approx(2.0, abs=1e-9)
    assert speed_after(3.0) == pytest.approx(2.0 * np.exp(-3.0 * rate * 0.5), rel=1e-5)


def test_time_constant_scale_slows_the_motors(simulator: Any, robot: Quadrotor) -> None:
    simulator.perturb(replace(Perturbation.none(1), time_constant_scale=np.array([[2.0, 0.5]])))
    simulator.reset({"position": [0.0, 0.0, 1.0]})
    simulator.write({"rotor_speed": np.full(4, 1000.0)})
    simulator.step(0.1)
    risen = 1000.0 * (1.0 - np.exp(-0.1 / (2.0 * robot.rotor_model.rise_time_constant_s)))
    np.testing.assert_allclose(simulator.read().signals["measured_rotor_speed"], risen, rtol=1e-6)
    simulator.write({"rotor_speed": np.zeros(4)})
    simulator.step(0.1)
    fallen = risen * np.exp(-0.1 / (0.5 * robot.rotor_model.fall_time_constant_s))
    np.testing.assert_allclose(simulator.read().signals["measured_rotor_speed"], fallen, rtol=1e-6)


def test_a_delayed_command_acts_late_and_disarm_does_not_wait(simulator: Any, robot: Quadrotor) -> None:
    simulator.perturb(replace(Perturbation.none(1), delay_s=np.array([0.03])))
    simulator.reset({"position": [0.0, 0.0, 1.0]})
    simulator.write({"rotor_speed": np.full(4, 1000.0)})
    simulator.step(0.03)
    np.testing.assert_array_equal(simulator.read().signals["measured_rotor_speed"], np.zeros(4))
    simulator.write({"rotor_speed": np.full(4, 2000.0)})  # acts 30 ms from now
    simulator.step(0.02)
    expected = 1000.0 * (1.0 - np.exp(-0.02 / robot.rotor_model.rise_time_constant_s))
    np.testing.assert_allclose(simulator.read().signals["measured_rotor_speed"], expected, rtol=1e-6)
    simulator.disarm()
    before = simulator.read().signals["measured_rotor_speed"]
    simulator.step(0.02)
    assert (simulator.read().signals["measured_rotor_speed"] < before).all()


def test_a_gust_blows_in_its_window_after_each_reset(simulator: Any, robot: Quadrotor) -> None:
    gust = {"gust_force_n": np.array([[0.01, 0.0, 0.0]]), "gust_start_s": np.array([0.1])}
    simulator.perturb(
        replace(Perturbation.none(1), **gust, gust_duration_s=np.array([0.05]), drag_scale=np.array([0.0]))
    )
    for _ in range(2):
        simulator.reset(hovering(robot))
        simulator.step(0.1)
        # what is read at the instant it begins has a part of a physics step of it
        assert simulator.read().signals["linear_velocity"][0] == pytest.approx(0.0, abs=3e-4)
        simulator.step(0.2)
        expected = 0.01 * 0.05 / robot.body.mass_kg
        assert simulator.read().signals["linear_velocity"][0] == pytest.approx(expected, rel=1e-6)


def test_a_perturbation_stays_until_the_next(simulator: Any, robot: Quadrotor) -> None:
    heavy = perturbed(simulator, robot, mass_scale=1.2)["linear_velocity"][2]
    simulator.reset(hovering(robot))
    simulator.step(0.2)
    assert simulator.read().signals["linear_velocity"][2] == pytest.approx(heavy, rel=1e-9)
    assert perturbed(simulator, robot)["linear_velocity"][2] == pytest.approx(0.0, abs=1e-6)


def test_a_perturbation_for_other_robots_is_refused(simulator: Any) -> None:
    for wrong in (Perturbation.none(2), Perturbation.none(1, 6)):  # two robots, six rotors
        with pytest.raises(ValueError, match=r"must be \(1, 4\)"):
            simulator.perturb(wrong)
