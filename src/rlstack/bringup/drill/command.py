"""The command `rlstack drill`: its options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Drill:
    """Inject faults into a deployed system in a simulator, and report the guard's answers.

    It starts robot node, guard and policy as `rlstack up deploy` does and breaks them one after the other: the policy
    is killed, frozen or sends nonsense, the sensors freeze, jump or lie, the link is lost, the disk is full. The table
    has each fault with the guard's answer, the time to it, the robot's worst excursion, and whether that was the stated
    safe answer. The exit status is 1 if any was not. docs/drill.md describes the faults.
    """

    policy: Annotated[str, tyro.conf.arg(metavar="FILE")] = ""
    """The policy file, or the name of a released policy (`rlstack policies`)."""
    driver: str = ""
    """A planner that drives a wheeled base instead of the policy, such as astar_dwa."""
    robot: str = ""
    """A robot's name or file; default: the policy's."""
    backend: str = "mujoco"
    """The simulator; or betaflight, whose own firmware `rlstack sitl` runs."""
    uri: str = ""
    """Where that firmware listens: tcp://127.0.0.1:5761."""
    world: str | None = None
    """World, such as room:3, or a file; default: a bare floor, and obstacles for a wheeled base."""
    faults: str = ""
    """Faults to inject, separated by commas; default: all."""
    repeats: Annotated[int, tyro.conf.arg(metavar="N")] = 3
    """Repeats of each fault."""
    seed: int = 0
    """Of the moments of the faults."""
    real_time_factor: float = 1.0
    """Simulated seconds per second: less than 1 where the machine is too busy for real time."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Write drill.json, and a chart drill.png, to this folder."""
    json: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the figures to this file."""
    list: bool = False
    """Only list the robot's faults and their safe answers."""
    verbose: bool = False
    """Show the nodes' log lines as well."""

    def run(self) -> int:
        """Drill, print and write."""
        from rlstack.bringup.drill.drill import DrillOptions, drill, list_faults
        from rlstack.bringup.system import chosen_robot

        if self.list:
            print(list_faults(chosen_robot(self.policy, self.robot)))
            return 0
        options = DrillOptions(
            policy=self.policy,
            robot=self.robot,
            backend=self.backend,
            uri=self.uri,
            driver=self.driver,
            world=self.world,
            faults=tuple(filter(None, (name.strip() for name in self.faults.split(",")))),
            repeats=self.repeats,
            seed=self.seed,
            real_time_factor=self.real_time_factor,
            verbose=self.verbose,
        )
        return drill(options, out=self.out, json=self.json)
