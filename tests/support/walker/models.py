"""The walker's models: the links of its file."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from rlstack.robots.kind_models import KindModels, UrdfOptions
from rlstack.robots.mjcf_articulated import add_articulated, read_urdf_spec
from rlstack.robots.urdf import links_urdf, rename
from tests.support.walker.spec import Walker


class WalkerModels(KindModels[Walker]):
    """Made of the file's links."""

    def rest_height(self, robot: Walker) -> float:
        """Return its height on its legs at rest."""
        return robot.rest_height_m

    def add_to_mujoco(self, spec: Any, robot: Walker, prefix: str, timestep_s: float) -> Any:
        """Add it as its URDF has it."""
        where = f"the file of {robot.name}"
        own = read_urdf_spec(self.urdf(robot, UrdfOptions()), robot, where)
        return add_articulated(spec, robot, own, prefix, where=where, height_m=robot.rest_height_m)

    def urdf(self, robot: Walker, options: UrdfOptions) -> ET.Element:
        """Return its links."""
        root = links_urdf(robot, robot.links)
        rename(root, options.prefix)
        return root


MODELS = WalkerModels()
