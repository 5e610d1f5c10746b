"""Links in a robot file: their mass, shapes and kinematic tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlstack.robots.inertia import Inertial, is_physical
from rlstack.schema import value

Three = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class LinkInertial:
    """Mass and inertia of one link."""

    mass_kg: float = value(unit="kg", above=0.0)
    centre_m: Three = value((0.0, 0.0, 0.0), unit="m")
    """Centre of mass, in the link's frame."""
    inertia_kg_m2: tuple[float, float, float, float, float, float] = value(unit="kg m^2")
    """About the centre of mass along the link's axes: xx, yy, zz, xy, xz, yz."""

    def __post_init__(self) -> None:
        # published values are rounded: allow 1 %
        if not is_physical(self.piece.inertia_kg_m2, slack=0.01):
            raise ValueError(f"inertia_kg_m2: {list(self.inertia_kg_m2)} is not allowed: no rigid body has it.")

    @property
    def piece(self) -> Inertial:
        """Mass, centre of mass and inertia as arrays, in the link's frame."""
        xx, yy, zz, xy, xz, yz = self.inertia_kg_m2
        matrix = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        return Inertial(self.mass_kg, np.array(self.centre_m), matrix)


@dataclass(frozen=True, kw_only=True)
class _LinkShape:
    position_m: Three = value((0.0, 0.0, 0.0), unit="m")
    """Its centre, in the link's frame."""
    rpy_rad: Three = value((0.0, 0.0, 0.0), unit="rad")


@dataclass(frozen=True, kw_only=True)
class LinkBox(_LinkShape):
    """A box, for collisions and visuals."""

    size_m: Three = value(unit="m", above=0.0)
    """Full extents."""


@dataclass(frozen=True, kw_only=True)
class LinkCylinder(_LinkShape):
    """A cylinder along z, for collisions and visuals."""

    radius_m: float = value(unit="m", above=0.0)
    length_m: float = value(unit="m", above=0.0)


@dataclass(frozen=True, kw_only=True)
class Link:
    """One link and its joint; the first has none."""

    name: str
    parent: str = ""
    """Default: the link before it."""
    joint: str = ""
    """The name of one of the file's joints; by default it is fixed to its parent."""
    position_m: Three = value((0.0, 0.0, 0.0), unit="m")
    """Pose of its frame, and of the joint, in its parent's frame."""
    rpy_rad: Three = value((0.0, 0.0, 0.0), unit="rad")
    axis: Three = value((0.0, 0.0, 1.0), at_least=-1e6, at_most=1e6)
    """The joint's axis of rotation or translation, in the link's own frame."""
    inertial: LinkInertial | None = None
    """Without it, the link is a massless frame."""
    boxes: tuple[LinkBox, ...] = ()
    cylinders: tuple[LinkCylinder, ...] = ()

    def __post_init__(self) -> None:
        if not np.linalg.norm(self.axis) > 1e-9:
            raise ValueError(f"axis: {list(self.axis)} is not allowed: it must have a length.")


def check_links(links: tuple[Link, ...], joints: tuple[str, ...]) -> None:
    """Refuse links that do not form a tree or whose names are not unique, with a ``ValueError``."""
    before: list[str] = []
    for k, link in enumerate(links):
        if link.name in before:
            raise ValueError(f"links[{k}]: the name '{link.name}' is used twice: every link needs its own.")
        if k == 0 and (link.parent or link.joint):
            raise ValueError(f"links[0]: '{link.name}' is the first link and must have no parent and no joint.")
        if link.parent and link.parent not in before:
            raise ValueError(f"links[{k}]: parent: '{link.parent}' is not one of the links before it.")
        if link.joint and link.joint not in joints:
            raise ValueError(f"links[{k}]: joint: '{link.joint}' is not one of the joints: {', '.join(joints)}.")
        before.append(link.name)
    moved = [link.joint for link in links if link.joint]
    if missing := [name for name in joints if moved.count(name) != 1]:
        raise ValueError(f"links: the joint '{missing[0]}' must move exactly one link, not {moved.count(missing[0])}.")
