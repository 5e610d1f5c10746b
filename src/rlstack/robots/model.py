"""Parsing of URDF and MJCF models into links, joints and masses, to be compared with a robot file."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.libraries import import_library
from rlstack.robots.inertia import Inertial, inertial, moved, together
from rlstack.robots.sensing import rotation_from_rpy
from rlstack.robots.xml_files import MAX_NUMBER, check_mjcf, parse_xml, read_xml

MOVING = ("revolute", "continuous", "prismatic")
"""Types of joints that a robot file can name."""


@dataclass(frozen=True, kw_only=True)
class ModelJoint:
    """One joint of a model; missing limits are infinite."""

    name: str
    type: str
    parent: str
    """Link."""
    child: str
    """Link."""
    position: Array
    """(3,) m in the root link's frame."""
    axis: Array
    """(3,) along the root link's axes."""
    lower: float = -math.inf
    upper: float = math.inf
    velocity: float = math.inf
    effort: float = math.inf
    mimics: bool = False
    """It mimics another joint."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model's links and joints, depth first from the root, as engines number them.

    Positions are for all joints at zero.
    """

    where: str
    """Its name in errors."""
    root: str
    links: tuple[str, ...]
    joints: tuple[ModelJoint, ...]
    inertial: Inertial
    """Mass properties of all links together, in the root link's frame."""
    poses: dict[str, tuple[Array, Array]]
    """Pose of each link in the root link's frame: rotation (3, 3) and position (3,)."""
    parents: dict[str, str] = field(default_factory=dict)
    """Parent of each link but the root."""
    pieces: dict[str, Inertial] = field(default_factory=dict)
    """Mass properties of each link with mass, in the root link's frame."""
    sites: dict[str, Array] = field(default_factory=dict)
    """Positions (3,) of an MJCF's sites in the root link's frame."""

    @property
    def moving(self) -> tuple[ModelJoint, ...]:
        """The moving joints, without those that mimic another."""
        return tuple(joint for joint in self.joints if joint.type in MOVING and not joint.mimics)

    def seen_from(self, link: str) -> Model:
        """Return the model in the frame of another link; unknown links stand for the root."""
        rotation, position = self.poses.get(link, (np.eye(3), np.zeros(3)))
        back, offset = rotation.T, -rotation.T @ position
        return replace(
            self,
            inertial=moved(self.inertial, back, offset),
            poses={name: (back @ turn, back @ at + offset) for name, (turn, at) in self.poses.items()},
            pieces={name: moved(piece, back, offset) for name, piece in self.pieces.items()},
            sites={name: back @ at + offset for name, at in self.sites.items()},
            joints=tuple(replace(j, position=back @ j.position + offset, axis=back @ j.axis) for j in self.joints),
        )


def read_model(path: str | Path) -> Model:
    """Read a URDF, or an MJCF (``.xml``, needs MuJoCo); raise ``UserError`` if it cannot be read or is malformed."""
    path = Path(path)
    text = read_xml(path, "the model file")
    if path.suffix == ".xml" and "<mujoco" in text:
        return read_mjcf(path)
    return read_urdf(text, str(path))


def read_urdf(text: str, where: str) -> Model:
    """Read a URDF; raise ``UserError`` with ``where`` and the fault if it is malformed."""
    links, joints, root = read_tree(text, where)
    below: dict[str, list[UrdfJoint]] = {name: [] for name in links}
    for joint in joints:
        below[joint.parent].append(joint)
    found: list[ModelJoint] = []
    pieces: dict[str, Inertial] = {}
    poses: dict[str, tuple[Array, Array]] = {}
    todo: list[tuple[str, Array, Array, UrdfJoint | None]] = [(root, np.eye(3), np.zeros(3), None)]
    while todo:
        name, rotation, position, came = todo.pop()
        poses[name] = rotation, position
        if came is not None:
            found.append(came.model(position, rotation))
        _check_shapes(links[name], f"{where}: link '{name}'")
        if (piece := _inertial(links[name], f"{where}: link '{name}'")) is not None:
            pieces[name] = moved(piece, rotation, position)
        todo += [(j.child, rotation @ j.rotation, position + rotation @ j.xyz, j) for j in reversed(below[name])]
    return Model(
        where=where,
        root=root,
        links=tuple(poses),
        joints=tuple(found),
        inertial=together(pieces.values()),
        poses=poses,
        pieces=pieces,
        parents={joint.child: joint.parent for joint in joints},
    )


class UrdfTree(NamedTuple):
    """Links and joints of a URDF, which form one tree, in the document's order."""

    links: dict[str, ET.Element]
    """By name."""
    joints: list[UrdfJoint]
    root: str


def read_tree(text: str, where: str) -> UrdfTree:
    """Read links and joints of a URDF; raise ``UserError`` with ``where`` and the fault if they are not one tree."""
    robot = parse_urdf(text, where)
    links = {_name(link, where): link for link in robot.findall("link")}
    joints = [UrdfJoint(joint, links, where) for joint in robot.findall("joint")]
    for kind, names in (
        ("link", [_name(e, where) for e in robot.findall("link")]),
        ("joint", [j.name for j in joints]),
    ):
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UserError(f"{where}: two {kind}s are called '{twice[0]}': every {kind} needs a name of its own.")
    children = [joint.child for joint in joints]
    roots = [name for name in links if name not in children]
    if len(roots) != 1 or len(set(children)) != len(children):
        raise UserError(
            f"{where}: its links are not one tree: there are {len(roots)} links without a parent"
            f" ({', '.join(roots[:4])}), and each of the others must be the child of one joint."
        )
    reached = {roots[0]}
    for _ in joints:
        reached |= {joint.child for joint in joints if joint.parent in reached}
    if lost := sorted(set(links) - reached):
        raise UserError(f"{where}: some links form a loop: {', '.join(lost[:4])}.")
    return UrdfTree(links, joints, roots[0])


def parse_urdf(text: str, where: str) -> ET.Element:
    """Return the ``robot`` element of a URDF; raise ``UserError`` if it is not one."""
    robot = parse_xml(text, where)
    if robot.tag != "robot":
        raise UserError(f"{where} is not a URDF: it begins with <{robot.tag}>, and a URDF with <robot>.")
    if any("www.ros.org/wiki/xacro" in element.tag or "ros.org/xacro" in element.tag for element in robot.iter()):
        raise UserError(f"{where} is a xacro, not a URDF: convert it with `xacro FILE > robot.urdf`.")
    if robot.find("link") is None:
        raise UserError(f"{where} is not a URDF of a robot: it has no links.")
    return robot


def read_mjcf(path: Path) -> Model:
    """Read an MJCF with MuJoCo, without free joints; raise ``UserError`` if MuJoCo is missing or refuses the file."""
    mujoco = import_library("mujoco", "sim")
    check_mjcf(path)
    try:
        model = mujoco.MjSpec.from_file(str(path)).compile()
    except (ValueError, OSError) as error:
        raise UserError(f"MuJoCo refuses the model {path}: {error}") from error
    data = mujoco.MjData(model)
    data.qpos[:] = 0.0
    for joint in range(model.njnt):
        if model.jnt_type[joint] in (mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_BALL):
            at = model.jnt_qposadr[joint] + (3 if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE else 0)
            data.qpos[at] = 1.0
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    if model.nbody < 2:
        raise UserError(f"{path} has no bodies: it is not a model of a robot.")
    first = 1
    turn, origin = data.xmat[first].reshape(3, 3).T, data.xpos[first]
    pieces = {}
    for body in range(first, model.nbody):
        rotation = turn @ data.ximat[body].reshape(3, 3)
        piece = inertial(model.body_mass[body], (0.0, 0.0, 0.0), model.body_inertia[body])
        pieces[model.body(body).name] = moved(piece, rotation, turn @ (data.xipos[body] - origin))
    types = {int(mujoco.mjtJoint.mjJNT_HINGE): "revolute", int(mujoco.mjtJoint.mjJNT_SLIDE): "prismatic"}
    found = []
    for i in range(model.njnt):
        kind, limited = types.get(int(model.jnt_type[i]), "other"), bool(model.jnt_limited[i])
        if kind == "revolute" and not limited:
            kind = "continuous"
        body = int(model.jnt_bodyid[i])
        force = bool(model.jnt_actfrclimited[i])
        found.append(
            ModelJoint(
                name=model.joint(i).name,
                type=kind,
                parent=model.body(int(model.body_parentid[body])).name,
                child=model.body(body).name,
                position=turn @ (data.xanchor[i] - origin),
                axis=turn @ data.xaxis[i],
                lower=float(model.jnt_range[i, 0]) if limited else -math.inf,
                upper=float(model.jnt_range[i, 1]) if limited else math.inf,
                effort=float(model.jnt_actfrcrange[i, 1]) if force else math.inf,
            )
        )
    poses = {
        model.body(i).name: (turn @ data.xmat[i].reshape(3, 3), turn @ (data.xpos[i] - origin))
        for i in range(first, model.nbody)
    }
    links = tuple(poses)
    return Model(
        where=str(path),
        root=links[0],
        links=links,
        joints=tuple(found),
        inertial=together(pieces.values()),
        poses=poses,
        pieces=pieces,
        parents={model.body(i).name: model.body(int(model.body_parentid[i])).name for i in range(2, model.nbody)},
        sites={model.site(i).name: turn @ (data.site_xpos[i] - origin) for i in range(model.nsite)},
    )


class UrdfJoint:
    """A joint of a URDF, in its parent's frame."""

    def __init__(self, element: ET.Element, links: dict[str, ET.Element], where: str) -> None:
        self.name = _name(element, where)
        at = f"{where}: joint '{self.name}'"
        self.type = element.get("type", "")
        if self.type not in (*MOVING, "fixed", "floating", "planar"):
            raise UserError(f"{at}: type='{self.type}' is not one that URDF has.")
        self.parent, self.child = (_linked(element, tag, links, at) for tag in ("parent", "child"))
        self.xyz, self.rotation = read_origin(element, at)
        axis, limit = element.find("axis"), element.find("limit")
        self.axis = _numbers(axis.get("xyz", "1 0 0"), 3, f"{at}: axis") if axis is not None else np.array([1.0, 0, 0])
        if self.type in MOVING and not np.linalg.norm(self.axis) > 1e-9:
            raise UserError(f"{at}: its axis is zero.")
        self.mimic = element.find("mimic")
        if self.type in ("revolute", "prismatic") and (limit is None or limit.get("upper", limit.get("lower")) is None):
            raise UserError(f"{at} is {self.type} and has no limits: give it <limit lower upper velocity effort>.")
        given = {} if limit is None else limit.attrib

        def number(key: str, default: float) -> float:
            return float(_numbers(given[key], 1, f"{at}: limit {key}")[0]) if key in given else default

        bounded = self.type in ("revolute", "prismatic")
        self.lower, self.upper = (number("lower", 0.0), number("upper", 0.0)) if bounded else (-math.inf, math.inf)
        # Many models have 0 for unknown.
        self.velocity, self.effort = (number(key, 0.0) or math.inf for key in ("velocity", "effort"))

    @property
    def unit_axis(self) -> Array:
        """(3,) in the child's frame; zero where a fixed joint has none."""
        return self.axis / max(float(np.linalg.norm(self.axis)), 1e-300)

    def model(self, position: Array, rotation: Array) -> ModelJoint:
        """Return the joint at a position (3,) and rotation (3, 3) in the root link's frame."""
        return ModelJoint(
            name=self.name,
            type=self.type,
            parent=self.parent,
            child=self.child,
            position=position,
            axis=rotation @ self.unit_axis,
            lower=self.lower,
            upper=self.upper,
            velocity=self.velocity,
            effort=self.effort,
            mimics=self.mimic is not None,
        )


def _inertial(link: ET.Element, at: str) -> Inertial | None:
    element = link.find("inertial")
    if element is None:
        return None
    mass, inertia = element.find("mass"), element.find("inertia")
    if mass is None or inertia is None:
        raise UserError(f"{at}: its <inertial> needs <mass> and <inertia>.")
    (kg,) = _numbers(mass.get("value", ""), 1, f"{at}: mass")
    entries = {k: float(_numbers(inertia.get(k, "0"), 1, f"{at}: inertia {k}")[0]) for k in _INERTIA}
    if kg < 0.0 or min(entries["ixx"], entries["iyy"], entries["izz"]) < 0.0:
        raise UserError(f"{at}: its mass ({kg:g} kg) and moments of inertia must be at least 0.")
    xx, xy, xz, yy, yz, zz = (entries[k] for k in _INERTIA)
    xyz, rotation = read_origin(element, at)
    about = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    # A link without mass is a frame: engines treat its inertia differently, so it is ignored.
    return moved(inertial(kg, (0.0, 0.0, 0.0), about), rotation, xyz) if kg > 0.0 else None


_INERTIA = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


_SIZES = {
    "box": {"size": 3},
    "mesh": {"scale": 3},
    "sphere": {"radius": 1},
    "cylinder": {"radius": 1, "length": 1},
    "capsule": {"radius": 1, "length": 1},
}
"""Sizes of each shape of a URDF, and how many numbers each has."""


def _check_shapes(link: ET.Element, at: str) -> None:
    """Refuse a link with a shape whose sizes are not numbers; only a mesh may leave them out."""
    for use in (*link.findall("visual"), *link.findall("collision")):
        read_origin(use, f"{at}: {use.tag}")
        for shape in use.iterfind("geometry/*"):
            for name, count in _SIZES.get(shape.tag, {}).items():
                if name not in shape.attrib and shape.tag == "mesh":
                    continue
                size = _numbers(shape.get(name, ""), count, f"{at}: {name} of its {shape.tag}")
                if shape.tag != "mesh" and (size < 0.0).any():
                    raise UserError(f"{at}: {name}='{shape.get(name)}' of its {shape.tag} must be at least 0.")


def read_origin(element: ET.Element, at: str) -> tuple[Array, Array]:
    """Return position (3,) and rotation (3, 3) of an element's ``origin`` in a URDF; ``at`` names it in errors."""
    if (origin := element.find("origin")) is None:
        return np.zeros(3), np.eye(3)
    xyz, rpy = (_numbers(origin.get(key, "0 0 0"), 3, f"{at}: origin {key}") for key in ("xyz", "rpy"))
    return xyz, rotation_from_rpy(rpy)


def _numbers(text: str, count: int, at: str) -> Array:
    try:
        found = np.array([float(word) for word in text.split()])
    except ValueError:
        found = np.array([math.nan])
    if found.shape != (count,) or not (np.abs(found) <= MAX_NUMBER).all():
        raise UserError(
            f"{at}: '{text[:60]}' is not allowed: must be {count} finite number{'s' if count > 1 else ''}, of at most"
            f" {MAX_NUMBER:g}."
        )
    return found


def _name(element: ET.Element, where: str) -> str:
    if not (name := element.get("name", "")):
        raise UserError(f"{where}: a <{element.tag}> has no name.")
    return name


def _linked(element: ET.Element, tag: str, links: dict[str, ET.Element], at: str) -> str:
    child = element.find(tag)
    name = "" if child is None else child.get("link", "")
    if name not in links:
        raise UserError(f"{at}: its {tag} '{name}' is not a link of the model.")
    return name
