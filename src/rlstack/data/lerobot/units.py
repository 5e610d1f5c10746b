"""Datasets that LeRobot's own arms recorded, in its units and with its camera names, as a robot file's joints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces.lerobot_features import LerobotFeatures
from rlstack.robots import RobotSpec

_SLACK = 0.1
"""Share of a joint's range that a recording may lie beyond it, by calibration or a push."""


class LerobotMapping:
    """What a dataset's joints and cameras are of a robot.

    Args:
        robot: The robot.
        units: Those of the dataset, see :data:`rlstack.interfaces.lerobot_features.Units`.
        reverse: Joints that count the other way in the dataset.
        cameras: The robot's camera for a dataset's, each ``theirs:=ours``; others keep their names.

    Raises:
        UserError: Unknown units or joints, a robot without joints, or a camera that is not such a pair.
    """

    def __init__(self, robot: RobotSpec, units: str, reverse: Sequence[str] = (), cameras: Sequence[str] = ()) -> None:
        self._features, self._robot = LerobotFeatures(robot, units, reverse), robot
        self.joints = tuple(joint.name for joint in robot.drives)
        """The joints in the robot file's order."""
        if self._features.action_names != tuple(f"{name}.pos" for name in self.joints):
            raise UserError(f"{robot.name} is not commanded by joint targets: give an arm.")
        self.cameras: Mapping[str, str] = dict(_pair(word) for word in cameras)
        """The robot's name of a dataset's camera, where it is another one."""

    def positions(self, values: Array, names: Sequence[str], where: str) -> Array:
        """Return joints (N, joints) in rad or m, in the robot file's order.

        Args:
            values: (N, elements) of the dataset.
            names: Their names, such as ``elbow.pos``.
            where: Of what, for messages.

        Raises:
            UserError: A joint is missing, or goes far beyond its range: its unit or its zero is another one.
        """
        missing = [name for name in self._features.action_names if name not in names]
        if missing:
            raise UserError(f"{where} has no {missing[0]}; it has: {', '.join(names)}.")
        columns = [list(names).index(name) for name in self._features.action_names]
        found: Array = np.ascontiguousarray(self._features.command_values(np.asarray(values, dtype=float)[:, columns]))
        for joint, seen in zip(self._robot.drives, found.T):
            slack = _SLACK * (joint.upper - joint.lower)
            if len(seen) and (seen.min() < joint.lower - slack or seen.max() > joint.upper + slack):
                goes = f"{seen.min():.3g} to {seen.max():.3g}"
                own = f"{joint.lower:.3g} to {joint.upper:.3g}"
                raise UserError(
                    f"{where}: {joint.name} would go from {goes}, and that of {self._robot.name} goes from {own}: give"
                    " its units (--units), or --reverse it."
                )
        return found


def _pair(word: str) -> tuple[str, str]:
    theirs, mark, ours = word.partition(":=")
    if not (theirs and mark and ours):
        raise UserError(f"cameras: '{word}' is not allowed: give theirs:=ours, such as front:=scene.")
    return theirs, ours


def speeds(positions: Array, fps: float) -> Array:
    """Return the speeds (N, joints) of positions by differences, since LeRobot's arms record none."""
    if len(positions) < 2:
        return np.zeros_like(positions)
    found: Array = np.gradient(positions, 1.0 / fps, axis=0)
    return found
