"""Export of worlds: parts of a MuJoCo model, and SDF for Gazebo."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as Xml

from rlstack.errors import UserError
from rlstack.robots.mjcf import import_mujoco
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.colours import Colour
from rlstack.sim.obstacle import ROLLING_M, TORSION_M, Obstacle, parts_of, seen_from
from rlstack.sim.world import World

PREFIX = "world/"
"""Prefix of obstacle names in a MuJoCo model."""


def add_to_mujoco(spec: Any, world: World) -> None:
    """Add a world's obstacles, without the floor, to a MuJoCo model.

    Static obstacles become geoms of the worldbody; those with a mass become bodies with a free or sliding joint, with
    their parts as further geoms; kinematic ones become mocap bodies. Names of geom, body and joint are ``world/`` plus
    the obstacle's name.

    Args:
        spec: The ``mujoco.MjSpec``.
        world: The world to add.

    Raises:
        UserError: MuJoCo is not installed, the world is a MuJoCo model itself, or a name is already in use.
    """
    mujoco = import_mujoco()
    if world.mjcf is not None:
        raise UserError(f"{world.mjcf} is a MuJoCo model, which cannot be added to another: begin with it.")
    sliding = parts_of(world.obstacles, f"The world '{world.name}'")
    for name in (PREFIX + obstacle.name for obstacle in world.obstacles):
        if spec.geom(name) is not None or spec.body(name) is not None:
            raise UserError(f"The model has a part called '{name}' already: rename it, or add the world once.")
    for obstacle in world.obstacles:
        name = PREFIX + obstacle.name
        if obstacle.part_of:
            continue  # added with the obstacle that it is part of
        place = {"pos": list(obstacle.position_m), "quat": _quaternion_wxyz(obstacle.yaw_rad)}
        if obstacle.slide is not None:
            body = _add_sliding(mujoco, spec, obstacle, place)
            for part in sliding[obstacle.name]:
                at, yaw = seen_from(obstacle, part)
                _add_geom(mujoco, spec, body, part, {"pos": at.tolist(), "quat": _quaternion_wxyz(yaw)})
            parent, place = body, {}
        elif obstacle.mass_kg > 0.0:
            body = spec.worldbody.add_body(name=name, **place)
            body.add_freejoint(name=name)
            parent, place = body, {}
        elif obstacle.kinematic:
            parent, place = spec.worldbody.add_body(name=name, mocap=True, **place), {}
        else:
            parent = spec.worldbody
        _add_geom(mujoco, spec, parent, obstacle, place)


def _add_sliding(mujoco: Any, spec: Any, obstacle: Obstacle, place: dict[str, list[float]]) -> Any:
    """Add a body on rails, without collisions with fixed obstacles, which belong to the worldbody."""
    slide, name = obstacle.slide, PREFIX + obstacle.name
    assert slide is not None
    body = spec.worldbody.add_body(name=name, **place)
    body.add_joint(
        name=name,
        type=mujoco.mjtJoint.mjJNT_SLIDE,
        axis=list(slide.axis),
        limited=True,
        range=[0.0, slide.travel_m],
        damping=[slide.damping_n_s_per_m, 0.0, 0.0],
        frictionloss=slide.friction_n,
        # with MuJoCo's default of 0.9, a pull of 95% of the friction creeps at 5 mm/s; with this, at 0.05 mm/s
        solimp_friction=[0.999, 0.999, 0.001, 0.5, 2.0],
    )
    spec.add_exclude(bodyname1="world", bodyname2=name)
    return body


def _add_geom(mujoco: Any, spec: Any, parent: Any, obstacle: Obstacle, place: dict[str, list[float]]) -> None:
    x, y, z = (extent / 2.0 for extent in obstacle.size_m)
    geom = parent.add_geom(
        name=PREFIX + obstacle.name,
        type=getattr(mujoco.mjtGeom, f"mjGEOM_{obstacle.shape.upper()}"),
        size={"box": [x, y, z], "cylinder": [x, z, 0.0], "sphere": [x, 0.0, 0.0]}[obstacle.shape],
        mass=obstacle.mass_kg,
        rgba=[*obstacle.colour, 1.0],
        **place,
    )
    if obstacle.friction is not None:
        # the friction of static obstacles takes precedence over that of manipulated objects
        geom.priority, geom.condim = 1 if obstacle.can_move else 2, 4
        geom.friction = [obstacle.friction, TORSION_M, ROLLING_M]
        # elliptic friction cones, stiff against slip, or a grasped object creeps out of the fingers
        spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, 10.0
    if obstacle.kinematic:
        geom.contype = geom.conaffinity = 0


def to_sdf(world: World) -> str:
    """Return a world as SDF 1.9 text for Gazebo: sun, floor, obstacles, wind.

    Static obstacles are links of one static model ``obstacles``; each obstacle with a mass is a separate model.

    Raises:
        UserError: The world is a MuJoCo model or has sliding obstacles.
    """
    if sliding := [obstacle.name for obstacle in world.obstacles if obstacle.slide is not None]:
        raise UserError(f"{sliding[0]} slides, which SDF export does not support: leave it and its parts out.")
    if world.mjcf is not None:
        raise UserError(f"{world.mjcf} is a MuJoCo model, which only MuJoCo reads: write a YAML world for SDF.")
    root = Xml.Element("sdf", version="1.9")
    top = Xml.SubElement(root, "world", name=_plain(world.name))
    _text(top, "gravity", 0.0, 0.0, -STANDARD_GRAVITY)
    if world.wind is not None:
        _text(Xml.SubElement(top, "wind"), "linear_velocity", *world.wind.velocity_m_s)
    sun = Xml.SubElement(top, "light", type="directional", name="sun")
    _text(sun, "cast_shadows", "true")
    _text(sun, "pose", 0.0, 0.0, 20.0, 0.0, 0.0, 0.0)
    _text(sun, "diffuse", 0.8, 0.8, 0.8, 1.0)
    _text(sun, "specular", 0.1, 0.1, 0.1, 1.0)
    _text(sun, "direction", 0.15, 0.1, -1.0)
    if world.floor:
        _add_floor(top, world)
    static = [o for o in world.obstacles if o.mass_kg == 0.0]
    if static:
        model = Xml.SubElement(top, "model", name="obstacles")
        _text(model, "static", "true")
        for obstacle in static:
            link = Xml.SubElement(model, "link", name=obstacle.name)
            _text(link, "pose", *obstacle.position_m, 0.0, 0.0, obstacle.yaw_rad)
            _add_shape(link, obstacle)
    for obstacle in world.obstacles:
        if obstacle.mass_kg > 0.0:
            model = Xml.SubElement(top, "model", name=obstacle.name)
            _text(model, "pose", *obstacle.position_m, 0.0, 0.0, obstacle.yaw_rad)
            link = Xml.SubElement(model, "link", name="link")
            inertial = Xml.SubElement(link, "inertial")
            _text(inertial, "mass", obstacle.mass_kg)
            tensor = Xml.SubElement(inertial, "inertia")
            for axis, moment in zip(("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), (*_moments(obstacle), 0.0, 0.0, 0.0)):
                _text(tensor, axis, moment)
            _add_shape(link, obstacle)
    Xml.indent(root)
    return '<?xml version="1.0"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _quaternion_wxyz(yaw_rad: float) -> list[float]:
    return [math.cos(yaw_rad / 2.0), 0.0, 0.0, math.sin(yaw_rad / 2.0)]


def _moments(obstacle: Obstacle) -> tuple[float, float, float]:
    """Return the moments of inertia of a homogeneous solid about its own x, y, z, kg m^2."""
    mass, (x, y, z) = obstacle.mass_kg, obstacle.size_m
    if obstacle.shape == "sphere":
        return (mass * x * x / 10.0,) * 3
    if obstacle.shape == "cylinder":
        across = mass * (0.75 * x * x + z * z) / 12.0
        return across, across, mass * x * x / 8.0
    return mass * (y * y + z * z) / 12.0, mass * (x * x + z * z) / 12.0, mass * (x * x + y * y) / 12.0


def _add_floor(top: Xml.Element, world: World) -> None:
    model = Xml.SubElement(top, "model", name="floor")
    _text(model, "static", "true")
    low, high = world.bounds_m
    side = 2.0 * max(*(abs(c) for c in (*low[:2], *high[:2])), 5.0) + 20.0  # visible size; collisions have no bound
    plane = {"normal": (0.0, 0.0, 1.0), "size": (side, side)}
    _add_geometry(Xml.SubElement(model, "link", name="link"), "plane", plane, (0.77, 0.79, 0.82))


def _add_shape(link: Xml.Element, obstacle: Obstacle) -> None:
    x, _, z = obstacle.size_m
    sizes: dict[str, dict[str, tuple[float, ...]]] = {
        "box": {"size": obstacle.size_m},
        "cylinder": {"radius": (x / 2.0,), "length": (z,)},
        "sphere": {"radius": (x / 2.0,)},
    }
    _add_geometry(link, obstacle.shape, sizes[obstacle.shape], obstacle.colour)


def _add_geometry(link: Xml.Element, shape: str, sizes: Mapping[str, tuple[float, ...]], colour: Colour) -> None:
    """Add a shape to a link, for collisions and to be seen."""
    for part in ("collision", "visual"):
        element = Xml.SubElement(link, part, name=part)
        geometry = Xml.SubElement(Xml.SubElement(element, "geometry"), shape)
        for tag, values in sizes.items():
            _text(geometry, tag, *values)
    material = Xml.SubElement(element, "material")
    for kind in ("ambient", "diffuse"):
        _text(material, kind, *colour, 1.0)


def _text(parent: Xml.Element, tag: str, *values: float | str) -> None:
    """Add an element whose numbers read back exactly."""
    Xml.SubElement(parent, tag).text = " ".join(v if isinstance(v, str) else repr(float(v)) for v in values)


def _plain(name: str) -> str:
    """Return a valid SDF world name from a name that may be a path."""
    stem = name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return "".join(c if c.isalnum() or c in "_-" else "_" for c in stem) or "world"
