"""The MuJoCo backend against the fine-step reference, and what is its own: options, missing install, divergence."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import frames
from rlstack.robots.kind_models import rest_height
from rlstack.sim.backends.mujoco import BACKEND, MujocoBackend, MujocoEngine
from rlstack.sim.simulation import Simulation
from tests.support.reference import ReferenceQuadrotor
from tests.support.robots import large
from tests.support.worlds import VOID


@pytest.fixture(scope="module")
def robot() -> Quadrotor:
    return load_quadrotor("crazyflie")


def connected(robot: Quadrotor, **options: object) -> MujocoBackend:
    backend = MujocoBackend(robot, **options)  # type: ignore[arg-type]
    backend.connect()
    return backend


def largest_departure(
    robot: Quadrotor, seed: int, physics_rate_hz: float, gyroscopic: bool, spread: float = 1.0
) -> np.ndarray:
    """Return the largest departure from the reference over 1 s of random rotor commands at 100 Hz, drag on.

    Position m, attitude rad, velocity m/s, rate rad/s. ``spread`` is the part of the rotors' range that is used.
    """
    random = np.random.default_rng(seed)
    model = robot.rotor_model
    middle, reach = 0.5 * (model.speed_min_rad_s + model.speed_max_rad_s), 0.5 * spread
    reach *= model.speed_max_rad_s - model.speed_min_rad_s
    state = {
        "position": random.uniform(-1.0, 1.0, 3),
        "orientation": frames.normalise(random.normal(size=4)),
        "linear_velocity": random.uniform(-1.0, 1.0, 3),
        "angular_velocity": random.uniform(-1.0, 1.0, 3),
        "rotor_speed": np.full(4, middle),
    }
    reference = ReferenceQuadrotor(robot, step_s=5e-4, gyroscopic=gyroscopic)
    reference.state = {name: value.copy() for name, value in state.items()}
    backend = connected(robot, physics_rate_hz=physics_rate_hz, gyroscopic=gyroscopic, world=VOID)
    backend.reset(state)
    worst = np.zeros(4)
    for _ in range(100):
        command = middle + random.uniform(-reach, reach, 4)
        expected = reference.step(command, 0.01)
        backend.write({"rotor_speed": command})
        backend.step(0.01)
        got = backend.read().signals
        turn = frames.multiply(frames.inverse(got["orientation"]), expected["orientation"])
        velocity = frames.rotate(got["orientation"], got["linear_velocity"])
        np.testing.assert_allclose(got["measured_rotor_speed"], expected["rotor_speed"], rtol=1e-8)
        departure = [
            np.linalg.norm(got["position"] - expected["position"]),
            2.0 * np.arctan2(np.linalg.norm(turn[:3]), abs(turn[3])),
            np.linalg.norm(velocity - expected["linear_velocity"]),
            np.linalg.norm(got["angular_velocity"] - expected["angular_velocity"]),
        ]
        worst = np.maximum(worst, departure)
    backend.close()
    return worst


@pytest.mark.parametrize("gyroscopic", [False, True], ids=["plain", "gyroscopic"])
def test_random_rotor_commands_for_a_second_match_the_reference(robot: Quadrotor, gyroscopic: bool) -> None:
    worst = np.max([largest_departure(robot, seed, 1000.0, gyroscopic) for seed in range(3)], axis=0)
    assert (worst < [1e-4, 2e-4, 2e-4, 2e-3]).all(), worst


def test_another_robot_with_unequal_lags_and_linear_thrust_matches_too() -> None:
    worst = largest_departure(large(), 7, 1000.0, False, spread=0.3)
    assert (worst < [1e-4, 2e-4, 2e-4, 2e-3]).all(), worst


def test_the_error_is_of_second_order_in_the_step(robot: Quadrotor) -> None:
    coarse, fine = (largest_departure(robot, 0, rate, False)[:3] for rate in (500.0, 1000.0))
    assert (coarse / fine > 3.0).all() and (coarse / fine < 5.0).all(), coarse / fine


def test_the_gyroscopic_term_matters_so_agreeing_on_it_means_something(robot: Quadrotor) -> None:
    ends = []
    for gyroscopic in (False, True):
        backend = connected(robot, gyroscopic=gyroscopic, world=VOID)
        backend.reset(
            {"angular_velocity": np.array([5.0, 0.0, 0.0]), "rotor_speed": np.array([2000.0, 500.0, 2000.0, 500.0])}
        )
        backend.step(0.2)
        ends.append(backend.read().signals["angular_velocity"])
    assert np.linalg.norm(ends[0] - ends[1]) > 0.1


def test_it_runs_at_least_eight_times_as_fast_as_time(robot: Quadrotor) -> None:
    backend = connected(robot)
    command = {"rotor_speed": np.full(4, robot.hover_speed_rad_s)}
    backend.reset({"position": np.array([0.0, 0.0, 1.0]), **command})
    begin = time.process_time()  # CPU time: other work on the machine must not decide
    for _ in range(100):
        backend.read()
        backend.write(command)
        backend.step(0.01)
    assert 1.0 / (time.process_time() - begin) > 8.0


def test_without_a_floor_it_falls_past_zero(robot: Quadrotor) -> None:
    backend = connected(robot, world=VOID)
    assert backend.read().signals["position"][2] == rest_height(robot)
    backend.step(1.0)
    assert backend.read().signals["position"][2] < -4.0


def test_a_world_file_can_be_flown_in(robot: Quadrotor, tmp_path: Path) -> None:
    world = tmp_path / "table.xml"
    world.write_text(
        "<mujoco><worldbody><body name='box'><freejoint/><geom type='box' size='.1 .1 .1'/></body>"
        "<geom name='table' type='box' size='1 1 .1' pos='0 0 -.1'/></worldbody></mujoco>"
    )
    backend = connected(robot, world=world)
    backend.reset({"position": np.array([0.5, 0.0, 0.5]), "rotor_speed": np.full(4, robot.hover_speed_rad_s)})
    backend.step(0.2)
    np.testing.assert_allclose(backend.read().signals["position"], [0.5, 0.0, 0.5], atol=1e-6)
    backend.disarm()
    backend.step(2.0)
    assert backend.read().signals["position"][2] == pytest.approx(rest_height(robot), abs=1e-4)


@pytest.mark.parametrize("rate", [10.0, -1.0, float("nan"), 1e6])
def test_a_physics_rate_that_cannot_work_is_refused(robot: Quadrotor, rate: float) -> None:
    with pytest.raises(UserError, match=r"physics_rate_hz: .* must be from .* \(100.0 Hz\) to 100000 Hz"):
        BACKEND(robot, physics_rate_hz=rate)


def test_without_mujoco_the_command_that_installs_it_is_said(robot: Quadrotor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(UserError, match=r"pip install 'rlstack\[sim\]'"):
        BACKEND(robot)


def test_a_diverged_simulation_says_so(robot: Quadrotor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo logs its warning in the working folder
    backend = connected(robot)
    backend.reset({"position": np.array([0.0, 0.0, 1.0]), "angular_velocity": np.array([1e200, 2e200, 1e200])})
    with pytest.raises(RuntimeError, match="diverged"):
        backend.step(1.0)
    backend.reset()
    assert backend.read().signals["position"][2] == pytest.approx(rest_height(robot), abs=1e-4)


def test_an_option_that_does_not_exist_is_refused(robot: Quadrotor) -> None:
    with pytest.raises(UserError, match=r"'wolrd'\. Nearest: world"):
        connected(robot, wolrd="warehouse")


def test_putting_back_a_robot_that_diverged_leaves_the_others_where_they_are(robot: Quadrotor) -> None:
    simulation = Simulation(MujocoEngine, [robot] * 3, isolated=True)
    simulation.open()
    hover = np.full(4, robot.hover_speed_rad_s)
    for index in (0, 2):
        simulation.reset(index, {"position": [0.0, 0.0, 5.0 + index], "rotor_speed": hover})
    spinning = {"position": [0.0, 0.0, 3.0], "angular_velocity": [1e200, 3e199, -2e199], "rotor_speed": hover}
    simulation.reset(1, spinning)
    simulation.command(np.tile(hover, (3, 1)))
    with pytest.raises(RuntimeError, match=r"\[1\] diverged"):
        simulation.step(0.1)
    before = simulation.state()
    simulation.reset(1)
    after = simulation.state()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name][[0, 2]], array[[0, 2]], err_msg=name)
    simulation.command(np.tile(hover, (3, 1)))
    simulation.step(0.1)
    height = simulation.state()["position"][:, 2]
    np.testing.assert_allclose(height, [5.0, rest_height(robot), 7.0], atol=0.01)
