"""Base class of a robot kind's ``deployment`` part, and its lookup."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rlstack.bringup.goal_steps import GoalStep
from rlstack.bringup.node_process import Parameter
from rlstack.bringup.robot_group import Point, RobotGroup
from rlstack.errors import UserError
from rlstack.interfaces.backend import Signals
from rlstack.kinds import find_kind
from rlstack.policies import Contract, find_policy, load_policy
from rlstack.policies.served.settings import server_settings
from rlstack.robots import RobotSpec


@dataclass(frozen=True, kw_only=True)
class DeployOptions:
    """Deployment options that only some kinds of robots accept.

    Args:
        driver: Bases: a planner that drives instead of the policy, such as ``astar_dwa``; or ``nav2``; or
            ``astar_policy``, with which the policy follows a planned path. A policy for exploration uses
            ``explorer_policy`` by default.
        area: Bases: the area to explore, corners x y x y, m, in ``odom``; None: the world's floor, or without one a
            square about the origin as large as in training.
        fallback: Bases: what drives when the policy cannot, ``stop`` or a planner.
        with_map: Bases: start the map node too.
        people: Bases: source of people, ``scan``: a people node tracks them in the scan; ``topic``: the robot publishes
            ``people`` itself.
        cmd_vel_type: Bases: ``TwistStamped`` or ``Twist``.
        cmd_joints_type: Arms: ``JointTrajectory`` or ``Float64MultiArray``.
        scan_frame: Bases: another name of the frame in the scans' headers.
        zero_is_far: Bases: whether the lidar's driver reports 0 for no return.
        goal_yaw_rad: Heading to hold at the goal.
        start_height_m: Start in the air.
        odometry: Quadrotors: estimate odometry from the IMU and ``pose`` (``external_pose``) or ``flow`` (``flow`` and
            ``range``); empty: the robot publishes it.
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
    odometry: str = ""

    def given(self, names: Collection[str]) -> dict[str, Any]:
        """Return the named options that differ from their defaults."""
        values = {option.name: getattr(self, option.name) for option in fields(self) if option.name in names}
        return {name: value for name, value in values.items() if value != getattr(DeployOptions, name)}


_FOR = {
    "goal_yaw_rad": ("goal_yaw", "robots that head somewhere"),
    "start_height_m": ("start_height_m", "robots that fly"),
    "cmd_joints_type": ("cmd_joints_type", "arms"),
    "odometry": ("odometry", "quadrotors"),
}
"""By option: its name in messages and the robots it applies to; all others apply to wheeled bases."""


@dataclass(frozen=True)
class PolicyPorts:
    """A policy's interface, which may be known before its file exists.

    Args:
        who: The policy, for messages.
        inputs: Names of the signals that it senses.
        outputs: Names of its commands.
        rate_hz: Its control rate.
        contract: The file's contract; None: the file does not exist yet.
        sha256: SHA-256 of the file's bytes; its node loads no others.
    """

    who: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rate_hz: float
    contract: Contract | None = None
    sha256: str = ""


def policy_ports(policy: str | Path, robot: RobotSpec) -> PolicyPorts | None:
    """Return a policy file's interface; None without a policy, or if the file does not exist yet.

    Raises:
        UserError: The file is invalid, or its policy is not for this robot.
    """
    if not policy or not find_policy(policy).is_file():
        return None
    loaded = load_policy(policy, robot=robot)
    contract = loaded.contract
    inputs, outputs = (tuple(port.name for port in ports) for ports in (contract.inputs, contract.outputs))
    return PolicyPorts(f"The policy {policy}", inputs, outputs, contract.rate_hz, contract, loaded.sha256)


def policy_parameters(file: str, ports: PolicyPorts | None) -> dict[str, str]:
    """Return the parameters of a node, or the options of a planner, that loads exactly the policy file checked."""
    return {"policy": file, **({"policy_sha256": ports.sha256} if ports is not None and ports.sha256 else {})}


@dataclass(frozen=True)
class DeployedNode:
    """A node of a robot's deployment, besides its robot node and its guard.

    Args:
        name: The node's name; its module is ``rlstack.nodes.<name>``. Empty: none is started.
        parameters: ROS parameters.
        why: What its end means for the other nodes, as reported to the user.
        waits: Whether it takes ``robot``, ``lock_step``, ``topic_timeout_s`` and the sensors' parameters.
    """

    name: str
    parameters: dict[str, Parameter] = field(default_factory=dict)
    why: str = ""
    waits: bool = True


@dataclass(frozen=True)
class Timeouts:
    """Timeout parameters of guard and robot node for a slow policy; empty: their defaults suit."""

    guard: dict[str, Parameter] = field(default_factory=dict)
    robot: dict[str, Parameter] = field(default_factory=dict)


class KindDeployment:
    """One robot's deployment; the defaults suit a stationary robot without options.

    Args:
        robot: The robot.
    """

    VERBS: ClassVar[tuple[str, str]] = ("move", "Moved")
    """Verbs for messages: "nothing may move without the guard", "Moved 3.2 s"."""
    TAKES: ClassVar[frozenset[str]] = frozenset()
    """The :class:`DeployOptions` that it accepts."""
    AFTER_POLICY: ClassVar[str] = "the guard takes over"
    """What happens when its policy node ends."""
    EXCITES: ClassVar[bool] = False
    """Whether `rlstack excite` has motions for it."""

    def __init__(self, robot: Any) -> None:
        self.robot = robot

    def check(self, options: DeployOptions) -> None:
        """Raise ``UserError`` for given options that apply to other robots."""
        others = {option.name for option in fields(DeployOptions)} - self.TAKES - {"area"}
        for name in options.given(others):
            shown, who = _FOR.get(name, (name, "wheeled bases"))
            raise UserError(f"{shown} is for {who}, and {self.robot.name} is a {self.robot.kind}: leave it out.")

    def goals(self, group: RobotGroup, goal: Sequence[float] | None) -> list[Point]:
        """Return each robot's goal in ``odom``: the given or default one, from each start if several; or the starts.

        Raises:
            UserError: The goal is not valid for such a robot.
        """
        goal = self.default_goal_m if goal is None else goal
        if goal is not None:
            return group.goals(checked_point(goal))
        return [(float(x), float(y), float(z)) for x, y, z in group.starts_m]

    @property
    def default_goal_m(self) -> Point | None:
        """Goal relative to the start, m; None: the start."""
        return None

    def fence(self, world: tuple[Point, Point] | None) -> dict[str, Parameter]:
        """Return the guard's geofence, if it has one, widened to contain a simulated world, given by its corners."""
        limits = self.robot.limits
        if world is None or not hasattr(limits, "geofence_min_m"):
            return {}
        low, high = limits.geofence_min_m, limits.geofence_max_m
        low, high = np.minimum(world[0][: len(low)], low), np.maximum(world[1][: len(high)], high)
        return {
            "allow_wider": True,
            "geofence_min_m": tuple(map(float, low)),
            "geofence_max_m": tuple(map(float, high)),
        }

    def command_parameters(self, options: DeployOptions) -> dict[str, Parameter]:
        """Return the parameters of robot node and guard that select the command's message type."""
        return options.given(("cmd_vel_type", "cmd_joints_type"))

    def simulated_commands(self) -> dict[str, Parameter]:
        """Return the robot node's parameters that suit commands from anyone, without a guard and in real time."""
        return {}

    def guard_parameters(self, options: DeployOptions, goal: Point) -> dict[str, Parameter]:
        """Return more parameters of the guard."""
        return {}

    def sensor_parameters(self, options: DeployOptions) -> dict[str, Parameter]:
        """Return the parameters of nodes that read the robot's sensors."""
        return options.given(("scan_frame", "zero_is_far"))

    def simulated_sensors(self, options: DeployOptions, group: RobotGroup) -> dict[str, Parameter]:
        """Return the simulator's parameters for sensors that stand in for its odometry; empty: it publishes that.

        Raises:
            UserError: That is not possible for this group.
        """
        return {}

    def timeouts(self, rate_hz: float | None) -> Timeouts:
        """Return the timeouts of guard and robot node for a policy's rate; None: it is not known yet."""
        return Timeouts()

    def commander(
        self, policy: str | Path, ports: PolicyPorts | None, options: DeployOptions, group: RobotGroup, lock_step: bool
    ) -> DeployedNode:
        """Return the node that commands the robot through the guard: the policy node.

        Raises:
            UserError: Policy and options do not match.
        """
        if not policy:
            raise UserError(NEITHER_OR_BOTH)
        if options.area is not None:
            raise UserError("An area is for policies that explore: leave it out, or give such a policy.")
        file = str(find_policy(policy).absolute())
        return DeployedNode("policy", {**policy_parameters(file, ports)}, self.AFTER_POLICY)

    def helpers(self, ports: PolicyPorts | None, options: DeployOptions, lock_step: bool) -> list[DeployedNode]:
        """Return further nodes."""
        return []

    def goal_steps(self, seconds: float, seed: int) -> list[GoalStep]:
        """Return goals for a run of ``seconds`` that tells the robot's numbers and its policy's accuracy.

        Raises:
            UserError: Robots of this kind have none.
        """
        raise UserError(
            f"rlstack loop is for quadrotors and wheeled bases so far: {self.robot.name} is a {self.robot.kind}. Its"
            " commands do the same one by one: up deploy --record, identify, train --from, verify."
        )

    def exciting_goals(self, seconds: float, rng: np.random.Generator) -> list[GoalStep]:
        """Return goals for a run of ``seconds``, drawn from the motions that tell the robot's numbers.

        Raises:
            UserError: Robots of this kind have none.
        """
        raise UserError(
            f"rlstack excite is for quadrotors, bases and arms so far: {self.robot.name} is a {self.robot.kind}. Record"
            " the motions that `rlstack identify` names."
        )

    def rehearsal_start(self) -> Mapping[str, Any] | None:
        """Return the state in which a rehearsed run begins; None: at rest on the ground."""
        return None

    def is_safe(self, signals: Signals) -> bool:
        """Return whether a rehearsed run is well within the robot's limits, by its measurements."""
        return True

    # RViz

    @property
    def extent_m(self) -> float:
        """Approximate size of the robot, m, which scales arrows and the view."""
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


EXTERNAL = "external"
"""Commander that is no node of rlstack: any program that publishes the robot's commands under ``policy/``."""


def given_commander(commander: str, policy: str | Path, after: str) -> tuple[DeployedNode, float | None]:
    """Return the node that commands in place of a policy file or driver, and its rate, Hz; None: not known.

    Args:
        commander: :data:`EXTERNAL`, for which the node has no name, or the URI of a policy server.
        policy: The policy file or driver, which there must not be.
        after: What happens when the node ends.

    Raises:
        UserError: There is a policy file as well, or the URI is not allowed.
    """
    if policy:
        raise UserError(f"The commander '{commander}' takes the place of '{policy}': leave one of the two out.")
    if commander == EXTERNAL:
        return DeployedNode(""), None
    settings = server_settings(commander)
    return DeployedNode("remote_policy", {"server": commander}, after), settings.rate_hz


def deployment_of(robot: RobotSpec) -> KindDeployment:
    """Return the deployment of a robot's kind.

    Raises:
        UserError: The kind has none.
    """
    found: KindDeployment = find_kind(robot.kind).load("deployment")(robot)
    return found


def checked_point(goal: Sequence[float]) -> Point:
    """Return a goal as x y z, m; raise ``UserError`` unless it is three finite numbers."""
    if len(goal) != 3 or not all(math.isfinite(x) for x in goal):
        raise UserError(f"The goal {list(goal)} is not allowed: give three finite numbers x y z in metres.")
    x, y, z = map(float, goal)
    return x, y, z
