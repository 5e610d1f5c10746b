"""A group of robots: one robot, or several in one simulation, with their robot node and start positions."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.node_process import Parameter, Process
from rlstack.errors import UserError, unknown_name
from rlstack.interfaces import topics
from rlstack.interfaces.backend import BACKENDS
from rlstack.nodes.frames import checked_prefix
from rlstack.nodes.robot_backends import robot_namespaces
from rlstack.robots import load_robot
from rlstack.sim.spawn import start_places
from rlstack.sim.world import World, load_world

Point = tuple[float, float, float]

TOPICS = "topics"
"""The backend for a robot whose own ROS driver, or an external simulator, provides the common topics."""


@dataclass(frozen=True, kw_only=True)
class RobotGroup:
    """The robots of one robot node.

    Args:
        process: The node; None: the robot's own driver, which rlstack does not start, provides the topics.
        namespaces: Absolute namespace of each robot.
        starts_m: (robots, 3) m, start positions.
        fence_m: Corners of the world, which become a simulated robot's geofence; None: the robot file's fence.
        simulated: Whether the robots are simulated.
    """

    process: Process | None
    namespaces: tuple[str, ...]
    starts_m: Array
    fence_m: tuple[Point, Point] | None
    simulated: bool
    goal_m: Point | None = None
    """Goal of the world, if it is a map with one."""
    frames: tuple[dict[str, Parameter], ...] = ({},)
    """Parameters of each robot's nodes that name its frames."""
    floor_m: tuple[float, ...] | None = None
    """Corners x y x y of the world's floor, m; None: unbounded."""

    def goals(self, goal: Sequence[float]) -> list[Point]:
        """Return each robot's goal in ``odom``: ``goal`` itself for one robot, relative to each start for several."""
        offsets = self.starts_m if len(self.starts_m) > 1 else np.zeros((1, 3))
        return [(float(x), float(y), float(z)) for x, y, z in offsets + np.asarray(goal, dtype=float)]


def robot_group(
    robot: str = "crazyflie",
    backend: str = "mujoco",
    *,
    uri: str = "",
    world: str = "",
    count: int = 1,
    namespace: str = "",
    real_time_factor: float = 1.0,
    lock_step: bool = False,
    noise_seed: int = 0,
    start_height_m: float = 0.0,
    frame_prefix: str = "",
) -> RobotGroup:
    """Return one robot, or several in one simulation, with their robot node.

    Args as in :func:`rlstack.bringup.system.deploy_system`, and:

    Args:
        start_height_m: Start in the air.
        frame_prefix: Prefix of all frames.

    Raises:
        UserError: An unknown robot, backend or world, an engine that is not installed, or a value out of range.
    """
    spec = load_robot(robot)
    simulated = is_simulator(backend)
    if not math.isfinite(real_time_factor) or real_time_factor <= 0.0:
        raise UserError(f"The real-time factor {real_time_factor} is not allowed: give a number above 0, such as 1.0.")
    if count < 1:
        raise UserError(f"{count} robots are not allowed: give at least 1.")
    for given, what in (
        (lock_step, "Lock step"),
        (world, "A world"),
        (count > 1, "Several robots in one node"),
        (real_time_factor != 1.0, "A real-time factor"),
        (noise_seed, "A noise seed"),
    ):
        if given and not simulated:
            raise UserError(f"{what} needs a simulator, and the backend '{backend}' is not one: leave it out.")
    if uri and (simulated or backend == TOPICS):
        raise UserError(f"A URI is for the driver of a robot, and the backend '{backend}' is none: leave {uri} out.")
    prefix: dict[str, Parameter] = {"frame_prefix": checked_prefix(frame_prefix)} if frame_prefix else {}
    place = load_world(world) if world else None
    names = robot_namespaces(spec.name, count)
    if backend == TOPICS:
        space = checked_namespace(namespace)
        return RobotGroup(
            process=None,
            namespaces=(space,),
            starts_m=np.zeros((1, 3)),
            fence_m=None,
            simulated=False,
            frames=(prefix,),
        )
    base = checked_namespace(namespace or (spec.name if count == 1 else ""))
    parameters: dict[str, Parameter] = {
        "robot": absolute_file(robot),
        "backend": backend,
        "lock_step": lock_step,
        "real_time_factor": float(real_time_factor),
        "noise_seed": int(noise_seed),
        **({"uri": uri} if uri else {}),
        **({"world": absolute_file(world)} if world else {}),
        **({"count": count} if count > 1 else {}),
        **({"start_height_m": float(start_height_m)} if start_height_m else {}),
        **prefix,
    }
    return RobotGroup(
        process=Process(
            name="robot",
            module="rlstack.nodes.robot",
            namespace=base,
            parameters=parameters,
            why=f"without the robot{'s' if count > 1 else ''} nothing can move",
        ),
        namespaces=tuple(checked_namespace(f"{base}/{name}") for name in names),
        starts_m=start_places(count, place),
        fence_m=place.bounds_m if place and np.isfinite(place.bounds_m).all() else None,
        simulated=simulated,
        frames=(prefix,) if count == 1 else tuple(_of_several(frame_prefix, name) for name in names),
        goal_m=_goal(place),
        floor_m=_floor(place),
    )


def _of_several(prefix: str, name: str) -> dict[str, Parameter]:
    """Return the parameters for the frames of one of several robots, which share ``odom``."""
    return {"frame_prefix": f"{prefix}{name}/", "odom_frame": f"{prefix}{topics.WORLD_FRAME}"}


def _goal(place: World | None) -> Point | None:
    if place is None or place.floor_map is None:
        return None
    x, y = place.floor_map.goal[:2].tolist()
    return x, y, 0.0


def _floor(place: World | None) -> tuple[float, ...] | None:
    if place is None or not np.isfinite(place.bounds_m).all():
        return None
    if place.floor_map is not None:
        x, y = (0.5 * side for side in place.floor_map.size_m)
        return -x, -y, x, y
    return (*place.bounds_m[0][:2], *place.bounds_m[1][:2])


def is_simulator(backend: str) -> bool:
    """Return whether ``backend`` is a simulator, which controls time.

    Raises:
        UserError: It is unknown (nearest names listed), or its engine is not installed.
    """
    if backend == TOPICS:
        return False
    if backend not in BACKENDS.names():
        raise unknown_name(BACKENDS.kind, backend, [*BACKENDS.names(), TOPICS])
    factory = BACKENDS.load(backend)
    if hasattr(factory, "engine"):
        factory.engine.require()
    return bool(getattr(factory, "owns_time", False))


def checked_namespace(name: str) -> str:
    """Return ``name`` as an absolute ROS namespace; raise ``UserError`` for one that ROS would refuse."""
    absolute = "/" + name.strip("/")
    if absolute != "/" and not re.fullmatch(r"(/[A-Za-z_][A-Za-z0-9_]*)+", absolute):
        raise UserError(
            f"The namespace '{name}' is not allowed: letters, digits and _ between slashes, no part beginning with a"
            " digit, such as cf1 or fleet/cf1."
        )
    return absolute


def absolute_file(name: str) -> str:
    """Return a robot or world file's absolute path, since the nodes may run in another folder."""
    stem, _, seed = name.rpartition(":")
    stem, seed = (stem, f":{seed}") if stem and seed.isdigit() else (name, "")
    return f"{Path(stem).expanduser().absolute()}{seed}" if stem.endswith((".yaml", ".yml", ".xml")) else name
