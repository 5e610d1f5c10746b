"""The MuJoCo model of a robot, generated from its file so that the two always agree, its parts and its world."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.errors import UserError
from rlstack.libraries import import_library
from rlstack.robots.inertia import Inertial
from rlstack.robots.joints import DrivenJoint
from rlstack.robots.kind_models import models_of
from rlstack.robots.spec import STANDARD_GRAVITY, RobotSpec
from rlstack.robots.xml_files import check_mjcf

BODY = "base_link"
"""Name, after the prefix, of the robot's body; its free joint and its collision geom are named after it."""
CAMERA = "track"
"""Name, after the prefix, of the camera that follows the robot from behind and above, looking forward."""

VISUAL_GROUP, COLLISION_GROUP = 1, 3
"""MuJoCo renders groups 0 to 2 by default."""

_FLOOR_SIZE = [200.0, 200.0, 40.0]
"""Half lengths for rendering and rays, m (contact is unbounded), and the spacing of the floor's squares: an infinite
plane is rendered as thousands of squares, which would take most of the time of an image."""


def import_mujoco() -> Any:
    """Return the ``mujoco`` module; raise ``UserError`` with the command that installs it if it is missing."""
    return import_library("mujoco", "sim")


def add_robot(spec: Any, robot: RobotSpec, prefix: str = "", *, timestep_s: float = 0.001) -> Any:
    """Add a robot to a world, standing at the origin, and return its ``mujoco.MjsBody``.

    All names of the robot get the prefix: with ``0/`` its body is ``0/base_link``. Joints, and the actuators that
    are named after them, come in the file's order.

    Args:
        spec: The ``mujoco.MjSpec`` of the world, such as one from :func:`new_world`.
        robot: The robot.
        prefix: Prefix of all names; each robot of a world needs its own.
        timestep_s: Physics step: contacts are as stiff as it allows.

    Raises:
        UserError: MuJoCo is not installed, the world has parts with the robot's names, there is no such model, or a
            model that the file names is missing, malformed or disagrees with the file.
    """
    if spec.body(prefix + BODY) is not None:
        raise UserError(f"The world has a body called '{prefix + BODY}', which is the robot's name: rename it.")
    if robot.drives:
        # Damping that is far stiffer than the step is exact in it; RK4 would be unstable.
        spec.option.integrator = import_mujoco().mjtIntegrator.mjINT_IMPLICITFAST
    return models_of(robot).add_to_mujoco(spec, robot, prefix, timestep_s)


def mujoco_spec(
    robot: RobotSpec, *, timestep_s: float = 0.001, world: str | Path | None = None, floor: bool = True
) -> Any:
    """Return an editable MuJoCo model of one robot, standing at the origin of a world.

    Args:
        robot: The robot.
        timestep_s: Physics step, s.
        world: An MJCF file to place the robot in; without one, a lit, empty world.
        floor: Whether the empty world has a floor at z = 0.

    Returns:
        A ``mujoco.MjSpec``; ``compile()`` makes the ``mujoco.MjModel``.

    Raises:
        UserError: MuJoCo is not installed, or the world cannot be read or has parts with the robot's names.
    """
    spec = new_world(timestep_s=timestep_s, world=world, floor=floor)
    if world is not None and spec.body(BODY) is not None:
        raise UserError(f"The world {world} has a body called '{BODY}', which is the robot's name: rename it.")
    add_robot(spec, robot, timestep_s=timestep_s)
    return spec


def to_mjcf(robot: RobotSpec) -> str:
    """Return the robot in an empty world with a floor as MJCF text, for other programs; it needs MuJoCo."""
    spec = mujoco_spec(robot)
    spec.modelname = robot.name
    spec.compile()
    return str(spec.to_xml())


def new_world(*, timestep_s: float = 0.001, world: str | Path | None = None, floor: bool = True) -> Any:
    """Return a ``mujoco.MjSpec`` without robots, with the options of every simulation here.

    Args:
        timestep_s: Physics step.
        world: An MJCF file; without one, a lit, empty world.
        floor: Whether the empty world has a floor at z = 0.

    Raises:
        UserError: MuJoCo is not installed, or the world cannot be read.
    """
    mujoco = import_mujoco()
    if world is not None:
        check_mjcf(Path(world), "the world")
    try:
        spec = mujoco.MjSpec.from_file(str(world)) if world is not None else _empty_world(mujoco, floor)
    except (ValueError, OSError) as error:
        raise UserError(f"Cannot read the world {world}: {error}") from error
    spec.option.timestep = timestep_s
    # Semi-implicit, like other engines; rlstack.sim.rotorcraft makes it second order.
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    # A diverged simulation must be visible as such: MuJoCo would reset it silently.
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    spec.option.gravity = [0.0, 0.0, -STANDARD_GRAVITY]
    return spec


def _empty_world(mujoco: Any, floor: bool) -> Any:
    spec = mujoco.MjSpec()
    spec.stat.extent, spec.stat.center = 1.0, [0.0, 0.0, 0.3]
    spec.visual.map.znear, spec.visual.map.zfar = 0.02, 60.0
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1280, 720
    # A software renderer is an order of magnitude slower with the default shadows, and half as fast with round shapes
    # of twice as many faces.
    spec.visual.quality.shadowsize, spec.visual.map.shadowclip = 512, 2.0
    spec.visual.quality.numslices, spec.visual.quality.numstacks = 12, 6
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
        spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=_FLOOR_SIZE, material="floor")
    return spec


def add_camera(mujoco: Any, body: Any, prefix: str, reach: float) -> None:
    """Add the camera that follows a robot of size ``reach`` in m."""
    # Looking at the robot from behind, above and a little to the right, so that front and rear can be told apart.
    offset = np.array([-4.0, -2.4, 2.9]) * reach
    right = np.cross(-offset, [0.0, 0.0, 1.0])
    right /= math.sqrt(float(right @ right))
    up = np.cross(right, -offset)
    up /= math.sqrt(float(up @ up))
    camera = body.add_camera(
        name=prefix + CAMERA, mode=mujoco.mjtCamLight.mjCAMLIGHT_TRACK, pos=offset.tolist(), fovy=40.0
    )
    camera.alt.type = mujoco.mjtOrientation.mjORIENTATION_XYAXES
    camera.alt.xyaxes = [*right.tolist(), *up.tolist()]


def set_inertial(body: Any, piece: Inertial) -> None:
    """Give a body of a ``MjSpec`` exactly this mass, centre of mass and inertia."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = piece.inertia_kg_m2.tolist()
    body.explicitinertial, body.mass, body.ipos = True, piece.mass_kg, piece.centre_m.tolist()
    if xy or xz or yz:
        body.fullinertia = [xx, yy, zz, xy, xz, yz]
    else:
        body.iquat, body.inertia = [1.0, 0.0, 0.0, 0.0], [xx, yy, zz]


def limit_joint(spec: Any, joint: Any, own: DrivenJoint) -> None:
    """Give a joint of a ``MjSpec`` the file's range, effort and armature."""
    joint.limited = own.type != "continuous"
    unit = math.degrees(1.0) if own.type == "revolute" and spec.compiler.degree else 1.0
    joint.range = [unit * own.lower, unit * own.upper] if own.type != "continuous" else [0.0, 0.0]
    joint.actfrclimited = own.effort_max > 0.0
    joint.actfrcrange = [-own.effort_max, own.effort_max]
    joint.armature = own.armature


def add_drive(mujoco: Any, spec: Any, own: DrivenJoint, prefix: str) -> None:
    """Add the actuator of a joint, named like it; its control is the joint's target. A free joint gets none.

    ``position``: stiffness * (control - position) - damping * velocity. ``velocity``: damping * (control - velocity).
    """
    if own.mode == "free":
        return
    actuator = spec.add_actuator(name=prefix + own.name, target=prefix + own.name)
    actuator.trntype = mujoco.mjtTrn.mjTRN_JOINT
    actuator.gaintype, actuator.biastype = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_AFFINE
    gain, bias = list(actuator.gainprm), list(actuator.biasprm)
    if own.mode == "position":
        gain[0], bias[:3] = own.stiffness, (0.0, -own.stiffness, -own.damping)
        low, high = own.lower, own.upper
    else:
        gain[0], bias[:3] = own.damping, (0.0, 0.0, -own.damping)
        low, high = -own.velocity_max, own.velocity_max
    actuator.gainprm, actuator.biasprm = gain, bias
    actuator.forcelimited, actuator.forcerange = True, [-own.effort_max, own.effort_max]
    actuator.ctrllimited = own.mode == "velocity" or own.type != "continuous"
    if actuator.ctrllimited:
        actuator.ctrlrange = [low, high]
