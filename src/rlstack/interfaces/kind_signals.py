"""Signals of a kind of robot on the common topics: the names of its elements, and the ranges of its commands."""

from __future__ import annotations

from typing import Any

from rlstack.errors import UserError
from rlstack.interfaces.signals import COMMANDED, IMAGE_CAMERAS, ROBOT_SIZES, Signal, camera_of
from rlstack.kinds import find_kind
from rlstack.robots import RobotSpec

Range = tuple[tuple[float, ...], tuple[float, ...]]
"""Minimum and maximum of each element of a command."""


class KindSignals:
    """The part ``signals`` of a kind, created once, without a robot; by default for robots with joints."""

    def element_names(self, robot: Any) -> dict[str, tuple[str, ...]]:
        """Return the names of the robot's elements by the name of their size, such as ``rotors``."""
        return {"joints": tuple(joint.name for joint in robot.drives)} if robot.drives else {}

    def command(self, robot: Any) -> str:
        """Return the name of the command that moves the robot."""
        return "joint_target"

    def command_range(self, robot: Any, name: str) -> Range | None:
        """Return the range of a command; None if the robot does not take it.

        Robots whose joints are all position-controlled take joint targets, rad or m.
        """
        if name != "joint_target" or not all(joint.mode == "position" for joint in robot.drives):
            return None
        return tuple(joint.lower for joint in robot.drives), tuple(joint.upper for joint in robot.drives)


def signals_of(robot: RobotSpec) -> KindSignals:
    """Return the signals of the robot's kind."""
    found: KindSignals = find_kind(robot.kind).load("signals")
    return found


def element_names(robot: RobotSpec) -> dict[str, tuple[str, ...]]:
    """Return the names of a robot's elements, in the file's order, by the name of their size in shapes."""
    return signals_of(robot).element_names(robot)


def sizes(robot: RobotSpec) -> dict[str, int]:
    """Return the sizes of :data:`rlstack.interfaces.signals.ROBOT_SIZES` that a robot has."""
    found = {size: len(names) for size, names in element_names(robot).items()}
    if (lidar := robot.lidars.get("scan")) is not None and lidar.rings == 1:
        found["rays"] = lidar.rays
    for name in IMAGE_CAMERAS:
        if (camera := robot.cameras.get(name)) is not None and camera.rgb:
            found[f"{name}_rows"], found[f"{name}_columns"] = camera.height, camera.width
    return found


def shape_of(signal: Signal, robot: RobotSpec) -> tuple[int | str, ...]:
    """Return a signal's shape for a robot; sizes that may vary between calls keep their names.

    Raises:
        UserError: The robot lacks the sensor or element.
    """
    known = sizes(robot)
    for size in signal.shape:
        if size in ROBOT_SIZES and size not in known:
            why = "lidar called scan with one ring of rays" if size == "rays" else str(size)
            why = f"camera called {camera} with colours" if (camera := camera_of(signal)) else why
            raise UserError(
                f"The robot '{robot.name}' has no {why}, so it has no '{signal.name}'. Choose another signal or robot."
            )
    return tuple(known.get(size, size) if isinstance(size, str) else size for size in signal.shape)


def command_of(robot: RobotSpec) -> Signal:
    """Return the command that moves a robot: what its guard limits, and its backend takes."""
    return COMMANDED[signals_of(robot).command(robot)]


def command_range(robot: RobotSpec, name: str) -> Range:
    """Return the range of each element of the command ``name``; raise ``UserError`` if the robot does not take it."""
    found = signals_of(robot).command_range(robot, name)
    if found is None:
        raise UserError(
            f"The robot '{robot.name}' has no limits for the command '{name}'. Choose an output that it takes."
        )
    return found
