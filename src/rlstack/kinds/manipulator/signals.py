"""Manipulators on the common topics: joints, by name."""

from __future__ import annotations

from rlstack.interfaces.robot_signals import Range
from rlstack.kinds.manipulator.spec import Manipulator


class ManipulatorOnTopics:
    """See :class:`rlstack.interfaces.robot_signals.Kind`."""

    def element_names(self, robot: Manipulator) -> dict[str, tuple[str, ...]]:
        """Return the joints' names, the arm's before the gripper's."""
        return {"joints": tuple(joint.name for joint in robot.drives)}

    def command_range(self, robot: Manipulator, name: str) -> Range | None:
        """Return the joints' ranges, rad or m; None for any other command."""
        if name != "joint_target":
            return None
        return tuple(joint.lower for joint in robot.drives), tuple(joint.upper for joint in robot.drives)


SIGNALS = ManipulatorOnTopics()
