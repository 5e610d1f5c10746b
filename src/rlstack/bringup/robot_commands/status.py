"""`rlstack status`: the state of all robots of the ROS domain."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import Annotated

import tyro

from rlstack.bringup.robot_commands.robot_client import RobotClient
from rlstack.bringup.robot_commands.robot_state import LISTENED_S, RobotListener, describe


@dataclass(frozen=True)
class Status:
    """Show the state of every robot in the ROS domain: guard, policy, goal, observations, battery.

    Exit status: 0 all well, 1 a robot's guard has taken over, it is stopped, or something is wrong; 2 no robot.
    """

    robot: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[NAME ...]")] = ()
    """Namespaces, or their last parts; left out, all robots."""
    json: bool = False
    """Print JSON, one object for each robot by its namespace."""
    watch: bool = False
    """Print it again and again, until Ctrl-C."""
    seconds: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = LISTENED_S
    """How long to listen: diagnostics come once a second."""

    def run(self) -> int:
        """Listen and print."""
        with RobotClient() as client:
            robots = client.choose(self.robot, one=False)
            listeners = {robot: RobotListener(client.node, robot) for robot in robots}
            while True:
                client.spin(self.seconds)
                states = {robot: listener.state() for robot, listener in listeners.items()}
                if self.json:
                    print(json.dumps({robot: asdict(state) for robot, state in states.items()}), flush=True)
                else:
                    print("\n\n".join(describe(robot, state) for robot, state in states.items()), flush=True)
                    if alone := client.unguarded():
                        print(f"\nWithout a guard: {', '.join(alone)}.", file=sys.stderr, flush=True)
                if not self.watch:
                    return 0 if all(state.is_well for state in states.values()) else 1
                print(flush=True)
