"""N bases that are driven together, each in its map: in the batch simulator, or one after the other in an engine."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS
from rlstack.interfaces.scan_data import finite_ranges
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import frames
from rlstack.sim.bases.layout import CIRCLE_ROWS
from rlstack.sim.bases.simulator import BaseSimulator
from rlstack.sim.drives import limited_twist
from rlstack.sim.maps.floor_map import FloorMap, distance
from rlstack.sim.maps.world import world_of
from rlstack.verification.courses import Course
from rlstack.verification.flock import BATCH, engine_of, whole_steps
from rlstack.verification.walkers import Walkers, move, peopled

PHYSICS_HZ = 250.0
"""Physics steps a second where bases are driven in an engine in process. Beside steps four times as fine, a TurtleBot3
ends up 5 mm elsewhere after 20 s of random commands in MuJoCo and 7 cm in PyBullet, a quarter of their cost."""


class Fleet(Protocol):
    """N bases at the starts of a course."""

    def step(self, command: Array) -> None:
        """Let one control period pass under ``command`` (N, k), m/s and rad/s; it comes now."""

    def pose(self) -> Array:
        """Return (N, 3): x and y in m, yaw in rad."""

    def twist(self) -> Array:
        """Return (N, 3): speed ahead and to the left, m/s, and turning rate, rad/s."""

    def scan(self) -> Array:
        """Return (N, rays) m, all finite, as in the signal ``scan``."""

    def clearance(self) -> Array:
        """Return (N,) m from each footprint to the nearest obstacle, moving or not; below 0 they overlap."""

    def people(self) -> Array | None:
        """Return (N, P, 5) place, radius and velocity of what moves, m and m/s; None: nothing does."""

    def people_m(self) -> Array | None:
        """Return (N,) m from each footprint to the nearest of what moves, since the last call; None: nothing does."""

    def close(self) -> None:
        """Release everything."""


def fleet(name: str, robot: WheeledBase, course: Course, rate_hz: float, seed: int) -> Fleet:
    """Return robots at the starts of ``course`` in the simulator called ``name``.

    Args:
        name: ``batch``, or a backend with an engine.
        robot: What drives; in the batch simulator with the course's departures from its file.
        course: N ways.
        rate_hz: Control rate.
        seed: Of the sensors' noise.

    Raises:
        UserError: There is no such simulator, it is not installed, or nothing can move there as the course wants.
    """
    if name == BATCH:
        return _Batch(robot, course, rate_hz, seed)
    return _InEngine(name, robot, course, rate_hz, seed)


def clearance_at(robot: WheeledBase, drawn: FloorMap, pose: Array) -> float:
    """Return how far, m, a robot's footprint at a pose (3,), m and rad, is from what stands on a map."""
    x, y, yaw = pose
    c, s = np.cos(yaw), np.sin(yaw)
    discs = np.array(robot.footprint)
    at = x + c * discs[:, 0] - s * discs[:, 1], y + s * discs[:, 0] + c * discs[:, 1]
    return float((distance(drawn.boxes, drawn.circles, *at) - discs[:, 2]).min())


class _Batch(BaseSimulator):
    def __init__(self, robot: WheeledBase, course: Course, rate_hz: float, seed: int) -> None:
        pool, movers = course.pool, course.movers
        circles, self._walking = pool.circles, None
        if movers is not None:
            circles = np.concatenate([circles, movers.people], axis=1)
            self._walking = Walkers(movers, pool, robot, 1.0 / rate_hz)
        self._still = pool.circles.shape[1] // CIRCLE_ROWS
        super().__init__(robot, pool.boxes, circles, rate_hz=rate_hz, parameters=course.parameters, seed=seed)
        self.place(pool.starts.astype(float))

    def step(self, command: Array) -> None:
        """Let one period pass under ``command`` (N, command_width), m/s and rad/s; it comes now."""
        if self._walking is not None:
            self._walking.step(self.pose(), self.twist())
            self.set_circles(self._still, self._walking.people)
        super().step(command)

    def people(self) -> Array | None:
        """Return (N, P, 5) place, radius and velocity of what moves, m and m/s; None: nothing does."""
        return None if self._walking is None else self._walking.people

    def people_m(self) -> Array | None:
        """Return (N,) m from each footprint to the nearest of what moves, since the last call; None: nothing does."""
        return None if self._walking is None else self._walking.gap(self.pose())

    def close(self) -> None:
        """Release nothing: it is all memory."""


class _InEngine:
    """Each robot in a world of its own, so that every map is there."""

    def __init__(self, name: str, robot: WheeledBase, course: Course, rate_hz: float, seed: int) -> None:
        if engine_of(name) is None:
            raise UserError(f"The backend '{name}' is not a simulator: drive in batch, or in another such as mujoco.")
        rate = whole_steps(PHYSICS_HZ, rate_hz) * rate_hz
        self._robot, self._period_s, self._maps = robot, 1.0 / rate_hz, course.pool.maps
        self._backends: list[Any] = []
        self._lidar = robot.lidars.get("scan")
        self._sent = np.zeros((len(course), 2))
        movers = course.movers
        self._walking = None if movers is None else Walkers(movers, course.pool, robot, self._period_s)
        for number, (drawn, start) in enumerate(zip(course.pool.maps, course.pool.starts.astype(float))):
            world = world_of(drawn) if self._walking is None else peopled(world_of(drawn), self._walking.people[number])
            backend = BACKENDS.load(name)(robot, world=world, physics_rate_hz=rate, noise_seed=seed + number)
            self._backends.append(backend)
            backend.connect()
            place = np.array([start[0], start[1], robot.rest_height_m])
            backend.reset({"position": place, "orientation": frames.from_yaw(start[2])})
        self._read()

    def step(self, command: Array) -> None:
        if self._walking is not None:
            self._walking.step(self.pose(), self.twist())
            for backend, people in zip(self._backends, self._walking.people):
                move(backend.simulation.engine, people)
        for k, (backend, wanted) in enumerate(zip(self._backends, command)):
            # the guard on a robot limits acceleration; so does this
            self._sent[k] = limited_twist(self._robot, wanted, self._sent[k], self._period_s)
            backend.write({"twist": self._sent[k]})
            backend.step(self._period_s)
        self._read()

    def pose(self) -> Array:
        yaw = frames.yaw(self._signals["orientation"])
        return np.concatenate([self._signals["position"][:, :2], np.atleast_1d(yaw)[:, None]], axis=1)

    def twist(self) -> Array:
        return np.concatenate(
            [self._signals["linear_velocity"][:, :2], self._signals["angular_velocity"][:, 2:]], axis=1
        )

    def scan(self) -> Array:
        if self._lidar is None:
            raise ValueError(f"{self._robot.name} has no lidar called scan")
        lidar = self._lidar
        turns = lidar.angle_increment_rad * lidar.rays > 2.0 * np.pi - 1e-3
        return finite_ranges(
            np.stack([backend.capture("scan").arrays["ranges"] for backend in self._backends]),
            increment_rad=lidar.angle_increment_rad,
            range_min_m=lidar.range_min_m,
            range_max_m=lidar.range_max_m,
            turns=turns,
        )

    def clearance(self) -> Array:
        return np.array([clearance_at(self._robot, drawn, pose) for pose, drawn in zip(self.pose(), self._maps)])

    def people(self) -> Array | None:
        return None if self._walking is None else self._walking.people

    def people_m(self) -> Array | None:
        return None if self._walking is None else self._walking.gap(self.pose())

    def close(self) -> None:
        for backend in self._backends:
            backend.close()

    def _read(self) -> None:
        readings = [backend.read().signals for backend in self._backends]
        self._signals = {name: np.stack([r[name] for r in readings]) for name in readings[0]}
