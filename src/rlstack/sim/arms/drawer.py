"""A drawer with a pull tab, in a cabinet on the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.robots import frames
from rlstack.robots.mjcf import import_mujoco
from rlstack.sim.arms.scene import ARM, HANDLED
from rlstack.sim.obstacle import ROLLING_M, TORSION_M, Obstacle, Slide

_PLATE_M = 0.006
"""Half thickness of front and walls."""
_CABINET_RGB, _FRONT_RGB = (0.55, 0.5, 0.42), (0.75, 0.7, 0.6)

Box = tuple[tuple[float, float, float], tuple[float, float, float]]
"""Centre and half lengths, m, in the cabinet's frame, whose x axis points from the closed tab into the cabinet."""


@dataclass(frozen=True, kw_only=True)
class Drawer:
    """A fixed cabinet with a drawer that slides out along the cabinet's -x.

    The cabinet's origin is on the table, straight below the centre of the closed tab; the drawer's is the tab's centre.

    Args:
        name: Name of the drawer's body and slide, and of the tab's geom.
        cabinet: Name of the cabinet's body.
        tab_half_m: (3,) half lengths of the tab: along the slide, across, and up.
        tab_height_m: Height of the tab's centre above the table.
        half_width_m: Half width of the cabinet.
        depth_m: Depth of the cabinet.
        travel_m: Travel of the drawer.
        damping_n_s_per_m: Damping of the slide.
        rgba: Colour of the tab.
    """

    name: str = "object"
    cabinet: str = "cabinet"
    tab_half_m: tuple[float, float, float] = (0.0225, 0.008, 0.015)
    tab_height_m: float = 0.1
    half_width_m: float = 0.09
    depth_m: float = 0.16
    travel_m: float = 0.2
    damping_n_s_per_m: float = 2.0
    rgba: tuple[float, float, float, float] = (0.85, 0.35, 0.2, 1.0)

    @property
    def cabinet_geom(self) -> str:
        """Name of the cabinet's geom."""
        return f"{self.cabinet}_box"

    @property
    def front_geom(self) -> str:
        """Name of the front's geom."""
        return f"{self.name}_front"

    @property
    def cabinet_box(self) -> Box:
        """The cabinet in its own frame."""
        face, top = self.tab_half_m[0] + 2.0 * _PLATE_M, self.tab_height_m + 0.03
        return (face + self.depth_m / 2.0, 0.0, top / 2.0), (self.depth_m / 2.0, self.half_width_m, top / 2.0)

    @property
    def front_box(self) -> Box:
        """The drawer's front, relative to the tab's centre."""
        return (self.tab_half_m[0] + _PLATE_M, 0.0, 0.0), (_PLATE_M, self.half_width_m, 0.028)

    def add(self, spec: Any) -> None:
        """Add it to a ``mujoco.MjSpec``."""
        mujoco = import_mujoco()
        # no collision between the two: the slide keeps them apart
        met = {"type": mujoco.mjtGeom.mjGEOM_BOX, "contype": HANDLED, "conaffinity": ARM}
        cabinet = spec.worldbody.add_body(name=self.cabinet, pos=[0.6, 0.0, 0.0])
        middle, half = self.cabinet_box
        cabinet.add_geom(name=self.cabinet_geom, pos=list(middle), size=list(half), rgba=[*_CABINET_RGB, 1.0], **met)
        drawer = cabinet.add_body(name=self.name, pos=[0.0, 0.0, self.tab_height_m])
        drawer.add_joint(
            name=self.name,
            type=mujoco.mjtJoint.mjJNT_SLIDE,
            axis=[-1.0, 0.0, 0.0],
            limited=True,
            range=[0.0, self.travel_m],
            damping=[self.damping_n_s_per_m, 0.0, 0.0],
        )
        drawer.add_geom(
            name=self.name,
            size=list(self.tab_half_m),
            mass=1.0,
            rgba=list(self.rgba),
            condim=4,
            priority=1,  # its own friction applies, whatever touches it
            friction=[0.8, TORSION_M, ROLLING_M],
            **met,
        )
        middle, half = self.front_box
        drawer.add_geom(
            name=self.front_geom, pos=list(middle), size=list(half), mass=0.0, rgba=[*_FRONT_RGB, 1.0], **met
        )


def drawer_obstacles(
    drawer: Drawer,
    closed: Sequence[float],
    yaw_rad: float,
    tab_half_m: Sequence[float],
    mass_kg: float,
    friction: float,
    rails_n: float,
    colour: tuple[float, float, float] | None = None,
) -> tuple[Obstacle, Obstacle, Obstacle]:
    """Return a drawer as obstacles of a world: the sliding part, named as the drawer; its front; the cabinet.

    Args:
        drawer: Its geometry.
        closed: (3,) centre of the tab while closed, m, at the tab's height above the table.
        yaw_rad: Direction into the cabinet.
        tab_half_m: (3,) half lengths of the tab.
        mass_kg: Mass of all sliding parts.
        friction: Friction coefficient of the tab.
        rails_n: Friction of the rails, N.
        colour: Colour of all parts; None: each part's own.
    """
    turned, middle = frames.from_yaw(yaw_rad), np.asarray(closed, dtype=float)
    table = middle - [0.0, 0.0, drawer.tab_height_m]

    def box(name: str, seen_from: Any, box: Box, **more: Any) -> Obstacle:
        place, half = seen_from + frames.rotate(turned, np.array(box[0])), 2.0 * np.array(box[1])
        size, at = tuple(half.tolist()), tuple(place.tolist())
        return Obstacle(name=name, shape="box", size_m=size, position_m=at, yaw_rad=yaw_rad, **more)

    rails = Slide(
        direction=(-1.0, 0.0, 0.0),
        travel_m=drawer.travel_m,
        friction_n=rails_n,
        damping_n_s_per_m=drawer.damping_n_s_per_m,
    )
    x, y, z = map(float, tab_half_m)
    tab: Box = (0.0, 0.0, 0.0), (x, y, z)
    return (
        box(
            drawer.name, middle, tab, colour=colour or drawer.rgba[:3], mass_kg=mass_kg, friction=friction, slide=rails
        ),
        box(drawer.front_geom, middle, drawer.front_box, colour=colour or _FRONT_RGB, part_of=drawer.name),
        box(drawer.cabinet, table, drawer.cabinet_box, colour=colour or _CABINET_RGB),
    )
