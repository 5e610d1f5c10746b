"""Drill of an arm: it holds still."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.drill.answers import Answer
from rlstack.bringup.drill.changes import Edit
from rlstack.bringup.drill.edits import joint_state_edits, trajectory_edits
from rlstack.bringup.drill.kind_drill import KindDrill
from rlstack.bringup.robot_group import Point
from rlstack.robots.kinematics import chain_of, tool_motion

_HOLD = ("hold", "park", "disarmed")
_JUMP_RAD = 1.0


class ManipulatorDrill(KindDrill):
    """See :class:`rlstack.bringup.drill.kind_drill.KindDrill`."""

    ANSWERS: ClassVar[Mapping[str, Answer]] = {
        "unchanged": Answer(("policy",)),
        "late": Answer(_HOLD, "command"),
        "malformed": Answer(_HOLD, "command"),
        "limited": Answer(("policy", *_HOLD)),
        "second policy": Answer(_HOLD, 2.0, via=("policy",)),
        "blind": Answer(_HOLD, "observation"),
        "late observations": Answer(("policy", *_HOLD)),
        "jump once": Answer(("policy", *_HOLD)),
        "jump": Answer(_HOLD, "observation"),
        "clock": Answer(_HOLD, "observation"),
        "low rate": Answer(("policy", *_HOLD)),
        "link short": Answer(("policy", *_HOLD)),
        "link": Answer(_HOLD, "observation"),
        "battery low": Answer(("policy",)),
        "battery critical": Answer(_HOLD, "battery_confirm_s", via=("policy",)),
        "estop": Answer(("estop",), 0.1),
        "busy": Answer(("policy", *_HOLD)),
        "guard gone": Answer((), "robot", robot_stops=True),
        "robot gone": Answer(_HOLD, "observation"),
    }
    GOAL: ClassVar[Point | None] = (0.45, 0.3, 0.35)
    SETTLE_S = (0.3, 1.0)
    PATH = "tool from the place of the fault, m"

    def __init__(self, robot: Any) -> None:
        super().__init__(robot)
        self._chain = chain_of(robot)
        self._arm = list(self._chain.index)

    @property
    def command_edits(self) -> Mapping[str, Edit]:
        """Edits of joint targets by name."""
        return trajectory_edits(100.0)

    @property
    def observation_edits(self) -> Mapping[str, Edit]:
        """Edits of joint states; they have no frame."""
        return joint_state_edits(_JUMP_RAD)

    def excursion(self, seen: Sequence[Mapping[str, Array]]) -> dict[str, float]:
        """Return the excursion of the joints and of the tool, and the fastest joint."""
        positions = np.array([one["joint_position"] for one in seen])[:, self._arm]
        speeds = np.array([one["joint_velocity"] for one in seen])[:, self._arm]
        return {
            "joint rad": float(np.abs(positions - positions[0]).max()),
            "tool m": max(self.path(seen)),
            "speed rad/s": float(np.abs(speeds).max()),
        }

    def path(self, seen: Sequence[Mapping[str, Array]]) -> list[float]:
        """Return the distance of the tool from the place of the fault, m."""
        positions = np.array([one["joint_position"] for one in seen])[:, self._arm]
        tool = np.asarray(tool_motion(self._chain.screws, positions).position)
        return [float(distance) for distance in np.linalg.norm(tool - tool[0], axis=1)]

    def limit_problem(self, seen: Sequence[Mapping[str, Array]], config: Any) -> str:
        """Return which joint left its range or was far too fast."""
        fastest = config.overspeed * np.array([drive.velocity_max for drive in self.robot.drives])[self._arm]
        for one in seen:
            speed = np.abs(one["joint_velocity"][self._arm])
            if (k := int(np.argmax(speed - fastest))) >= 0 and speed[k] > fastest[k]:
                return f"joint {k} moved at {speed[k]:.1f} rad/s"
        return ""


DRILL = ManipulatorDrill
