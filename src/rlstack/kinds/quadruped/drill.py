"""Drill of a quadruped: it stands, then crouches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rlstack.arrays import Array
from rlstack.bringup.drill.answers import Answer
from rlstack.bringup.drill.changes import Edit
from rlstack.bringup.drill.edits import move_odometry, odometry_edits, trajectory_edits
from rlstack.bringup.drill.kind_drill import KindDrill, moved, tilt_rad
from rlstack.interfaces import topics
from rlstack.kinds.quadruped.deployment import HELD_S

_STAND = ("stand", "crouch")
_JUMP_M = 1.0


class QuadrupedDrill(KindDrill):
    """See :class:`rlstack.bringup.drill.kind_drill.KindDrill`."""

    ANSWERS: ClassVar[Mapping[str, Answer]] = {
        "unchanged": Answer(("policy",)),
        "late": Answer(_STAND, "command"),
        "malformed": Answer(_STAND, "command"),
        "limited": Answer(("policy", *_STAND)),
        "second policy": Answer(_STAND, 2.0, via=("policy",)),
        "blind": Answer(_STAND, "observation"),
        "late observations": Answer(("policy", *_STAND)),
        "jump once": Answer(("policy", *_STAND)),
        "jump": Answer(("policy", *_STAND)),
        "clock": Answer((*_STAND, "disarmed"), "observation"),
        "low rate": Answer(("policy", *_STAND)),
        "link short": Answer(("policy", *_STAND)),
        "link": Answer(_STAND, "observation", robot_may_stop=True),
        "battery low": Answer(("policy",)),
        "battery critical": Answer(_STAND, "battery_confirm_s", via=("policy",)),
        "estop": Answer(("estop",), 0.1),
        "busy": Answer(("policy", *_STAND)),
        "guard gone": Answer((), "robot", robot_stops=True),
        "robot gone": Answer((*_STAND, "disarmed"), "observation"),
    }
    TOPICS = (topics.JOINT_STATES,)
    SETTLE_S = (0.5, 1.0)
    PATH = "tilt, rad"

    @property
    def robot_timeout_s(self) -> float:
        """Time without a command after which the robot node switches the legs off."""
        return HELD_S

    @property
    def command_edits(self) -> Mapping[str, Edit]:
        """Edits of joint targets by name."""
        return trajectory_edits(100.0)

    @property
    def observation_edits(self) -> Mapping[str, Edit]:
        """Edits of odometry."""
        return odometry_edits(move_odometry(_JUMP_M))

    def excursion(self, seen: Sequence[Mapping[str, Array]]) -> dict[str, float]:
        """Return tilt, distance and how far it sank."""
        return {
            "tilt rad": max(tilt_rad(one["orientation"]) for one in seen),
            "distance m": max(moved(seen)),
            "sunk m": max(float(seen[0]["position"][2] - one["position"][2]) for one in seen),
        }

    def path(self, seen: Sequence[Mapping[str, Array]]) -> list[float]:
        """Return the tilt, rad."""
        return [tilt_rad(one["orientation"]) for one in seen]

    def limit_problem(self, seen: Sequence[Mapping[str, Array]], config: Any) -> str:
        """Return where it fell over."""
        most = max((tilt_rad(one["orientation"]) for one in seen), default=0.0)
        return f"it fell over: tilted by {most:.1f} rad" if most > config.fallen_rad else ""


DRILL = QuadrupedDrill
