"""Classical controllers as baselines for learned policies, flown by the same rollout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.control.cascaded_pid import CascadeController, CascadeGains
from rlstack.control.lee import LeeController, LeeGains
from rlstack.control.reference_trajectory import Reference, along, rest
from rlstack.control.tracking import TrackingController
from rlstack.control.tracking_rates import RatesTrackingController
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.policies.contract import Contract
from rlstack.policies.envelope import Envelope
from rlstack.robots import frames

STATE_INPUTS = ("position", "orientation", "linear_velocity", "angular_velocity")
GOAL_INPUTS = ("goal_position",)
PATH_INPUTS = ("path_time", "path_position")
HEADINGS = ("goal_orientation", "path_orientation")
"""Without a goal heading, the robot keeps its own."""


CONTROLLERS: dict[str, Callable[[Quadrotor], TrackingController]] = {
    "Lee geometric": lambda robot: LeeController(robot, LeeGains.for_robot(robot)),
    "cascaded PID": lambda robot: CascadeController(robot, CascadeGains.for_robot(robot)),
}
"""Controllers by rotor speeds, by their names in reports."""
BY_RATES = "geometric, by rates"
"""The controller of robots that take rates and thrust; it hovers, and follows no paths."""


class Baseline:
    """A controller with the interface of a loaded policy file (:class:`rlstack.verification.runner.Steppable`).

    It receives the policy's observations and knows the robot file, but not the simulated robot's deviations from it.
    Like the policy it sees a path's poses ahead of time.

    Args:
        name: Name in reports and messages.
        contract: The policy's contract, reduced to the inputs used here.
        controller: The controller.
        inputs: Names of the inputs, including the goal's or the path's.
    """

    def __init__(
        self,
        name: str,
        contract: Contract,
        controller: TrackingController | RatesTrackingController,
        inputs: tuple[str, ...],
    ) -> None:
        ports = tuple(port for port in contract.inputs if port.name in inputs)
        nothing: dict[str, Any] = {
            "training": {},
            "evaluation": {},
            "envelope": Envelope(),
        }  # the look-ahead is specific to a policy
        self.contract = replace(contract, name=name, inputs=ports, state=(), sha256="", **nothing)
        self.path = Path(name)
        self.controller = controller
        (output,) = contract.outputs
        self._output = output.name
        self._lead_s = controller.gains.lead_s if isinstance(controller, TrackingController) else 0.0
        self._follows_path = PATH_INPUTS[0] in inputs
        self._dt = 1.0 / contract.rate_hz
        self._late = 0.0
        self.reset()

    def reset(self, batch: int = 1) -> None:
        """Reset the state for ``batch`` robots."""
        self.controller.reset(batch)
        self._late = 0.0  # no time has passed before the first step

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the policy's command, (N, rotors) rad/s or (N, 4), for inputs by name with a leading batch axis."""
        orientation = np.asarray(inputs["orientation"], dtype=float)
        command = self.controller.command(
            np.asarray(inputs["position"], dtype=float),
            orientation,
            frames.rotate(orientation, inputs["linear_velocity"]),
            np.asarray(inputs["angular_velocity"], dtype=float),
            self._reference(inputs),
            self._late,
        )
        self._late = self._dt
        return {self._output: command}

    def _reference(self, inputs: Mapping[str, Array]) -> Reference:
        own = frames.yaw(inputs["orientation"])
        if not self._follows_path:
            heading_goal = inputs.get("goal_orientation")
            position = np.asarray(inputs["goal_position"], dtype=float)
            return rest(position, own if heading_goal is None else frames.yaw(heading_goal))
        time, position = (np.asarray(inputs[name], dtype=float) for name in PATH_INPUTS)
        heading = inputs.get("path_orientation")
        if heading is None:
            heading = np.broadcast_to(frames.from_yaw(own)[:, None], (*time.shape, 4))
        return along(time, position, np.asarray(heading, dtype=float), self._lead_s)


def baselines(contract: Contract, robot: Quadrotor) -> dict[str, Baseline]:
    """Return the classical controllers that can fly a policy's task, by name; none for other tasks.

    They follow a path if the policy senses one, and otherwise hover at the goal.

    Args:
        contract: The policy's contract: inputs, rate and robot.
        robot: The robot.
    """
    given = {port.name for port in contract.inputs}
    robot = replace(robot, control_rate_hz=contract.rate_hz)  # gains depend on the control rate
    commands = [port.name for port in contract.outputs]
    for task_inputs, heading in zip((PATH_INPUTS, GOAL_INPUTS), reversed(HEADINGS)):
        if not given.issuperset((*STATE_INPUTS, *task_inputs)):
            continue
        inputs = tuple(name for name in (*STATE_INPUTS, *task_inputs, heading) if name in given)
        if commands == ["rotor_speed"]:
            return {name: Baseline(name, contract, make(robot), inputs) for name, make in CONTROLLERS.items()}
        if commands == ["rates_thrust"] and robot.rate_loop is not None and task_inputs == GOAL_INPUTS:
            return {BY_RATES: Baseline(BY_RATES, contract, RatesTrackingController(robot), inputs)}
    return {}
