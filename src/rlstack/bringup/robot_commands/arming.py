"""`rlstack arm` and `rlstack disarm`: options and entry points."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from rlstack.bringup.robot_commands.robot_client import ANSWERED_WITHIN_S, RobotClient, shown, within
from rlstack.interfaces import topics


@dataclass(frozen=True)
class Arm:
    """Arm a robot: its motors start, and it takes off or its policy drives.

    The guard says why it refuses. Exit status: 0 armed, 1 refused or no answer, 2 no such robot.
    """

    robot: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[NAME ...]")] = ()
    """Namespaces, or their last parts; not needed if only one robot is there."""

    def run(self) -> int:
        """Arm, and print the guard's answer."""
        return _set_armed(self.robot, True)


@dataclass(frozen=True)
class Disarm:
    """Disarm a robot: motors off, also in the air; an arm stays where it is.

    Exit status: 0 disarmed, 1 no answer, 2 no such robot.
    """

    robot: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[NAME ...]")] = ()
    """Namespaces, or their last parts; not needed if only one robot is there."""

    def run(self) -> int:
        """Disarm, and print the guard's answer."""
        return _set_armed(self.robot, False)


def _set_armed(robots: tuple[str, ...], arm: bool) -> int:
    from std_srvs.srv import SetBool

    status = 0
    with RobotClient() as client:
        for robot in client.choose(robots):
            response = client.call(SetBool, robot, topics.ARM, data=arm)
            if response is None:
                said = f"no answer from {within(robot, topics.ARM)} within {ANSWERED_WITHIN_S:g} s"
            else:
                said = response.message or ("Armed." if arm else "Disarmed.")
            done = response is not None and response.success
            print(
                f"{shown(robot)}: {said if done or response is None else f'not armed: {said}'}",
                file=sys.stdout if done else sys.stderr,
            )
            status = status if done else 1
    return status
