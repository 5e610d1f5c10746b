"""What tasks of every kind of robot have in common."""

from __future__ import annotations

from typing import Any, ClassVar

from rlstack.errors import UserError
from rlstack.robots import RobotSpec, robot_names


class Task:
    """A task for one kind of robot; its settings are the fields of a dataclass that derives from it.

    Beside what is here a task defines ``inputs``, ``outputs``, ``differentiable``, ``pipeline``, ``environment``,
    ``card`` and ``envelope``; docs/tasks.md says what each of them is.
    """

    kind: ClassVar[str]
    """The kind of robot that it is for, as robot files name it."""

    def reference(self, robot: RobotSpec) -> Any:
        """Return the robot that training moves: the robot itself.

        Raises:
            UserError: It is of another kind.
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
