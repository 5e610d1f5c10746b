"""Ground effect: a rotor lifts more near the floor, which holds its wake up.

Source: Cheeseman and Bennett, "The Effect of the Ground on a Helicopter Rotor in Forward Flight", Aeronautical Research
Council R&M 3021, 1955, eq. 1 in hover, from an image source below the floor:

    T / T_far = 1 / (1 - c (r / 4z)^2)

with the rotor's radius r and its height z above the floor. c is 1 there; for quadrotors fits are above, since four
wakes meet below the body: Sanchez-Cuevas, Heredia and Ollero, "Characterization of the Aerodynamic Ground Effect and
Its Influence in Multirotor Control", Int. J. of Aerospace Engineering 2017.

Valid for z above half the radius; below that the gain stays what it is there (1.33 for c = 1). Hover and slow flight:
it fades with speed over some 2 times the induced velocity, which is left out.
Applied per rotor, at its own height, and not to a robot that is upside down.
"""

from __future__ import annotations

from typing import Any

from rlstack.fused import maximum, where

LEAST_HEIGHT = 0.5
"""In rotor radii: the gain does not grow below."""


def gain(height: Any, radius: Any, coefficient: Any, upright: Any = True) -> Any:
    """Return by what the floor multiplies a rotor's thrust.

    Args:
        height: Of the rotor above the floor, m.
        radius: Of the rotor, m.
        coefficient: c above, below 4; 0: no ground effect.
        upright: Whether the rotor blows downwards.
    """
    ratio = radius / (4.0 * maximum(height, LEAST_HEIGHT * radius))
    return where(upright, 1.0 / (1.0 - coefficient * ratio * ratio), 1.0)
