"""The dynamics against conservation laws, symmetries, the fine-step reference and MuJoCo."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import frames
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.backends.mujoco import MujocoBackend
from rlstack.sim.batch_quadrotor.simulator import QuadrotorSimulator
from rlstack.sim.perturbation import Perturbation
from tests.sim.batch_quadrotor.states import (
    State,
    departure,
    fly,
    fly_reference,
    random_commands,
    random_perturbation,
    random_state,
)
from tests.support.robots import crazyflie, large
from tests.support.worlds import VOID

FULL, FLIGHT = 1.0, 0.15
"""Share of the rotors' range that random commands use: all of it, which tumbles at 10 turns a second; flying."""


def without_drag(robot: Quadrotor, inertia: tuple[float, float, float] | None = None) -> Quadrotor:
    body = replace(robot.body, linear_drag_n_s_per_m=(0.0, 0.0, 0.0))
    return replace(robot, body=replace(body, inertia_kg_m2=inertia or body.inertia_kg_m2))


def vectors(limit: float) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, (3,), elements=st.floats(-limit, limit, width=32))


def quaternions() -> st.SearchStrategy[np.ndarray]:
    parts = arrays(np.float64, (4,), elements=st.floats(-1.0, 1.0, width=32))
    return parts.filter(lambda q: np.linalg.norm(q) > 0.1).map(frames.normalise)


def states(speed: float = 3.0, rates: float = 10.0, rotors: float = 0.0) -> st.SearchStrategy[State]:
    """Return one robot's states, with a leading axis of 1."""
    return st.fixed_dictionaries(
        {
            "position": vectors(2.0),
            "orientation": quaternions(),
            "linear_velocity": vectors(speed),
            "angular_velocity": vectors(rates),
            "rotor_speed": arrays(np.float64, (4,), elements=st.floats(0.0, rotors, width=32)),
        }
    ).map(lambda state: {name: array[None] for name, array in state.items()})


FREE = without_drag(crazyflie(), inertia=(3.0e-6, 4.0e-6, 6.0e-6))
"""All moments differ, so that nothing about the turning is trivially constant."""


@settings(deadline=None, max_examples=60)
@given(states())
def test_free_flight_keeps_energy_and_angular_momentum(state: State) -> None:
    # 1 s in 100 float32 steps, rounding errors of 6e-8 of the largest terms each: some 6e-6 if all point one way,
    # and RK4 at up to 17 rad/s leaves 1e-6 of the momentum. Bounds are relative to the energy and momentum there.
    simulator = QuadrotorSimulator(FREE, 1)
    inertia, mass = np.array(FREE.body.inertia_kg_m2), FREE.body.mass_kg

    def energies(s: State) -> tuple[float, float]:
        moving = 0.5 * mass * float(s["linear_velocity"][0] @ s["linear_velocity"][0])
        height = mass * STANDARD_GRAVITY * float(s["position"][0, 2])
        return moving + height, 0.5 * float(s["angular_velocity"][0] ** 2 @ inertia)

    def momentum(s: State) -> np.ndarray:
        return frames.rotate(s["orientation"][0], inertia * s["angular_velocity"][0])

    path = fly(simulator, state, np.zeros((100, 1, 4)))
    before, spin = energies(state)
    size = np.linalg.norm(momentum(state))
    scale = mass * STANDARD_GRAVITY * 10.0 + before  # it falls 5 m and gains some 10 m/s
    for s in path[9::10]:
        after, spin_after = energies(s)
        assert abs(after - before) < 1e-5 * scale
        assert abs(spin_after - spin) < 2e-5 * spin + 1e-18
        assert np.linalg.norm(momentum(s) - momentum(state)) < 5e-5 * size + 1e-15
        assert abs(np.linalg.norm(s["orientation"]) - 1.0) < 3e-7


def test_free_fall_is_a_parabola() -> None:
    simulator = QuadrotorSimulator(FREE, 1)
    state = random_state(np.random.default_rng(0), 1, FREE) | {"rotor_speed": np.zeros((1, 4))}
    end = fly(simulator, state, np.zeros((100, 1, 4)))[-1]
    fall = np.array([0.0, 0.0, -0.5 * STANDARD_GRAVITY])
    np.testing.assert_allclose(end["position"], state["position"] + state["linear_velocity"] + fall, atol=2e-5)


@settings(deadline=None, max_examples=40)
@given(states(rotors=2200.0), st.floats(-np.pi, np.pi), vectors(5.0), st.integers(0, 2**31))
def test_a_turned_and_moved_world_gives_the_turned_and_moved_flight(
    state: State, yaw: float, offset: np.ndarray, seed: int
) -> None:
    rng, robot = np.random.default_rng(seed), crazyflie()
    commands = random_commands(rng, 20, 1, robot)
    p = random_perturbation(rng, 1, robot)
    turn = frames.from_yaw(yaw)
    turned = {
        "position": frames.rotate(turn, state["position"]) + offset,
        "orientation": frames.multiply(turn, state["orientation"]),
        "linear_velocity": frames.rotate(turn, state["linear_velocity"]),
        "angular_velocity": state["angular_velocity"],
        "rotor_speed": state["rotor_speed"],
    }
    q = replace(p, force_n=frames.rotate(turn, p.force_n), gust_force_n=frames.rotate(turn, p.gust_force_n))
    both = QuadrotorSimulator(robot, 2)
    fields = vars(p)
    both.set_perturbation(Perturbation(**{n: np.concatenate([fields[n], vars(q)[n]]) for n in fields}))
    joined = {n: np.concatenate([state[n], turned[n]]) for n in state}
    end = fly(both, joined, np.repeat(commands, 2, axis=1))[-1]
    first, second = ({n: a[i : i + 1] for n, a in end.items()} for i in (0, 1))
    back = frames.inverse(turn)
    restored = {
        **second,
        "position": frames.rotate(back, second["position"] - offset),
        "orientation": frames.multiply(back, second["orientation"]),
        "linear_velocity": frames.rotate(back, second["linear_velocity"]),
    }
    # float32 rounding of coordinates up to 10 m, and of rates up to 50 rad/s over 0.2 s
    assert (departure(first, restored) < [2e-5, 2e-4, 2e-4, 2e-3, 1e-9]).all()


def test_robots_do_not_influence_each_other() -> None:
    rng, robot, count = np.random.default_rng(1), crazyflie(), 50
    state, commands = random_state(rng, count, robot), random_commands(rng, 30, count, robot)
    p = replace(random_perturbation(rng, count, robot), delay_s=rng.uniform(0.0, 0.05, count))
    state["position"][7] = np.nan  # and what one has lost does not spread
    order = rng.permutation(count)
    simulator, shuffled = QuadrotorSimulator(robot, count), QuadrotorSimulator(robot, count)
    simulator.set_perturbation(p)
    shuffled.set_perturbation(p.take(order))
    one = fly(simulator, state, commands)[-1]
    other = fly(shuffled, {n: a[order] for n, a in state.items()}, commands[:, order])[-1]
    for name, array in one.items():
        np.testing.assert_array_equal(array[order], other[name], err_msg=name)
        assert np.isfinite(np.delete(array, 7, axis=0)).all()


@pytest.mark.parametrize("robot", [crazyflie(), large()], ids=lambda r: r.name)
@pytest.mark.parametrize("rising", [True, False], ids=["rise", "fall"])
def test_rotors_follow_with_their_lag(robot: Quadrotor, rising: bool) -> None:
    model = robot.rotor_model
    low, high = model.speed_min_rad_s + 10.0, model.speed_max_rad_s - 10.0
    start, target = (low, high) if rising else (high, low)
    constant = model.rise_time_constant_s if rising else model.fall_time_constant_s
    simulator = QuadrotorSimulator(robot, 1, rate_hz=100.0)
    state = random_state(np.random.default_rng(0), 1, robot) | {"rotor_speed": np.full((1, 4), start)}
    path = fly(simulator, state, np.full((30, 1, 4), target))
    for k, s in enumerate(path, 1):
        expected = target + (start - target) * np.exp(-k * 0.01 / constant)
        np.testing.assert_allclose(s["rotor_speed"], expected, rtol=3e-6)


def scaled(commands: np.ndarray, robot: Quadrotor, spread: float) -> np.ndarray:
    """Draw commands together around the speed that hovers."""
    return np.asarray(robot.hover_speed_rad_s + spread * (commands - robot.hover_speed_rad_s))


def worst_departure(
    robot: Quadrotor,
    rate_hz: float,
    spread: float,
    *,
    perturbed: bool = False,
    gyroscopic: bool = False,
    delays_s: tuple[float, ...] = (0.0,),
    substeps: int = 1,
    robots: int = 2,
) -> np.ndarray:
    """Fly 1 s of random commands here and in the reference; return the largest difference of any sample."""
    rng = np.random.default_rng(5)
    state = random_state(rng, robots, robot)
    state["rotor_speed"][:] = robot.hover_speed_rad_s
    commands = scaled(random_commands(rng, round(rate_hz), robots, robot), robot, spread)
    p = random_perturbation(rng, robots, robot) if perturbed else Perturbation.none(robots)
    # rotors that differ by a quarter make a robot spin faster than any flies
    p = replace(p, thrust_scale=1.0 + 0.1 * (p.thrust_scale - 1.0), delay_s=np.resize(delays_s, robots).astype(float))
    simulator = QuadrotorSimulator(robot, robots, rate_hz=rate_hz, gyroscopic=gyroscopic, substeps=substeps)
    simulator.set_perturbation(p)
    path = fly(simulator, state, commands)
    worst = np.zeros(5)
    for i in range(robots):
        expected = fly_reference(robot, state, commands, p, i, period_s=1.0 / rate_hz, gyroscopic=gyroscopic)
        assert len(expected) == len(path)
        for found, right in zip(path, expected):
            worst = np.maximum(worst, departure({n: a[i : i + 1] for n, a in found.items()}, right))
    return worst


@pytest.mark.parametrize(
    ("robot", "rate_hz", "spread", "options", "measured"),
    [
        pytest.param(crazyflie(), 100.0, FULL, {}, (2.5e-5, 1.6e-3, 1.3e-4, 1.3e-4), id="tumbling"),
        pytest.param(crazyflie(), 100.0, FLIGHT, {}, (3.0e-5, 7.0e-5, 1.2e-4, 2.0e-4), id="flying"),
        pytest.param(
            crazyflie(),
            100.0,
            FLIGHT,
            {"perturbed": True, "gyroscopic": True, "delays_s": (0.004, 0.023)},
            (6.8e-4, 1.2e-3, 1.6e-3, 1.2e-2),
            id="flying, perturbed, delayed, gyroscopic",
        ),
        pytest.param(
            large(),
            200.0,
            FLIGHT,
            {"perturbed": True, "delays_s": (0.013, 0.05), "substeps": 2},
            (4.0e-6, 1.0e-5, 1.0e-5, 7.0e-5),
            id="another robot, perturbed, delayed, in two steps a period",
        ),
    ],
)
def test_a_second_of_random_commands_matches_the_reference(
    robot: Quadrotor, rate_hz: float, spread: float, options: dict, measured: tuple[float, ...]
) -> None:
    """Bounds are twice what was measured: position m, attitude rad, velocity m/s, rates rad/s."""
    worst = worst_departure(robot, rate_hz, spread, **options)
    assert (worst[:4] < 2.0 * np.array(measured)).all(), worst
    assert worst[4] < 5e-6 * robot.rotor_model.speed_max_rad_s


@pytest.mark.parametrize(
    ("spread", "measured"),
    [(FULL, (7.8e-5, 2.9e-2, 1.7e-3, 1.9e-3)), (FLIGHT, (3.0e-5, 7.0e-5, 6.0e-5, 3.0e-4))],
    ids=["tumbling", "flying"],
)
def test_a_second_of_random_commands_matches_mujoco(spread: float, measured: tuple[float, ...]) -> None:
    """State for state on the generated model, MuJoCo at 1000 Hz; bounds are twice what three seeds gave."""
    robot, worst = crazyflie(), np.zeros(5)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        state = random_state(rng, 1, robot)
        state["rotor_speed"][:] = robot.hover_speed_rad_s
        commands = scaled(random_commands(rng, 100, 1, robot), robot, spread)
        path = fly(QuadrotorSimulator(robot, 1), state, commands)
        backend = MujocoBackend(robot, world=VOID)
        backend.connect()
        backend.reset({name: array[0] for name, array in state.items()})
        for command, found in zip(commands, path):
            backend.write({"rotor_speed": command[0]})
            backend.step(0.01)
            signals = backend.read().signals
            world = frames.rotate(signals["orientation"], signals["linear_velocity"])
            signals = {**signals, "linear_velocity": world, "rotor_speed": signals["measured_rotor_speed"]}
            expected = {n: np.asarray(signals[n])[None] for n in state}
            worst = np.maximum(worst, departure(found, expected))
        backend.close()
    assert (worst[:4] < 2.0 * np.array(measured)).all(), worst


def test_the_gyroscopic_term_turns_a_pitching_robot() -> None:
    robot = crazyflie()
    speeds = np.array([[500.0, 2000.0, 500.0, 2000.0]])  # signs -, +, -, +: the rotors' spins add up
    state = random_state(np.random.default_rng(0), 1, robot) | {"rotor_speed": speeds}
    state["angular_velocity"] = np.array([[0.0, 10.0, 0.0]])
    plain = fly(QuadrotorSimulator(robot, 1), state, speeds[None])[-1]
    gyroscopic = fly(QuadrotorSimulator(robot, 1, gyroscopic=True), state, speeds[None])[-1]
    momentum = -robot.rotor_model.spin_inertia_kg_m2 * float(robot.yaw_torque_signs @ speeds[0])
    difference = gyroscopic["angular_velocity"][0, 0] - plain["angular_velocity"][0, 0]
    assert difference == pytest.approx(-10.0 * momentum / robot.body.inertia_kg_m2[0] * 0.01, rel=0.05)
