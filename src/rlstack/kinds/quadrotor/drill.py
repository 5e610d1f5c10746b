"""Drill of a quadrotor: it hovers and lands where it can, and stops its motors where it can neither see nor hear."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.drill.answers import Answer
from rlstack.bringup.drill.changes import Edit
from rlstack.bringup.drill.edits import move_odometry, odometry_edits, rates_edits, speed_edits
from rlstack.bringup.drill.kind_drill import KindDrill, moved, tilt_rad
from rlstack.bringup.robot_group import Point

_HOVER = ("hover", "land")
_JUMP_M = 1.0
_OVER = 1.25
"""Share of the speed limit that it may reach: the guard takes over at the limit, and the rotors answer in 0.15 s."""


class QuadrotorDrill(KindDrill):
    """See :class:`rlstack.bringup.drill.kind_drill.KindDrill`."""

    ANSWERS: ClassVar[Mapping[str, Answer]] = {
        "unchanged": Answer(("policy",)),
        "late": Answer(_HOVER, "command"),
        "malformed": Answer(_HOVER, "command"),
        "limited": Answer(("policy", "return", *_HOVER)),
        "second policy": Answer(_HOVER, 2.0, via=("policy", "return")),
        "blind": Answer(("disarmed",), "blind_s", via=_HOVER),
        "same values": Answer(("disarmed",), 0.4, via=_HOVER),
        "late observations": Answer((*_HOVER, "disarmed"), "observation"),
        "jump once": Answer(("policy", *_HOVER)),
        "jump": Answer(_HOVER, "observation"),
        "clock": Answer(_HOVER, "observation"),
        "low rate": Answer(("policy", *_HOVER)),
        "link short": Answer((*_HOVER, "disarmed"), "observation", via=("policy",)),
        "link": Answer(("disarmed",), "blind_s", via=_HOVER),
        "battery low": Answer(("policy",)),
        "battery critical": Answer(("land",), "battery_confirm_s", via=("policy", "hover")),
        "estop": Answer(("estop",), 0.1),
        "busy": Answer(("policy", *_HOVER)),
        "guard gone": Answer((), "robot", robot_stops=True),
        "robot gone": Answer(("disarmed",), "blind_s", via=_HOVER),
    }
    GOAL: ClassVar[Point | None] = (0.6, 0.4, 1.3)
    START_HEIGHT_M = 1.0
    SETTLE_S = (0.4, 1.2)
    PATH = "from the place of the fault, m"

    @property
    def command_edits(self) -> Mapping[str, Edit]:
        """Edits of rotor speeds, or of rates and thrust, by name."""
        beyond = 10.0 * float(self._high.max())
        return speed_edits(beyond) if self.robot.rate_loop is None else rates_edits(beyond)

    @property
    def observation_edits(self) -> Mapping[str, Edit]:
        """Edits of odometry."""
        return odometry_edits(move_odometry(_JUMP_M))

    def excursion(self, seen: Sequence[Mapping[str, Array]]) -> dict[str, float]:
        """Return distance, tilt and speed."""
        return {
            "distance m": max(moved(seen)),
            "tilt rad": max(tilt_rad(one["orientation"]) for one in seen),
            "speed m/s": max(float(np.linalg.norm(one["linear_velocity"])) for one in seen),
        }

    def path(self, seen: Sequence[Mapping[str, Array]]) -> list[float]:
        """Return the distance from the place of the fault, m."""
        return moved(seen)

    def limit_problem(self, seen: Sequence[Mapping[str, Array]], config: Any) -> str:
        """Return where it left the geofence, or was faster than a stop from its limit of speed explains."""
        low, high = config.geofence_min_m, config.geofence_max_m
        for one in seen:
            if not all(a <= p <= b for a, p, b in zip(low, one["position"].tolist(), high)):
                return f"it left the geofence at {np.round(one['position'], 2).tolist()}"
            speed = math.hypot(*one["linear_velocity"].tolist())
            if speed > _OVER * config.linear_velocity_m_s:
                return f"it flew at {speed:.1f} m/s"
        return ""


DRILL = QuadrotorDrill
