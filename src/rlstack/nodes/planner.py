"""The planner node: runs a classical planner in place of the policy node, on the same topics, behind the same guard."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.control.navigation import PLANNERS, Planner, Status
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.messages import pose_message
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.policy import PolicyNode
from rlstack.nodes.policy_loop import Answer
from rlstack.nodes.policy_parameters import WITHOUT_A_FILE
from rlstack.nodes.robot_parameters import checked_robot
from rlstack.policies import Contract, PolicyOutputError, contract_for
from rlstack.robots import RobotSpec

RATE_HZ = 10.0
"""Rate of planners that do not define their own."""

PARAMETERS = (
    Parameter("planner", "astar_dwa", "Name of the planner, such as astar_dwa or dwa."),
    Parameter("options", "{}", 'Settings of the planner as JSON, such as {"goal": {"tolerance_m": 0.2}}.'),
    Parameter("robot", "turtlebot3_burger", "Name or file of the robot."),
    *WITHOUT_A_FILE,
)

_STATUS_TEXT = {
    Status.DRIVING: "driving",
    Status.ARRIVED: "arrived",
    Status.UNREACHABLE: "unreachable: the map shows no path to the goal",
    Status.STUCK: "stuck: no progress towards the goal",
}


class PlannerPolicy:
    """Adapter that gives a planner the interface of a loaded policy file, for one robot.

    Args:
        name: Name of the planner.
        robot: The robot whose odometry and scans it receives.
        options: Options of the planner.

    Raises:
        UserError: There is no such planner (nearest names listed), it refuses the options or the robot, or it needs
            a signal that no topic has.
    """

    sha256 = ""
    """A planner is no file."""

    def __init__(self, name: str, robot: RobotSpec, options: Mapping[str, Any]) -> None:
        self.driver: Planner = PLANNERS.load(name)(robot, **options)
        self.path = Path(name)
        rate_hz = getattr(getattr(self.driver, "settings", None), "rate_hz", RATE_HZ)
        self.contract = contract_for(
            robot, self.driver.inputs, self.driver.outputs, name=name, task="navigation", rate_hz=rate_hz
        )
        self._warm_up()

    def _warm_up(self) -> None:
        """Warm up with one plan, so that libraries load and tables are built before the robot drives."""
        given = {p.name: np.ones(p.sized({"people": 1})) for p in self.contract.inputs}
        given |= {name: np.array([0.0, 0.0, 0.0, 1.0]) for name in given if name.endswith("orientation")}
        given["position"] = np.zeros(3)
        self.step(given)
        self.reset()

    @property
    def status(self) -> Status:
        """Status of the plan."""
        return Status(int(self.driver.status[0]))

    @property
    def waypoint(self) -> Array | None:
        """Goal (2,) m, odom, that an exploring planner has chosen; None if the goal is an input."""
        return None if "goal_position" in self.driver.inputs else getattr(self.driver, "goal", [None])[0]

    def reset(self, batch: int = 1) -> None:
        """Clear the map and all other state."""
        self.driver.reset(batch)

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return commands for the signals of one robot.

        Raises:
            PolicyOutputError: A command is not finite.
        """
        given = {name: np.asarray(inputs[name], dtype=float)[None] for name in self.driver.inputs}
        commands = {name: np.asarray(command[0]) for name, command in self.driver.step(given).items()}
        for name, command in commands.items():
            if not np.isfinite(command).all():
                raise PolicyOutputError(f"the planner {self.path} gave {command} as {name}")
        return commands


class PlannerNode(PolicyNode):
    """Drives a base to goals with a classical planner, whose commands go to ``policy/...`` like a policy's."""

    NAME: ClassVar[str] = "planner"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def __init__(self, overrides: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(None, overrides, **options)
        self._planner: PlannerPolicy | None = None
        self._status = Status.DRIVING
        self._since = time.monotonic()
        self._waypoints: Any = None

    def configure(self) -> None:
        """Load the planner and subscribe to its signals; an exploring planner publishes its goal on ``goal``."""
        super().configure()
        self._waypoint = np.full(2, np.nan)
        if self._planner is not None and self._planner.waypoint is not None:
            self._waypoints = self.publisher(topics.type_of(topics.GOAL), topics.GOAL, "latched")

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report the steps, and whether the robot has arrived, or why it cannot."""
        warning, figures = super().status()
        self._log_status()
        figures = {"planner": figures.pop("policy"), **figures, "status": self._status.name.lower()}
        figures["for s"] = round(time.monotonic() - self._since, 1)
        if not warning and self._status in (Status.UNREACHABLE, Status.STUCK):
            warning = _STATUS_TEXT[self._status]
        return warning, figures

    def _load(self) -> tuple[Any, RobotSpec]:
        robot = checked_robot(self.parameters)
        try:
            options = json.loads(self.parameters["options"])
        except json.JSONDecodeError as error:
            raise UserError(f"options: {self.parameters['options']!r} is not JSON: {error}.") from error
        if not isinstance(options, dict):
            raise UserError('options: must be a JSON object, such as {"goal": {"tolerance_m": 0.2}}.')
        self._planner = PlannerPolicy(self.parameters["planner"], robot, options)
        return self._planner, robot

    def _proof(self) -> Mapping[str, Any]:
        """Return nothing: planners have no verification record."""
        return {}

    def _make_progress_checker(self, contract: Contract) -> None:
        """Return None: planners report their own progress."""

    def _waypoint_signals(self) -> Mapping[str, Array]:
        waypoint = None if self._planner is None else self._planner.waypoint
        return {} if waypoint is None else {"goal_position": np.append(waypoint, 0.0)}

    def _has_arrived(self) -> bool | None:
        return None if self._planner is None else self._planner.status is Status.ARRIVED

    def _send(self, answer: Answer) -> None:
        super()._send(answer)
        waypoint = None if self._planner is None else self._planner.waypoint
        if self._waypoints is not None and waypoint is not None and not np.array_equal(waypoint, self._waypoint):
            self._waypoint = waypoint.copy()
            goal = pose_message(np.append(waypoint, 0.0), stamp_ns=answer.stamp_ns, frame=self._frames.odom)
            self._waypoints.publish(goal)

    def _tick(self) -> None:
        super()._tick()
        self._log_status()

    def _log_status(self) -> None:
        """Log changes of the status."""
        status = Status.DRIVING if self._planner is None else self._planner.status
        if status == self._status:
            return
        self._status, self._since = status, time.monotonic()
        if status in (Status.UNREACHABLE, Status.STUCK):
            self.get_logger().warning(_STATUS_TEXT[status])
        else:
            self.get_logger().info(_STATUS_TEXT[status])


main = PlannerNode.main

if __name__ == "__main__":
    raise SystemExit(main())
