"""The MuJoCo model of a robot, generated from its file so that the two cannot disagree."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.robots.kinds.quadrotor import Quadrotor
from rlstack.robots.spec import STANDARD_GRAVITY

BODY = "base_link"
"""Name of the robot's body; the free joint, the collision geom and the camera are named after it."""
CAMERA = "track"
"""Name of the camera that follows the robot from behind and above, looking forward."""

_VISUAL_GROUP, _COLLISION_GROUP = 1, 3  # MuJoCo draws groups 0 to 2 unless asked
_FRONT, _REAR, _DARK, _LIGHT = (1.0, 0.42, 0.05), (0.15, 0.45, 0.85), (0.12, 0.12, 0.14), (0.75, 0.75, 0.78)


def import_mujoco() -> Any:
    """Return the ``mujoco`` module; raise ``UserError`` with the command that installs it if it is missing."""
    try:
        import mujoco
    except ImportError as error:
        raise UserError(
            f"MuJoCo cannot be imported ({error}): install it with `pip install 'rlstack[sim]'`."
        ) from error
    return mujoco


def rest_height(robot: Quadrotor) -> float:
    """Return the height of ``base_link`` above a level floor that the robot stands on, m."""
    return robot.body.collision_height_m / 2.0


def mujoco_spec(
    robot: Quadrotor, *, timestep_s: float = 0.001, world: str | Path | None = None, floor: bool = True
) -> Any:
    """Return an editable MuJoCo model of one robot, standing at the origin of a world.

    The body ``base_link`` moves freely and has the file's exact mass and inertia, with its centre of mass at its
    origin; frame, rotors and the arrow that points forward are only seen, a cylinder of the file's collision
    size is only felt. A site at each rotor bears the rotor's name. There are no actuators: thrust follows from
    rotor speed in :mod:`rlstack.sim.rotors`, the same for every engine.

    Args:
        robot: What to build.
        timestep_s: Physics step, s.
        world: An MJCF file to place the robot in; without one, a lit, empty world.
        floor: Whether the empty world has a floor at z = 0.

    Returns:
        A ``mujoco.MjSpec``; ``compile()`` makes the ``mujoco.MjModel``.

    Raises:
        UserError: MuJoCo is not installed, or the world cannot be read or has parts named like the robot's.
    """
    mujoco = import_mujoco()
    spec = _load_world(mujoco, world) if world is not None else _empty_world(mujoco, floor)
    spec.option.timestep = timestep_s
    # Fourth order: with forces taken at mid-step the error is of second order (docs of sim.backends.mujoco).
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_RK4
    # A diverged simulation must be seen as such, not put back to the start without a word.
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    spec.option.gravity = [0.0, 0.0, -STANDARD_GRAVITY]
    body = spec.worldbody.add_body(name=BODY, pos=[0.0, 0.0, rest_height(robot)])
    body.explicitinertial, body.ipos, body.iquat = True, [0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]
    body.mass, body.inertia = robot.body.mass_kg, list(robot.body.inertia_kg_m2)
    body.add_freejoint(name=BODY)
    _add_collision(mujoco, body, robot, timestep_s)
    _add_visuals(mujoco, body, robot)
    for rotor in robot.rotors:
        body.add_site(name=rotor.name, pos=list(rotor.position_m), size=[0.05 * robot.rotor_model.radius_m] * 3)
    _add_camera(mujoco, body, _reach(robot))
    return spec


def to_mjcf(robot: Quadrotor) -> str:
    """Return the robot in an empty world with a floor as MJCF text, for other programs.

    Raises:
        UserError: MuJoCo is not installed.
    """
    spec = mujoco_spec(robot)
    spec.modelname = robot.name
    spec.compile()
    return str(spec.to_xml())


def _load_world(mujoco: Any, world: str | Path) -> Any:
    try:
        spec = mujoco.MjSpec.from_file(str(world))
    except (ValueError, OSError) as error:
        raise UserError(f"Cannot read the world {world}: {error}") from error
    if spec.body(BODY) is not None:
        raise UserError(f"The world {world} has a body called '{BODY}', which is the robot's name: rename it.")
    return spec


def _empty_world(mujoco: Any, floor: bool) -> Any:
    spec = mujoco.MjSpec()
    spec.stat.extent, spec.stat.center = 1.0, [0.0, 0.0, 0.3]
    spec.visual.map.znear, spec.visual.map.zfar = 0.02, 60.0
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1280, 720
    # A software renderer is an order of magnitude slower with the default shadows.
    spec.visual.quality.shadowsize, spec.visual.map.shadowclip = 1024, 2.0
    head = spec.visual.headlight
    head.ambient, head.diffuse, head.specular = [0.3] * 3, [0.35] * 3, [0.0] * 3
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.62, 0.74, 0.88],
        rgb2=[0.95, 0.96, 0.98],
        width=256,
        height=1536,
    )
    spec.worldbody.add_light(
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=[0.0, 0.0, 4.0],
        dir=[0.15, 0.1, -1.0],
        diffuse=[0.45] * 3,
        specular=[0.1] * 3,
    )
    if floor:
        spec.add_texture(
            name="floor",
            type=mujoco.mjtTexture.mjTEXTURE_2D,
            builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
            rgb1=[0.82, 0.84, 0.86],
            rgb2=[0.72, 0.75, 0.78],
            width=256,
            height=256,
        )
        material = spec.add_material(name="floor", texrepeat=[4.0, 4.0], texuniform=True)
        textures = list(material.textures)
        textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "floor"
        material.textures = textures
        spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 0.05], material="floor")
    return spec


def _add_collision(mujoco: Any, body: Any, robot: Quadrotor, timestep_s: float) -> None:
    body.add_geom(
        name=BODY,
        type=mujoco.mjtGeom.mjGEOM_CYLINDER,
        size=[robot.body.collision_radius_m, robot.body.collision_height_m / 2.0, 0.0],
        mass=0.0,
        group=_COLLISION_GROUP,
        rgba=[0.9, 0.2, 0.2, 0.25],
        # As stiff as the step allows (MuJoCo needs two steps): it sinks by micrometres instead of a millimetre.
        solref=[max(0.004, 4.0 * timestep_s), 1.0],
        priority=1,
    )


def _add_visuals(mujoco: Any, body: Any, robot: Quadrotor) -> None:
    geom, reach, radius = mujoco.mjtGeom, _reach(robot), robot.rotor_model.radius_m

    def add(kind: Any, size: list[float], colour: tuple[float, float, float], alpha: float = 1.0, **where: Any) -> None:
        body.add_geom(
            type=kind,
            size=size,
            rgba=[*colour, alpha],
            mass=0.0,
            contype=0,
            conaffinity=0,
            group=_VISUAL_GROUP,
            **where,
        )

    lift = 0.25 * radius  # the propeller turns above the arm
    add(geom.mjGEOM_BOX, [0.26 * reach, 0.2 * reach, 0.08 * reach], _DARK)
    add(geom.mjGEOM_BOX, [0.24 * reach, 0.14 * reach, 0.02 * reach], _LIGHT, pos=[0.0, 0.0, 0.1 * reach])
    for rotor in robot.rotors:
        x, y, z = rotor.position_m
        colour = _FRONT if x > 0.0 else _REAR
        add(geom.mjGEOM_CAPSULE, [0.05 * reach, 0.0, 0.0], _DARK, fromto=[0.0, 0.0, 0.0, x, y, z])
        add(geom.mjGEOM_CYLINDER, [0.16 * radius, lift, 0.0], _LIGHT, pos=[x, y, z])
        add(geom.mjGEOM_CYLINDER, [radius, 0.02 * radius, 0.0], colour, 0.45, pos=[x, y, z + lift])
        add(geom.mjGEOM_CYLINDER, [0.22 * radius, 0.1 * radius, 0.0], colour, pos=[x, y, z + 1.1 * lift])
    # An arrow along +x: three bars, since MuJoCo has no cone.
    tip, width = 0.62 * reach, 0.035 * reach
    add(geom.mjGEOM_CAPSULE, [width, 0.0, 0.0], _FRONT, fromto=[0.2 * reach, 0.0, 0.12 * reach, tip, 0.0, 0.12 * reach])
    for side in (-0.16 * reach, 0.16 * reach):
        barb = [tip, 0.0, 0.12 * reach, tip - 0.18 * reach, side, 0.12 * reach]
        add(geom.mjGEOM_CAPSULE, [width, 0.0, 0.0], _FRONT, fromto=barb)


def _add_camera(mujoco: Any, body: Any, reach: float) -> None:
    # Looking at the robot from behind, above and a little to the right, so that front and rear can be told apart.
    offset = np.array([-4.0, -2.4, 2.9]) * reach
    right = np.cross(-offset, [0.0, 0.0, 1.0])
    right /= math.sqrt(float(right @ right))
    up = np.cross(right, -offset)
    up /= math.sqrt(float(up @ up))
    camera = body.add_camera(name=CAMERA, mode=mujoco.mjtCamLight.mjCAMLIGHT_TRACK, pos=offset.tolist(), fovy=40.0)
    camera.alt.type = mujoco.mjtOrientation.mjORIENTATION_XYAXES
    camera.alt.xyaxes = [*right.tolist(), *up.tolist()]


def _reach(robot: Quadrotor) -> float:
    """Return the distance from the centre to the outermost propeller tip, m: the scale of everything that is seen."""
    positions: NDArray[np.float64] = robot.rotor_positions
    return float(np.linalg.norm(positions, axis=1).max()) + robot.rotor_model.radius_m
