"""A drawer in a cabinet that stands on the table, with a tab to pull it by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlstack.robots.mjcf import import_mujoco
from rlstack.sim.arms.scene import ARM, HANDLED

_PLATE_M = 0.006
"""Half thickness of front and walls."""


@dataclass(frozen=True, kw_only=True)
class Drawer:
    """A cabinet that stands fixed, and a drawer that slides out of it along the cabinet's -x.

    The cabinet's place is on the table, straight below the closed tab's middle; the drawer's is the tab's middle.

    Args:
        name: Of the drawer's body and slide, and of the tab's geom.
        cabinet: Name of the cabinet's body.
        tab_half_m: (3,) half lengths of the tab: along the slide, across, and up.
        tab_height_m: Of its middle above the table.
        half_width_m: Of the cabinet.
        depth_m: Of the cabinet.
        travel_m: How far the drawer slides out.
        damping_n_s_per_m: Of the slide.
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

    def add(self, spec: Any) -> None:
        """Add it to a ``mujoco.MjSpec``."""
        mujoco = import_mujoco()
        # neither meets the other: the slide keeps them apart
        met = {"type": mujoco.mjtGeom.mjGEOM_BOX, "contype": HANDLED, "conaffinity": ARM}
        face, top = self.tab_half_m[0] + 2.0 * _PLATE_M, self.tab_height_m + 0.03
        cabinet = spec.worldbody.add_body(name=self.cabinet, pos=[0.6, 0.0, 0.0])
        cabinet.add_geom(
            pos=[face + self.depth_m / 2.0, 0.0, top / 2.0],
            size=[self.depth_m / 2.0, self.half_width_m, top / 2.0],
            rgba=[0.55, 0.5, 0.42, 1.0],
            **met,
        )
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
            priority=1,  # its friction counts, whatever touches it
            friction=[0.8, 0.005, 0.0001],
            **met,
        )
        drawer.add_geom(
            pos=[self.tab_half_m[0] + _PLATE_M, 0.0, 0.0],
            size=[_PLATE_M, self.half_width_m, 0.028],
            mass=0.0,
            rgba=[0.75, 0.7, 0.6, 1.0],
            **met,
        )
