"""Trials among landmarks: together in the batch simulator, one after the other in an engine, or over topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Mask
from rlstack.interfaces.backend import Reading
from rlstack.policies.chunkwise import chunkwise
from rlstack.policies.robot_contract import check_robot
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.vector import BATCH
from rlstack.sim.world import World
from rlstack.tasks.landmarks.scene import LandmarkScene, touching
from rlstack.tasks.landmarks.sensing import noisy
from rlstack.tasks.landmarks.trials import LandmarkTrials
from rlstack.verification.camera_inputs import CameraInputs
from rlstack.verification.departures import NOMINAL, Departures, departed
from rlstack.verification.jointed_trials import SceneTrials, run_in_engine
from rlstack.verification.runner import Driver, OnProgress, Rows, run, run_batches
from rlstack.verification.sighted_simulator import SightedSimulator
from rlstack.verification.trial_records import TrialRecord

BATCH_SIZE = 50
"""Robots simulated together in the batch simulator."""

_WALL_M = 0.1


@dataclass(frozen=True, kw_only=True)
class LandmarkRecord(TrialRecord):
    """N trials among landmarks.

    Args:
        success: (N,) whether the robot was at the named landmark and stayed for the required time at the end.
        lost: (N,) whether it touched something, or its state became non-finite.
        elsewhere: (N,) whether it was at another landmark at the end.
        time_s: (N,) time until it was there and stayed for that long; infinite without success.
        position_m: (steps + 1, N, 2), seen from above; NaN after the end.
    """

    over_time = ("position_m",)

    success: NDArray[np.bool_]
    lost: NDArray[np.bool_]
    elsewhere: NDArray[np.bool_]
    time_s: Array
    position_m: Array


class LandmarkLog:
    """Records where robots are at each control period; used in process and over topics.

    Args:
        task: The task; it judges the trials.
        robot: The robot.
        trials: N trials.
    """

    def __init__(self, task: Any, robot: Any, trials: LandmarkTrials) -> None:
        self._task, self._trials, self._radius_m = task, trials, task.radius_m(robot)
        count = len(trials)
        self._position = np.full((task.steps + 1, count, 2), np.nan)
        self._lost, self._elsewhere = np.zeros((2, count), np.bool_)
        self._held, self._time_s = np.zeros(count, np.intp), np.full(count, np.inf)

    def observe(self, rows: Rows, k: int, lost: Mask, position: Array, speed: Array) -> Mask:
        """Record n trials after ``k`` periods; return (n,) which of them are over.

        Args:
            rows: Indices of the n trials.
            k: Periods since the start.
            lost: (n,) whether the state became non-finite.
            position: (n, 3) m.
            speed: (n,) m/s.
        """
        task, trials = self._task, self._trials.take(rows)
        before = self._lost[rows].copy()
        self._lost[rows] |= lost | touching(task, self._radius_m, trials, position)
        gaps = trials.gaps(position)
        there = task.there(gaps[:, 0], speed) & ~self._lost[rows]
        self._held[rows] = np.where(there, self._held[rows] + 1, 0)
        first = (self._held[rows] >= task.hold_steps) & np.isinf(self._time_s[rows])
        self._time_s[rows] = np.where(first, k / task.rate_hz, self._time_s[rows])
        self._elsewhere[rows] = (gaps[:, 1:] <= task.arrival_m).any(axis=1) & ~self._lost[rows]
        self._position[k, rows] = np.where(before[:, None], np.nan, position[:, :2])
        over: Mask = self._lost[rows] | (k >= task.steps)
        return over

    def record(self, simulator: str) -> LandmarkRecord:
        """Return the record of the trials."""
        success = (self._held >= self._task.hold_steps) & ~self._lost
        return LandmarkRecord(
            simulator=simulator,
            rate_hz=self._task.rate_hz,
            success=success,
            lost=self._lost.copy(),
            elsewhere=self._elsewhere & ~success,
            time_s=np.where(success, self._time_s, np.inf),
            position_m=self._position,
        )


def seek(
    driver: Driver,
    task: Any,
    robot: Any,
    trials: LandmarkTrials,
    simulator: str = BATCH,
    *,
    name: str = "",
    seed: int = 0,
    first: int = 0,
    batch_size: int = BATCH_SIZE,
    departures: Departures = NOMINAL,
    on_progress: OnProgress | None = None,
) -> LandmarkRecord:
    """Run every trial in process: together in the batch simulator, one after the other in an engine.

    Args:
        driver: The loaded policy.
        task: The task.
        robot: The robot.
        trials: N trials.
        simulator: ``batch`` or a backend with an engine.
        name: Name of the driver, for reports.
        seed: Seed of the noise.
        first: Number of the first trial.
        batch_size: Largest number of trials at once in the batch simulator.
        departures: Departures of signals and commands in the batch simulator, unknown to the driver.
        on_progress: Called with the number of trials done and the total.

    Raises:
        UserError: The policy is for another robot, the simulator does not support the robot, or a command is not
            finite.
    """
    contract = cast(Any, driver).contract
    check_robot(contract, robot, str(cast(Any, driver).path))
    driver = chunkwise(driver)
    if simulator != BATCH:
        engine = LandmarkSimulator(simulator, task, robot, trials, seed, first)
        engine.images = CameraInputs(engine, contract)
        log = LandmarkLog(task, robot, trials)
        return cast(LandmarkRecord, run_in_engine(driver, engine, log, name, on_progress))

    def run_batch(part: LandmarkTrials, seed: int) -> LandmarkRecord:
        log, scene = LandmarkLog(task, robot, part), LandmarkScene(task, robot, len(part), seed)
        tried = SceneTrials(scene, part, log, scene.motion)
        run(driver, departed(tried, departures, seed))
        return log.record(BATCH)

    options: dict[str, Any] = {"batch_size": batch_size, "name": name, "seed": seed, "first": first}
    return run_batches(run_batch, trials, BATCH, **options, on_progress=on_progress)


class LandmarkSimulator(SightedSimulator):
    """Trials of a robot in an engine, each in a world with the trial's landmarks; it may have no joints."""

    stream = 0x1A

    @property
    def measured(self) -> tuple[Array, Array]:
        """Position (1, 3) m and speed (1,) m/s, without noise."""
        return self.state["position"][None], np.linalg.norm(self.state["linear_velocity"][None], axis=1)

    def make(self, number: int) -> Any:
        """Return the simulator of a trial, with its landmarks."""
        self._built = number
        return self.factory(self.robot, world=world_of(self.task, self.trials, number))

    def needs_new_world(self, number: int) -> bool:
        """Return whether another trial's landmarks stand there."""
        return number != self._built

    def signals(self) -> Mapping[str, NDArray[Any]]:
        """Return the signals that the policy may take."""
        return {**super().signals(), "instruction": self.trials.instruction[self.number]}

    def noisy(self, reading: Reading) -> Reading:
        """Return a reading with the task's noise."""
        return Reading(reading.time_s, noisy(self.task.noise, dict(reading.signals), self._rng))

    def reset(self, state: Any = None) -> None:
        """Put the robot at the start of the trial."""
        self.backend.reset(self.task.start_state(self.robot, self.trials.start[self.number]))
        self._sense()


def world_of(task: Any, trials: LandmarkTrials, number: int) -> World:
    """Return the world of a trial: the room's walls and the landmarks."""
    (x0, y0), (x1, y1) = (corner.tolist() for corner in task.room.corners)
    high, middle = task.room.height_m, ((x0 + x1) / 2.0, (y0 + y1) / 2.0)
    far = _WALL_M / 2.0
    sides = {
        "wall_ahead": ((x1 + far, middle[1]), (_WALL_M, y1 - y0)),
        "wall_behind": ((x0 - far, middle[1]), (_WALL_M, y1 - y0)),
        "wall_left": ((middle[0], y1 + far), (x1 - x0 + 2.0 * _WALL_M, _WALL_M)),
        "wall_right": ((middle[0], y0 - far), (x1 - x0 + 2.0 * _WALL_M, _WALL_M)),
    }
    walls = [
        Obstacle(name=name, shape="box", size_m=(*size, high), position_m=(*place, high / 2.0))
        for name, (place, size) in sides.items()
    ]
    landmarks = [
        Obstacle(
            name=f"landmark_{k}",
            shape="cylinder" if trials.pillar[number, k] else "box",
            size_m=tuple((2.0 * trials.half[number, k]).tolist()),
            position_m=tuple(trials.place[number, k].tolist()),
            yaw_rad=float(trials.yaw[number, k]),
            colour=tuple(trials.colour[number, k].tolist()),
        )
        for k in range(task.landmarks)
    ]
    return World(
        name="landmarks",
        seed=0,
        floor=True,
        obstacles=(*walls, *landmarks),
        bounds_m=((x0 - _WALL_M, y0 - _WALL_M, 0.0), (x1 + _WALL_M, y1 + _WALL_M, 2.0 * high)),
        starts_m=((0.0, 0.0, 0.0),),
    )
