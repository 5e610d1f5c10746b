"""What a simulation is made with, checked: world, rate, seed, start places, and options that its engine takes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlstack.arrays import Array
from rlstack.errors import UserError, unknown_name
from rlstack.robots import RobotSpec
from rlstack.sim.engine import Engine
from rlstack.sim.world import World, load_world

SPACING_M = 1.0
"""Between the start places of robots in a world that names none, m."""
_MOST_STEPS_PER_S = 1e5


def checked_robots(robots: Sequence[RobotSpec]) -> tuple[RobotSpec, ...]:
    """Return the robots of a simulation, of which there must be one.

    Raises:
        UserError: There is none, or something else among them, or a base without wheels.
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
    """Return the world, loaded if it was named.

    Raises:
        UserError: There is no such world, or isolated robots would share what can be pushed in it.
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
        UserError: It is no number, below the slowest robot's control rate, or too high.
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
        UserError: It is no whole number from 0 on.
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise UserError(f"{name}: {seed!r} is not allowed: must be a whole number from 0 on.")
    return int(seed)


def checked_starts(starts_m: ArrayLike, count: int) -> Array:
    """Return start places (count, 3), m.

    Raises:
        UserError: They are of another shape, or no finite numbers.
    """
    try:
        starts = np.array(starts_m, dtype=float)
    except (TypeError, ValueError) as error:
        raise UserError(f"starts_m: {starts_m!r} is not allowed: must be numbers {(count, 3)}.") from error
    if starts.shape != (count, 3):
        raise UserError(f"starts_m: the shape {starts.shape} is not allowed: must be {(count, 3)}, a place a robot.")
    if not np.isfinite(starts).all():
        raise UserError(f"starts_m: {starts.tolist()} is not allowed: must be finite.")
    return starts


def check_options(options: Collection[str], engine: type[Engine], *makers: Callable[..., Any]) -> None:
    """Refuse options that nobody takes.

    Args:
        options: Names that were given.
        engine: Which may have options of its own.
        makers: Whose keyword arguments these may be as well.

    Raises:
        UserError: One is unknown; the nearest are named.
    """
    known = {
        p.name for maker in makers for p in inspect.signature(maker).parameters.values() if p.kind is p.KEYWORD_ONLY
    }
    known.update(getattr(engine, "options", ()))
    for name in options:
        if name not in known:
            raise unknown_name(f"option of the {engine.name} simulation", name, known)


def start_places(count: int, world: World | None = None, isolated: bool = False) -> Array:
    """Return where robots stand at first (count, 3), m: the world's places, or a grid about the origin.

    Raises:
        UserError: The world has not as many.
    """
    places = np.array(world.starts_m if world else (), dtype=float).reshape(-1, 3)
    if isolated or count == 1:
        return np.tile(places[:1] if len(places) else np.zeros((1, 3)), (count, 1))
    if world and len(places):
        if len(places) < count:
            raise UserError(f"The world '{world.name}' has {len(places)} start places for {count} robots.")
        return places[:count]
    side = math.ceil(math.sqrt(count))
    grid = np.array([(k % side, k // side, 0.0) for k in range(count)])
    return (grid - [(side - 1) / 2, (side - 1) / 2, 0.0]) * SPACING_M
