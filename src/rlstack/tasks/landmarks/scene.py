"""N robots, each in a room with landmarks: motion in the kind's batch simulator, and images of cameras in MuJoCo."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Index, Mask
from rlstack.interfaces.signals import INSTRUCTION_BYTES
from rlstack.robots.spec import RobotSpec
from rlstack.sim.landmark_renderer import LandmarkRenderer
from rlstack.tasks.core.image_streams import ImageStreams
from rlstack.tasks.landmarks.sensing import CAMERA, noisy
from rlstack.tasks.landmarks.trials import LandmarkTrials, empty_trials


class Vehicles(Protocol):
    """N robots of a kind in its batch simulator, without surroundings."""

    def place(self, index: Index, start: Array, rng: np.random.Generator) -> None:
        """Place some robots (n) at rest at (n, 4) x, y, z, m, and yaw, rad, with departures from their file."""

    def step(self, command: Array) -> None:
        """Advance one control period under ``command`` (N, width)."""

    def signals(self) -> dict[str, Array]:
        """Return ``position``, ``orientation``, ``linear_velocity`` and ``angular_velocity`` (N, ...), as odometry."""

    def waiting(self) -> Array:
        """Return the command (N, width) under which robots stay."""

    def state_dict(self) -> dict[str, Array]:
        """Return the mutable arrays."""

    def load_state_dict(self, state: dict[str, Array]) -> None:
        """Restore what :meth:`state_dict` returned."""


class Poses:
    """Poses of N robots during the last control period; see :class:`rlstack.tasks.core.image_streams.Worlds`.

    Args:
        count: N.
        period_s: Control period.
    """

    def __init__(self, count: int, period_s: float) -> None:
        self.state, self.time_s, self._period_s = np.zeros((count, 7)), np.zeros(count), period_s
        self.state[:, 6] = 1.0
        self.before = self.state.copy()
        """(N, 7) at the beginning of the period."""

    def restart(self, index: Index, pose: Array) -> None:
        """Begin some worlds (n) with robots at (n, 7)."""
        self.state[index], self.before[index], self.time_s[index] = pose, pose, 0.0

    def advance(self, pose: Array) -> None:
        """Move all robots to (N, 7) within one period."""
        self.before, self.state = self.state, pose
        self.time_s = self.time_s + self._period_s

    def state_at(self, world: int, time_s: float) -> Array:
        """Return the pose (7,) of a robot at a time in the last period."""
        share = min(max(1.0 - (float(self.time_s[world]) - time_s) / self._period_s, 0.0), 1.0)
        one, other = self.before[world], self.state[world]
        if one[3:] @ other[3:] < 0.0:
            other = np.concatenate([other[:3], -other[3:]])
        found: Array = one + share * (other - one)
        found[3:] /= math.sqrt(float(found[3:] @ found[3:]))  # so little turns in a period that this is the arc
        return found


class LandmarkCameras(ImageStreams):
    """Images of N robots' cameras; arguments as of :class:`LandmarkScene`."""

    renderer: LandmarkRenderer

    def __init__(self, task: Any, robot: RobotSpec, trials: LandmarkTrials, count: int, seed: int) -> None:
        room = task.room
        renderer = LandmarkRenderer(robot, (CAMERA,), room.corners, room.height_m, task.landmarks)
        super().__init__((CAMERA,), renderer, task.pictures, count, seed)
        self._trials = trials

    def _render(self, state: Array, world: int, camera: int) -> NDArray[np.uint8]:
        there = self._trials
        which = (there.pillar[world], there.place[world], there.half[world], there.yaw[world], there.colour[world])
        return self.renderer.render(state, *which, self._looks, world, camera)


class LandmarkScene:
    """N robots at a :class:`rlstack.tasks.landmarks.task.LandmarkTask`.

    Args:
        task: The task.
        robot: The robot.
        count: N.
        seed: Seed of noise and of images.
        threads: Not used: one step moves all robots.
        device: Only ``cpu``.
    """

    def __init__(
        self, task: Any, robot: RobotSpec, count: int, seed: int, threads: int | None = None, device: str = "cpu"
    ) -> None:
        self.task, self.robot, self.count = task, robot, count
        self.trials = empty_trials(count, task.landmarks, INSTRUCTION_BYTES)
        """The present episodes'."""
        self.cameras = LandmarkCameras(task, robot, self.trials, count, seed)
        self.vehicles: Vehicles = task.vehicles(robot, count)
        self.worlds = Poses(count, 1.0 / task.rate_hz)
        self._radius_m = task.radius_m(robot)
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Seed noise and images."""
        self.rng = np.random.default_rng((seed, 1))
        self.cameras.seed(seed)

    def start(self, index: Index, trials: LandmarkTrials) -> None:
        """Begin trials (n) in some worlds."""
        self.trials.put(index, trials)
        self.vehicles.place(index, trials.start, self.rng)
        self.worlds.restart(index, self._poses()[index])
        self.cameras.begin(index, self.worlds)

    def step(self, command: Array) -> None:
        """Advance one control period under ``command`` (N, width)."""
        self.vehicles.step(command)
        self.worlds.advance(self._poses())

    def waiting(self) -> Array:
        """Return the command (N, width) under which robots stay."""
        return self.vehicles.waiting()

    def true(self, images: bool = True) -> dict[str, NDArray[Any]]:
        """Return the signals (N, ...) that policies get now, without noise.

        Without ``images`` those are not rendered, and only their ages are returned.
        """
        if images:
            seen = self.cameras.signals(self.worlds)
        else:
            self.cameras.expose(self.worlds)
            seen = dict(self.cameras.ages())
        return {**self.vehicles.signals(), "instruction": self.trials.instruction, **seen}

    def noisy(self, signals: dict[str, Array], index: Any = None) -> dict[str, Array]:
        """Return signals (n, ...) with sensor noise."""
        return noisy(self.task.noise, signals, self.rng)

    def motion(self) -> tuple[Array, Array]:
        """Return positions (N, 3) m and speeds (N,) m/s, without noise."""
        speed = np.linalg.norm(self.vehicles.signals()["linear_velocity"], axis=1)
        return self.worlds.state[:, :3], speed

    def measure(self) -> tuple[Array, Array]:
        """Return (N,) m, the distances from the named landmarks' surfaces, and speeds (N,) m/s."""
        position, speed = self.motion()
        return self.trials.gaps(position)[:, 0], speed

    def lost(self) -> Mask:
        """Return (N,) whether a robot touches a landmark, a wall or the floor, or its state is not finite."""
        return touching(self.task, self._radius_m, self.trials, self.worlds.state[:, :3])

    def state_dict(self) -> dict[str, dict[str, Array]]:
        """Return trials, motion and poses."""
        mine = {"state": self.worlds.state, "before": self.worlds.before, "time_s": self.worlds.time_s}
        return {"trials": dict(vars(self.trials)), "vehicles": self.vehicles.state_dict(), "poses": mine}

    def load_state_dict(self, state: dict[str, dict[str, Array]]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        for name, array in state["trials"].items():
            getattr(self.trials, name)[:] = array
        self.vehicles.load_state_dict(state["vehicles"])
        for name, array in state["poses"].items():
            setattr(self.worlds, name, array.copy())

    def close(self) -> None:
        """Release the renderer."""
        self.cameras.close()

    def _poses(self) -> Array:
        now = self.vehicles.signals()
        return np.concatenate([now["position"], now["orientation"]], axis=1)


def touching(task: Any, radius_m: float, trials: LandmarkTrials, position: Array) -> Mask:
    """Return (N,) whether robots at positions (N, 3) m touch something or are not anywhere."""
    low, high = task.room.corners
    with np.errstate(invalid="ignore"):
        free = (trials.gaps(position) > radius_m).all(axis=1)
        inside = ((position[:, :2] > low + radius_m) & (position[:, :2] < high - radius_m)).all(axis=1)
    lowest, highest = task.flight_m
    return np.asarray(~(free & inside & (position[:, 2] >= lowest) & (position[:, 2] <= highest)))
