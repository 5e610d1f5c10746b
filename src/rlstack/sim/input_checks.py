"""Validation of a simulation's inputs: robots, world, rate, options, commands and states."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlstack.arrays import Array, Index
from rlstack.errors import UserError, unknown_name
from rlstack.robots import RobotSpec
from rlstack.robots.frames import normalise
from rlstack.sim.engine import Engine
from rlstack.sim.world import World, load_world

_MOST_STEPS_PER_S = 1e5


def checked_robots(robots: Sequence[RobotSpec]) -> tuple[RobotSpec, ...]:
    """Return the robots of a simulation: at least one.

    Raises:
        UserError: The list is empty or contains something else, or a robot that no engine supports.
    """
    if isinstance(robots, RobotSpec):
        raise UserError(f"robots: {robots.name} alone is not allowed: must be a list, such as [{robots.name}].")
    for robot in robots:
        if not isinstance(robot, RobotSpec):
            raise UserError(f"robots: {robot!r} is not allowed: must be what rlstack.robots.load_robot returns.")
        robot.require_simulable()
    if not robots:
        raise UserError("A simulation needs at least one robot.")
    return tuple(robots)


def checked_world(world: World | str | Path | None, isolated: bool) -> World | None:
    """Return the world, loaded by name if necessary.

    Raises:
        UserError: There is no such world, or isolated robots would share its movable obstacles.
    """
    if isinstance(world, (str, Path)):
        world = load_world(str(world))
    if world is not None and not isinstance(world, World):
        raise UserError(
            f"world: a {type(world).__name__} is not allowed: must be a World, the name of one such as warehouse:7,"
            " or the path of a file."
        )
    loose = [obstacle.name for obstacle in world.obstacles if obstacle.mass_kg > 0.0] if world else []
    if isolated and world is not None and loose:
        raise UserError(
            f"The world '{world.name}' has obstacles that can be pushed ({', '.join(loose[:3])}), and isolated robots"
            " would all push the same ones: leave out their mass_kg, or choose another world."
        )
    return world


def checked_rate(rate_hz: Any, usual_hz: float, robots: Sequence[RobotSpec]) -> float:
    """Return the physics rate, Hz.

    Raises:
        UserError: It is not a number, below the highest control rate of the robots, or too high.
    """
    if rate_hz is not None and (isinstance(rate_hz, bool) or not isinstance(rate_hz, (int, float, np.number))):
        raise UserError(f"physics_rate_hz: {rate_hz!r} is not allowed: must be a number.")
    rate = usual_hz if rate_hz is None else float(rate_hz)
    slowest = max(robot.control_rate_hz for robot in robots)
    if not slowest <= rate <= _MOST_STEPS_PER_S:
        raise UserError(
            f"physics_rate_hz: {rate} is not allowed: must be from the robot's control rate"
            f" ({slowest} Hz) to {_MOST_STEPS_PER_S:.0f} Hz."
        )
    return rate


def checked_seed(name: str, seed: Any) -> int:
    """Return a seed.

    Raises:
        UserError: It is not a whole number of at least 0.
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise UserError(f"{name}: {seed!r} is not allowed: must be a whole number from 0 on.")
    return int(seed)


def check_options(options: Collection[str], engine: type[Engine], *makers: Callable[..., Any]) -> None:
    """Refuse unknown options.

    Args:
        options: Names of the options.
        engine: May have options of its own.
        makers: Callables whose keyword arguments are options as well.

    Raises:
        UserError: An option is unknown; lists the nearest names.
    """
    known = {
        p.name for maker in makers for p in inspect.signature(maker).parameters.values() if p.kind is p.KEYWORD_ONLY
    }
    known.update(getattr(engine, "options", ()))
    for name in options:
        if name not in known:
            raise unknown_name(f"option of the {engine.name} simulation", name, known)


def checked_command(command: Mapping[str, ArrayLike], name: str, size: int) -> Array:
    """Return the array ``name`` (size,) of a command as float64.

    Raises:
        ValueError: The command is not exactly one finite array of that shape.
    """
    if set(command) != {name}:
        raise ValueError(f"the command holds {sorted(command)}: must hold '{name}' alone.")
    return checked_array(name, command[name], (size,))


def checked_states(state: Mapping[str, ArrayLike], count: int, rotors: int) -> dict[str, Array]:
    """Return complete quadrotor states as float64 with unit quaternions; missing values are zero, or level.

    Args:
        state: Arrays (count, width) by name.
        count: Number of robots.
        rotors: Number of rotors of each robot.

    Raises:
        ValueError: A name is unknown, or an array has the wrong shape, is not finite, or is not a rotation.
    """
    widths = {"position": 3, "orientation": 4, "linear_velocity": 3, "angular_velocity": 3, "rotor_speed": rotors}
    shapes = {name: (count, width) for name, width in widths.items()}
    checked = {name: np.zeros(shape) for name, shape in shapes.items()}
    checked["orientation"][:, 3] = 1.0
    return {**checked, **_checked_state(state, shapes)}


def checked_jointed_state(state: Mapping[str, ArrayLike], joints: int) -> dict[str, Array]:
    """Return the provided values of a jointed robot's state as float64: base motion and joints (joints,).

    Raises:
        ValueError: A name is unknown, or an array has the wrong shape, is not finite, or is not a rotation.
    """
    shapes = {**dict.fromkeys(("position", "linear_velocity", "angular_velocity"), (3,)), "orientation": (4,)}
    shapes.update(dict.fromkeys(("joint_position", "joint_velocity"), (joints,)))
    return _checked_state(state, shapes)


def checked_index(index: Any, count: int) -> int:
    """Return the index of one of ``count`` robots.

    Raises:
        ValueError: There is no such robot.
    """
    if isinstance(index, bool) or not isinstance(index, (int, np.integer)) or not 0 <= index < count:
        raise ValueError(f"index: {index!r} is not allowed: must be a robot's number, from 0 to {count - 1}.")
    return int(index)


def checked_indices(index: ArrayLike, count: int) -> Index:
    """Return the indices (robots,) of some of ``count`` robots.

    Raises:
        ValueError: An index is out of range, repeated, or not whole.
    """
    which = np.asarray(index)
    if which.ndim != 1 or (which.size and which.dtype.kind not in "iu"):
        raise ValueError(f"index: {index!r} is not allowed: must be a list of robots' numbers.")
    if which.size and not (which.min() >= 0 and which.max() < count):
        raise ValueError(f"index: {which.tolist()} is not allowed: robots' numbers are from 0 to {count - 1}.")
    if len(np.unique(which)) < len(which):
        raise ValueError(f"index: {which.tolist()} is not allowed: a robot is in it twice.")
    return which.astype(np.intp)


def _checked_state(state: Mapping[str, ArrayLike], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    if unknown := sorted(set(state) - set(shapes)):
        raise ValueError(f"the state holds {unknown}: may hold {', '.join(shapes)}.")
    checked = {name: checked_array(name, array, shapes[name]) for name, array in state.items()}
    if "orientation" in checked:
        checked["orientation"] = normalise(checked["orientation"])
        if not np.isfinite(checked["orientation"]).all():
            raise ValueError("orientation: a zero quaternion is no rotation.")
    return checked


def checked_array(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return an array of that shape as float64.

    Raises:
        ValueError: It has another shape, or a value is not finite.
    """
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {value!r} is not allowed: must be numbers {shape}.") from error
    if array.shape != shape:
        raise ValueError(f"{name}: the shape {array.shape} is not allowed: must be {shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: {array.tolist()} is not allowed: must be finite.")
    return array
