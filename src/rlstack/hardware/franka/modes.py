"""What a Franka arm says of its state, in words."""

from __future__ import annotations

REFLEX = "Reflex"
_MODES = {
    "Other": "its joints are locked, or it is in a mode that takes no commands: unlock them in Desk, and activate FCI",
    "Guiding": "it is guided by hand: let go of the buttons at its hand",
    REFLEX: "it has stopped by a reflex",
    "UserStopped": "its user stop is pressed: release it",
    "AutomaticErrorRecovery": "it is recovering from an error",
}


def hindrance(mode: str, errors: str) -> str:
    """Return why an arm does not move, empty if nothing hinders it.

    Args:
        mode: Name of libfranka's ``RobotMode``.
        errors: libfranka's names of the present errors, such as ``joint_reflex``, separated by commas.
    """
    why = "" if mode in ("Idle", "Move") else _MODES.get(mode, f"its mode is {mode}, which is not known")
    if errors:
        why = f"{why or 'it reports an error'} ({errors})"
    return why


def error_names(errors: object) -> str:
    """Return the names in libfranka's list of errors, which prints as ``["joint_reflex", ...]``."""
    return ", ".join(part.strip(' "[]') for part in str(errors).split(",") if part.strip(' "[]'))
