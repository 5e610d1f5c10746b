"""Base class of all tasks."""

from __future__ import annotations

from typing import Any, ClassVar

from rlstack.errors import UserError
from rlstack.robots import RobotSpec, robot_names


class Task:
    """A task for one kind of robot; its settings are the fields of a dataclass that derives from it.

    A task also defines ``inputs``, ``outputs``, ``differentiable``, ``pipeline``, ``environment``, ``card`` and
    ``envelope``; docs/tasks.md describes each of them.
    """

    kind: ClassVar[str]
    """The kind of robot, as in robot files."""

    def reference(self, robot: RobotSpec) -> Any:
        """Return the robot to train on: ``robot`` itself by default.

        Raises:
            UserError: It is a robot of another kind.
        """
        if robot.kind != self.kind:
            name = type(self).__module__.rpartition(".")[2]
            raise UserError(
                f"{name} is a task for {_words(self.kind)}s; {robot.name} is a {_words(robot.kind)}. Give --robot one"
                f" of {', '.join(robot_names(self.kind))}, or a file of that kind."
            )
        return robot


def _words(kind: str) -> str:
    return kind.replace("_", " ")
