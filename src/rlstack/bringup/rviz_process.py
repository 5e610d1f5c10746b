"""RViz beside a system of nodes: as a module, it writes a robot's configuration and becomes RViz."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rlstack.bringup.node_process import Process, System
from rlstack.bringup.rviz import rviz_config
from rlstack.errors import UserError
from rlstack.robots import load_robot

_PROGRAM = "rviz2"


def with_rviz(system: System, robot: str, spaces: Sequence[str] = (), frame_prefix: str = "") -> System:
    """Return a system whose robot is shown in RViz; of several, the first.

    Args:
        system: The system.
        robot: The robot's name or file.
        spaces: The robots' namespaces; empty: those of its guards.
        frame_prefix: Prefix of its frames, besides the name that each of several has.

    Raises:
        UserError: RViz is not installed.
    """
    if shutil.which(_PROGRAM) is None:
        raise UserError(
            "RViz (rviz2) is not installed, or its ROS 2 is not sourced: sudo apt install ros-$ROS_DISTRO-rviz2, or"
            " leave rviz out: the browser view, view:=true, needs no ROS 2 of the system."
        )
    spaces = tuple(spaces) or tuple(one.namespace for one in system.processes if one.node_name == "guard")
    several = f"{spaces[0].rpartition('/')[2]}/" if len(spaces) > 1 else ""
    simulated = any(process.parameters.get("use_sim_time") for process in system.processes)
    shown = Process(
        name="rviz",
        module=__name__,
        arguments=(robot, spaces[0] if spaces else "/", f"{frame_prefix}{several}", str(simulated).lower()),
        when_it_ends="let the rest go on",
        why="RViz has ended",
    )
    return replace(system, processes=(*system.processes, shown))


def main() -> int:
    """Become RViz, with the configuration of a robot.

    The command line has its name or file, its namespace, the prefix of its frames, and whether its time is simulated.
    """
    robot, space, prefix, simulated = sys.argv[1:]
    path = Path(tempfile.mkdtemp(prefix="rlstack-rviz-")) / "robot.rviz"
    path.write_text(rviz_config(load_robot(robot), space.strip("/"), prefix))
    words = [_PROGRAM, "-d", str(path), "--ros-args", "-p", f"use_sim_time:={simulated}"]
    os.execvp(_PROGRAM, words)


if __name__ == "__main__":
    raise SystemExit(main())
