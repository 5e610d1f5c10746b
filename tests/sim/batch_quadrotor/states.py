"""States, perturbations and comparisons for tests of the batch simulator."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import frames
from rlstack.sim.batch_quadrotor.simulator import QuadrotorSimulator
from rlstack.sim.perturbation import Perturbation
from tests.support.reference import ReferenceQuadrotor

Array = NDArray[np.float64]
State = dict[str, Array]


def random_state(rng: np.random.Generator, count: int, robot: Quadrotor, rates: float = 1.0) -> State:
    """Return ``count`` states anywhere within 1 m, of any attitude, up to 1 m/s and ``rates`` rad/s an axis."""
    model = robot.rotor_model
    return {
        "position": rng.uniform(-1.0, 1.0, (count, 3)),
        "orientation": frames.normalise(rng.normal(size=(count, 4))),
        "linear_velocity": rng.uniform(-1.0, 1.0, (count, 3)),
        "angular_velocity": rng.uniform(-rates, rates, (count, 3)),
        "rotor_speed": rng.uniform(model.speed_min_rad_s, model.speed_max_rad_s, (count, 4)),
    }


def random_commands(rng: np.random.Generator, steps: int, count: int, robot: Quadrotor) -> Array:
    """Return (steps, count, rotors) speeds over the rotors' whole range."""
    model = robot.rotor_model
    return rng.uniform(model.speed_min_rad_s, model.speed_max_rad_s, (steps, count, 4))


def random_perturbation(rng: np.random.Generator, count: int, robot: Quadrotor) -> Perturbation:
    """Return robots that depart from their file in everything but the delay."""
    weight = robot.weight_n

    def near_one(*shape: int) -> Array:
        return rng.uniform(0.8, 1.25, (count, *shape))

    return Perturbation(
        mass_scale=near_one(),
        inertia_scale=near_one(3),
        arm_scale=near_one(2),
        thrust_scale=near_one(4),
        torque_scale=near_one(),
        time_constant_scale=near_one(2),
        drag_scale=rng.uniform(0.0, 3.0, count),
        force_n=rng.normal(0.0, weight / 20, (count, 3)),
        torque_n_m=rng.normal(0.0, weight / 10_000, (count, 3)),
        gust_force_n=rng.normal(0.0, weight / 10, (count, 3)),
        gust_start_s=rng.uniform(0.1, 0.5, count),
        gust_duration_s=rng.uniform(0.05, 0.5, count),
        rate_lag_scale=near_one(),
        rate_rejection_scale=rng.uniform(0.0, 1.0, count),
        delay_s=np.zeros(count),
    )


def fly(simulator: QuadrotorSimulator, state: State, commands: Array) -> list[State]:
    """Return the states after each command."""
    simulator.set_state(state)
    path = []
    for command in commands:
        simulator.step(command)
        path.append(simulator.state())
    return path


def departure(found: State, expected: State) -> Array:
    """Return the largest differences over all robots: position m, attitude rad, velocity m/s, rates rad/s, rotors."""
    turn = frames.multiply(frames.inverse(found["orientation"]), expected["orientation"])
    angle = 2.0 * np.arctan2(np.linalg.norm(turn[:, :3], axis=1), np.abs(turn[:, 3]))
    others = [
        np.linalg.norm(found[name] - expected[name], axis=1)
        for name in ("position", "linear_velocity", "angular_velocity", "rotor_speed")
    ]
    return np.array([d.max() for d in (others[0], angle, *others[1:])])


def fly_reference(
    robot: Quadrotor,
    state: State,
    commands: Array,
    perturbation: Perturbation,
    index: int,
    *,
    period_s: float,
    gyroscopic: bool = False,
    step_s: float = 1e-3,
) -> list[State]:
    """Return robot ``index`` flown by the fine-step reference, each state with a leading axis of 1.

    Delays and gusts are put together here from constant pieces, so nothing of the simulator's bookkeeping is shared.
    """
    p = perturbation.take(np.array([index]))
    reference = ReferenceQuadrotor(robot, step_s=step_s, gyroscopic=gyroscopic)
    _perturb(reference, robot, p)
    reference.state = {name: array[index].copy() for name, array in state.items()}
    start, length = float(p.gust_start_s[0]), float(p.gust_duration_s[0])
    delay = float(p.delay_s[0])
    path = []
    for k in range(len(commands)):
        begin, end = k * period_s, (k + 1) * period_s
        events = (start, start + length, begin + delay % period_s)
        cuts = sorted({begin, end} | {t for t in events if begin < t < end})
        for one, two in pairwise(cuts):
            if two - one < 1e-9:
                continue
            middle = 0.5 * (one + two)
            newest = int(np.floor((middle - delay) / period_s))
            command = commands[newest][index] if newest >= 0 else state["rotor_speed"][index]
            force = p.force_n[0] + (p.gust_force_n[0] if start <= middle < start + length else 0.0)
            reference.step(command, two - one, force, p.torque_n_m[0])
        path.append({name: array[None].copy() for name, array in reference.state.items()})
    return path


def _perturb(reference: ReferenceQuadrotor, robot: Quadrotor, p: Perturbation) -> None:
    body, model = robot.body, robot.rotor_model
    inertia = np.array(body.inertia_kg_m2) * p.inertia_scale[0]
    drag = np.array(body.linear_drag_n_s_per_m) * p.drag_scale[0]
    lag: dict[str, Any] = {
        name: getattr(model, name) * scale
        for name, scale in zip(("rise_time_constant_s", "fall_time_constant_s"), p.time_constant_scale[0])
    }
    thrust = tuple(c * p.thrust_scale[0] for c in model.thrust_coefficients)
    # duck-typed, because a Quadrotor has one thrust curve for all rotors
    reference.robot = SimpleNamespace(  # type: ignore[assignment]
        body=SimpleNamespace(mass_kg=body.mass_kg * p.mass_scale[0]),
        thrust_factors=np.ones(len(robot.rotors)),
        rotor_model=SimpleNamespace(**{**vars(model), **lag, "thrust_coefficients": thrust}),
    )
    reference._inertia, reference._drag = inertia, drag
    levers = np.cross(robot.rotor_positions * [*p.arm_scale[0], 1.0], [0.0, 0.0, 1.0])
    levers[:, 2] += robot.yaw_torque_signs * model.torque_per_thrust_m * p.torque_scale[0]
    reference._levers = levers
