"""What a caller of the batch simulator meets: commands, delays, states, refusals, determinism."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.fused.devices import TEST_DEVICE
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.sim.batch_quadrotor.simulator import QuadrotorSimulator
from rlstack.sim.perturbation import Perturbation
from tests.sim.batch_quadrotor.states import departure, fly, random_commands, random_perturbation, random_state


@pytest.fixture(scope="module")
def robot() -> Quadrotor:
    return load_quadrotor("crazyflie")


def lagged(robot: Quadrotor, start: float, target: float, duration_s: float) -> float:
    return target + (start - target) * float(np.exp(-duration_s / robot.rotor_model.rise_time_constant_s))


def test_it_starts_at_the_origin_at_rest_and_as_in_the_file(robot: Quadrotor) -> None:
    state = QuadrotorSimulator(robot, 3).state()
    assert {n: a.shape for n, a in state.items()} == {
        "position": (3, 3),
        "orientation": (3, 4),
        "linear_velocity": (3, 3),
        "angular_velocity": (3, 3),
        "rotor_speed": (3, 4),
    }
    np.testing.assert_array_equal(state.pop("orientation"), np.tile([0.0, 0.0, 0.0, 1.0], (3, 1)))
    assert all((array == 0.0).all() for array in state.values())


def test_a_state_reads_back_and_is_a_copy(robot: Quadrotor) -> None:
    simulator = QuadrotorSimulator(robot, 5)
    given = random_state(np.random.default_rng(0), 5, robot)
    simulator.set_state(given)
    state = simulator.state()
    for name, array in given.items():
        np.testing.assert_allclose(state[name], array, rtol=1e-6)
        state[name][:] = 7.0
    np.testing.assert_allclose(simulator.state()["position"], given["position"], rtol=1e-6)


def test_hover_speed_carries_the_weight(robot: Quadrotor) -> None:
    simulator = QuadrotorSimulator(robot, 1)
    speed = np.full((1, 4), robot.hover_speed_rad_s)
    simulator.set_state({**simulator.state(), "rotor_speed": speed})
    for _ in range(100):
        simulator.step(speed)
    np.testing.assert_allclose(simulator.state()["position"], 0.0, atol=1e-5)


def test_commands_are_clipped_to_the_rotors_range(robot: Quadrotor) -> None:
    top = robot.rotor_model.speed_max_rad_s
    simulator = QuadrotorSimulator(robot, 2)
    state = random_state(np.random.default_rng(0), 2, robot)
    far = np.array([[-1e6, 1e6, 1e9, -5.0]] * 2)
    limits = np.array([[0.0, top, top, 0.0]] * 2)
    np.testing.assert_array_equal(
        fly(simulator, state, far[None])[-1]["rotor_speed"], fly(simulator, state, limits[None])[-1]["rotor_speed"]
    )


def test_before_the_first_delayed_command_the_rotors_hold_their_speed(robot: Quadrotor) -> None:
    simulator = QuadrotorSimulator(robot, 1)
    simulator.set_perturbation(replace(Perturbation.none(1), delay_s=np.array([0.03])))
    held = np.full((1, 4), 1500.0)
    for _ in range(3):  # and commands from before a new state are forgotten
        simulator.step(np.zeros((1, 4)))
    simulator.set_state({**simulator.state(), "rotor_speed": held})
    for _ in range(3):
        simulator.step(np.full((1, 4), 2000.0))
        np.testing.assert_allclose(simulator.state()["rotor_speed"], held, rtol=1e-6)
    simulator.step(held)
    np.testing.assert_allclose(simulator.state()["rotor_speed"], lagged(robot, 1500.0, 2000.0, 0.01), rtol=1e-6)


@pytest.mark.parametrize("delay_s", [0.0, 0.004, 0.01, 0.0125, 0.02, 0.03, 0.0499, 0.05])
def test_the_ring_hands_out_each_command_at_its_time(robot: Quadrotor, delay_s: float) -> None:
    simulator = QuadrotorSimulator(robot, 1, max_delay_s=0.05)
    simulator.set_perturbation(replace(Perturbation.none(1), delay_s=np.array([delay_s])))
    simulator.set_state({**simulator.state(), "rotor_speed": np.full((1, 4), 1000.0)})
    commands = np.random.default_rng(1).uniform(0.0, 2000.0, 40)
    speed, given = 1000.0, [1000.0] * 10 + list(commands)
    for k, command in enumerate(commands):
        simulator.step(np.full((1, 4), command))
        for piece in range(100):  # 0.1 ms at a time, each under the command that had come ``delay_s`` before
            newest = int(np.floor((k * 100 + piece + 0.5) / 100 - delay_s * 100.0))
            speed = lagged(robot, speed, given[newest + 10], 1e-4)
        np.testing.assert_allclose(simulator.state()["rotor_speed"], speed, atol=1e-2)


def test_the_ring_is_long_enough_for_any_rate(robot: Quadrotor) -> None:
    for rate_hz, delay_s in ((50.0, 0.05), (73.0, 0.037), (500.0, 0.0213), (100.0, 0.0)):
        simulator = QuadrotorSimulator(robot, 1, rate_hz=rate_hz, max_delay_s=delay_s)
        simulator.set_perturbation(replace(Perturbation.none(1), delay_s=np.array([delay_s])))
        simulator.set_state({**simulator.state(), "rotor_speed": np.full((1, 4), 1000.0)})
        periods = int(np.floor(delay_s * rate_hz + 1e-6))
        for _ in range(periods):
            simulator.step(np.full((1, 4), 2000.0))
        np.testing.assert_allclose(simulator.state()["rotor_speed"], 1000.0, rtol=1e-6)
        simulator.step(np.full((1, 4), 2000.0))
        acted = (periods + 1) / rate_hz - delay_s
        np.testing.assert_allclose(simulator.state()["rotor_speed"], lagged(robot, 1000.0, 2000.0, acted), rtol=1e-5)


def test_a_gust_gives_its_whole_momentum_wherever_it_begins_and_ends(robot: Quadrotor) -> None:
    count = 200
    rng = np.random.default_rng(2)
    start, duration = rng.uniform(0.0, 0.1, count), rng.uniform(0.0, 0.1, count)
    gust = {"gust_force_n": np.tile([0.01, 0.0, 0.0], (count, 1)), "gust_start_s": start, "gust_duration_s": duration}
    simulator = QuadrotorSimulator(robot, count)
    simulator.set_perturbation(replace(Perturbation.none(count), **gust, drag_scale=np.zeros(count)))
    for _ in range(21):
        simulator.step(np.zeros((count, 4)))
    pushed = simulator.state()["linear_velocity"][:, 0]
    np.testing.assert_allclose(pushed, 0.01 * duration / robot.body.mass_kg, atol=2e-6)


def test_more_steps_a_period_agree_and_read_the_same_commands(robot: Quadrotor) -> None:
    rng = np.random.default_rng(3)
    state, commands = random_state(rng, 4, robot), random_commands(rng, 20, 4, robot)
    p = replace(random_perturbation(rng, 4, robot), delay_s=np.array([0.0, 0.004, 0.01, 0.027]))
    ends = []
    for substeps in (1, 2, 5):
        simulator = QuadrotorSimulator(robot, 4, substeps=substeps)
        simulator.set_perturbation(p)
        ends.append(fly(simulator, state, commands)[-1])
    for end in ends[:2]:
        np.testing.assert_allclose(end["rotor_speed"], ends[2]["rotor_speed"], rtol=1e-5)
        np.testing.assert_allclose(end["position"], ends[2]["position"], atol=1e-4)


def test_the_same_flight_twice_is_the_same_to_the_bit(robot: Quadrotor) -> None:
    rng = np.random.default_rng(4)
    state, commands = random_state(rng, 64, robot), random_commands(rng, 30, 64, robot)
    p = replace(random_perturbation(rng, 64, robot), delay_s=rng.uniform(0.0, 0.05, 64))
    used, fresh = QuadrotorSimulator(robot, 64), QuadrotorSimulator(robot, 64)
    for simulator in (used, fresh):
        simulator.set_perturbation(p)
    fly(used, random_state(rng, 64, robot), random_commands(rng, 3, 64, robot))
    for one, other in zip(fly(used, state, commands), fly(fresh, state, commands)):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def test_the_newest_command_may_be_written_in_place(robot: Quadrotor) -> None:
    state = random_state(np.random.default_rng(5), 2, robot)
    simulators = [QuadrotorSimulator(robot, 2, max_delay_s=0.0) for _ in range(2)]
    for simulator in simulators:
        simulator.set_state(state)
    for k in range(9):
        command = np.full((2, 4), 100.0 * k, dtype=np.float32)
        simulators[0].step(command)
        simulators[1].commands[0][:] = command.T
        simulators[1].advance()
        np.testing.assert_array_equal(simulators[0].state_rows, simulators[1].state_rows)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("position", np.zeros((4, 3))),
        ("position", np.zeros((3, 2))),
        ("rotor_speed", np.zeros((3, 3))),
        ("orientation", np.zeros((4, 3))),
        ("linear_velocity", np.zeros(9)),
    ],
    ids=["robots", "axes", "rotors", "transposed", "flat"],
)
def test_a_state_of_the_wrong_shape_is_refused_by_name(robot: Quadrotor, name: str, array: np.ndarray) -> None:
    simulator = QuadrotorSimulator(robot, 3)
    with pytest.raises(ValueError, match=rf"^{name}: the shape .* must be \(3, "):
        simulator.set_state({**simulator.state(), name: array})


def test_a_state_must_have_every_name_and_no_other(robot: Quadrotor) -> None:
    simulator = QuadrotorSimulator(robot, 1)
    state = simulator.state()
    with pytest.raises(ValueError, match="expected the arrays"):
        simulator.set_state({**state, "velocity": np.zeros((1, 3))})
    state.pop("orientation")
    with pytest.raises(ValueError, match="expected the arrays"):
        simulator.set_state(state)


def test_a_perturbation_that_does_not_fit_is_refused(robot: Quadrotor) -> None:
    simulator = QuadrotorSimulator(robot, 2, max_delay_s=0.02)
    with pytest.raises(ValueError, match="is for 3 robots, the simulator has 2"):
        simulator.set_perturbation(Perturbation.none(3))
    with pytest.raises(ValueError, match=r"thrust_scale: the shape \(2, 6\)"):
        simulator.set_perturbation(Perturbation.none(2, rotors=6))
    with pytest.raises(ValueError, match="over max_delay_s"):
        simulator.set_perturbation(replace(Perturbation.none(2), delay_s=np.array([0.0, 0.021])))


def test_a_command_of_the_wrong_shape_is_refused(robot: Quadrotor) -> None:
    with pytest.raises(ValueError, match=r"the command's shape is \(4,\), not \(2, 4\)"):
        QuadrotorSimulator(robot, 2).step(np.zeros(4))


def test_a_device_that_is_not_there_is_refused_with_what_may_be_asked_for() -> None:
    with pytest.raises(UserError, match=r"no device 'tpu': choose cpu or cuda:0"):
        QuadrotorSimulator(load_quadrotor("crazyflie"), 1, device="tpu")
    with pytest.raises(UserError, match=r"no device 'cuda:97' here: choose one of cpu|CUDA needs Warp"):
        QuadrotorSimulator(load_quadrotor("crazyflie"), 1, device="cuda:97")


def test_the_text_for_cuda_flies_the_same(robot: Quadrotor) -> None:
    pytest.importorskip("warp")
    rng = np.random.default_rng(6)
    state, commands = random_state(rng, 37, robot), random_commands(rng, 10, 37, robot)
    p = replace(random_perturbation(rng, 37, robot), delay_s=rng.uniform(0.0, 0.05, 37))
    ends = []
    for device in ("cpu", TEST_DEVICE):
        simulator = QuadrotorSimulator(robot, 37, device=device)
        simulator.set_perturbation(p)
        ends.append(fly(simulator, state, commands)[-1])
    assert (departure(*ends) < [1e-6, 2e-5, 2e-5, 2e-4, 1e-3]).all(), departure(*ends)
