"""Vectorised bases, each in its map: in the batch simulator, or in an engine with a world for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from rlstack.arrays import Array, Array32, Mask
from rlstack.interfaces.scan_messages import finite_ranges
from rlstack.kinds.wheeled_base.simulation_kinematics import limited_twist
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import frames
from rlstack.sim.batch_wheeled_base.layout import CIRCLE_ROWS
from rlstack.sim.batch_wheeled_base.race import RaceSimulator, TrackProgress
from rlstack.sim.batch_wheeled_base.simulator import WheeledBaseSimulator
from rlstack.sim.crowds.scenes import Scenes
from rlstack.sim.crowds.simulator import CrowdSimulator, move_pedestrians, with_pedestrians
from rlstack.sim.maps.floor_map import FloorMap, distance
from rlstack.sim.maps.pool import MapPool
from rlstack.sim.maps.tracks import Track
from rlstack.sim.vector import BATCH, EngineVector, VectorSimulator
from rlstack.sim.world import World
from rlstack.sim.world_generators.floor_map import world_of

PHYSICS_HZ = 250.0
"""Physics rate of bases driven in an engine in process. After 20 s of random commands a TurtleBot3
ends up 5 mm (MuJoCo) and 7 cm (PyBullet) from where it does with steps four times as fine, at a quarter of the cost."""

RACE_PHYSICS_HZ = 500.0
"""The same for races, where a wheel rotates at 100 rad/s."""


class WheeledBaseVector(VectorSimulator, Protocol):
    """N bases, each in its map; commands (N, k) in m/s and rad/s act at once."""

    def pose(self) -> Array:
        """Return (N, 3): x and y in m, yaw in rad."""

    def twist(self) -> Array:
        """Return (N, 3): speed ahead and to the left, m/s, and turning rate, rad/s."""

    def scan(self) -> Array:
        """Return (N, rays) m, all finite, as in the signal ``scan``."""

    def clearance(self) -> Array:
        """Return (N,) m from each footprint to the nearest obstacle; negative if they overlap."""

    def stop(self, which: Mask) -> None:
        """Stop the robots ``which`` (N,), where the simulator can do so at once."""


class CrowdVector(WheeledBaseVector, Protocol):
    """N bases with people around them."""

    def people(self) -> Array | None:
        """Return (N, P, 5) position, radius and velocity of people and movers, m and m/s; None if there are none."""

    def people_m(self) -> Array | None:
        """Return (N,) m, each footprint's smallest distance to movers since the last call; None if there are none."""


class RaceVector(WheeledBaseVector, Protocol):
    """N cars, each alone on its track, at the start of a race."""

    progress_m: Array
    """(N,) progress along the centre line since the start, m."""


def wheeled_base_vector(
    name: str,
    robot: WheeledBase,
    count: int,
    rate_hz: float,
    *,
    pool: MapPool,
    parameters: Array32 | None = None,
    people: Scenes | None = None,
    seed: int = 0,
) -> CrowdVector:
    """Return vectorised bases at the starts of N maps in the simulator called ``name``.

    Args:
        name: ``batch``, or a backend with an engine.
        robot: The base.
        count: N.
        rate_hz: Control rate.
        pool: N maps.
        parameters: (rows, N) departures from the robot's file in the batch simulator; None: none.
        people: People and movers in the maps, if any.
        seed: Seed of the sensors' noise.

    Raises:
        UserError: There is no such simulator, or it is not installed.
    """
    if len(pool) != count:
        raise ValueError(f"{count} robots need a map each, and there are {len(pool)} maps")
    if name == BATCH:
        return _BatchCrowdVector(robot, pool, rate_hz, people, parameters=parameters, seed=seed)
    return _EngineCrowdVector(name, robot, pool, rate_hz, people, seed)


def race_vector(
    name: str,
    robot: WheeledBase,
    tracks: Sequence[Track],
    rate_hz: float,
    *,
    parameters: Array32 | None = None,
    seed: int = 0,
) -> RaceVector:
    """Return cars at the starts of N tracks in the simulator called ``name``; see :func:`wheeled_base_vector`."""
    if name == BATCH:
        return RaceSimulator(robot, tracks, rate_hz=rate_hz, parameters=parameters, seed=seed)
    return _EngineRaceVector(name, robot, tracks, rate_hz, seed)


def clearance_at(robot: WheeledBase, drawn: FloorMap, pose: Array) -> float:
    """Return the distance, m, of a robot's footprint at a pose (3,), m and rad, from a map's obstacles."""
    x, y, yaw = pose
    c, s = np.cos(yaw), np.sin(yaw)
    discs = np.array(robot.footprint)
    at = x + c * discs[:, 0] - s * discs[:, 1], y + s * discs[:, 0] + c * discs[:, 1]
    return float((distance(drawn.boxes, drawn.circles, *at) - discs[:, 2]).min())


def goal_signals(goal: Array) -> dict[str, Array]:
    """Return the signals of goals (N, 3) on a plane: x and y in m, yaw in rad."""
    level = np.zeros((len(goal), 1))
    position = np.concatenate([goal[:, :2], level], axis=1)
    return {"goal_position": position, "goal_orientation": frames.from_yaw(goal[:, 2])}


def people_signals(people: Array) -> dict[str, Array]:
    """Return the signals of people (N, P, 5): position, radius and velocity, m and m/s."""
    level = np.zeros((*people.shape[:2], 1))
    return {
        "people_position": np.concatenate([people[..., :2], level], axis=-1),
        "people_velocity": np.concatenate([people[..., 3:], level], axis=-1),
        "people_radius": people[..., 2],
    }


def _crowd_of(people: Scenes | None, pool: MapPool, robot: WheeledBase, rate_hz: float) -> CrowdSimulator | None:
    return None if people is None else CrowdSimulator(people, pool.boxes, pool.circles, robot, 1.0 / rate_hz)


class _BatchCrowdVector(WheeledBaseSimulator):
    def __init__(
        self, robot: WheeledBase, pool: MapPool, rate_hz: float, people: Scenes | None, **options: Any
    ) -> None:
        circles = pool.circles if people is None else np.concatenate([pool.circles, people.people], axis=1)
        self._crowd = _crowd_of(people, pool, robot, rate_hz)
        self._still = pool.circles.shape[1] // CIRCLE_ROWS
        super().__init__(robot, pool.boxes, circles, rate_hz=rate_hz, **options)
        self.place(pool.starts.astype(float))

    def step(self, command: Array) -> None:
        if self._crowd is not None:
            self._crowd.step(self.pose(), self.twist())
            self.set_circles(self._still, self._crowd.people)
        super().step(command)

    def people(self) -> Array | None:
        return None if self._crowd is None else self._crowd.people

    def people_m(self) -> Array | None:
        return None if self._crowd is None else self._crowd.gap(self.pose())


class WheeledBaseEngineVector(EngineVector):
    """N bases in an engine, whose commands are limited in acceleration, as by the guard."""

    robot: WheeledBase

    def __init__(
        self,
        name: str,
        robot: WheeledBase,
        worlds: Sequence[World | str],
        rate_hz: float,
        *,
        seed: int,
        physics_hz: float = PHYSICS_HZ,
    ) -> None:
        super().__init__(name, robot, len(worlds), rate_hz, worlds=worlds, seed=seed, physics_hz=physics_hz)
        self._lidar, self._sent = robot.lidars.get("scan"), np.zeros((len(worlds), 2))

    def step(self, command: Array) -> None:
        """Advance one control period under ``command`` (N, 2), m/s and rad/s, which acts at once."""
        for k, wanted in enumerate(command):
            self._sent[k] = limited_twist(self.robot, wanted, self._sent[k], self.period_s)
        super().step(self._sent)

    def pose(self) -> Array:
        """Return (N, 3): x and y in m, yaw in rad."""
        yaw = frames.yaw(self._signals["orientation"])
        return np.concatenate([self._signals["position"][:, :2], np.atleast_1d(yaw)[:, None]], axis=1)

    def twist(self) -> Array:
        """Return (N, 3): speed ahead and to the left, m/s, and turning rate, rad/s."""
        return np.concatenate(
            [self._signals["linear_velocity"][:, :2], self._signals["angular_velocity"][:, 2:]], axis=1
        )

    def scan(self) -> Array:
        """Return (N, rays) m, all finite, as in the signal ``scan``."""
        if self._lidar is None:
            raise ValueError(f"{self.robot.name} has no lidar called scan")
        lidar = self._lidar
        return finite_ranges(
            self.capture("scan", "ranges"),
            increment_rad=lidar.angle_increment_rad,
            range_min_m=lidar.range_min_m,
            range_max_m=lidar.range_max_m,
            turns=lidar.angle_increment_rad * lidar.rays > 2.0 * np.pi - 1e-3,
        )

    def stop(self, which: Mask) -> None:
        """No-op: a base that is commanded to stop brakes."""


class _EngineCrowdVector(WheeledBaseEngineVector):
    def __init__(
        self, name: str, robot: WheeledBase, pool: MapPool, rate_hz: float, people: Scenes | None, seed: int
    ) -> None:
        self._maps, self._crowd = pool.maps, _crowd_of(people, pool, robot, rate_hz)
        worlds = [world_of(drawn) for drawn in pool.maps]
        if self._crowd is not None:
            worlds = [with_pedestrians(world, who) for world, who in zip(worlds, self._crowd.people)]
        super().__init__(name, robot, worlds, rate_hz, seed=seed)
        x, y, yaw = pool.starts.astype(float).T
        place = np.stack([x, y, np.full(len(x), robot.rest_height_m)], axis=1)
        self.set_state({"position": place, "orientation": frames.from_yaw(yaw)})

    def step(self, command: Array) -> None:
        if self._crowd is not None:
            self._crowd.step(self.pose(), self.twist())
            for backend, people in zip(self.backends, self._crowd.people):
                move_pedestrians(backend.simulation.engine, people)  # type: ignore[attr-defined]
        super().step(command)

    def clearance(self) -> Array:
        return np.array([clearance_at(self.robot, drawn, pose) for pose, drawn in zip(self.pose(), self._maps)])

    def people(self) -> Array | None:
        return None if self._crowd is None else self._crowd.people

    def people_m(self) -> Array | None:
        return None if self._crowd is None else self._crowd.gap(self.pose())


class _EngineRaceVector(WheeledBaseEngineVector):
    def __init__(self, name: str, robot: WheeledBase, tracks: Sequence[Track], rate_hz: float, seed: int) -> None:
        titles = [track.title for track in tracks]
        super().__init__(name, robot, titles, rate_hz, seed=seed, physics_hz=RACE_PHYSICS_HZ)
        self._progress = TrackProgress(tracks, robot)
        self._progress.start()
        self.progress_m = np.zeros(len(tracks))

    def step(self, command: Array) -> None:
        super().step(command)
        self.progress_m = self._progress.follow(self.pose()[:, :2])

    def clearance(self) -> Array:
        return self._progress.clearance(self.pose())
