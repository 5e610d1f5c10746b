"""Mass and inertia of rigid bodies and of their combinations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rlstack.arrays import Array


class Inertial(NamedTuple):
    """Mass properties of one rigid body, or of several that are joined."""

    mass_kg: float
    centre_m: Array
    """(3,) centre of mass."""
    inertia_kg_m2: Array
    """(3, 3) about the centre of mass, along the axes of the frame that ``centre_m`` is in."""


def inertial(mass_kg: float, centre_m: Iterable[float], inertia_kg_m2: Iterable[float] | Array) -> Inertial:
    """Return a body from plain numbers; the inertia is (3, 3) or the moments (3,) about x, y, z."""
    inertia = np.array(inertia_kg_m2, dtype=float)
    return Inertial(float(mass_kg), np.array(centre_m, dtype=float), np.diag(inertia) if inertia.ndim == 1 else inertia)


def about(mass_kg: float, offset_m: Array) -> Array:
    """Return what a mass at an offset (3,) adds to the inertia (3, 3), by the parallel axis theorem."""
    return mass_kg * (float(offset_m @ offset_m) * np.eye(3) - np.outer(offset_m, offset_m))


def together(pieces: Iterable[Inertial]) -> Inertial:
    """Return the combination of bodies, all in one frame; an empty one has no mass and lies at the origin."""
    pieces = tuple(pieces)
    mass = float(sum(piece.mass_kg for piece in pieces))
    if mass <= 0.0:
        return Inertial(0.0, np.zeros(3), np.zeros((3, 3)))
    centre = np.sum([piece.mass_kg * piece.centre_m for piece in pieces], axis=0) / mass
    inertia = np.sum([piece.inertia_kg_m2 + about(piece.mass_kg, piece.centre_m - centre) for piece in pieces], axis=0)
    return Inertial(mass, centre, inertia)


def without(whole: Inertial, pieces: Iterable[Inertial]) -> Inertial:
    """Return ``whole`` without ``pieces``: together they are the whole again."""
    taken = tuple(pieces)
    return together((whole, *(Inertial(-p.mass_kg, p.centre_m, -p.inertia_kg_m2) for p in taken)))


def moved(piece: Inertial, rotation: Array, position_m: Array) -> Inertial:
    """Return a body in its parent frame, given the pose of its own: ``rotation`` (3, 3) and ``position_m`` (3,)."""
    return Inertial(piece.mass_kg, position_m + rotation @ piece.centre_m, rotation @ piece.inertia_kg_m2 @ rotation.T)


def is_physical(inertia_kg_m2: Array, slack: float = 1e-9) -> bool:
    """Return whether a rigid body can have this inertia (3, 3): positive moments, none above the others' sum."""
    if not np.allclose(inertia_kg_m2, inertia_kg_m2.T, rtol=1e-9, atol=0.0):
        return False
    moments = np.linalg.eigvalsh(inertia_kg_m2)
    return bool(moments[0] > 0.0 and moments[2] <= (moments[0] + moments[1]) * (1.0 + slack))


def of_sphere(mass_kg: float, radius_m: float) -> Array:
    """Return the moments (3,) of a solid sphere."""
    return np.full(3, 0.4 * mass_kg * radius_m**2)
