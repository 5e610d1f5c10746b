"""Settings of manipulation tasks, and the trials drawn from them: starts, objects, sensor noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.control.inverse_kinematics import limits_of, reach
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator, WorkArea
from rlstack.robots import frames
from rlstack.robots.kinematics import chain_of, tool_motion
from rlstack.schema import in_order, value
from rlstack.sim.obstacle import Obstacle
from rlstack.tasks.manipulator.departures import ArmDepartures

AXES = ("x", "y", "z", "yaw", "gripper")
"""Axes that an action can move, in order."""


@dataclass(frozen=True, kw_only=True)
class Motion:
    """Scale of actions."""

    speed_m_s: float = value(0.4, unit="m/s", above=0.0)
    """Speed of the tool along each axis at an action of 1."""
    yaw_rate_rad_s: float = value(1.5, unit="rad/s", above=0.0)
    lead_s: float = value(0.15, unit="s", above=0.0)
    """Bound on the lead of targets over joints, as the time that the joints need for it."""
    posture: float = value(0.05, at_least=0.0, at_most=1.0)
    """Share of the distance to the rest posture that joints move per step in the tool's null space."""


Range = tuple[float, float]

OBJECT = "object"
"""Name of the object in the scene."""


@dataclass(frozen=True, kw_only=True)
class Region:
    """A box in base_link, m."""

    x_m: Range = value((0.35, 0.65), unit="m")
    y_m: Range = value((-0.25, 0.25), unit="m")
    z_m: Range = value((0.0, 0.0), unit="m")

    def __post_init__(self) -> None:
        in_order(self)

    @property
    def corners(self) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """Lowest and highest corner."""
        low, high = zip(self.x_m, self.y_m, self.z_m)
        return low, high  # type: ignore[return-value]

    def ends(self, what: str, axes: str = "xyz") -> dict[str, float]:
        """Return the corners' coordinates, m, by ``what_axis_min_m`` and ``what_axis_max_m``."""
        named = {"min": self.corners[0], "max": self.corners[1]}
        return {f"{what}_{axis}_{end}_m": named[end][k] for end in named for k, axis in enumerate(axes)}

    @property
    def middle(self) -> tuple[float, float, float]:
        """Centre of the box, m."""
        low, high = self.corners
        return tuple((a + b) / 2.0 for a, b in zip(low, high))  # type: ignore[return-value]

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        """Draw positions (count, 3), uniformly."""
        low, high = self.corners
        return rng.uniform(low, high, (count, 3))


@dataclass(frozen=True, kw_only=True)
class ObjectRange:
    """Distribution of objects."""

    half_m: Range = value((0.018, 0.023), unit="m", above=0.0)
    """Half lengths of a box, drawn independently."""
    mass_kg: Range = value((0.05, 0.2), unit="kg", above=0.0)
    friction: Range = value((0.6, 1.2), above=0.0)
    yaw_rad: float = value(np.pi / 4, unit="rad", at_least=0.0)
    """To either side."""

    def __post_init__(self) -> None:
        in_order(self)


@dataclass(frozen=True, kw_only=True)
class ArmNoise:
    """Standard deviations of sensor noise."""

    joint_rad: float = value(0.0002, unit="rad", at_least=0.0)
    """Noise of prismatic fingers, m."""
    joint_velocity_rad_s: float = value(0.002, unit="rad/s", at_least=0.0)
    object_m: float = value(0.001, unit="m", at_least=0.0)
    object_rad: float = value(0.01, unit="rad", at_least=0.0)
    """About each axis."""


@dataclass(frozen=True)
class ArmTrials:
    """Initial conditions of N episodes.

    Args:
        joints: (N, joints) joint positions, rad or m.
        goal: (N, 3) m.
        position: (N, 3) m of the object; empty columns without one.
        yaw: (N,) rad of the object.
        half: (N, 3) m of the object.
        mass: (N,) kg of the object.
        friction: (N,) of the object.
        departures: From the robot file and the task; None: none.
    """

    joints: Array
    goal: Array
    position: Array = field(default_factory=lambda: np.empty((0, 3)))
    yaw: Array = field(default_factory=lambda: np.empty(0))
    half: Array = field(default_factory=lambda: np.empty((0, 3)))
    mass: Array = field(default_factory=lambda: np.empty(0))
    friction: Array = field(default_factory=lambda: np.empty(0))
    departures: ArmDepartures | None = None

    def __len__(self) -> int:
        return len(self.joints)

    @property
    def orientation(self) -> Array:
        """(N, 4) xyzw of the object."""
        zero = np.zeros_like(self.yaw)
        return np.stack([zero, zero, np.sin(self.yaw / 2), np.cos(self.yaw / 2)], axis=1)

    def take(self, index: NDArray[np.intp]) -> Self:
        """Return those at ``index``."""
        columns = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "departures"}
        taken = {name: column[index] if len(column) else column for name, column in columns.items()}
        return type(self)(**taken, departures=None if self.departures is None else self.departures.take(index))


@dataclass(frozen=True)
class Starts:
    """Start poses of N arms.

    Args:
        joints: (N, joints) rad, m.
        tool: (N, 3) m in base_link.
    """

    joints: Array
    tool: Array

    def take(self, index: NDArray[np.intp]) -> Starts:
        """Return those at ``index``."""
        return Starts(self.joints[index], self.tool[index])


def draw_starts(
    robot: Manipulator, region: Region, yaw_rad: float, opening: float, rng: np.random.Generator, count: int
) -> Starts:
    """Draw joint positions that hold the tool in a region, pointing down.

    Args:
        robot: The arm.
        region: Region of the tool.
        yaw_rad: Largest yaw of the tool, to either side of base_link's x axis.
        opening: Opening of the gripper, a share of its range.
        rng: Random generator.
        count: Number of starts.

    Raises:
        UserError: The arm cannot reach most of the region.
    """
    chain = chain_of(robot)
    limits = limits_of(robot, chain)
    drives = robot.drives
    rest = np.array([drives[k].rest for k in chain.index])
    found = np.empty((0, len(chain.index)))
    for _ in range(5):
        place, yaw = region.draw(rng, count), rng.uniform(-yaw_rad, yaw_rad, count)
        joints, reached = reach(chain, limits, place, yaw, rest)
        found = np.concatenate([found, joints[reached]])
        if len(found) >= count:
            break
    else:
        raise UserError(
            f"{robot.name} cannot hold its tool in most of the region from {region.corners[0]} to"
            f" {region.corners[1]} m, pointing down: choose a smaller one (starts)."
        )
    hand = [drive.lower + opening * (drive.upper - drive.lower) for drive in drives[len(robot.joints) :]]
    tool = tool_motion(chain.screws, found[:count]).position
    return Starts(np.concatenate([found[:count], np.tile(hand, (count, 1))], axis=1), np.asarray(tool))


def draw_objects(
    objects: ObjectRange, places: Region, goals: Region, apart_m: float, rng: np.random.Generator, starts: Starts
) -> ArmTrials:
    """Draw trials with a box on the table.

    Args:
        objects: Distribution of boxes.
        places: Region of the box; its height follows from its size.
        goals: Region of the box's goal.
        apart_m: Least distance from the box to its goal, seen from above.
        rng: Random generator.
        starts: Start poses of N arms.

    Raises:
        UserError: The region is too small for goals so far away.
    """
    count = len(starts.joints)
    half = rng.uniform(*objects.half_m, (count, 3))
    position, goal = places.draw(rng, count), goals.draw(rng, count)
    position[:, 2] = half[:, 2]
    for _ in range(100):
        near = np.flatnonzero(np.linalg.norm((goal - position)[:, :2], axis=1) < apart_m)
        if not len(near):
            break
        goal[near] = goals.draw(rng, len(near))
    else:
        raise UserError(f"apart_m: {apart_m:g} is not allowed: the region of goals is too small for it.")
    return ArmTrials(
        starts.joints,
        goal,
        position,
        rng.uniform(-objects.yaw_rad, objects.yaw_rad, count),
        half,
        rng.uniform(*objects.mass_kg, count),
        rng.uniform(*objects.friction, count),
    )


def noisy(noise: ArmNoise, signals: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Return signals (..., elements) with sensor noise; signals without a noise setting are unchanged."""
    sensed = dict(signals)
    for name, sigma in (("joint_position", noise.joint_rad), ("joint_velocity", noise.joint_velocity_rad_s)):
        sensed[name] = signals[name] + sigma * rng.standard_normal(signals[name].shape)
    if "object_position" in signals:
        place, turn = signals["object_position"], signals["object_orientation"]
        sensed["object_position"] = place + noise.object_m * rng.standard_normal(place.shape)
        about = frames.from_rotation_vector(noise.object_rad * rng.standard_normal((*turn.shape[:-1], 3)))
        sensed["object_orientation"] = frames.multiply(about, turn)
    return sensed


Colour = tuple[float, float, float]


def box_of(
    trials: ArmTrials,
    number: int,
    name: str,
    place: Array,
    yaw_rad: float,
    colour: Colour,
    half: Array | None = None,
) -> Obstacle:
    """Return a box like that of a trial, for an engine's world.

    Args:
        trials: The trials.
        number: Index of the trial.
        name: Name of the box.
        place: (3,) m, its centre.
        yaw_rad: Yaw of the box.
        colour: Colour of the box.
        half: (3,) half lengths of the box, m; None: as the trial's object.
    """
    half = trials.half[number] if half is None else half
    return Obstacle(
        name=name,
        shape="box",
        size_m=tuple(map(float, 2.0 * half)),  # type: ignore[arg-type]
        position_m=tuple(map(float, place)),  # type: ignore[arg-type]
        yaw_rad=yaw_rad,
        colour=colour,
        mass_kg=float(trials.mass[number]),
        friction=float(trials.friction[number]),
    )


USUAL = WorkArea(x_m=(0.25, 0.75), y_m=(-0.4, 0.4), z_m=(0.015, 0.55), opening_m=0.08)
"""The work area that the tasks' defaults are for."""


def fitted(task: Any, work: WorkArea | None) -> Any:
    """Return a task adapted to a work area; None: unchanged.

    Regions keep their relative position in :data:`USUAL`, with heights from the table. Sizes and masses of objects
    scale with the opening: with a constant density they would be lighter, and boxes of 10 g slip from fingers that
    press with 20 N in physics steps of 5 ms. Tolerances and speeds stay the same.
    """
    if work is None:
        return task
    usual = type(task)()
    changes: dict[str, Any] = {"workspace": Region(x_m=work.x_m, y_m=work.y_m, z_m=work.z_m)}
    scale = work.opening_m / USUAL.opening_m
    for one in fields(task):
        mine = getattr(task, one.name)
        if isinstance(mine, Region):
            changes.setdefault(one.name, _moved(mine, work))
        elif isinstance(mine, ObjectRange):
            changes[one.name] = _scaled(mine, scale)
    return replace(
        task, **{name: _unsaid(getattr(task, name), getattr(usual, name), new) for name, new in changes.items()}
    )


def _unsaid(mine: Any, usual: Any, new: Any) -> Any:
    """Return a region or range of objects with unset values taken from ``new``."""
    same = [field.name for field in fields(mine) if getattr(mine, field.name) == getattr(usual, field.name)]
    return replace(mine, **{name: getattr(new, name) for name in same})


def _moved(region: Region, work: WorkArea) -> Region:
    high = work.z_m[1] / USUAL.z_m[1]
    return Region(
        x_m=_onto(region.x_m, USUAL.x_m, work.x_m),
        y_m=_onto(region.y_m, USUAL.y_m, work.y_m),
        z_m=(high * region.z_m[0], high * region.z_m[1]),
    )


def _onto(range_: Range, usual: Range, mine: Range) -> Range:
    scale = (mine[1] - mine[0]) / (usual[1] - usual[0])
    low, high = (round(mine[0] + scale * (end - usual[0]), 6) for end in range_)
    return low, high


def _scaled(objects: ObjectRange, scale: float) -> ObjectRange:
    def times(range_: Range, factor: float) -> Range:
        return range_[0] * factor, range_[1] * factor

    return replace(objects, half_m=times(objects.half_m, scale), mass_kg=times(objects.mass_kg, scale))
