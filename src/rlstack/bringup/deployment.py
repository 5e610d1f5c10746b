"""How a kind of robot is deployed: the base class of the part ``deployment``, found by the kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.process import Parameter
from rlstack.bringup.robot_group import Point, RobotGroup
from rlstack.errors import UserError
from rlstack.kinds import find_kind
from rlstack.policies import Contract, load_policy
from rlstack.robots import RobotSpec


@dataclass(frozen=True, kw_only=True)
class Options:
    """What some kinds of robots take in a deployment and others refuse.

    Args:
        driver: A planner that drives a wheeled base instead of the policy, such as ``astar_dwa``; or ``nav2``; or
            ``astar_policy``, with which the policy drives along a planned way. A policy for exploration is led by
            ``explorer_policy`` without being asked for.
        area: What a base is to explore, its corners x y x y, m, in ``odom``; None: the world's floor, or without one as
            large a square about the origin as the policy was trained on.
        fallback: Of a base, what drives when the policy cannot: ``stop`` or a planner.
        with_map: Of a base, start the map node too.
        people: Where those who sense people have them from: ``scan``: a people node tracks them in the scan;
            ``topic``: the robot has a source of its own, which sends ``people``.
        cmd_vel_type: Of a base, ``TwistStamped`` or ``Twist``.
        cmd_joints_type: Of an arm, ``JointTrajectory`` or ``Float64MultiArray``.
        scan_frame: Of a base, another name of the frame in its scans' headers.
        zero_is_far: Of a base, whether its lidar's driver says 0 where nothing came back.
        goal_yaw_rad: Heading to hold at the goal.
        start_height_m: Start in the air.
    """

    driver: str = ""
    area: Sequence[float] | None = None
    fallback: str = "stop"
    with_map: bool = False
    people: str = "scan"
    cmd_vel_type: str = "TwistStamped"
    cmd_joints_type: str = "JointTrajectory"
    scan_frame: str = ""
    zero_is_far: bool = False
    goal_yaw_rad: float = 0.0
    start_height_m: float = 0.0

    def given(self, names: Collection[str]) -> dict[str, Any]:
        """Return those of the named options that are not at their defaults."""
        values = {option.name: getattr(self, option.name) for option in fields(self) if option.name in names}
        return {name: value for name, value in values.items() if value != getattr(Options, name)}


_FOR = {
    "goal_yaw_rad": ("goal_yaw", "robots that head somewhere"),
    "start_height_m": ("start_height_m", "robots that fly"),
    "cmd_joints_type": ("cmd_joints_type", "arms"),
}
"""By option: its name in messages and whom it is for; others are for wheeled bases."""


@dataclass(frozen=True)
class PolicyPorts:
    """What a deployment needs to know of a policy, whose file need not be there yet.

    Args:
        who: The policy, for messages.
        inputs: Names of the signals that it senses.
        outputs: Names of its commands.
        rate_hz: How often it answers.
        contract: What its file promises; None: it is not there yet.
    """

    who: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rate_hz: float
    contract: Contract | None = None


def policy_ports(policy: str | Path, robot: RobotSpec) -> PolicyPorts | None:
    """Return what a policy file promises; None where none is given, or it is not there yet.

    Raises:
        UserError: The file is refused, or its policy is not for this robot.
    """
    if not policy or not Path(policy).expanduser().is_file():
        return None
    contract = load_policy(policy, robot=robot).contract
    inputs, outputs = (tuple(port.name for port in ports) for ports in (contract.inputs, contract.outputs))
    return PolicyPorts(f"The policy {policy}", inputs, outputs, contract.rate_hz, contract)


@dataclass(frozen=True)
class Node:
    """A node of a robot's deployment, besides its robot node and its guard.

    Args:
        name: Of the node; its module is ``rlstack.nodes.<name>``.
        parameters: What it is told.
        why: What its end means for the rest, said to the user.
        waits: Whether it takes ``robot``, ``lock_step``, ``topic_timeout_s`` and the sensors' parameters.
    """

    name: str
    parameters: dict[str, Parameter] = field(default_factory=dict)
    why: str = ""
    waits: bool = True


@dataclass(frozen=True)
class Timeouts:
    """Parameters of guard and robot node that suit a slow policy; empty: their defaults do."""

    guard: dict[str, Parameter] = field(default_factory=dict)
    robot: dict[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True)
class TrackedPoint:
    """The point of a robot, or of an object, whose distance from the goal is shown.

    Args:
        signal: A sensed signal.
        names: Of its elements, where they have some.
        position: Returns the point (3,), m, from the signal.
    """

    signal: str
    names: tuple[str, ...]
    position: Callable[[Array], Array]


ODOMETRY = TrackedPoint("position", (), lambda position: position)


class Deployment:
    """One robot's deployment; the defaults are those of a robot that stands where it is and takes no options.

    Args:
        robot: The robot.
    """

    VERBS: ClassVar[tuple[str, str]] = ("move", "Moved")
    """What it does, for messages: "nothing may move without the guard", "Moved 3.2 s"."""
    TAKES: ClassVar[frozenset[str]] = frozenset()
    """Which of the :class:`Options` it takes."""
    AFTER_POLICY: ClassVar[str] = "the guard takes over"
    """What happens when its policy ends."""

    def __init__(self, robot: Any) -> None:
        self.robot = robot

    def check(self, options: Options) -> None:
        """Raise ``UserError`` for options that were given and are for other robots."""
        others = {option.name for option in fields(Options)} - self.TAKES - {"area"}
        for name in options.given(others):
            shown, who = _FOR.get(name, (name, "wheeled bases"))
            raise UserError(f"{shown} is for {who}, and {self.robot.name} is a {self.robot.kind}: leave it out.")

    def goals(self, group: RobotGroup, goal: Sequence[float] | None) -> list[Point]:
        """Return each robot's goal in ``odom``: as given, from each start where there are several, or the starts.

        Raises:
            UserError: It is not a goal for such a robot.
        """
        if goal is not None:
            return group.goals(checked_point(goal))
        return [(float(x), float(y), float(z)) for x, y, z in group.starts_m]

    def fence(self, world: tuple[Point, Point] | None) -> dict[str, Parameter]:
        """Return the guard's parameters that let a simulated robot use all of its world, given by its corners."""
        return {}

    def command_parameters(self, options: Options) -> dict[str, Parameter]:
        """Return the parameters of robot node and guard on the message type of commands."""
        return options.given(("cmd_vel_type", "cmd_joints_type"))

    def guard_parameters(self, options: Options, goal: Point) -> dict[str, Parameter]:
        """Return more parameters of the guard."""
        return {}

    def sensor_parameters(self, options: Options) -> dict[str, Parameter]:
        """Return the parameters of nodes that read the robot's sensors."""
        return options.given(("scan_frame", "zero_is_far"))

    def timeouts(self, rate_hz: float | None) -> Timeouts:
        """Return what guard and robot node are told of a policy's rate; None: it is not known yet."""
        return Timeouts()

    def commander(
        self, policy: str | Path, ports: PolicyPorts | None, options: Options, group: RobotGroup, lock_step: bool
    ) -> Node:
        """Return the node that commands the robot, whose commands the guard passes on: the policy node.

        Raises:
            UserError: Policy and options do not go together.
        """
        if not policy:
            raise UserError(NEITHER_OR_BOTH)
        if options.area is not None:
            raise UserError("An area is for policies that explore: leave it out, or give such a policy.")
        return Node("policy", {"policy": str(Path(policy).expanduser().absolute())}, self.AFTER_POLICY)

    def helpers(self, ports: PolicyPorts | None, options: Options, lock_step: bool) -> list[Node]:
        """Return further nodes."""
        return []

    def tracked(self, inputs: Collection[str] = ()) -> TrackedPoint:
        """Return what is to be at the goal; ``inputs`` are the policy's."""
        return ODOMETRY

    # What RViz shows.

    @property
    def extent_m(self) -> float:
        """About how large the robot is across, m: arrows and the view are scaled by it."""
        return 1.0

    def rviz_displays(self, within: str) -> list[dict[str, Any]]:
        """Return more displays; topics begin with ``within``."""
        return []

    def rviz_tools(self, within: str) -> list[dict[str, Any]]:
        """Return more tools."""
        return []


NEITHER_OR_BOTH = (
    "Give a policy file or, for a wheeled base, the name of a driver such as astar_dwa: one of the two (astar_policy"
    " and explorer_policy, which lead a policy, take both)."
)


def deployment_of(robot: RobotSpec) -> Deployment:
    """Return the deployment of a robot, by its kind.

    Raises:
        UserError: The kind has none.
    """
    found: Deployment = find_kind(robot.kind).load("deployment")(robot)
    return found


def checked_point(goal: Sequence[float]) -> Point:
    """Return a goal as x y z, m; raise ``UserError`` unless it is three finite numbers."""
    if len(goal) != 3 or not all(math.isfinite(x) for x in goal):
        raise UserError(f"The goal {list(goal)} is not allowed: give three finite numbers x y z in metres.")
    x, y, z = map(float, goal)
    return x, y, z


def widened_fence(limits: Any, world: tuple[Point, Point] | None) -> dict[str, Parameter]:
    """Return the guard's parameters for a robot with a geofence, so that it holds all of a world; see :meth:`fence`."""
    if world is None:
        return {}
    low, high = limits.geofence_min_m, limits.geofence_max_m
    lower, upper = np.minimum(world[0][: len(low)], low), np.maximum(world[1][: len(high)], high)
    return {"allow_wider": True, "geofence_min_m": tuple(map(float, lower)), "geofence_max_m": tuple(map(float, upper))}
