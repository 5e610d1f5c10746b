"""Worlds: obstacles, start positions and physics settings.

``load_world("warehouse:7")`` gives the same obstacles to every engine; the formulas in :class:`World` are the
reference for collisions and rays.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from rlstack import schema
from rlstack.arrays import Array
from rlstack.errors import UserError, unknown_name
from rlstack.resources import list_resources
from rlstack.schema import value
from rlstack.sim.free_space import NoRoom, Starts, find_starts
from rlstack.sim.obstacle import Obstacle, parts_of
from rlstack.sim.physics.models import check_switches
from rlstack.sim.shapes import Shapes
from rlstack.sim.world_generators import WORLD_GENERATORS, Point, WorldGenerator, WorldLayout
from rlstack.yaml_files import parse_yaml, read_yaml

if TYPE_CHECKING:
    from rlstack.sim.maps.floor_map import FloorMap


_DRAWS = 10
"""Attempts to draw a layout with room for start positions."""


@dataclass(frozen=True, kw_only=True)
class Wind:
    """Settings of the wind in a world, for the physics models."""

    velocity_m_s: tuple[float, float, float] = value((0.0, 0.0, 0.0), unit="m/s")
    """Mean air velocity in the world frame, in the direction of the flow."""
    turbulence: Literal["none", "light", "moderate", "severe"] = "none"


@dataclass(frozen=True, kw_only=True)
class WorldFile:
    """Contents of a world file (YAML)."""

    generator: str
    """Generator of the obstacles, one of :data:`rlstack.sim.world_generators.WORLD_GENERATORS`."""
    seed: int = value(0, at_least=0)
    floor: bool = True
    """Whether there is a floor at z = 0."""
    settings: dict[str, Any] = value(dict)
    """Settings of the generator."""
    obstacles: tuple[Obstacle, ...] = ()
    """Additional obstacles."""
    starts: Starts = value(Starts)
    wind: Wind | None = None
    physics: dict[str, bool] = value(dict)
    """Overrides of physics models in this world, by name."""


@dataclass(frozen=True, kw_only=True)
class World:
    """One world, in ENU with z = 0 on the floor.

    Movable obstacles count at their initial poses.
    """

    name: str
    seed: int
    floor: bool
    """Whether there is a floor at z = 0."""
    obstacles: tuple[Obstacle, ...]
    bounds_m: tuple[Point, Point]
    """Lower and upper corner of the world's bounding box."""
    starts_m: tuple[Point, ...]
    """Free start positions on the floor, x, y, 0; the first is the origin, or a map's start."""
    physics: dict[str, bool] = field(default_factory=dict)
    """Overrides of physics models in this world, by name."""
    wind: Wind | None = None
    starts: Starts | None = None
    """Requirements that ``starts_m`` satisfy; None: unchecked."""
    mjcf: Path | None = None
    """Path of a MuJoCo model that replaces the obstacles; other engines do not support it."""
    settings: str = ""
    """Generator settings besides the seed, such as ``difficulty=0.8``."""
    floor_map: FloorMap | None = field(default=None, compare=False)
    """The map of a mobile base, with start and goal and their headings; None: other worlds."""

    @property
    def title(self) -> str:
        """Name to load it again, such as ``warehouse:7``."""
        if self.mjcf:
            return self.name
        return f"{self.name}:{self.seed}" + (f":{self.settings}" if self.settings else "")

    def distance(self, points: ArrayLike) -> Array:
        """Return the signed distance (N,) in m of points (N, 3) to the nearest obstacle or the floor; negative inside.

        Raises:
            UserError: The world is a MuJoCo model, for which this is not available.
        """
        return self._shapes.distance(_rows(points, "points"))

    def cast(self, origins: ArrayLike, directions: ArrayLike, far_m: float = np.inf) -> Array:
        """Return the lengths (R,) of rays in m up to their first hit; inf without one within ``far_m``.

        Args:
            origins: (R, 3) start points, m; inside an obstacle, a ray ends where it leaves it.
            directions: (R, 3) directions, of any length but 0.
            far_m: Greatest length, m.

        Raises:
            UserError: The world is a MuJoCo model, for which this is not available.
        """
        along = _rows(directions, "directions")
        length = np.linalg.norm(along, axis=1, keepdims=True)
        if not (length > 0.0).all():
            raise ValueError("directions: each must be longer than 0.")
        reach = self._shapes.cast(_rows(origins, "origins"), along / length)
        reach[reach > far_m] = np.inf
        return reach

    def free(self, position: Point, radius: float) -> bool:
        """Return whether a ball of that radius, m, touches no obstacle and its centre is within the bounds.

        Raises:
            UserError: The world is a MuJoCo model, for which this is not available.
        """
        at = _rows(position, "position")
        low, high = self.bounds_m
        inside = bool((at >= low).all() and (at <= high).all())
        return inside and bool(self._shapes.distance(at, floor=False)[0] >= radius)

    @cached_property
    def _shapes(self) -> Shapes:
        if self.mjcf is not None:
            raise UserError(
                f"{self.mjcf} is a MuJoCo model, which only MuJoCo reads: use the mujoco backend or a YAML world."
            )
        return Shapes(self.obstacles, self.floor)


def world_names() -> list[str]:
    """Return the names of the worlds that ship with rlstack or are in a share folder's ``sim``."""
    return sorted(list_resources("sim", ".yaml"))


def load_world(text: str | Path) -> World:
    """Load a world by name or path: ``warehouse``, ``warehouse:7`` (a seed), ``path/to/world.yaml`` or ``.xml``.

    A seed may be followed by generator settings, as in ``clutter:7:difficulty=0.8,radius_m=0.2``.

    Raises:
        UserError: There is no such world, its file is invalid, or its settings leave no room for start positions.
    """
    text = str(text)
    rest, changed = _settings(text)
    stem, _, tail = rest.rpartition(":")
    name, seed = (stem, _seed(tail, text)) if stem else (rest, None)
    if name.endswith(".xml"):
        return _mjcf_world(name, seed)
    if name.endswith((".yaml", ".yml")) or "/" in name:
        path = Path(name)
    else:
        found = list_resources("sim", ".yaml")
        if name not in found:
            raise unknown_name("world", name, found)
        path = found[name]
    file = read_world(path)
    if not changed:
        return generate(file, name, seed, where=str(path))
    file = dataclasses.replace(file, settings={**file.settings, **changed})
    world = generate(file, name, seed, where=f"World '{text}'")
    return dataclasses.replace(world, settings=text[len(rest) + 1 :])


def read_world(path: Path) -> WorldFile:
    """Read a world file; raise ``UserError`` if it cannot be read or is invalid."""
    return schema.load(WorldFile, read_yaml(path, "the world"), str(path))


def generate(file: WorldFile, name: str, seed: int | None = None, *, where: str = "the world file") -> World:
    """Draw a world; the same file and seed give the same world, bit for bit.

    Args:
        file: The world file.
        name: Name of the world.
        seed: Seed instead of the file's.
        where: Name of the source in errors.

    Raises:
        UserError: The generator or a physics model is unknown, or settings are invalid or leave no room for start
            positions.
    """
    generator: WorldGenerator = WORLD_GENERATORS.load(file.generator)
    settings: Any = schema.load(generator.settings, file.settings, f"{where}: settings")
    seed = file.seed if seed is None else seed
    check_switches(file.physics, f"{where}: physics")

    def built(layout: WorldLayout, obstacles: tuple[Obstacle, ...], **starts: Any) -> World:
        drawn: dict[str, Any] = {
            "seed": seed,
            "obstacles": obstacles,
            "bounds_m": layout.bounds_m,
            "floor_map": layout.floor_map,
        }
        return World(name=name, floor=file.floor, physics=dict(file.physics), wind=file.wind, **drawn, **starts)

    if generator.takes_seed:
        if file.obstacles or file.starts != Starts():
            raise UserError(
                f"{where}: the generator '{file.generator}' places obstacles and starts itself:"
                " leave out 'obstacles' and 'starts'."
            )
        layout = generator.draw(settings, seed)
        _check(layout.obstacles, layout, where)
        return built(layout, layout.obstacles, starts_m=layout.starts_m or ())
    reason = ""
    for attempt in range(_DRAWS):
        rng = np.random.Generator(np.random.PCG64([seed, attempt]))
        layout = generator.draw(settings, rng)
        obstacles = (*layout.obstacles, *file.obstacles)
        _check(obstacles, layout, where)
        try:
            places = find_starts(obstacles, layout.inside, file.starts, rng)
        except NoRoom as error:
            reason = str(error)
            continue
        return built(layout, obstacles, starts_m=places, starts=file.starts)
    raise UserError(
        f"{where}: no world with seed {seed} has room for its start places; in the last of {_DRAWS} draws, {reason}."
        " Set fewer or smaller obstacles, or ask for less under 'starts'."
    )


def _check(obstacles: tuple[Obstacle, ...], layout: WorldLayout, where: str) -> None:
    names: set[str] = set()
    parts_of(obstacles, where)
    low, high = layout.bounds_m
    for obstacle in obstacles:
        if obstacle.name in names:
            raise UserError(f"{where}: two obstacles are called '{obstacle.name}': rename one.")
        names.add(obstacle.name)
        (x, y, _), (rx, ry) = obstacle.position_m, obstacle.reach_m
        corners = ((x - rx, y - ry, obstacle.lowest_m), (x + rx, y + ry, obstacle.highest_m))
        if any(a < b - 1e-5 for a, b in zip(corners[0], low)) or any(a > b + 1e-5 for a, b in zip(corners[1], high)):
            raise UserError(
                f"{where}: the obstacle '{obstacle.name}' is outside the world's bounds, {_show(low)} to"
                f" {_show(high)} m: move it, or make the world larger under 'settings'."
            )


def _mjcf_world(name: str, seed: int | None) -> World:
    path = Path(name)
    if seed is not None:
        raise UserError(f"The world {name} is a MuJoCo model, which is not drawn from a seed: leave out ':{seed}'.")
    if not path.is_file():
        raise UserError(f"There is no world {name}. Worlds that need no file: {', '.join(world_names())}.")
    side = range(-2, 2)
    places = sorted(((float(x), float(y), 0.0) for x in side for y in side), key=lambda p: (p[0] ** 2 + p[1] ** 2, p))
    infinite = float("inf")
    return World(
        name=name,
        seed=0,
        floor=False,
        obstacles=(),
        bounds_m=((-infinite,) * 3, (infinite,) * 3),
        starts_m=tuple(places),
        mjcf=path,
    )


def _settings(text: str) -> tuple[str, dict[str, Any]]:
    """Split a world's name from the settings at its end."""
    rest, _, tail = text.rpartition(":")
    if "=" not in tail or not rest:
        return text, {}
    try:
        found = parse_yaml("{" + tail.replace("=", ": ") + "}", f"World '{text}'")
    except UserError:
        found = None
    if not isinstance(found, dict) or ":" not in rest:
        raise UserError(f"World '{text}': write settings after a seed, as in 'clutter:7:difficulty=0.8,radius_m=0.2'.")
    return rest, found


def _seed(tail: str, text: str) -> int:
    if not (tail.isascii() and tail.isdigit()):
        raise UserError(
            f"World '{text}': '{tail}' is not a seed: must be a whole number, 0 or more, as in 'warehouse:7'."
        )
    return int(tail)


def _rows(numbers: Any, name: str) -> Array:
    rows = np.atleast_2d(np.asarray(numbers, dtype=np.float64))
    if rows.ndim != 2 or rows.shape[1] != 3:
        raise ValueError(f"{name}: shape {rows.shape} is not (rows, 3).")
    return rows


def _show(point: Point) -> str:
    return f"({', '.join(f'{number:g}' for number in point)})"
