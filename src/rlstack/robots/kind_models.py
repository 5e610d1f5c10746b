"""Models of a kind of robot: the base class of its part ``models``, and functions for the models of any robot."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from rlstack.errors import UserError
from rlstack.kinds import find_kind
from rlstack.robots.inertia import Inertial
from rlstack.robots.model import Model, read_model, read_urdf
from rlstack.robots.model_check import ModelCheck, Tolerance, joint_table
from rlstack.robots.spec import RobotSpec

Robot = TypeVar("Robot", bound=RobotSpec)
Meshes = Literal["path", "uri", "none"]
Rotors = Literal["continuous", "fixed", "none"]


@dataclass(frozen=True, kw_only=True)
class UrdfOptions:
    """Options for writing a URDF; see :func:`rlstack.robots.urdf.to_urdf`."""

    prefix: str = ""
    rotors: Rotors = "continuous"
    meshes: Meshes = "path"


class KindModels(Generic[Robot]):
    """The part ``models`` of a kind of robot, created once, without a robot.

    A kind defines at least :meth:`add_to_mujoco` or :meth:`urdf`; the rest is derived from its URDF, or refused.
    """

    def rest_height(self, robot: Robot) -> float:
        """Return the height of ``base_link`` above a level floor, m; raise ``UserError`` if it cannot stand on one."""
        if robot.fixed_base:
            return 0.0
        raise _missing("rest height", robot)

    def add_to_mujoco(self, spec: Any, robot: Robot, prefix: str, timestep_s: float) -> Any:
        """Add the robot to a ``mujoco.MjSpec`` and return its body, as :func:`rlstack.robots.mjcf.add_robot`."""
        raise _missing("MuJoCo model", robot)

    def urdf(self, robot: Robot, options: UrdfOptions) -> ET.Element:
        """Return the ``robot`` element of its URDF; errors as of :func:`rlstack.robots.urdf.to_urdf`."""
        raise _missing("URDF", robot)

    def source(self, robot: Robot) -> Model | None:
        """Return the model that the robot file names or describes; None if its models are generated.

        Raises:
            UserError: It is missing or malformed.
        """
        return None

    def inertial(self, robot: Robot) -> Inertial:
        """Return mass, centre of mass and inertia in ``base_link``, joints at zero; raise ``UserError`` if unknown."""
        return robot_model(robot).seen_from("base_link").inertial

    def check(self, compare: ModelCheck) -> None:
        """Compare joints, mass, centre of mass and inertia with the file; raise ``UserError`` if they disagree."""
        self.check_joints(compare)
        expected = mass_properties(compare.robot)
        compare.mass(expected.mass_kg)
        compare.inertia(expected)

    def check_joints(self, compare: ModelCheck) -> None:
        """Compare the joints' names, order, types and limits; raise ``UserError`` if they disagree."""
        compare.joint_names([joint.name for joint in compare.robot.drives])
        compare.joint_limits()

    def table(self, robot: Robot) -> list[tuple[str, ...]]:
        """Return the moving parts of the robot as rows of a table, the first with its titles."""
        return joint_table(robot.drives)


def models_of(robot: RobotSpec) -> KindModels[Any]:
    """Return the models of a robot's kind; raise ``UserError`` if the kind has none."""
    models: KindModels[Any] = find_kind(robot.kind).load("models")
    return models


def rest_height(robot: RobotSpec) -> float:
    """Return the height of ``base_link`` above a level floor that the robot stands on, m."""
    return models_of(robot).rest_height(robot)


def robot_model(robot: RobotSpec) -> Model:
    """Return a robot's links and joints.

    Raises:
        UserError: The model that the robot file names is missing or malformed, or there is no URDF of such a robot.
    """
    models = models_of(robot)
    model = models.source(robot)
    if model is not None:
        return model
    root = models.urdf(robot, UrdfOptions())
    return read_urdf(ET.tostring(root, encoding="unicode"), f"the URDF of {robot.name}")


def mass_properties(robot: RobotSpec) -> Inertial:
    """Return mass, centre and inertia in ``base_link`` from the robot file, all joints at zero.

    A manipulator's file has the mass only: the rest is zero.

    Raises:
        UserError: They are not known for such a robot.
    """
    return models_of(robot).inertial(robot)


def checked_model(robot: RobotSpec) -> Model | None:
    """Check the model that a robot file names, and return it; None if models are generated. See :func:`check_model`."""
    model = models_of(robot).source(robot)
    if model is not None:
        check_model(robot, model)
    return model


def check_file(robot: RobotSpec, path: str | Path, tolerance: Tolerance | None = None) -> Model:
    """Read a URDF or MJCF, check it against a robot file, and return it; see :func:`check_model`."""
    model = read_model(path)
    check_model(robot, model, tolerance)
    return model


def check_model(robot: RobotSpec, model: Model, tolerance: Tolerance | None = None) -> None:
    """Refuse a model that disagrees with the robot file.

    It compares joints by name, type, order and axis, the mass, and any further data in the file: centre of mass and
    inertia with all joints at zero, positions of rotors and wheels. A file's limits may be tighter than the model's,
    but not wider. A model with a link ``base_link`` is compared in that frame, otherwise in its root's.

    Raises:
        UserError: They disagree; the text has the model, the part, both values and the tolerance.
    """
    models_of(robot).check(ModelCheck(robot, model, tolerance or Tolerance()))


def _missing(what: str, robot: RobotSpec) -> UserError:
    return UserError(f"There is no {what} of a {robot.kind} such as {robot.name}.")
