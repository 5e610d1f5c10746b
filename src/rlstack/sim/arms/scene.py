"""The scene of a manipulation task in MuJoCo: an arm on a table, and objects.

The arm is the robot file's model, with its drives, limits and gravity compensation. Fitted capsules and boxes replace
its meshes: contact with a mesh costs many times more, and grasped objects touch flat pads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.mjcf import add_robot, import_mujoco, new_world
from rlstack.sim.obstacle import ROLLING_M, TORSION_M, Obstacle

Build = Callable[[Any], None]
"""Adds a task's objects to a ``mujoco.MjSpec``."""

ARM, HANDLED = 2, 1
"""Collision bits: an arm collides with objects and the table; its task prevents self-collision."""

TIMESTEP_S = 0.005
"""Physics step; contacts have MuJoCo's default time constant of 20 ms, which needs steps of at most 10 ms."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A movable box.

    Args:
        name: Name of its body, free joint and geom.
        half_m: (3,) half lengths, m.
        mass_kg: Mass.
        friction: Friction coefficient against everything.
        rgba: Colour.
    """

    name: str = "object"
    half_m: tuple[float, float, float] = (0.02, 0.02, 0.02)
    mass_kg: float = 0.1
    friction: float = 0.8
    rgba: tuple[float, float, float, float] = (0.85, 0.35, 0.2, 1.0)

    def add(self, spec: Any) -> None:
        """Add it to a ``mujoco.MjSpec``."""
        mujoco = import_mujoco()
        body = spec.worldbody.add_body(name=self.name, pos=[0.5, 0.0, self.half_m[2]])
        body.add_freejoint(name=self.name)
        body.add_geom(
            name=self.name,
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=list(self.half_m),
            mass=self.mass_kg,
            rgba=list(self.rgba),
            condim=4,  # an object pinched between two pads must not spin
            priority=1,  # its own friction applies, whatever it touches
            friction=[self.friction, TORSION_M, ROLLING_M],
            contype=HANDLED,
            conaffinity=ARM | HANDLED,
        )


@dataclass(frozen=True, kw_only=True)
class Socket:
    """A square hole between four fixed walls on the table; its origin is the centre of its bottom.

    Args:
        name: Name of its body.
        inner_half_m: Half the hole's width.
        wall_m: Thickness of the walls.
        height_m: Height of the walls.
        friction: Friction coefficient against everything.
        rgba: Colour.
    """

    name: str = "socket"
    inner_half_m: float = 0.0105
    wall_m: float = 0.02
    height_m: float = 0.03
    friction: float = 0.3
    rgba: tuple[float, float, float, float] = (0.35, 0.45, 0.55, 1.0)

    def walls(self) -> list[tuple[list[float], list[float]]]:
        """Return each wall's centre relative to the socket, m, and its half lengths, m."""
        away, thick, high = self.inner_half_m + self.wall_m / 2.0, self.wall_m / 2.0, self.height_m / 2.0
        long = self.inner_half_m + self.wall_m
        return [
            ([x * away, y * away, high], [thick if x else long, thick if y else self.inner_half_m, high])
            for x, y in ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))
        ]

    def add(self, spec: Any) -> None:
        """Add it to a ``mujoco.MjSpec``."""
        mujoco = import_mujoco()
        body = spec.worldbody.add_body(name=self.name, pos=[0.5, 0.0, 0.0])
        for middle, half in self.walls():
            body.add_geom(
                type=mujoco.mjtGeom.mjGEOM_BOX,
                pos=middle,
                size=half,
                rgba=list(self.rgba),
                friction=[self.friction, TORSION_M, ROLLING_M],
                priority=2,
                contype=HANDLED,
                conaffinity=ARM | HANDLED,
            )


def socket_obstacles(socket: Socket, place: Any) -> tuple[Obstacle, ...]:
    """Return a socket at a position (3,) m as obstacles of a world."""
    return tuple(
        Obstacle(
            name=f"{socket.name}_{k}",
            shape="box",
            size_m=tuple(2.0 * float(h) for h in half),  # type: ignore[arg-type]
            position_m=tuple(float(p + m) for p, m in zip(place, middle)),  # type: ignore[arg-type]
            colour=socket.rgba[:3],
            friction=socket.friction,
        )
        for k, (middle, half) in enumerate(socket.walls())
    )


def build_scene(robot: Manipulator, build: Build | None = None, timestep_s: float = TIMESTEP_S) -> Any:
    """Return the compiled ``mujoco.MjModel`` of a task's scene; the table top is at z = 0, like the arm's base.

    Raises:
        UserError: MuJoCo is not installed, or the robot's model is missing or contradicts its file.
    """
    mujoco = import_mujoco()
    spec = new_world(timestep_s=timestep_s)
    table = spec.geom("floor")
    # textures are most of a model, and there may be one for each world
    table.material = ""
    for picture in [*spec.materials, *spec.textures]:
        spec.delete(picture)
    table.contype, table.conaffinity = HANDLED, ARM | HANDLED
    add_robot(spec, robot, timestep_s=timestep_s)
    _fit(mujoco, spec, robot)
    if build is not None:
        build(spec)
    # elliptic friction cones, stiff against slip: with the defaults an object creeps out of the fingers
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10.0
    return spec.compile()


_KEPT = (
    *("name", "type", "contype", "conaffinity", "condim", "group", "priority", "friction"),
    *("solmix", "solref", "solimp", "margin", "gap", "mass", "density", "rgba"),
)
"""Fields that a shape keeps from the mesh that it replaces."""


def _fit(mujoco: Any, spec: Any, robot: Manipulator) -> None:
    """Replace the meshes of the arm's links by capsules, and those of hand and fingers by boxes."""
    boxed = _beyond(spec, robot)
    fitted, mesh = [], mujoco.mjtGeom.mjGEOM_MESH
    for geom in spec.geoms:
        if geom.parent.name == "world":
            continue
        if geom.type != mesh:
            geom.contype, geom.conaffinity = (ARM, HANDLED) if geom.contype or geom.conaffinity else (0, 0)
        elif geom.contype or geom.conaffinity:
            if geom.parent.name not in boxed:
                geom.fitscale, geom.type = 1.0, mujoco.mjtGeom.mjGEOM_CAPSULE
            geom.contype, geom.conaffinity = ARM, HANDLED
            fitted.append(geom)
        else:
            spec.delete(geom)
    spec.compiler.fitaabb = True
    for index, geom in enumerate(fitted):
        geom.name = geom.name or f"fitted {index}"
    model = spec.compile()
    for geom in fitted:
        at, body = model.geom(geom.name).id, geom.parent
        same = {name: getattr(geom, name) for name in _KEPT}
        if geom.type == mesh:
            place = _box_about(mujoco, model, at)
            same["type"] = mujoco.mjtGeom.mjGEOM_BOX
        else:
            place = {"pos": model.geom_pos[at], "quat": model.geom_quat[at], "size": model.geom_size[at]}
        # a new geom: MuJoCo 3.8 would apply the mesh's own offset to the old one again
        spec.delete(geom)
        body.add_geom(**same, **place)
    for shown in list(spec.meshes):
        spec.delete(shown)


def _box_about(mujoco: Any, model: Any, geom: int) -> dict[str, Any]:
    """Return pose and size of the smaller bounding box of a mesh, along its link's axes or its principal axes.

    Fingers grasp with faces along their link's axes; the principal axes of the Panda's fingers lean by 10 degrees, so
    that their boxes would meet 7 mm before the pads do.
    """
    mesh = int(model.geom_dataid[geom])
    first = int(model.mesh_vertadr[mesh])
    own = np.array(model.mesh_vert[first : first + int(model.mesh_vertnum[mesh])], dtype=float)
    flat = np.empty(9)
    mujoco.mju_quat2Mat(flat, model.geom_quat[geom])
    turn = flat.reshape(3, 3)
    found = []
    for points, axes, quat in (
        (own @ turn.T + model.geom_pos[geom], np.eye(3), np.array([1.0, 0.0, 0.0, 0.0])),
        (own + turn.T @ model.geom_pos[geom], turn, model.geom_quat[geom]),
    ):
        low, high = points.min(axis=0), points.max(axis=0)
        found.append({"pos": axes @ (low + high) / 2.0, "quat": quat, "size": (high - low) / 2.0})
    return min(found, key=lambda box: float(np.prod(box["size"])))


def _beyond(spec: Any, robot: Manipulator) -> set[str]:
    """Return the links of hand and fingers: those beyond the link that the arm's last joint moves."""
    last = spec.joint(robot.joints[-1].name).parent
    found: set[str] = set()
    todo = list(last.bodies)
    while todo:
        body = todo.pop()
        found.add(body.name)
        todo += list(body.bodies)
    return found or {last.name}
