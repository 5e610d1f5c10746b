"""Reverse mode through the kernel against finite differences, for everything that it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import warp as wp

from rlstack.robots import load_robot
from rlstack.sim.batch import PARAMETERS, STATE, dynamics, pack_parameters, pack_state
from tests.sim.batch.states import random_commands, random_perturbation, random_state

COUNT, SLOTS, NEWEST = 2, 5, 3


class Step:
    """One launch with gradients: the value is a random weighting of the next state."""

    def __init__(self, delay_s: float, gyroscopic: bool, seed: int = 0, period: float = 0.04) -> None:
        # a long period, so that float32 differences rise above rounding
        rng, robot = np.random.default_rng(seed), load_robot("crazyflie")
        p = replace(random_perturbation(rng, COUNT, robot), delay_s=np.full(COUNT, delay_s))
        p = replace(p, gust_start_s=np.full(COUNT, -0.01), gust_duration_s=np.full(COUNT, 0.03))  # ends in this step
        self.inputs = {
            "state": pack_state(random_state(rng, COUNT, robot, rates=5.0)),
            "parameters": pack_parameters(robot, p),
            "commands": random_commands(rng, SLOTS, COUNT, robot).astype(np.float32),
        }
        self.weights = rng.normal(size=self.inputs["state"].shape).astype(np.float32)
        self.weights[:, STATE["rotor_speed"]] *= 1e-3
        self.weights[:, STATE["elapsed"]] = 0.0
        self.period, self.gyroscopic = period, int(gyroscopic)

    def run(self, inputs: dict[str, np.ndarray]) -> tuple[dict[str, wp.array], wp.array, wp.Tape]:
        arrays = {n: wp.array(a, dtype=float, device="cpu", requires_grad=True) for n, a in inputs.items()}
        after = wp.zeros(self.weights.shape, dtype=float, device="cpu", requires_grad=True)
        step: list[Any] = [NEWEST, self.period, 0.0, self.period, self.gyroscopic]
        tape = wp.Tape()
        with tape:
            wp.launch(dynamics.advance, COUNT, [*arrays.values(), *step], [after], device="cpu")
        return arrays, after, tape

    def value(self, inputs: dict[str, np.ndarray]) -> float:
        return float((self.run(inputs)[1].numpy().astype(float) * self.weights).sum())

    def gradients(self) -> dict[str, np.ndarray]:
        arrays, after, tape = self.run(self.inputs)
        tape.backward(grads={after: wp.array(self.weights, dtype=float, device="cpu")})
        return {name: array.grad.numpy() for name, array in arrays.items()}

    def difference(self, name: str, index: tuple[int, ...], change: float) -> float:
        values, ends = [], []
        for sign in (1.0, -1.0):
            moved = self.inputs[name].copy()
            moved[index] += sign * change
            values.append(self.value({**self.inputs, name: moved}))
            ends.append(float(moved[index]))
        return (values[0] - values[1]) / (ends[0] - ends[1])


CHANGES = {
    "position": 0.01,
    "orientation": 0.003,
    "linear_velocity": 0.01,
    "angular_velocity": 0.02,
    "rotor_speed": 5.0,
}


def relative(parameters: np.ndarray, name: str, column: int) -> float:
    """Return a change that is small for this parameter and large for float32."""
    floors = {"force": 1e-3, "torque": 1e-6, "gust_force": 1e-3, "drag": 1e-4}
    return max(0.005 * abs(float(parameters[column])), floors.get(name, 0.0))


@pytest.mark.parametrize("gyroscopic", [False, True], ids=["plain", "gyroscopic"])
@pytest.mark.parametrize("delay_s", [0.0, 0.013, 0.03, 0.05], ids=lambda d: f"delay {1000 * d:g} ms")
def test_gradients_match_finite_differences(delay_s: float, gyroscopic: bool) -> None:
    step = Step(delay_s, gyroscopic)
    gradients = step.gradients()

    def check(name: str, group: str, indices: list[tuple[int, ...]], change: list[float]) -> None:
        found = np.array([gradients[name][i] for i in indices])
        expected = np.array([step.difference(name, i, c) for i, c in zip(indices, change)])
        tolerance = 2e-3 * np.abs(expected).max() + 1e-6 / min(change)
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=tolerance, err_msg=group)

    for group, change in CHANGES.items():
        indices = [(1, c) for c in range(STATE[group].start, STATE[group].stop)]
        check("state", group, indices, [change] * len(indices))
    acting = {0.0: [3], 0.013: [2, 3], 0.03: [2, 3], 0.05: [1, 2]}[delay_s]  # slots that this delay flies on
    check("commands", "commands", [(slot, 1, r) for slot in acting for r in range(4)], [20.0] * 4 * len(acting))
    others = [s for s in range(SLOTS) if s not in acting]
    assert (gradients["commands"][others] == 0.0).all()
    for group in ("mass", "inertia", "drag", "thrust_scale", "torque_per_thrust", "rotor_x", "rotor_y", "force"):
        columns = range(PARAMETERS[group].start, PARAMETERS[group].stop)
        changes = [relative(step.inputs["parameters"][1], group, c) for c in columns]
        check("parameters", group, [(1, c) for c in columns], changes)
    for group in ("time_constants", "torque", "gust_force"):
        columns = range(PARAMETERS[group].start, PARAMETERS[group].stop)
        changes = [relative(step.inputs["parameters"][1], group, c) for c in columns]
        check("parameters", group, [(1, c) for c in columns], changes)


def test_a_position_feels_the_command_that_lifts_it() -> None:
    """The next issue trains through this: height after some steps by the command of the first, over one tape."""
    robot = load_robot("crazyflie")
    hover = robot.hover_speed_rad_s
    steps, period = 5, 0.01

    def fly(first: float) -> tuple[float, float]:
        start = np.zeros((1, STATE["elapsed"].stop), dtype=np.float32)
        start[0, STATE["orientation"]] = [0.0, 0.0, 0.0, 1.0]
        start[0, STATE["rotor_speed"]] = hover
        rows = [wp.array(start, dtype=float, device="cpu", requires_grad=True)]
        rows += [wp.zeros_like(rows[0], requires_grad=True) for _ in range(steps)]
        parameters = wp.array(pack_parameters(robot, random_free()), dtype=float, device="cpu", requires_grad=True)
        rings = []
        tape = wp.Tape()
        with tape:
            for k in range(steps):
                speed = first if k == 0 else hover
                ring = np.full((2, 1, 4), speed, dtype=np.float32)
                rings.append(wp.array(ring, dtype=float, device="cpu", requires_grad=True))
                wp.launch(
                    dynamics.advance, 1, [rows[k], parameters, rings[k], 0, period, 0.0, period, 0], [rows[k + 1]]
                )
        pick = np.zeros(start.shape, dtype=np.float32)
        pick[0, STATE["position"].start + 2] = 1.0
        tape.backward(grads={rows[-1]: wp.array(pick, dtype=float, device="cpu")})
        return float(rows[-1].numpy()[0, STATE["position"].start + 2]), float(rings[0].grad.numpy().sum())

    gradient = fly(hover)[1]
    expected = (fly(hover + 50.0)[0] - fly(hover - 50.0)[0]) / 100.0
    assert gradient == pytest.approx(expected, rel=2e-3)
    assert gradient > 0.0


def random_free() -> Any:
    from rlstack.sim.perturbation import Perturbation

    return Perturbation.none(1)
