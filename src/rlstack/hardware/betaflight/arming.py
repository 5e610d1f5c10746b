"""Why a flight controller does not arm, in words."""

from __future__ import annotations

ARM_SWITCH = 28
"""Set together with the others while the ARM channel is on; off and on again clears it."""
_WORDS = (
    "no gyroscope was found",
    "its failsafe is active",
    "it hears no receiver (RXLOSS)",
    "the ARM channel was on when the receiver came back",
    "the mode FAILSAFE is on",
    "it has found a runaway take-off (propellers or motor order wrong?): switch it off and on",
    "it has detected a crash",
    "the throttle is not low",
    "it stands tilted by more than small_angle",
    "it was powered up a moment ago (BOOTGRACE)",
    "the mode PREARM is off",
    "its processor is overloaded (LOAD)",
    "its gyroscope calibrates: leave it at rest",
    "its command line is open (CLI): close Betaflight Configurator",
    "its menu is open",
    "its black sheep telemetry does not allow it",
    "Betaflight Configurator does not allow it (MSP)",
    "the mode PARALYZE is on",
    "GPS rescue is set up and there is no GPS fix",
    "the mode GPS RESCUE is on",
    "its motors report no speed (DSHOT_TELEM)",
    "it must be restarted after its settings changed",
    "its DShot bit-banging does not work",
    "its accelerometer was never calibrated",
    "no motor protocol is chosen",
    "the mode FLIP OVER AFTER CRASH is on",
    "the mode ALTHOLD is on",
    "the mode POSHOLD is on",
)


def reasons(flags: int) -> str:
    """Return what the flags of the status say, separated by semicolons; empty: nothing hinders arming."""
    found = [word for bit, word in enumerate(_WORDS) if flags >> bit & 1]
    unknown = flags & ~((1 << len(_WORDS)) - 1) & ~(1 << ARM_SWITCH)
    return "; ".join(found + ([f"unknown flags {unknown:#x}"] if unknown else []))
