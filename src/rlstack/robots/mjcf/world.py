"""The MuJoCo world for robots: lit, with or without a floor, or read from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.robots.spec import STANDARD_GRAVITY

_FLOOR_SIZE = [200.0, 200.0, 40.0]
"""Half lengths for rendering and rays, m (contact is unbounded), and the spacing of the floor's squares: an infinite
plane is rendered as thousands of squares, which would take most of the time of an image."""


def import_mujoco() -> Any:
    """Return the ``mujoco`` module; raise ``UserError`` with the command that installs it if it is missing."""
    try:
        import mujoco
    except ImportError as error:
        raise UserError(
            f"MuJoCo cannot be imported ({error}): install it with `pip install 'rlstack[sim]'`."
        ) from error
    return mujoco


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
    spec = _load_world(mujoco, world) if world is not None else _empty_world(mujoco, floor)
    spec.option.timestep = timestep_s
    # Semi-implicit, like other engines; rlstack.sim.rotorcraft makes it second order.
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    # A diverged simulation must be visible as such: MuJoCo would reset it silently.
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    spec.option.gravity = [0.0, 0.0, -STANDARD_GRAVITY]
    return spec


def _load_world(mujoco: Any, world: str | Path) -> Any:
    try:
        spec = mujoco.MjSpec.from_file(str(world))
    except (ValueError, OSError) as error:
        raise UserError(f"Cannot read the world {world}: {error}") from error
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
