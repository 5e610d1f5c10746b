"""Create a robot node's backends from its parameters: one robot, or several in one simulation."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS, Backend
from rlstack.nodes.kind_topics import kind_topics
from rlstack.nodes.parameters import Parameter, ParameterSet
from rlstack.nodes.robot_parameters import ROBOT_SHA256, checked_robot
from rlstack.sim.simulated_robot import SimulatedRobot
from rlstack.sim.simulation import Simulation
from rlstack.sim.world import load_world

PARAMETERS = (
    Parameter("robot", "crazyflie", "Name of the robot, or the path of its YAML file."),
    ROBOT_SHA256,
    Parameter("backend", "mujoco", "Backend behind the topics: a simulator, or the driver of a real robot."),
    Parameter("uri", "", "Where a driver finds its robot, such as serial:///dev/ttyACM0; simulators: none."),
    Parameter("world", "", "World to simulate in, such as warehouse or warehouse:7, or a world file; empty: a floor."),
    Parameter("count", 1, "Number of robots in the simulation; several have a namespace each.", minimum=1, maximum=256),
    Parameter("robots", (), "Their namespaces under the node's own; empty: the robot's name and a number.", each=str),
    Parameter(
        "start_positions_m",
        (),
        "x, y, z of each robot, m in odom, relative to its resting height; empty: the world's places, or a grid.",
        each=float,
    ),
    Parameter("start_height_m", 0.0, "Start in the air at this height, m; 0 is on the ground.", minimum=0, maximum=100),
    Parameter("noise_seed", 0, "Seed of the simulated sensors' noise; -1 for none.", minimum=-1, maximum=2**31),
    Parameter("physics_rate_hz", 0.0, "Physics steps a second; 0: the engine's own.", minimum=0.0, maximum=1e5),
    Parameter("gyroscopic", False, "Whether the spinning rotors' angular momentum acts on the body."),
)


def robot_namespaces(robot: str, count: int, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the namespaces of robots in one simulation, relative to their node's; a single one has the node's own.

    Args:
        robot: The robot's name, which unnamed ones get with a number.
        count: Number of robots.
        names: Their names, if they have any.

    Raises:
        UserError: The number of names differs, two are equal, or ROS does not allow one.
    """
    if not names:
        return ("",) if count == 1 else tuple(f"{robot}{k + 1}" for k in range(count))
    if count not in (1, len(names)):
        raise UserError(f"count: {count} is not allowed with {len(names)} robots: leave one of the two out.")
    for name in names:
        if not name.isidentifier() or not name.isascii():
            raise UserError(
                f"robots: '{name}' is not allowed: it becomes a namespace, so it must be letters, digits and _, and not"
                " begin with a digit."
            )
    if len(set(names)) != len(names):
        raise UserError(f"robots: {', '.join(names)} is not allowed: every robot needs a name of its own.")
    return tuple(names)


def make_backends(parameters: ParameterSet | Mapping[str, Any]) -> dict[str, Backend]:
    """Return the robots that the parameters describe, not yet connected, by namespace under the node's own.

    Raises:
        UserError: A name is unknown, the engine is not installed, or it does not support the parameters.
    """
    name, factory = parameters["backend"], BACKENDS.load(parameters["backend"])
    robot = checked_robot(parameters)
    kind_topics(robot)
    namespaces = robot_namespaces(robot.name, parameters["count"], parameters["robots"])
    options: dict[str, Any] = {}
    if parameters["uri"]:
        options["uri"] = parameters["uri"]
    if parameters["world"]:
        options["world"] = load_world(parameters["world"])
    if parameters["physics_rate_hz"]:
        options["physics_rate_hz"] = parameters["physics_rate_hz"]
    if parameters["gyroscopic"]:
        options["gyroscopic"] = True
    if parameters["start_positions_m"]:
        options["starts_m"] = _places(parameters["start_positions_m"], len(namespaces))
    seed = None if parameters["noise_seed"] < 0 else parameters["noise_seed"]
    if len(namespaces) == 1:
        taken = inspect.signature(factory).parameters
        anything = any(p.kind is p.VAR_KEYWORD for p in taken.values())
        for option in options:
            if option not in taken and not anything:
                shown = "start_positions_m" if option == "starts_m" else option
                raise UserError(f"{shown}: the backend '{name}' does not support this parameter: leave it out.")
        if "noise_seed" in taken:
            options["noise_seed"] = seed
        backend: Backend = factory(robot, **options)
        return {namespaces[0]: backend}
    if (engine := getattr(factory, "engine", None)) is None:
        raise UserError(f"The backend '{name}' takes one robot to a node: start a node for each robot.")
    simulation = Simulation(engine, [robot] * len(namespaces), **options)
    seeds = [None if seed is None else seed + k for k in range(len(namespaces))]
    made: list[Any] = [SimulatedRobot(simulation, k, seed) for k, seed in enumerate(seeds)]
    return dict(zip(namespaces, made))


def _places(numbers: Sequence[float], count: int) -> Array:
    if len(numbers) != 3 * count:
        raise UserError(
            f"start_positions_m: {len(numbers)} numbers are not allowed: must be {3 * count}, x, y and z for each"
            " robot."
        )
    return np.array(numbers).reshape(count, 3)
