"""Manipulators: arms with their joints' limits, gains and sensors.

Their links come from an existing URDF or MJCF, from the file itself, or from the files of several arms.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rlstack.errors import UserError
from rlstack.robots.goal_limits import GoalLimits
from rlstack.robots.joints import DrivenJoint, PrismaticJoint, RevoluteJoint
from rlstack.robots.links import Link, LinkInertial, check_links
from rlstack.robots.model_file import resolve
from rlstack.robots.spec import RobotSpec, load_robot
from rlstack.schema import check_boxes, to_data, value


@dataclass(frozen=True, kw_only=True)
class ManipulatorLimits:
    """Limits that the guard enforces; a recipe or an operator may only tighten them."""

    workspace_min_m: tuple[float, float, float] = value(
        unit="m", text="Lower corner of the box in base_link that the tool must stay in"
    )
    workspace_max_m: tuple[float, float, float] = value(unit="m", text="Upper corner of that box")
    tool_velocity_m_s: float = value(unit="m/s", above=0.0, text="Largest speed of an arm's tool")

    def __post_init__(self) -> None:
        check_boxes(self)


@dataclass(frozen=True, kw_only=True)
class WorkArea:
    """Workspace of manipulation tasks, for arms much larger or smaller than the Panda that they are designed for."""

    x_m: tuple[float, float] = value(unit="m")
    y_m: tuple[float, float] = value(unit="m")
    z_m: tuple[float, float] = value(unit="m")
    """The box, in ``base_link``, that the tool's target stays in."""
    opening_m: float = value(unit="m", above=0.0)
    """Width that the gripper opens to in tasks; object sizes scale with it."""
    opened: float = value(1.0, above=0.0, at_most=1.0)
    """Share of the gripper's range at which it is open that wide: tasks open it no further."""

    def __post_init__(self) -> None:
        for name in ("x_m", "y_m", "z_m"):
            low, high = getattr(self, name)
            if low >= high:
                raise ValueError(f"{name}: {[low, high]} is not allowed: the lower end must come first.")


@dataclass(frozen=True, kw_only=True)
class MountedArm:
    """One of several arms that form one robot."""

    robot: str
    """Its robot file, by name or path."""
    prefix: str
    """Prefix for the names of its links and joints, such as ``left_``."""
    position_m: tuple[float, float, float] = value((0.0, 0.0, 0.0), unit="m")
    """Pose of its ``base_link`` in the common one."""
    rpy_rad: tuple[float, float, float] = value((0.0, 0.0, 0.0), unit="rad")


@dataclass(frozen=True, kw_only=True)
class Manipulator(RobotSpec):
    """A fixed-base arm; ``base_link`` is its model's first link.

    Its links come from one of ``model``, ``links`` and ``arms``.
    """

    kind: Literal["manipulator"]
    model: str = ""
    """Its URDF or MJCF (``.xml``).

    A path, relative to the robot file; ``package:pybullet_data/franka_panda/panda.urdf`` of an installed Python
    package; or ``package://my_description/urdf/my.urdf`` of a ROS package.
    """
    inertials: dict[str, LinkInertial] = value(dict)
    """Inertials by link, which replace the model's."""
    links: tuple[Link, ...] = ()
    """From base to tool, each after its parent."""
    arms: tuple[MountedArm, ...] = ()
    """Several arms that form one robot: its joints are theirs, arm after arm, each with its gripper's."""
    mass_kg: float = value(unit="kg", above=0.0)
    """Mass of all links."""
    mass_tolerance: float = value(0.01, unit="1", above=0.0, at_most=1.0)
    """Tolerance of the model's mass, as a share of ``mass_kg``."""
    joints: tuple[RevoluteJoint | PrismaticJoint, ...] = ()
    """From base to tool, in the order of every joint array."""
    gripper: tuple[RevoluteJoint | PrismaticJoint, ...] = ()
    """Joints of the gripper; they follow the arm's in every joint array."""
    gravity_compensation: bool = False
    """Whether its controller compensates gravity, so that the stiffness does not have to."""
    tool_link: str
    """The model's link whose pose is the tool's."""
    limits: ManipulatorLimits
    work: WorkArea | None = None
    """Where tasks take place; by default as for the Panda."""

    has_links = fixed_base = True

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in ("model", "links", "arms") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"exactly one of model, links and arms is required; given: {given}.")
        if not self.joints and not self.arms:
            raise ValueError("joints: none: an arm needs at least one.")
        names = [joint.name for joint in self.drives]
        if len(set(names)) != len(names):
            raise ValueError(f"joints: {names} is not allowed: every joint needs a name of its own.")
        if self.links:
            check_links(self.links, tuple(names))
        if self.work is not None:
            allowed = zip(self.limits.workspace_min_m, self.limits.workspace_max_m)
            for name, (least, most) in zip(("x_m", "y_m", "z_m"), allowed):
                low, high = getattr(self.work, name)
                if low < least or high > most:
                    raise ValueError(
                        f"work.{name}: {[low, high]} is not allowed: must lie in limits' workspace, {[least, most]},"
                        " in which the guard keeps the tool."
                    )

    @property
    def end_effector(self) -> str:
        """Its tool."""
        return self.tool_link

    @property
    def drives(self) -> tuple[DrivenJoint, ...]:
        """The arm's joints, then the gripper's."""
        return tuple(joint.driven for joint in (*self.joints, *self.gripper))

    @property
    def gripping(self) -> tuple[bool, ...]:
        """For each of ``drives``, whether it belongs to a gripper, of any of the arms."""
        parts: list[RobotSpec] = [load_robot(arm.robot) for arm in self.arms] or [self]
        each = [(len(part.joints), len(part.gripper)) for part in parts if isinstance(part, Manipulator)]
        return tuple(grips for joints, gripper in each for grips in (*[False] * joints, *[True] * gripper))

    def goal_limits(self) -> GoalLimits:
        """Return the box that the guard keeps the tool in."""
        limits = self.limits
        return GoalLimits(
            name="workspace", frame="base_link", low_m=limits.workspace_min_m, high_m=limits.workspace_max_m
        )

    def located(self, folder: Path) -> Manipulator:
        """Return the robot with an absolute model path, or with the joints of its arms; package paths stay unchanged.

        Raises:
            UserError: One of its arms is not a manipulator, or it names joints of its own beside theirs.
        """
        if self.arms:
            return self._mounted(folder)
        if self.links or self.model.startswith("package:"):
            return self
        return replace(self, model=str(folder / self.model))

    def output_numbers(self) -> dict[str, Any]:
        """Return tool point, gains, gravity compensation, workspace and limits: what a joint target means."""
        return {
            **super().output_numbers(),
            "tool_link": self.tool_link,
            "gravity_compensation": self.gravity_compensation,
            "work": to_data(self.work),
            "limits": to_data(self.limits),
        }

    def identity(self) -> dict[str, Any]:
        """Return its identity, with the contents of its model file or arms in place of their paths.

        Raises:
            UserError: The model file, or that of an arm, is missing.
        """
        data = super().identity()
        if self.model:
            data["model"] = hashlib.sha256(resolve(self.model, self.name).read_bytes()).hexdigest()
        data["arms"] = [{**to_data(arm), "robot": load_robot(arm.robot).identity()} for arm in self.arms]
        return data

    def _mounted(self, folder: Path) -> Manipulator:
        if self.joints or self.gripper:
            raise UserError(f"{self.name}: its arms define its joints: leave out joints and gripper.")
        arms, joints, compensated = [], [], {}
        for arm in self.arms:
            path = Path(arm.robot)
            arm = replace(arm, robot=str(folder / path)) if path.suffix in (".yaml", ".yml") else arm
            part = load_robot(arm.robot)
            if not isinstance(part, Manipulator) or part.arms:
                raise UserError(f"{self.name}: arms: {arm.robot} is not one arm, but {part.description}.")
            joints += [replace(joint, name=arm.prefix + joint.name) for joint in (*part.joints, *part.gripper)]
            arms.append(arm)
            compensated[part.name] = part.gravity_compensation
        theirs = set(compensated.values())
        if len(theirs) > 1 or (self.gravity_compensation and theirs == {False}):
            each = ", ".join(f"{name} has {str(value).lower()}" for name, value in compensated.items())
            raise UserError(
                f"{self.name}: gravity_compensation applies to all arms of a robot, and {each}: leave it out, and use"
                " arms that have the same."
            )
        try:
            return replace(self, arms=tuple(arms), joints=tuple(joints), gravity_compensation=theirs.pop())
        except ValueError as error:
            raise UserError(f"{self.name}: {error} Give each of its arms another prefix.") from error


load_manipulator = Manipulator.load

SPEC = Manipulator
