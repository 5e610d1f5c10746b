"""Simulators that compute a term differently on purpose: the disagreement is found and blamed on that term."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlstack.kinds.quadrotor.simulation_vector import quadrotor_vector
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.sim.backends.mujoco import MujocoEngine
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.vector import BATCH
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.verification import disagreement
from rlstack.verification.disagreement import disagreements, replay

RATE_HZ, COUNT = 100.0, 6


@pytest.fixture(scope="module")
def robot() -> Quadrotor:
    return load_quadrotor("crazyflie")


@pytest.fixture(scope="module")
def scenario(robot: Quadrotor) -> Scenario:
    random = np.random.default_rng(5)
    state = {
        "position": np.tile([0.0, 0.0, 20.0], (COUNT, 1)),
        "orientation": np.tile([0.0, 0.0, 0.0, 1.0], (COUNT, 1)),
        "linear_velocity": random.uniform(-2.0, 2.0, (COUNT, 3)),
        "angular_velocity": random.uniform(-0.5, 0.5, (COUNT, 3)),
        "rotor_speed": np.full((COUNT, 4), robot.hover_speed_rad_s),
    }
    nothing = Perturbation.none(COUNT)
    return Scenario(state, np.zeros((COUNT, 3)), np.zeros(COUNT), nothing, np.array(["task"] * COUNT))


@pytest.fixture(scope="module")
def commands(robot: Quadrotor) -> np.ndarray:
    # all rotors together, so that the robot climbs and sinks, and a little of each alone
    random = np.random.default_rng(6)
    together = np.cumsum(random.uniform(-60.0, 60.0, (100, COUNT, 1)), axis=0)
    return robot.hover_speed_rad_s + np.clip(together, -400.0, 400.0) + random.uniform(-5.0, 5.0, (100, COUNT, 4))


def test_the_simulators_here_agree(robot: Quadrotor, scenario: Scenario, commands: np.ndarray) -> None:
    (found,) = disagreements([BATCH, "mujoco"], robot, scenario, commands, RATE_HZ)
    assert found.within_limits and found.cause == "rounding"
    assert found.position_m < 5e-4 and found.angle_rad < np.radians(0.1)


def flawed(change: Callable[[Quadrotor], Quadrotor], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the simulator called ``flawed`` be the batch simulator of another robot."""

    def one_of_two(name: str, robot: Quadrotor, *args: Any, **options: Any) -> Any:
        return quadrotor_vector(BATCH, change(robot) if name == "flawed" else robot, *args, **options)

    monkeypatch.setattr(disagreement, "quadrotor_vector", one_of_two)
    monkeypatch.setattr(disagreement, "_finer", lambda name, rate_hz: {"substeps": 4})


FLAWS: dict[str, Callable[[Quadrotor], Quadrotor]] = {
    "drag": lambda r: replace(
        r, body=replace(r.body, linear_drag_n_s_per_m=tuple(1.2 * d for d in r.body.linear_drag_n_s_per_m))
    ),
    "lag": lambda r: replace(
        r,
        rotor_model=replace(
            r.rotor_model,
            rise_time_constant_s=1.3 * r.rotor_model.rise_time_constant_s,
            fall_time_constant_s=1.3 * r.rotor_model.fall_time_constant_s,
        ),
    ),
    "torque": lambda r: replace(
        r, rotors=tuple(replace(m, position_m=(1.3 * m.position_m[0], *m.position_m[1:])) for m in r.rotors)
    ),
    "thrust": lambda r: replace(
        r,
        rotor_model=replace(
            r.rotor_model, thrust_coefficients=tuple(1.01 * c for c in r.rotor_model.thrust_coefficients)
        ),
    ),
}


@pytest.mark.parametrize("term", FLAWS)
def test_a_term_that_one_simulator_computes_differently_is_named(
    term: str, robot: Quadrotor, scenario: Scenario, commands: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    flawed(FLAWS[term], monkeypatch)
    (found,) = disagreements([BATCH, "flawed"], robot, scenario, commands, RATE_HZ)
    assert found.cause == term, found.sentence()
    assert f"most of it comes from the {term}" in found.sentence()


def test_steps_that_are_too_coarse_are_named(
    robot: Quadrotor, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MujocoEngine, "steps_per_s", 100.0)
    tumbling = np.random.default_rng(7).uniform(200.0, 2200.0, (100, COUNT, 4))
    (found,) = disagreements([BATCH, "mujoco"], robot, scenario, tumbling, RATE_HZ)
    assert found.position_m > 1e-3
    assert found.cause == "integrator", found.sentence()


def test_more_flights_than_an_engine_takes_at_a_time_come_back_in_order(
    robot: Quadrotor, scenario: Scenario, commands: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = replay("mujoco", robot, scenario, commands[:10], RATE_HZ)["position"]
    monkeypatch.setattr("rlstack.kinds.quadrotor.simulation_vector.TOGETHER", 4)
    np.testing.assert_allclose(replay("mujoco", robot, scenario, commands[:10], RATE_HZ)["position"], whole, atol=1e-9)
