"""What moves a robot of a system: a policy, a planner, a planner that leads a policy, or Nav2; and what that senses."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlstack.bringup.process import Parameter
from rlstack.control.navigation import PLANNERS
from rlstack.errors import UserError, unknown_name
from rlstack.interfaces import topics
from rlstack.interfaces.signals import SENSED
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.policies import Contract, load_policy
from rlstack.robots import RobotSpec

NAV2 = "nav2"
"""The driver that is Nav2, which runs beside rlstack; its node is the adapter to it."""

GUIDED = "astar_policy"
"""The planner that leads a policy along its way; it takes both."""

EXPLORER = "explorer_policy"
"""The planner that drives where a policy for exploration says; it takes both."""

_LEADING = (GUIDED, EXPLORER)

_WAYPOINT = "waypoint"
"""What policies command that do not drive themselves."""


def contract_of(policy: str | Path) -> Contract | None:
    """Return what a policy file promises; None where none is given, or it is not there yet."""
    if not policy or not Path(policy).expanduser().is_file():
        return None
    return load_policy(policy).contract


def chosen_driver(policy: str | Path, driver: str) -> str:
    """Return the name of the planner that drives; none, and the policy drives alone.

    Args:
        policy: A policy file; it need not be there yet.
        driver: What was asked for; empty: nothing.

    Raises:
        UserError: Neither or both were given, and it takes one; or the other way round.
    """
    if driver in _LEADING and not policy:
        raise UserError(f"{driver} leads a policy: give a policy file too.")
    if bool(policy) == bool(driver) and driver not in _LEADING:
        raise UserError(
            "Give a policy file or, for a wheeled base, the name of a driver such as astar_dwa: one of the two"
            f" ({' and '.join(_LEADING)}, which lead a policy, take both)."
        )
    if not driver and (contract := contract_of(policy)) is not None:
        return EXPLORER if names_waypoints([port.name for port in contract.outputs]) else ""
    return driver


def names_waypoints(outputs: Sequence[str]) -> bool:
    """Return whether a policy with these outputs says where to go and leaves it to a planner to drive there."""
    return _WAYPOINT in outputs


def mover(
    policy: str | Path, driver: str, lock_step: bool, area: Sequence[float] | None = None
) -> tuple[str, dict[str, Parameter]]:
    """Return the node that moves a robot, and which policy or planner it is given.

    Args:
        policy: A policy file, or empty.
        driver: As :func:`chosen_driver` returns it.
        lock_step: Time waits for every command.
        area: What is to be explored: corners x y x y, m, in ``odom``; None: the policy knows.

    Raises:
        UserError: There is no such driver, or it cannot do that.
    """
    if driver == NAV2:
        if lock_step:
            raise UserError("Nav2 has a clock of its own, so lock step is not possible with it: leave it out.")
        return NAV2, {}
    file = str(Path(policy).expanduser().absolute())
    if not driver:
        return "policy", {"policy": file}
    if driver not in PLANNERS.names():
        raise unknown_name("driver", driver, [*PLANNERS.names(), NAV2])
    options: dict[str, Any] = {"policy": file} if driver in _LEADING else {}
    if driver == EXPLORER and area is not None:
        if len(area) != 4 or not all(math.isfinite(x) for x in area) or area[0] >= area[2] or area[1] >= area[3]:
            raise UserError(
                f"The area {list(area)} is not allowed: give the corners x y x y in metres, the lower ones first."
            )
        options["cells"] = {"area_min_m": list(map(float, area[:2])), "area_max_m": list(map(float, area[2:]))}
    return "planner", {"planner": driver, **({"options": json.dumps(options)} if options else {})}


def senses_people(spec: RobotSpec, policy: str | Path, driver: str, fallback: str) -> bool:
    """Return whether something that moves a base wants to know of people; a policy yet to be trained does not.

    Raises:
        UserError: It does, and the robot has nothing to see them with.
    """
    if not isinstance(spec, WheeledBase):
        return False
    wanted: set[str] = set()
    if policy and Path(policy).expanduser().is_file():
        wanted |= {port.name for port in load_policy(policy, robot=spec).contract.inputs}
    for planner in (driver, fallback):
        if planner not in ("", NAV2, *_LEADING, "stop") and planner in PLANNERS.names():
            wanted |= _inputs_of(planner, spec)
    if not any(name in SENSED and SENSED[name].topic == topics.PEOPLE for name in wanted):
        return False
    if topics.SCAN not in spec.lidars:
        raise UserError(
            f"{spec.name} has no lidar called '{topics.SCAN}' in which people could be tracked: let something send them"
            f" on the topic {topics.PEOPLE}, and give people:=topic (--people topic)."
        )
    return True


def _inputs_of(planner: str, spec: RobotSpec) -> set[str]:
    """Return what a planner senses; nothing is known of one that needs options, whose node says what it lacks."""
    try:
        return set(PLANNERS.load(planner)(spec).inputs)
    except UserError:
        return set()
