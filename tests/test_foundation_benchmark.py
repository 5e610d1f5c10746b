"""benchmarks/foundation.py: what it tells a policy that was made elsewhere, and how it counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies.robot_contract import contract_for
from rlstack.robots import frames
from rlstack.tasks.quadrotor.family import nominal_robot, sample_family
from rlstack.tasks.quadrotor.trajectories import figure_eight
from tests.support.benchmarks import load_benchmark

Array = np.ndarray


@pytest.fixture(scope="module")
def benchmark() -> Any:
    return load_benchmark("foundation")


class Network:
    """Answers what it is given beforehand, and keeps what it saw."""

    def __init__(self, answer: Array) -> None:
        self.answer = answer
        self.seen: list[Array] = []

    def reset(self) -> None:
        self.seen = []

    def evaluate_step(self, observation: Array) -> Array:
        self.seen.append(observation)
        return self.answer


def resting(count: int) -> dict[str, Array]:
    return {
        "position": np.zeros((count, 3)),
        "orientation": np.tile([0.0, 0.0, 0.0, 1.0], (count, 1)),
        "linear_velocity": np.zeros((count, 3)),
        "angular_velocity": np.zeros((count, 3)),
        "goal_position": np.zeros((count, 3)),
        "goal_orientation": np.tile([0.0, 0.0, 0.0, 1.0], (count, 1)),
    }


@pytest.mark.parametrize(("name", "order"), [("crazyflie", [0, 1, 2, 3]), ("x500", [0, 2, 3, 1])])
def test_motors_are_found_by_where_they_sit(benchmark: Any, name: str, order: list[int]) -> None:
    robot = load_quadrotor(name)
    np.testing.assert_array_equal(benchmark.motor_of_rotor(robot), order)
    answer = np.array([[-1.0, -0.5, 0.5, 2.0]])  # front right, back right, back left, front left
    policy = benchmark.Raptor(Network(answer), robot)
    speed = policy.step(resting(1))["rotor_speed"][0] / robot.rotor_model.speed_max_rad_s
    np.testing.assert_allclose(speed, np.array([0.0, 0.25, 0.75, 1.0])[order])


def test_the_network_sees_the_state_from_its_goal_and_its_own_last_answer(benchmark: Any) -> None:
    network = Network(np.array([[0.1, 0.2, 0.3, 1.5]]))
    policy = benchmark.Raptor(network, load_quadrotor("crazyflie"))
    policy.reset(1)
    turned = frames.from_yaw([np.pi / 2])
    inputs = {
        **resting(1),
        "position": np.array([[1.0, 2.0, 3.0]]),
        "goal_position": np.array([[1.0, 1.0, 1.0]]),
        "goal_orientation": turned,
        "orientation": frames.multiply(turned, frames.from_yaw([0.3])),
        "linear_velocity": np.array([[0.5, 0.0, 0.0]]),  # of the body, which looks 0.3 rad to the left of the goal's
        "angular_velocity": np.array([[4.0, 5.0, 6.0]]),
    }
    policy.step(inputs)
    policy.step(inputs)
    cos, sin = np.cos(0.3), np.sin(0.3)
    expected = [1.0, 0.0, 2.0, cos, -sin, 0, sin, cos, 0, 0, 0, 1, 0.5 * cos, 0.5 * sin, 0.0, 4.0, 5.0, 6.0]
    np.testing.assert_allclose(network.seen[0][0], [*expected, 0.0, 0.0, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(network.seen[1][0], [*expected, 0.1, 0.2, 0.3, 1.5], atol=1e-12)


@pytest.mark.parametrize("now", [-1.0, 0.0, 0.015, 2.305, 11.0, 20.0])
def test_what_is_due_on_a_path(benchmark: Any, now: float) -> None:
    path = figure_eight(2, laps=2.0, step_s=0.01)
    orientation = frames.from_yaw(path.yaw)
    position, velocity, _ = benchmark.reference(path.time_s - now, path.position, orientation)
    np.testing.assert_allclose(position, path.at(now), atol=1e-9)
    flying = 0.0 <= now < 11.0
    rate = 2.0 * np.pi / 5.5
    exact = [rate * np.cos(rate * now), rate * np.cos(2.0 * rate * now), 0.0]
    np.testing.assert_allclose(velocity, [exact if flying else [0.0] * 3] * 2, atol=0.02)


class Recorder:
    """A policy that keeps its inputs."""

    def __init__(self) -> None:
        inputs = ["position", "orientation", "linear_velocity", "angular_velocity", "goal_position"]
        self.contract = contract_for(load_quadrotor("crazyflie"), inputs, ["rotor_speed"], name="", task="")
        self.path = Path("recorder")
        self.seen: list[Array] = []

    def reset(self, batch: int = 1) -> None:
        self.batch = batch

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        self.inputs = dict(inputs)
        self.seen.append(inputs["position"])
        return {"rotor_speed": np.zeros((self.batch, 4))}


def test_a_policy_that_goes_to_a_place_follows_from_where_it_should_be(benchmark: Any) -> None:
    inner = Recorder()
    policy = benchmark.Following(inner)
    policy.reset(1)
    names = {port.name for port in policy.contract.inputs}
    assert names == {"position", "orientation", "linear_velocity", "angular_velocity", *benchmark.PATH_INPUTS}
    line = {
        "path_time": np.array([[-1.0, 3.0]]),
        "path_position": np.array([[[0.0, 0.0, 1.0], [8.0, 0.0, 1.0]]]),
        "path_orientation": np.tile([0.0, 0.0, 0.0, 1.0], (1, 2, 1)),
    }
    state = {**resting(1), "position": np.array([[2.5, 0.0, 1.0]]), "orientation": frames.from_yaw([np.pi / 2])}
    policy.step({name: {**state, **line}[name] for name in names})
    np.testing.assert_allclose(inner.inputs["position"], [[0.5, 0.0, 0.0]])
    np.testing.assert_allclose(inner.inputs["linear_velocity"], [[0.0, 2.0, 0.0]], atol=1e-12)  # 2 m/s too slow along x
    assert (
        set(inner.inputs) == {port.name for port in inner.contract.inputs} and not inner.inputs["goal_position"].any()
    )


def test_stable_means_near_at_every_instant_of_the_last_second(benchmark: Any) -> None:
    error = np.full((1001, 4), 0.5)
    error[:500] = 0.1
    error[950, 1] = 1.0
    error[901, 2] = np.inf
    error[899:901, 3] = 7.0  # before the last second
    row = benchmark.figures(error, 100.0)
    assert row["stable"] == 0.5
    assert row["error_median_m"] == pytest.approx(0.5025)
    assert row["error_p95_m"] == np.inf and benchmark.finite({"a": row})["a"]["error_p95_m"] is None
    assert benchmark.figures(np.full((1001, 4), 0.2), 100.0)["rmse_p95_m"] == pytest.approx(0.2)


def test_noise_is_scaled_and_biases_are_not(benchmark: Any) -> None:
    robot = load_quadrotor("crazyflie")
    before, after = robot.sensors["odom"], benchmark.with_noise(robot, 3.0).sensors["odom"]
    assert after.position_noise_m == pytest.approx(3.0 * before.position_noise_m) and before.position_noise_m > 0.0
    assert after.orientation_noise_rad == pytest.approx(3.0 * before.orientation_noise_rad)
    assert after.rate_hz == before.rate_hz and benchmark.with_noise(robot, 1.0) is robot


def test_departures_reach_the_policy(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "FLIGHT_S", 0.2)
    robot = nominal_robot(load_quadrotor("crazyflie"))
    vehicles = sample_family(np.random.default_rng(0), 2, robot)
    trials = {trial.name: trial for trial in benchmark.DEPARTURES}
    late = Recorder()
    nominal = replace(trials["observed 30 ms late"], departures=benchmark.NOMINAL)
    seen = []
    for trial in (trials["observed 30 ms late"], nominal):
        late.seen = []
        benchmark.fly(lambda _: late, robot, vehicles, trial, 0)
        seen.append(np.array(late.seen))
    np.testing.assert_allclose(seen[0][3:], seen[1][:-3], atol=1e-9)  # three periods late
    assert np.abs(seen[0][:3] - seen[1][0]).max() < 1e-9  # and before, as it was at the start


def test_raptors_checkpoint_flies_here_as_published(benchmark: Any) -> None:
    network = pytest.importorskip("foundation_policy").Raptor()
    robot = nominal_robot(load_quadrotor("crazyflie"))
    vehicles = sample_family(np.random.default_rng(0), 200, robot)
    row = benchmark.fly(lambda r: benchmark.Raptor(network, r), robot, vehicles, benchmark.FAMILY_TRIALS[0], 0)
    assert row["stable"] > 0.88 and row["error_median_m"] < 0.06
