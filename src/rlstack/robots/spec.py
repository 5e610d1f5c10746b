"""RobotSpec: the description of a robot in one YAML file, from which everything else is generated."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from rlstack import schema
from rlstack.arrays import Array
from rlstack.errors import UserError, unknown_name
from rlstack.kinds import find_kind, kind_names
from rlstack.registry import installed
from rlstack.robots.goal_limits import GoalLimits
from rlstack.robots.joints import DrivenJoint
from rlstack.robots.sensing import Camera, Lidar, Sensor, check_names
from rlstack.schema import value
from rlstack.yaml_files import parse_yaml, read_text

Spec = TypeVar("Spec", bound="RobotSpec")

STANDARD_GRAVITY = 9.81
"""m/s^2, the value of Learning to Fly in Seconds (arXiv 2311.13081), used by every simulator here."""

ALIASES = {"turtlebot3": "turtlebot3_burger"}
"""Aliases of robot files."""


class RobotFamily(Protocol):
    """The family of one kind of robot; created once, without a robot."""

    parameters: Mapping[str, str]
    """Every parameter that distinguishes robots of the family, by name, with its meaning; the unit is in the name."""
    sizes: Mapping[str, int]
    """Number of elements that all robots of the family have, such as ``rotors``."""
    layout_input: str
    """The signal that identifies the elements: every policy for the family takes it."""

    def parameters_of(self, robot: Any) -> dict[str, float]:
        """Return the value of each of :attr:`parameters` for one robot."""

    def inputs(self, robot: Any) -> dict[str, Array]:
        """Return the value of every signal of :data:`rlstack.interfaces.signals.ROBOT_FILE` for one robot."""

    def check_layout(self, robot: Any, where: str) -> None:
        """Refuse a robot whose elements are arranged differently than policies for the family expect.

        Raises:
            UserError: The arrangement differs; ``where`` names the policy.
        """


@dataclass(frozen=True, kw_only=True)
class RobotSpec:
    """Fields of every robot, read from one YAML file; its kind adds the rest.

    Frames are REP-103: ``base_link`` is forward-left-up.
    """

    name: str
    kind: str
    description: str
    control_rate_hz: float = value(unit="Hz", above=0.0)
    """Rate of commands."""
    sensors: dict[str, Sensor]
    """By topic name."""
    cameras: dict[str, Camera] = value(dict)
    """By name, which their topics start with."""
    lidars: dict[str, Lidar] = value(dict)
    """By name, which is their topic."""
    randomisation: dict[str, tuple[float, float]] = value(dict)
    """Ranges that widen the recipe's in training, by the names of the task's own ``randomisation``
    settings; ``rlstack identify`` writes them from what a recording tells."""

    family: ClassVar[RobotFamily | None] = None
    """Inputs that describe each robot to policies for many of the kind; None if there are none."""
    has_links: ClassVar[bool] = False
    """Whether cameras may sit on links other than ``base_link``."""
    fixed_base: ClassVar[bool] = False
    """Whether ``base_link`` is fixed in the world; otherwise it moves freely."""
    has_rotors: ClassVar[bool] = False
    """Whether it has rotors, as computed by :mod:`rlstack.sim.rotorcraft`; then it has no joints."""
    is_mobile_base: ClassVar[bool] = False
    """Whether it drives on the floor by a twist, like a base of planners and Nav2."""

    def __post_init__(self) -> None:
        check_names(self.cameras, self.lidars, self.sensors)
        for name, (low, high) in self.randomisation.items():
            if low > high:
                raise ValueError(f"randomisation.{name}: {[low, high]} is not allowed: the lower end must come first.")
        for name, camera in self.cameras.items():
            if camera.link and not self.has_links:
                raise ValueError(
                    f"cameras.{name}.link: {camera.link!r} is not allowed: this robot is one body, leave it out."
                )

    @property
    def link_friction(self) -> dict[str, float]:
        """Friction coefficient by link, where the file has one; all others have 1."""
        return {}

    def require_simulable(self) -> None:
        """Refuse a robot that no physics engine can move with a ``UserError``."""

    @property
    def end_effector(self) -> str:
        """The link that reaches for poses, such as an arm's tool; empty if there is none."""
        return ""

    @property
    def gravity_compensation(self) -> bool:
        """Whether its controller compensates gravity, so that the stiffness does not have to."""
        return False

    @property
    def drives(self) -> tuple[DrivenJoint, ...]:
        """Its joints in the file's order, which is that of every joint array; rotors are not joints."""
        return ()

    def goal_limits(self) -> GoalLimits | None:
        """Return where its goals may be, by its limits; None: anywhere."""
        return None

    def output_numbers(self) -> dict[str, Any]:
        """Return its own numbers that a policy's commands mean, for the policy's envelope.

        Plain data with SI units in the keys; a robot with others than these moves differently under the same command.
        """
        return {"joints": [_drive(joint) for joint in self.drives]} if self.drives else {}

    @classmethod
    def load(cls: type[Spec], name_or_path: str | Path) -> Spec:
        """Read the robot file of a robot of this class; see :func:`load_robot`.

        Raises:
            UserError: The file is missing or invalid, or the robot is of another kind.
        """
        robot = load_robot(name_or_path)
        if not isinstance(robot, cls):
            (kind,) = (name for name in kind_names() if find_kind(name).load("spec") is cls)
            known = ", ".join(robot_names(kind))
            raise UserError(f"{robot.name} is a {robot.kind}, but a {kind} is required here, such as {known}.")
        return robot

    def located(self, folder: Path) -> RobotSpec:
        """Return the robot with paths relative to its file's ``folder`` made absolute."""
        return self

    def identity(self) -> dict[str, Any]:
        """Return its identity as plain data, independent of file locations, descriptions and how it is trained for."""
        data: dict[str, Any] = schema.to_data(self)
        del data["description"], data["randomisation"]
        return data

    @property
    def sha256(self) -> str:
        """Digest of :meth:`identity`, stored in verification records; ``UserError`` if one of its files is missing."""
        return digest(self.identity())


def _drive(joint: DrivenJoint) -> dict[str, Any]:
    """Return the gains and limits of a joint's drive, in rad and N m, or m and N where it slides."""
    names = ("name", "lower", "upper", "velocity_max", "effort_max", "stiffness", "damping", "armature")
    return {name: getattr(joint, name) for name in names}


def robot_files() -> dict[str, Path]:
    """Return ``{name: path}`` of the robot files of rlstack and of packages with an ``rlstack.robots`` entry point.

    Such an entry point names a package whose folder holds ``*.yaml`` robot files.
    """
    folders = [Path(__file__).parent]
    for entry in installed("rlstack.robots"):
        folders += [Path(p) for p in entry.load().__path__]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}


def robot_names(kind: str = "") -> list[str]:
    """Return the names of all robots that :func:`load_robot` accepts, or those of one kind."""
    pattern = re.compile(rf"^kind:\s*{kind}\s*(#|$)", re.MULTILINE)
    return sorted(name for name, path in robot_files().items() if not kind or pattern.search(path.read_text()))


def load_robot(name_or_path: str | Path, *, sha256: str = "") -> RobotSpec:
    """Read a robot by name, or from a path that ends in ``.yaml``.

    Args:
        name_or_path: Its name or path.
        sha256: If given, the :attr:`RobotSpec.sha256` that it must have, such as that of the robot that was checked.

    Raises:
        UserError: The name is unknown (nearest names listed), the file is refused (key, value, what is allowed), or it
            is another one than ``sha256`` says.
    """
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        files, name = robot_files(), ALIASES.get(str(name_or_path), str(name_or_path))
        if name not in files:
            raise unknown_name("robot", name, files)
        path = files[name]
    robot = _parsed(read_text(path, "the robot file"), str(path)).located(path.absolute().parent)
    if sha256 and robot.sha256 != sha256:
        raise UserError(
            f"The robot file {path}, or the model that it names, was replaced since it was checked: its content has the"
            f" SHA-256 {robot.sha256[:16]}..., and that of the checked one is {sha256[:16]}.... Start again, which"
            " checks the present one."
        )
    return robot


@lru_cache(maxsize=64)
def _parsed(text: str, where: str) -> RobotSpec:
    """Parse a robot file's text, cached: parsing takes some 15 ms, and all parts of a system need it."""
    data = parse_yaml(text, f"the robot file {where}")
    if not isinstance(data, dict):
        raise UserError(f"{where}: the file must be a mapping of keys to values.")
    if (kind := data.get("kind")) not in kind_names():
        shown = "the key 'kind' is missing" if kind is None else f"kind: {kind!r} is not allowed"
        raise UserError(f"{where}: {shown}: one of {', '.join(kind_names())}.")
    spec: RobotSpec = schema.load(find_kind(str(kind)).load("spec"), data, where)
    return spec


def digest(data: Any) -> str:
    """Return the SHA-256 of plain data, in hexadecimal digits.

    The order of keys does not matter, nor whether a number is written 1 or 1.0.
    """
    text = json.dumps(_canonical(data), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _canonical(item) for key, item in data.items()}
    if isinstance(data, list):
        return [_canonical(item) for item in data]
    if isinstance(data, (int, float)) and not isinstance(data, bool):
        return float(data) + 0.0  # JSON has the shortest digits that round-trip; -0.0 becomes 0.0
    return data
