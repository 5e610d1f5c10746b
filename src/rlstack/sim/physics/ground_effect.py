"""Ground effect: a rotor has more thrust near the floor, which blocks its wake.

Source: Cheeseman and Bennett, "The Effect of the Ground on a Helicopter Rotor in Forward Flight", Aeronautical Research
Council R&M 3021, 1955, eq. 1 in hover, from an image source below the floor:

    T / T_far = 1 / (1 - c (r / 4z)^2)

with the rotor's radius r and its height z above the floor. c is 1 there; fits for quadrotors are higher, since four
wakes meet below the body: Sanchez-Cuevas, Heredia and Ollero, "Characterization of the Aerodynamic Ground Effect and
Its Influence in Multirotor Control", Int. J. of Aerospace Engineering 2017.

Valid for z above half the radius; below that the gain is constant (1.33 for c = 1). Valid in hover and slow flight:
the fading at speeds above about twice the induced velocity is omitted.
Applied per rotor, at its own height, but not to a robot that is upside down.
"""

from __future__ import annotations

from typing import Any

from rlstack.fused import maximum, where

LEAST_HEIGHT = 0.5
"""Height in rotor radii below which the gain is constant."""


def gain(height: Any, radius: Any, coefficient: Any, upright: Any = True) -> Any:
    """Return the factor of a rotor's thrust near the floor.

    Args:
        height: Height of the rotor above the floor, m.
        radius: Radius of the rotor, m.
        coefficient: c in the module's formula, below 4; 0: no ground effect.
        upright: Whether the rotor blows downwards.
    """
    ratio = radius / (4.0 * maximum(height, LEAST_HEIGHT * radius))
    return where(upright, 1.0 / (1.0 - coefficient * ratio * ratio), 1.0)
