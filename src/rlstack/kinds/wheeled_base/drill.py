"""Drill of a wheeled base: it brakes and stands still."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.drill import changes
from rlstack.bringup.drill.answers import Answer
from rlstack.bringup.drill.changes import Edit
from rlstack.bringup.drill.edits import move_odometry, odometry_edits, twist_edits
from rlstack.bringup.drill.fault import Fault
from rlstack.bringup.drill.kind_drill import KindDrill, moved
from rlstack.interfaces import cdr, topics
from rlstack.kinds.wheeled_base.guard_config import SCAN

_STOP = ("stop", "disarmed")
_JUMP_M = 1.0


def _on_scan(make: Any) -> Any:
    return lambda chain: chain.sensors[SCAN].set_change(make())


class WheeledBaseDrill(KindDrill):
    """See :class:`rlstack.bringup.drill.kind_drill.KindDrill`."""

    ANSWERS: ClassVar[Mapping[str, Answer]] = {
        "unchanged": Answer(("policy",)),
        "late": Answer(_STOP, "command"),
        "malformed": Answer(_STOP, "command"),
        "limited": Answer(("policy", *_STOP)),
        "second policy": Answer(_STOP, 2.0, via=("policy",)),
        "blind": Answer(_STOP, "observation"),
        "late observations": Answer(("policy", *_STOP)),
        "jump once": Answer(("policy", *_STOP)),
        "jump": Answer(_STOP, "observation"),
        "clock": Answer(_STOP, "observation"),
        "low rate": Answer(_STOP, "observation", via=("policy",)),
        "link short": Answer(("policy", *_STOP)),
        "link": Answer(_STOP, "observation"),
        "battery low": Answer(("policy",)),
        "battery critical": Answer(_STOP, "battery_confirm_s", via=("policy",)),
        "estop": Answer(("estop",), 0.1),
        "busy": Answer(("policy", *_STOP)),
        "guard gone": Answer((), "robot", robot_stops=True),
        "robot gone": Answer(_STOP, "observation"),
        "scan": Answer(_STOP, "scan_timeout_s"),
    }
    FAULTS = (
        Fault(name="scan_lost", text="no scans any more", answer="scan", begin=_on_scan(changes.lost)),
        Fault(
            name="scan_frozen",
            text="the same scan for ever, same stamp",
            answer="scan",
            begin=_on_scan(lambda: changes.frozen(new_stamps=False)),
        ),
        Fault(name="scan_malformed", text="scans cut short (bytes)", answer="scan", begin=_on_scan(changes.cut_short)),
    )
    TOPICS = (SCAN,)
    WORLD = "clutter:1000003"
    SETTLE_S = (1.0, 3.0)
    PATH = "from the place of the fault, m"

    def __init__(self, robot: Any) -> None:
        super().__init__(robot)
        self._ranges = cdr.compile_reader(topics.message_type(topics.SCAN_TYPE), ["ranges", "range_min"])

    @property
    def command_edits(self) -> Mapping[str, Edit]:
        """Edits of a twist; it has no names, and no elements to leave out."""
        return twist_edits(100.0)

    @property
    def observation_edits(self) -> Mapping[str, Edit]:
        """Edits of odometry."""
        return odometry_edits(move_odometry(_JUMP_M))

    def excursion(self, seen: Sequence[Mapping[str, Array]]) -> dict[str, float]:
        """Return distance and speed."""
        return {
            "distance m": max(moved(seen)),
            "speed m/s": max(float(np.linalg.norm(one["linear_velocity"])) for one in seen),
        }

    def path(self, seen: Sequence[Mapping[str, Array]]) -> list[float]:
        """Return the distance from the place of the fault, m."""
        return moved(seen)

    def other_excursion(self, topic: str, data: Sequence[bytes]) -> dict[str, float]:
        """Return the distance of the nearest obstacle from the lidar."""
        if topic != SCAN:
            return {}
        nearest = math.inf
        for one in data:
            ranges, least = self._ranges(one)
            hits = ranges[np.isfinite(ranges) & (ranges >= least)]
            nearest = min(nearest, float(hits.min(initial=math.inf)))
        return {"least to an obstacle m": nearest} if math.isfinite(nearest) else {}

    def limit_problem(self, seen: Sequence[Mapping[str, Array]], config: Any) -> str:
        """Return where it was faster than its limit allows, or left the geofence."""
        low, high = config.geofence_min_m, config.geofence_max_m
        for one in seen:
            speed = abs(float(one["linear_velocity"][0]))
            if speed > config.overspeed * config.linear_velocity_m_s:
                return f"it drove at {speed:.2f} m/s"
            if not all(a <= p <= b for a, p, b in zip(low, one["position"].tolist(), high)):
                return f"it left the geofence at {np.round(one['position'][:2], 2).tolist()}"
        return ""


DRILL = WheeledBaseDrill
