"""Deployment of a wheeled base, driven by a policy, by a planner, by a planner that leads a policy, or by Nav2."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.bringup.goal_steps import GoalStep
from rlstack.bringup.kind_deployment import (
    NEITHER_OR_BOTH,
    DeployedNode,
    DeployOptions,
    KindDeployment,
    PolicyPorts,
    policy_parameters,
)
from rlstack.bringup.node_process import Parameter
from rlstack.bringup.robot_group import Point, RobotGroup
from rlstack.bringup.rviz import PLUGINS, map_display, points_display, topic_property
from rlstack.control.navigation import EXPLORER, PLANNERS
from rlstack.errors import UserError, unknown_name
from rlstack.interfaces import topics
from rlstack.interfaces.backend import Signals
from rlstack.interfaces.signals import SENSED
from rlstack.kinds.wheeled_base.guard_fallback import STOP
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.policies import find_policy

NAV2 = "nav2"
"""The driver name of Nav2, which runs beside rlstack through an adapter node."""

GUIDED = "astar_policy"
"""The planner that leads a policy along its path; it takes both."""

PEOPLE_FROM = ("scan", "topic")
"""Sources of the people around a base: a people node, or the robot."""

_LEADING = (GUIDED, EXPLORER)

_WAYPOINT = "waypoint"
"""The command of policies that leave the driving to a planner."""


HOLD_S, ARRIVES_S = 8.0, 6.0
"""Time for each goal of a drive that tells what a base is, half of which suffices to get there at full speed, and time
after which the distance from it counts."""


_DRIVES = ("straight", "back", "turn", "anywhere")
"""Families of steps that excite."""
_FREE_M = 1.0
"""Radius of the circle about the start in which these goals are; half as much again should be free."""


class WheeledBaseDeployment(KindDeployment):
    """See :class:`rlstack.bringup.kind_deployment.KindDeployment`."""

    VERBS = ("drive", "Drove")
    TAKES = frozenset(option.name for option in fields(DeployOptions)) - {
        "cmd_joints_type",
        "start_height_m",
        "odometry",
    }
    EXCITES = True
    robot: WheeledBase

    def goal_steps(self, seconds: float, seed: int) -> list[GoalStep]:
        """Return goals within a metre or two, far enough apart for turns, straight drives, starts and stops."""
        rng = np.random.default_rng([seed, 1])
        reach = min(HOLD_S * 0.5 * self.robot.limits.linear_velocity_m_s, 2.0)
        height, steps, place = float(self.robot.rest_height_m), [], np.zeros(2)
        for k in range(max(int(seconds / HOLD_S), 1)):
            turn = float(rng.uniform(-math.pi, math.pi))
            ahead = reach * np.array([math.cos(turn), math.sin(turn)])
            place = ahead if np.abs(place).max() < 0.1 else place + ahead
            place = np.clip(place, -reach, reach)
            steps.append(GoalStep(k * HOLD_S, (float(place[0]), float(place[1]), height), turn, ARRIVES_S))
        return steps

    def exciting_goals(self, seconds: float, rng: np.random.Generator) -> list[GoalStep]:
        """Return goals straight on or back, to turn to, or anywhere, at a pace of their own: many are never reached."""
        limits, height = self.robot.limits, float(self.robot.rest_height_m)
        pace = float(rng.uniform(1.5, 6.0))
        reach = min(1.5 * pace * limits.linear_velocity_m_s, _FREE_M)
        shares = rng.dirichlet(np.full(len(_DRIVES), 0.7))
        place, heading, at_s, steps = np.zeros(2), 0.0, 0.0, []
        while at_s < seconds:
            drive = _DRIVES[rng.choice(len(_DRIVES), p=shares)]
            turn = {"straight": 0.0, "back": math.pi}.get(drive, float(rng.uniform(-math.pi, math.pi)))
            heading += turn
            if drive != "turn":
                place = place + reach * float(rng.uniform(0.5, 1.0)) * np.array([math.cos(heading), math.sin(heading)])
                place *= min(1.0, _FREE_M / max(float(np.linalg.norm(place)), 1e-9))
            steps.append(GoalStep(at_s, (float(place[0]), float(place[1]), height), heading))
            at_s += pace * float(rng.uniform(0.7, 1.3))
        return steps

    def is_safe(self, signals: Signals) -> bool:
        """Return whether it is near the start and inside the fence; the guard limits its speeds."""
        limits, place = self.robot.limits, np.asarray(signals["position"])[:2]
        inside = (place > limits.geofence_min_m).all() and (place < limits.geofence_max_m).all()
        return bool(inside and np.linalg.norm(place) < 1.5 * _FREE_M)

    def goals(self, group: RobotGroup, goal: Sequence[float] | None) -> list[Point]:
        """Return the given goal on the floor, the world's goal if there is one robot, or each robot's own place."""
        height = float(self.robot.rest_height_m)
        if goal is not None:
            if len(goal) not in (2, 3) or not all(math.isfinite(x) for x in goal):
                raise UserError(f"The goal {list(goal)} is not allowed: give two finite numbers x y in metres.")
            return [(x, y, height) for x, y, _ in group.goals((*goal[:2], 0.0))]
        if group.goal_m is not None and len(group.namespaces) == 1:
            return [(*group.goal_m[:2], height)]
        return [(float(x), float(y), height) for x, y, _ in group.starts_m]

    def simulated_commands(self) -> dict[str, Parameter]:
        """Take twists with stamps and without: teleop_twist_keyboard sends the latter."""
        return {"cmd_vel_type": "auto"}

    def guard_parameters(self, options: DeployOptions, goal: Point) -> dict[str, Parameter]:
        """Return the fallback planner and its goal, and the scan settings."""
        fallback: dict[str, Parameter] = {"fallback": options.fallback, "goal_position": goal}
        return {**(fallback if options.fallback != STOP else {}), **self.sensor_parameters(options)}

    def commander(
        self, policy: str | Path, ports: PolicyPorts | None, options: DeployOptions, group: RobotGroup, lock_step: bool
    ) -> DeployedNode:
        """Return the node of the policy, of the planner or of the adapter to Nav2."""
        driver = self._driver(policy, ports, options.driver)
        after = "the guard brakes" if options.fallback == STOP else f"the guard drives on with {options.fallback}"
        if options.area is not None and driver != EXPLORER:
            raise UserError("An area is for policies that explore: leave it out, or give such a policy.")
        if driver == NAV2:
            if lock_step:
                raise UserError("Nav2 has a clock of its own, so lock step is not possible with it: leave it out.")
            return DeployedNode(NAV2, why=after, waits=False)
        file = str(find_policy(policy).absolute())
        if not driver:
            return DeployedNode("policy", {**policy_parameters(file, ports)}, after)
        if driver not in PLANNERS.names():
            raise unknown_name("driver", driver, [*PLANNERS.names(), NAV2])
        settings: dict[str, Any] = {**policy_parameters(file, ports)} if driver in _LEADING else {}
        area = options.area or group.floor_m
        if driver == EXPLORER and area is not None:
            settings["cells"] = _checked_area(area)
        return DeployedNode(
            "planner", {"planner": driver, **({"options": json.dumps(settings)} if settings else {})}, after
        )

    def _driver(self, policy: str | Path, ports: PolicyPorts | None, driver: str) -> str:
        """Return the name of the planner that drives; empty if the policy drives alone."""
        if driver in _LEADING and not policy:
            raise UserError(f"{driver} leads a policy: give a policy file too.")
        if bool(policy) == bool(driver) and driver not in _LEADING:
            raise UserError(NEITHER_OR_BOTH)
        return EXPLORER if not driver and ports is not None and _WAYPOINT in ports.outputs else driver

    def helpers(self, ports: PolicyPorts | None, options: DeployOptions, lock_step: bool) -> list[DeployedNode]:
        """Return the people node, if the policy, the planner or the fallback senses people, and the map node."""
        if options.people not in PEOPLE_FROM:
            raise unknown_name("source of people", options.people, PEOPLE_FROM)
        nodes = []
        if options.people == "scan" and self._senses_people(ports, options):
            why = "people are no longer tracked, and nodes that sense them wait"
            nodes.append(DeployedNode("people", {"lock_step": lock_step}, why, waits=False))
        if options.with_map:
            nodes.append(DeployedNode("map", {}, "the map is for viewers", waits=False))
        return nodes

    def _senses_people(self, ports: PolicyPorts | None, options: DeployOptions) -> bool:
        wanted = set(ports.inputs) if ports is not None else set()
        for planner in (options.driver, options.fallback):
            if planner not in ("", NAV2, *_LEADING, STOP) and planner in PLANNERS.names():
                wanted |= _inputs_of(planner, self.robot)
        if not any(name in SENSED and SENSED[name].topic == topics.PEOPLE for name in wanted):
            return False
        if topics.SCAN not in self.robot.lidars:
            raise UserError(
                f"{self.robot.name} has no lidar called '{topics.SCAN}' in which people could be tracked: let something"
                f" send them on the topic {topics.PEOPLE}, and give people:=topic (--people topic)."
            )
        return True

    @property
    def extent_m(self) -> float:
        """The longest side of its chassis, m."""
        base = self.robot
        return 2.0 * base.radius_m if base.chassis is None else max(base.chassis.collision_size_m)

    def rviz_displays(self, within: str) -> list[dict[str, Any]]:
        """Return the displays of the map and of people."""
        return [map_display(within + topics.MAP), points_display("People", within + topics.PEOPLE, "PointCloud2")]

    def rviz_tools(self, within: str) -> list[dict[str, Any]]:
        """Return the tool that sets a goal on the floor."""
        return [{"Class": f"{PLUGINS}/SetGoal", "Topic": topic_property(within + topics.GOAL)}]


DEPLOYMENT = WheeledBaseDeployment


def _checked_area(area: Sequence[float]) -> dict[str, list[float]]:
    if len(area) != 4 or not all(math.isfinite(x) for x in area) or area[0] >= area[2] or area[1] >= area[3]:
        raise UserError(
            f"The area {list(area)} is not allowed: give the corners x y x y in metres, the lower ones first."
        )
    return {"area_min_m": list(map(float, area[:2])), "area_max_m": list(map(float, area[2:]))}


def _inputs_of(planner: str, spec: WheeledBase) -> set[str]:
    """Return a planner's sensed signals; empty for one that needs options, whose node reports what is missing."""
    try:
        return set(PLANNERS.load(planner)(spec).inputs)
    except UserError:
        return set()
