"""Reverse mode through the step's kernel against finite differences in float64, for everything that it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlstack.fused import GRADIENT
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.batch_quadrotor.dynamics import QuadrotorModel, advance
from rlstack.sim.batch_quadrotor.layout import PARAMETERS, STATE, pack_parameters, pack_state
from rlstack.sim.batch_quadrotor.simulator import step_kernel
from rlstack.sim.perturbation import Perturbation
from tests.sim.batch_quadrotor.states import random_commands, random_perturbation, random_state

COUNT, MAX_DELAY_S = 2, 0.05
Arrays = dict[str, np.ndarray]


class Step:
    """One step with gradients: the value is a random weighting of the next state."""

    def __init__(
        self, delay_s: float, gyroscopic: bool, seed: int = 0, period: float = 0.02, name: str = "crazyflie"
    ) -> None:
        rng, robot = np.random.default_rng(seed), load_quadrotor(name)
        p = replace(random_perturbation(rng, COUNT, robot), delay_s=np.full(COUNT, delay_s))
        p = replace(p, gust_start_s=np.full(COUNT, -0.01), gust_duration_s=np.full(COUNT, 0.02))  # ends in this step
        self.model = QuadrotorModel.of(robot, period, gyroscopic=gyroscopic, max_delay_s=MAX_DELAY_S)
        self.names = [f"command_{k}" for k in range(self.model.past_commands + 1)]
        commands = random_commands(rng, len(self.names), COUNT, robot).astype(np.float32)
        if robot.rate_loop is not None:  # within what the rotors can do
            commands = rng.uniform([-0.3, -0.3, -0.3, 9.0], [0.3, 0.3, 0.3, 11.0], commands.shape).astype(np.float32)
        self.inputs: Arrays = {
            "state": pack_state(random_state(rng, COUNT, robot, rates=5.0)).T.copy(),
            "parameters": pack_parameters(robot, p).T.copy(),
            **{name: command.T.copy() for name, command in zip(self.names, commands)},
        }
        self.weights = rng.normal(size=self.inputs["state"].shape).astype(np.float32)
        self.weights[STATE["rotor_speed"]] *= 1e-3

    def value(self, inputs: Arrays) -> float:
        commands = [inputs[name] for name in self.names]
        return float((advance(inputs["state"], inputs["parameters"], commands, self.model) * self.weights).sum())

    def gradients(self) -> Arrays:
        kernel = step_kernel(4, self.model, tuple(self.inputs))
        found = {GRADIENT + name: np.zeros_like(array) for name, array in self.inputs.items()}
        kernel({**self.inputs, GRADIENT + "next": self.weights, **found})
        return {name: found[GRADIENT + name].astype(np.float64) for name in self.inputs}

    def difference(self, name: str, row: int, change: float) -> float:
        wide = {n: array.astype(np.float64) for n, array in self.inputs.items()}
        values = []
        for sign in (1.0, -1.0):
            moved = wide[name].copy()
            moved[row, 1] += sign * change
            values.append(self.value({**wide, name: moved}))
        return (values[0] - values[1]) / (2.0 * change)

    def check(self, name: str, rows: range, group: str) -> None:
        sizes = np.abs(self.inputs[name][rows.start : rows.stop, 1])
        found = self.gradients()[name][rows.start : rows.stop, 1]
        # a disturbance may be zero, and is small where it is not
        changes = np.maximum(1e-4 * sizes, FLOORS.get(group, 0.0)).astype(np.float64)
        expected = np.array([self.difference(name, row, change) for row, change in zip(rows, changes)])
        # of a group together: components that cancel keep the rounding of the others
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5 * np.abs(expected).max(), err_msg=group)


DIFFERENTIABLE = (
    *("mass", "inertia", "drag", "thrust_scale", "thrust_coefficients", "torque_per_thrust", "rotor_x", "rotor_y"),
    *("time_constants", "force", "torque", "gust_force"),
)
FLOORS: dict[str, Any] = {
    **dict.fromkeys(STATE, 1e-5),
    "torque": 1e-9,
    "force": 1e-6,
    "gust_force": 1e-6,
    "drag": 1e-8,
    "thrust_coefficients": np.array([1e-6, 1e-9, 0.0]),
}
"""Least changes, for what may be zero."""


@pytest.mark.parametrize("gyroscopic", [False, True], ids=["plain", "gyroscopic"])
@pytest.mark.parametrize("delay_s", [0.0, 0.013, 0.03, 0.05], ids=lambda d: f"delay {1000 * d:g} ms")
def test_gradients_match_finite_differences(delay_s: float, gyroscopic: bool) -> None:
    step = Step(delay_s, gyroscopic)
    for group, rows in STATE.items():
        if group != "elapsed":
            step.check("state", range(rows.start, rows.stop), group)
    # the commands that this delay flies on: the older one first, then the newer
    acting = {0.0: [0], 0.013: [0, 1], 0.03: [1, 2], 0.05: [2, 3]}[delay_s]
    for k in acting:
        step.check(f"command_{k}", range(4), f"command_{k}")
    gradients = step.gradients()
    assert all((gradients[name] == 0.0).all() for k, name in enumerate(step.names) if k not in acting)
    spin = ("spin_inertia",) if gyroscopic else ()
    for group in (*DIFFERENTIABLE, *spin):
        rows = PARAMETERS[group]
        step.check("parameters", range(rows.start, rows.stop), group)


def test_a_delay_and_a_gusts_end_have_gradients() -> None:
    step = Step(0.013, False)
    delay, end = PARAMETERS["delay"].start, PARAMETERS["gust_window"].stop - 1
    for row, change in ((delay, 1e-6), (end, 1e-6)):
        found, expected = step.gradients()["parameters"][row, 1], step.difference("parameters", row, change)
        assert found == pytest.approx(expected, rel=1e-3) and expected != 0.0


def test_gradients_pass_through_a_rate_loop() -> None:
    step = Step(0.013, False, name="racer_rates")
    calm = step.inputs["state"][STATE["angular_velocity"]]
    calm *= 0.05
    step.inputs["state"][STATE["rotor_speed"]] = load_quadrotor("racer_rates").hover_speed_rad_s
    for k in (0, 1):
        step.check(f"command_{k}", range(4), f"command_{k}")
    for group in ("orientation", "linear_velocity", "angular_velocity"):
        step.check("state", range(STATE[group].start, STATE[group].stop), group)


def test_robots_do_not_share_gradients() -> None:
    step = Step(0.03, True)
    both = step.gradients()
    step.weights[:, 1] = 0.0
    one = step.gradients()
    for name, gradient in both.items():
        np.testing.assert_array_equal(one[name][:, 0], gradient[:, 0])
        assert (one[name][:, 1] == 0.0).all()


def test_a_position_feels_the_command_that_lifts_it() -> None:
    """Over several steps: height by the command of the first, gradients passed from step to step."""
    robot = load_quadrotor("crazyflie")
    hover, steps = robot.hover_speed_rad_s, 5
    model = QuadrotorModel(0.01)
    start = np.zeros((STATE["elapsed"].stop, 1))
    start[STATE["orientation"].stop - 1] = 1.0
    start[STATE["rotor_speed"]] = hover
    parameters = pack_parameters(robot, Perturbation.none(1)).T

    def path(first: float) -> list[np.ndarray]:
        rows = [start]
        for k in range(steps):
            command = np.full((4, 1), first if k == 0 else hover)
            rows.append(advance(rows[-1], parameters.astype(np.float64), [command], model))
        return rows

    height = STATE["position"].start + 2
    kernel = step_kernel(4, model, ("state", "command_0"))
    gradient = np.zeros(start.shape, np.float32)
    gradient[height] = 1.0
    lifted = 0.0
    for k in reversed(range(steps)):
        found = {GRADIENT + "state": np.zeros_like(gradient), GRADIENT + "command_0": np.zeros((4, 1), np.float32)}
        given = {"state": path(hover)[k].astype(np.float32), "parameters": parameters.copy()}
        command = {"command_0": np.full((4, 1), hover, np.float32)}
        kernel({**given, **command, GRADIENT + "next": gradient, **found})
        gradient, lifted = found[GRADIENT + "state"], float(found[GRADIENT + "command_0"].sum())
    expected = float(path(hover + 1.0)[-1][height, 0] - path(hover - 1.0)[-1][height, 0]) / 2.0
    assert lifted == pytest.approx(expected, rel=1e-4)
    assert lifted > 0.0
