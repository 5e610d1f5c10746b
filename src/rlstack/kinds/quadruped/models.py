"""Quadrupeds' models: the links of the robot file, with spheres for feet."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.robots.kind_models import KindModels, UrdfOptions
from rlstack.robots.kinematics import chain_of, tool_motion
from rlstack.robots.mjcf_articulated import add_articulated, read_urdf_spec
from rlstack.robots.urdf import add_shape, links_urdf, rename


class QuadrupedModels(KindModels[Quadruped]):
    """See :class:`rlstack.robots.kind_models.KindModels`."""

    def rest_height(self, robot: Quadruped) -> float:
        """Return the height at which the feet touch the floor in the standing posture, before the legs yield."""
        return float(lowest_foot(robot, robot.standing[None])[0])

    def add_to_mujoco(self, spec: Any, robot: Quadruped, prefix: str, timestep_s: float) -> Any:
        """Add the robot; each actuator's control is its joint's position. Feet have the file's friction."""
        where = f"the file of {robot.name}"
        own = read_urdf_spec(self.urdf(robot, UrdfOptions()), robot, where)
        for name, friction in robot.link_friction.items():
            for geom in own.body(name).geoms:
                geom.priority, geom.friction = 1, [friction, *list(geom.friction)[1:]]
        return add_articulated(spec, robot, own, prefix, where=where, height_m=self.rest_height(robot))

    def urdf(self, robot: Quadruped, options: UrdfOptions) -> ET.Element:
        """Return its links, with the file's friction in an element that only PyBullet reads."""
        root = links_urdf(robot, robot.links)
        for link in root.findall("link"):
            name = link.get("name", "")
            if name in robot.feet.links:
                for use, material in (("visual", "dark"), ("collision", "")):
                    add_shape(link, use, "sphere", material=material, radius=robot.feet.radius_m)
            contact = ET.SubElement(link, "contact")
            ET.SubElement(contact, "lateral_friction", value=repr(robot.link_friction[name]))
        rename(root, options.prefix)
        return root


def lowest_foot(robot: Quadruped, joints: Array) -> Array:
    """Return how far the lowest foot reaches below ``base_link``, (N,) m, for joints (N, joints) rad."""
    depth = []
    for foot in robot.feet.links:
        chain = chain_of(robot, foot)
        depth.append(-np.asarray(tool_motion(chain.screws, joints[:, list(chain.index)]).position)[:, 2])
    return np.asarray(np.max(depth, axis=0) + robot.feet.radius_m)


MODELS = QuadrupedModels()
