"""A quadrotor in MuJoCo: one free body with externally applied thrust."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.inertia import inertial
from rlstack.robots.mjcf import BODY, COLLISION_GROUP, VISUAL_GROUP, add_camera, import_mujoco, set_inertial

_FRONT, _REAR, _DARK, _LIGHT = (1.0, 0.42, 0.05), (0.15, 0.45, 0.85), (0.12, 0.12, 0.14), (0.75, 0.75, 0.78)


def add_quadrotor(spec: Any, robot: Quadrotor, prefix: str, timestep_s: float) -> Any:
    """Add the robot to a world and return its body; see :func:`rlstack.robots.mjcf.add_robot`.

    The body moves freely and has the file's exact mass and inertia, with its centre of mass at its origin. Frame,
    rotors and a forward arrow are visual only; a cylinder of the file's collision size is collision only. Each rotor
    has a site of its name. There are no actuators: :mod:`rlstack.sim.rotorcraft` computes thrust from rotor speed,
    the same for every engine.
    """
    mujoco, name = import_mujoco(), prefix + BODY
    body = spec.worldbody.add_body(name=name, pos=[0.0, 0.0, robot.body.collision_height_m / 2.0])
    set_inertial(body, inertial(robot.body.mass_kg, (0.0, 0.0, 0.0), robot.body.inertia_kg_m2))
    body.add_freejoint(name=name)
    _add_collision(mujoco, body, robot, name, timestep_s)
    _add_visuals(mujoco, body, robot)
    for rotor in robot.rotors:
        size = [0.05 * robot.rotor_model.radius_m] * 3
        body.add_site(name=prefix + rotor.name, pos=list(rotor.position_m), size=size)
    add_camera(mujoco, body, prefix, _reach(robot))
    return body


def _add_collision(mujoco: Any, body: Any, robot: Quadrotor, name: str, timestep_s: float) -> None:
    body.add_geom(
        name=name,
        type=mujoco.mjtGeom.mjGEOM_CYLINDER,
        size=[robot.body.collision_radius_m, robot.body.collision_height_m / 2.0, 0.0],
        mass=0.0,
        group=COLLISION_GROUP,
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
            group=VISUAL_GROUP,
            **where,
        )

    lift = 0.25 * radius  # the propeller spins above the arm
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


def _reach(robot: Quadrotor) -> float:
    """Return the distance from the centre to the outermost propeller tip, m: the scale of all visual shapes."""
    positions: NDArray[np.float64] = robot.rotor_positions
    return float(np.linalg.norm(positions, axis=1).max()) + robot.rotor_model.radius_m
