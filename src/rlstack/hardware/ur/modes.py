"""What a Universal Robot says of its state, in words."""

from __future__ import annotations

RUNNING_MODE = 7
_ROBOT_MODES = {
    -1: "its controller is not there",
    0: "it is disconnected",
    1: "it waits for its safety configuration to be confirmed",
    2: "it is starting",
    3: "its arm is switched off: power it on",
    4: "its arm is being switched on",
    5: "its brakes are on: release them",
    6: "it is in the mode for backdriving",
    8: "its firmware is being updated",
}
_SAFE = (1, 2)
_SAFETY_MODES = {
    3: "it is in a protective stop: look why, then unlock it on the pendant",
    4: "it is in recovery: a joint is outside of the safety limits; move it back by hand",
    5: "it is in a safeguard stop: close the safeguard",
    6: "the system's emergency stop is pressed: release it, then power the arm on",
    7: "the robot's emergency stop is pressed: release it, then power the arm on",
    8: "it has violated its safety limits: restart it",
    9: "it has a fault: read the log on the pendant, and restart it",
    10: "it checks its joints",
    11: "its safety system gives no state",
}


def hindrance(safety_mode: int, robot_mode: int) -> str:
    """Return why the arm does not move, empty if nothing hinders it."""
    if safety_mode not in _SAFE:
        return _SAFETY_MODES.get(safety_mode, f"its safety mode is {safety_mode}, which is not known")
    if robot_mode != RUNNING_MODE:
        return _ROBOT_MODES.get(robot_mode, f"its mode is {robot_mode}, which is not known")
    return ""
