"""Each observation term by itself, and the estimates in closed loop with the batch simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import frames
from rlstack.sim.batch_quadrotor.simulator import QuadrotorSimulator
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.core.observations import ActionHistory, UpDirection
from rlstack.tasks.core.pipeline import Pipeline, rotation_matrix
from rlstack.tasks.quadrotor import observations
from tests.support.policies import hover_gains
from tests.support.robots import crazyflie, large


def tensor(array: np.ndarray) -> torch.Tensor:
    return torch.tensor(np.atleast_2d(array), dtype=torch.float32)


def turned(q: np.ndarray) -> dict[str, torch.Tensor]:
    return {"rotation": rotation_matrix(tensor(q))}


vectors = arrays(np.float64, (3,), elements=st.floats(-20.0, 20.0, width=32))
TURN = frames.from_rotation_vector(np.array([0.4, -0.7, 1.9]))


@settings(deadline=None)
@given(vectors, vectors)
def test_the_position_error_points_to_the_goal_and_is_bounded(position: np.ndarray, goal: np.ndarray) -> None:
    inputs = {**turned(TURN), "position": tensor(position), "goal_position": tensor(goal)}
    seen = observations.PositionError(0.5).observe(inputs, {})[0].numpy()
    error = frames.rotate_inverse(TURN, goal - position)
    length = np.linalg.norm(error)
    expected = error if length <= 0.5 else error * 0.5 / length
    np.testing.assert_allclose(seen, expected, atol=1e-5)
    assert np.linalg.norm(seen) <= 0.5 * (1.0 + 1e-5)


def test_up_is_the_worlds_up_in_the_body() -> None:
    up = UpDirection().observe(turned(TURN), {})[0].numpy()
    np.testing.assert_allclose(up, frames.rotate_inverse(TURN, [0.0, 0.0, 1.0]), atol=1e-6)


@pytest.mark.parametrize("goal_yaw", [0.0, 1.0, -2.5])
@pytest.mark.parametrize("off", [0.0, 0.5, -0.5, np.pi])
def test_heading_is_seen_along_and_across_the_goals(goal_yaw: float, off: float) -> None:
    inputs = {**turned(frames.from_yaw(goal_yaw + off)), "goal_orientation": tensor(frames.from_yaw(goal_yaw))}
    seen = observations.Heading().observe(inputs, {})[0].numpy()
    np.testing.assert_allclose(seen, [np.cos(off), np.sin(off)], atol=1e-6)
    tilted = frames.multiply(frames.from_yaw(goal_yaw), frames.from_rotation_vector(np.array([0.6, 0.0, 0.0])))
    inputs["goal_orientation"] = tensor(tilted)  # a goal's roll has no say
    np.testing.assert_allclose(observations.Heading().observe(inputs, {})[0].numpy(), seen, atol=1e-6)


def test_velocities_pass_through() -> None:
    inputs = {"linear_velocity": torch.rand(2, 3), "angular_velocity": torch.rand(2, 3)}
    assert all(term.observe(inputs, {}) is inputs[term.name] for term in observations.velocities())


@pytest.mark.parametrize("length", [1, 3])
def test_history_is_newest_first_and_forgets(length: int) -> None:
    term = ActionHistory(2, length)
    memory = {"action_history": torch.zeros(1, 2 * length)}
    for k in range(1, 6):
        memory = term.remember({}, memory, torch.tensor([[k, -k]]).float())
    newest = [5, -5, 4, -4, 3, -3]
    assert term.observe({}, memory).tolist() == [newest[: 2 * length]]


@pytest.mark.parametrize("robot", [crazyflie(), large()], ids=lambda r: r.name)
def test_the_lag_estimate_is_the_simulators_rotor_speed(robot: Quadrotor) -> None:
    model, rate_hz = robot.rotor_model, 100.0
    term = observations.RotorSpeedEstimate(robot, rate_hz)
    middle, reach = (
        0.5 * (model.speed_max_rad_s + model.speed_min_rad_s),
        0.5 * (model.speed_max_rad_s - model.speed_min_rad_s),
    )
    simulator = QuadrotorSimulator(robot, 3, rate_hz=rate_hz)
    simulator.set_state({**simulator.state(), "rotor_speed": np.full((3, 4), middle)})  # what memory of zero says
    memory = {"rotor_speed_estimate": torch.zeros(3, 4)}
    rng = np.random.default_rng(0)
    for _ in range(50):
        action = rng.uniform(-1.0, 1.0, (3, 4)).astype(np.float32)
        simulator.step(middle + reach * action)
        memory = term.remember({}, memory, torch.from_numpy(action))
        estimated = middle + reach * term.observe({}, memory).numpy()
        np.testing.assert_allclose(estimated, simulator.state()["rotor_speed"], rtol=1e-5)


def closed_loop_estimate(robot: Quadrotor, perturbation: Perturbation, duration_s: float) -> tuple[np.ndarray, ...]:
    """Hover by a linear controller; return the estimate in the world frame, mean and spread over the last second."""
    rate_hz, model, count = 100.0, robot.rotor_model, len(perturbation)
    observer = observations.DisturbanceEstimate(robot, rate_hz, bandwidth_hz=1.0)
    pipeline = Pipeline(
        [observations.RotorSpeedEstimate(robot, rate_hz), observer],
        "rotor_speed",
        [model.speed_min_rad_s] * 4,
        [model.speed_max_rad_s] * 4,
    )
    memory = pipeline.initial_memory(count)
    simulator = QuadrotorSimulator(robot, count, rate_hz=rate_hz)
    simulator.set_perturbation(perturbation)
    heading = np.tile(frames.from_yaw(0.0), (count, 1))
    simulator.set_state(
        {
            **simulator.state(),
            "orientation": heading,
            "rotor_speed": np.full((count, 4), robot.hover_speed_rad_s),
        }
    )
    gains, hover = hover_gains(robot), robot.hover_speed_rad_s
    seen = []
    for _ in range(round(duration_s * rate_hz)):
        s = simulator.state()
        body = frames.rotate_inverse(s["orientation"], s["linear_velocity"])
        inputs = {
            "orientation": torch.tensor(s["orientation"], dtype=torch.float32),
            "linear_velocity": torch.tensor(body, dtype=torch.float32),
        }
        prepared = pipeline.prepare(inputs, memory)
        seen.append(frames.rotate(s["orientation"], observer.observe(prepared, memory).numpy()))
        x = np.concatenate(
            [s["position"], s["orientation"], body, s["angular_velocity"], s["rotor_speed"] - hover], axis=1
        )
        command = np.clip(hover - x @ gains.T, model.speed_min_rad_s, model.speed_max_rad_s)
        span = model.speed_max_rad_s - model.speed_min_rad_s
        action = torch.tensor(2.0 * (command - model.speed_min_rad_s) / span - 1.0, dtype=torch.float32)
        memory = pipeline.remember(prepared, memory, action)
        simulator.step(command)
    last = np.array(seen[-round(rate_hz) :])
    return last.mean(axis=0), last.std(axis=0)


def test_the_disturbance_estimate_converges_to_the_force_over_the_mass() -> None:
    robot = crazyflie()
    force = np.array([[0.02, 0.0, 0.0], [0.0, -0.015, 0.0], [0.01, 0.01, -0.02], [0.0, 0.0, 0.0]])
    perturbation = replace(Perturbation.none(4), force_n=force)
    mean, spread = closed_loop_estimate(robot, perturbation, 4.0)
    np.testing.assert_allclose(mean, force / robot.body.mass_kg, atol=0.01)
    assert spread.max() < 0.01


def test_a_wrong_mass_is_estimated_as_what_it_does_in_hover() -> None:
    robot = crazyflie()
    perturbation = replace(Perturbation.none(2), mass_scale=np.array([1.1, 0.9]))
    mean, _ = closed_loop_estimate(robot, perturbation, 4.0)
    # in hover the thrust is the true weight: the model, with its own mass, expects the difference as a rise
    np.testing.assert_allclose(mean[:, 2], -9.81 * np.array([0.1, -0.1]), atol=0.02)
    np.testing.assert_allclose(mean[:, :2], 0.0, atol=0.01)


def test_the_first_observation_estimates_nothing_and_no_surprise_is_unbounded() -> None:
    term = observations.DisturbanceEstimate(load_quadrotor("crazyflie"), 100.0, 1.0)
    memory = {name: torch.zeros(1, *shape) for name, shape in term.memory.items()}
    inputs = {**turned(TURN), "linear_velocity": torch.full((1, 3), 50.0)}
    assert (term.prepare(inputs, memory)["disturbance"] == 0.0).all()
    memory["velocity_predicted"][:] = 1.0
    assert float(term.prepare(inputs, memory)["disturbance"].norm()) == pytest.approx(9.81)


def test_the_torque_estimate_is_the_disturbing_angular_acceleration() -> None:
    robot, rate_hz, count = crazyflie(), 100.0, 3
    model = robot.rotor_model
    chosen = [
        observations.RotorSpeedEstimate(robot, rate_hz),
        observations.TorqueEstimate(robot, rate_hz, bandwidth_hz=1.0),
    ]
    pipeline = Pipeline(chosen, "rotor_speed", [model.speed_min_rad_s] * 4, [model.speed_max_rad_s] * 4)
    torque = np.array([[2e-6, 0.0, 0.0], [0.0, -2e-6, 1e-6], [0.0, 0.0, 0.0]])
    simulator = QuadrotorSimulator(robot, count, rate_hz=rate_hz)
    simulator.set_perturbation(replace(Perturbation.none(count), torque_n_m=torque))
    middle = 0.5 * (model.speed_max_rad_s + model.speed_min_rad_s)
    simulator.set_state({**simulator.state(), "rotor_speed": np.full((count, 4), middle)})  # what memory of zero says
    memory, action = pipeline.initial_memory(count), torch.tensor([[0.01, -0.01, -0.01, 0.01]]).repeat(count, 1)
    for _ in range(150):
        state = simulator.state()
        inputs = {
            name: torch.from_numpy(np.asarray(state[name], dtype=np.float32))
            for name in ("orientation", "angular_velocity")
        }
        prepared = pipeline.prepare(inputs, memory)
        seen = chosen[1].observe(prepared, memory).numpy()
        memory = pipeline.remember(prepared, memory, action)
        simulator.step(pipeline.command(action, prepared).numpy())
    expected = torque / np.array(robot.body.inertia_kg_m2)
    np.testing.assert_allclose(seen - seen[2], expected, atol=0.03)
    assert np.abs(seen[2]).max() < 0.2  # of 30 rad/s^2 that the rotors command about roll


def test_the_position_integral_grows_near_the_goal_only_and_is_bounded() -> None:
    term = observations.IntegratedPositionError(1.0, per_s=1.0, rate_hz=100.0)
    goal, memory = torch.zeros(2, 3), {"position_integral": torch.zeros(2, 3)}
    position = torch.tensor([[-0.05, 0.0, 0.0], [-0.4, 0.0, 0.0]])
    for k in range(1, 601):
        inputs = {**turned(np.tile(frames.from_yaw(np.pi / 2), (2, 1))), "position": position, "goal_position": goal}
        inputs.update(term.prepare(inputs, memory))
        memory = term.remember(inputs, memory, torch.zeros(2, 4))
        if k == 100:
            np.testing.assert_allclose(memory["position_integral"][0].numpy(), [0.05, 0.0, 0.0], atol=1e-5)
            seen = term.observe(inputs, memory).numpy()
    np.testing.assert_allclose(seen, [[0.0, -0.1, 0.0], [0.0, -0.4, 0.0]], atol=1e-5)
    np.testing.assert_allclose(memory["position_integral"].numpy(), [[0.2, 0.0, 0.0], [0.0, 0.0, 0.0]], atol=1e-5)


@settings(deadline=None, max_examples=30)
@given(goals=st.lists(vectors, min_size=2, max_size=12), most_m_s=st.floats(0.5, 10.0))
def test_the_observed_error_begins_as_it_is_and_changes_by_its_limit_at_most(
    goals: list[np.ndarray], most_m_s: float
) -> None:
    term = observations.IntegratedPositionError(0.8, per_s=0.0, rate_hz=100.0, most_m_s=most_m_s)
    memory = {name: torch.zeros(1, *shape) for name, shape in term.memory.items()}
    last = None
    for goal in goals:
        inputs = {**turned(TURN), "position": torch.zeros(1, 3), "goal_position": tensor(goal)}
        inputs.update(term.prepare(inputs, memory))
        seen = inputs["position_error_seen"][0].numpy()
        memory = term.remember(inputs, memory, torch.zeros(1, 4))
        bounded = goal * min(1.0, 0.8 / max(np.linalg.norm(goal), 1e-9))
        if last is None:
            np.testing.assert_allclose(seen, bounded, atol=1e-5)
        else:
            assert np.linalg.norm(seen - last) <= most_m_s / 100.0 + 1e-5
            assert np.linalg.norm(bounded - seen) <= np.linalg.norm(bounded - last) + 1e-5
        last = seen


def test_the_integral_of_a_path_is_that_of_its_present_point() -> None:
    term = observations.IntegratedPathError(1.0, per_s=1.0, rate_hz=100.0)
    memory = {"position_integral": torch.zeros(1, 3)}
    points = torch.tensor([[[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]])
    path = {"path_time": torch.tensor([[-1.0, 1.0]]), "path_position": points}
    inputs = {**turned(frames.from_yaw(0.0)), **path, "position": torch.tensor([[0.95, 0.0, 0.02]])}
    for _ in range(100):
        inputs.update(term.prepare(inputs, memory))
        memory = term.remember(inputs, memory, torch.zeros(1, 4))
    np.testing.assert_allclose(memory["position_integral"][0].numpy(), [0.05, 0.0, -0.02], atol=1e-5)
    np.testing.assert_allclose(term.observe(inputs, memory)[0].numpy(), [0.1, 0.0, -0.04], atol=1e-5)


def test_the_heading_integral_turns_the_direction_on_course() -> None:
    term = observations.IntegratedHeading(per_s=1.0, rate_hz=100.0)
    memory = {"heading_integral": torch.zeros(1, 1)}
    inputs = {**turned(frames.from_yaw(0.1)), "goal_orientation": tensor(frames.from_yaw(0.0))}
    for _ in range(100):
        inputs.update(term.prepare(inputs, memory))
        memory = term.remember(inputs, memory, torch.zeros(1, 4))
    angle = 0.1 + float(memory["heading_integral"])
    assert 0.19 < angle < 0.2  # the error's sine, once more
    np.testing.assert_allclose(term.observe(inputs, memory)[0].numpy(), [np.cos(angle), np.sin(angle)], atol=1e-4)
