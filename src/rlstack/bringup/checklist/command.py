"""The verb `rlstack bringup`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Bringup:
    """Walk through a real robot's checklist, hardware/<robot>/bringup.yaml, and record answers and measurements.

    What has passed is not asked again. The exit status is 0 if every step passed, else 1. Without a policy no rates,
    delays and noise are held against one.
    """

    name: tyro.conf.Positional[str]
    """The robot's folder in hardware/, such as so100, or a checklist's file."""
    uri: str = ""
    """Where the driver finds it, such as serial:///dev/ttyACM0."""
    backend: str = ""
    """The driver; default: the checklist's."""
    robot: str = ""
    """A robot's name or file; default: the checklist's."""
    policy: str = ""
    """The policy that is to command it: a file, or the name of a released one."""
    record: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Where to record it; default: runs/bringup/NAME.json."""
    again: bool = False
    """Repeat what has passed before."""
    automatic: bool = False
    """Only what needs no person: nothing moves."""

    def run(self) -> int:
        """Walk, and return the exit status."""
        from rlstack.bringup.checklist.checks import Bench
        from rlstack.bringup.checklist.record import Record
        from rlstack.bringup.checklist.steps import check_commands, load_checklist
        from rlstack.bringup.checklist.walk import Ended, Walk
        from rlstack.bringup.robot_group import is_simulator
        from rlstack.errors import UserError
        from rlstack.policies import find_policy
        from rlstack.robots import load_robot

        checklist = load_checklist(self.name)
        robot, backend = load_robot(self.robot or checklist.robot), self.backend or checklist.backend
        check_commands(checklist, robot)
        if backend == "topics" or is_simulator(backend):
            raise UserError(f"A bring-up is of a real robot by its driver, and the backend '{backend}' is none.")
        if not self.uri:
            raise UserError(f"Give --uri, where the driver '{backend}' finds the robot, such as {checklist.uri}.")
        if not (self.automatic or sys.stdin.isatty()):
            raise UserError("Nobody is at this terminal to answer: give --automatic for what needs no person.")
        bench = Bench(robot, backend, self.uri, str(find_policy(self.policy)) if self.policy else "")
        file = self.record or Path("runs/bringup") / f"{Path(self.name).stem}.json"
        header = {"name": self.name, "robot": robot.name, "backend": backend, "uri": self.uri, "policy": self.policy}
        walk = Walk(checklist, bench, Record(file, header), None if self.automatic else input)
        try:
            return 0 if walk.run(self.again) else 1
        except (Ended, EOFError):
            print("Ended here; what was done is recorded.")
            return 1
        finally:
            bench.close()
