"""Manipulators' models: fixed-base bodies whose links come from the model that the robot file names or describes."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.kinds.manipulator.urdf import describe, manipulator_urdf
from rlstack.robots.inertia import Inertial, inertial
from rlstack.robots.kind_models import KindModels, UrdfOptions, checked_model
from rlstack.robots.mjcf_articulated import add_articulated, read_mjcf_spec, read_urdf_spec
from rlstack.robots.model import Model, read_mjcf, read_urdf
from rlstack.robots.model_check import ModelCheck


class ManipulatorModels(KindModels[Manipulator]):
    """See :class:`rlstack.robots.kind_models.KindModels`."""

    urdf = staticmethod(manipulator_urdf)

    def add_to_mujoco(self, spec: Any, robot: Manipulator, prefix: str, timestep_s: float) -> Any:
        """Add the robot; each actuator's control is its joint's position."""
        found = describe(robot)
        if found.path is None:
            own = read_urdf_spec(manipulator_urdf(robot, UrdfOptions()), robot, found.where)
        else:
            checked_model(robot)
            own = read_mjcf_spec(found.path)
        return add_articulated(spec, robot, own, prefix, where=found.where, height_m=0.0)

    def source(self, robot: Manipulator) -> Model:
        """Return links and joints of the model that the file names or describes."""
        found = describe(robot)
        if found.path is not None:
            return read_mjcf(found.path)
        assert found.urdf is not None
        return read_urdf(ET.tostring(found.urdf, encoding="unicode"), found.where)

    def inertial(self, robot: Manipulator) -> Inertial:
        """Return the mass; centre and inertia, which the file lacks, are zero."""
        return inertial(robot.mass_kg, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))

    def check(self, compare: ModelCheck) -> None:
        """Compare joints, their limits and the mass within the file's tolerance, and look for the tool's link."""
        robot: Any = compare.robot
        self.check_joints(compare)
        compare.mass(robot.mass_kg, robot.mass_tolerance)
        if robot.tool_link not in compare.model.links:
            raise UserError(
                f"{compare.model.where} has no link '{robot.tool_link}', which is the tool_link of {robot.name}."
            )


MODELS = ManipulatorModels()
