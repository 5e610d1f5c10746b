"""Faults of a robot whose autopilot's own firmware flies an airframe (`rlstack sitl`): its failsafe is drilled, too."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rlstack.bringup.drill.disturbances import stays_off_when_back
from rlstack.bringup.drill.fault import Fault
from rlstack.bringup.drill.faults import send

if TYPE_CHECKING:
    from rlstack.bringup.drill.chain import Chain

FAILSAFE_S = 3.0
"""Betaflight lowers the throttle 0.3 s after it lost its receiver, and disarms after 1.5 s (docs/hardware.md)."""
_DOWN_M = 0.3


def is_down(chain: Chain) -> str:
    """Check that the airframe lies on the ground."""
    height_m = chain.heights[-1][1] if chain.heights else float("nan")
    return "" if height_m < _DOWN_M else f"its failsafe did not stop the motors: it is {height_m:.2f} m high"


def is_down_and_stays_off(chain: Chain) -> str:
    """Check that, and that nothing arms when it was put upright and the robot node is back."""
    return is_down(chain) or chain.carry_back() or stays_off_when_back(chain)


def firmware_faults(faults: Sequence[Fault]) -> list[Fault]:
    """Return the faults with those that end in the firmware's own failsafe, which the airframe's height shows."""
    changed = [
        replace(one, check=is_down_and_stays_off, watch_s=FAILSAFE_S) if one.name == "robot_killed" else one
        for one in faults
    ]
    frozen = Fault(
        name="robot_frozen",
        text="robot node stopped by SIGSTOP, so that the autopilot hears nothing",
        answer="robot gone",
        begin=send("robot", signal.SIGSTOP),
        end=send("robot", signal.SIGCONT),
        check=is_down,
        watch_s=FAILSAFE_S,
    )
    return [*changed, frozen]
