"""A human who corrects a policy: a node between each policy and its guard, in simulation as on a real arm."""

from __future__ import annotations

from dataclasses import replace

from rlstack.bringup.process import Process, System
from rlstack.control.leading import refuse_several
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.teleop_data import ALONE
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import RobotSpec


def with_human(system: System, robot: RobotSpec) -> System:
    """Return a deployment in which whoever publishes ``teleop/twist`` and ``teleop/intervene`` corrects the policies.

    Args:
        system: What :func:`rlstack.bringup.system.deploy_system` describes.
        robot: What moves.

    Raises:
        UserError: It is not one arm, or time would wait for commands: a human's does not.
    """
    if not isinstance(robot, Manipulator):
        raise UserError(f"teleop is for arms, and {robot.name} is a {robot.kind}: leave it out.")
    refuse_several(robot)
    processes: list[Process] = []
    for process in system.processes:
        if process.node_name != "policy":
            processes.append(process)
            continue
        if process.parameters.get("lock_step"):
            raise UserError("teleop does not go with lock step, whose time is not a human's: leave one of them out.")
        own = (topics.POLICY_PREFIX + topics.JOINT_COMMAND, ALONE)
        processes.append(replace(process, remappings=(*process.remappings, own)))
        processes.append(
            Process(
                name=process.name.removesuffix("policy") + "teleop_arm",
                node="teleop_arm",
                module="rlstack.nodes.teleop_arm",
                namespace=process.namespace,
                parameters={"robot": process.parameters["robot"], "with_policy": True},
                remappings=process.remappings,
                when_it_ends="let the rest go on",
                why="nobody passes the policy's commands on: the guard holds the arm and then parks it",
            )
        )
    return replace(system, processes=tuple(processes))
