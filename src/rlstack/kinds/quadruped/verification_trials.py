"""Standing trials of quadrupeds: in the batch simulator and in engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Mask
from rlstack.interfaces.backend import Reading, Signals
from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.robots import frames
from rlstack.sim.vector import BATCH
from rlstack.tasks.quadruped.scene import StandScene, StandTrials, carrying, noisy
from rlstack.verification.departures import NOMINAL, Departures, departed
from rlstack.verification.jointed_trials import JointedSimulator, SceneTrials, run_in_engine
from rlstack.verification.runner import Driver, OnProgress, Rows, run, run_batches
from rlstack.verification.trial_records import TrialRecord

BATCH_SIZE = 128
"""Robots simulated together in the batch simulator."""


@dataclass(frozen=True, kw_only=True)
class StandRecord(TrialRecord):
    """N standing trials.

    Args:
        success: (N,) whether the robot stood for the required time at the end and never fell.
        lost: (N,) whether it fell, or its state became non-finite.
        height_error_m: (N,) largest error of the trunk's height while judged.
        tilt_rad: (N,) largest tilt while judged.
        drift_m: (N,) largest horizontal distance from where the trunk was when judging began; NaN after a fall.
        height_m: (steps + 1, N) of the trunk; NaN after a fall.
    """

    over_time = ("height_m",)

    success: NDArray[np.bool_]
    lost: NDArray[np.bool_]
    height_error_m: Array
    tilt_rad: Array
    drift_m: Array
    height_m: Array


class StandLog:
    """Records heights, tilts and positions at each control period; used in process and over topics.

    Args:
        task: The task; it judges the trials.
        robot: The quadruped.
        count: N trials.
    """

    def __init__(self, task: Any, robot: Quadruped, count: int) -> None:
        self._task, self._robot = task, robot
        self._height, self._tilt = np.full((2, task.steps + 1, count), np.nan)
        self._place = np.full((task.steps + 1, count, 2), np.nan)
        self._lost = np.zeros(count, dtype=np.bool_)

    def observe(self, rows: Rows, k: int, lost: Mask, height: Array, tilt: Array, place: Array) -> Mask:
        """Record n trials after ``k`` periods; return (n,) which of them are over.

        Args:
            rows: Indices of the n trials.
            k: Periods since the start.
            lost: (n,) whether the state became non-finite.
            height: (n,) m, heights of the trunks.
            tilt: (n,) rad, tilts of the trunks.
            place: (n, 2) m, horizontal positions.
        """
        self._lost[rows] |= lost | self._task.fallen(height, tilt)
        self._height[k, rows] = np.where(self._lost[rows], np.nan, height)
        self._tilt[k, rows] = np.where(self._lost[rows], np.nan, tilt)
        self._place[k, rows] = place
        over: Mask = self._lost[rows] | (k >= self._task.steps)
        return over

    def record(self, simulator: str) -> StandRecord:
        """Return the record of the trials."""
        task, first = self._task, self._task.steps - round(self._task.judged_s * self._task.rate_hz)
        height, tilt = self._height[first:], self._tilt[first:]
        stood = task.stands(self._robot, height, tilt).all(axis=0) & ~self._lost  # NaN is beyond any tolerance
        drift = np.linalg.norm(self._place[first:] - self._place[first], axis=-1).max(axis=0)
        error = np.abs(height - self._robot.standing_height_m).max(axis=0)
        return StandRecord(
            simulator=simulator,
            rate_hz=task.rate_hz,
            success=stood,
            lost=self._lost.copy(),
            height_error_m=np.where(self._lost, self._robot.standing_height_m, error),
            tilt_rad=np.where(self._lost, np.pi, tilt.max(axis=0)),
            drift_m=np.where(self._lost, np.nan, drift),
            height_m=self._height,
        )


class HoldPosture:
    """The baseline: holds joints at the standing posture.

    Args:
        robot: The quadruped.
    """

    def __init__(self, robot: Quadruped) -> None:
        self._standing, self._count = robot.standing, 1
        self.inputs = ("joint_position",)

    def reset(self, batch: int = 1) -> None:
        """Reset for ``batch`` robots."""
        self._count = batch

    def step(self, inputs: Any) -> dict[str, Array]:
        """Return the standing posture, (N, joints) rad."""
        return {"joint_target": np.tile(self._standing, (self._count, 1))}


def stand(
    driver: Driver,
    task: Any,
    robot: Quadruped,
    trials: StandTrials,
    simulator: str = BATCH,
    *,
    name: str = "",
    seed: int = 0,
    first: int = 0,
    batch_size: int = BATCH_SIZE,
    departures: Departures = NOMINAL,
    on_progress: OnProgress | None = None,
) -> StandRecord:
    """Run every trial in process: together in the batch simulator, one after the other in an engine.

    Args:
        driver: The loaded policy, or the baseline.
        task: The task.
        robot: The quadruped.
        trials: N trials.
        simulator: ``batch`` or a backend with an engine.
        name: Name of the driver, for reports.
        seed: Seed of the noise.
        first: Number of the first trial.
        batch_size: Largest number of trials at once in the batch simulator.
        departures: Departures of signals and commands in the batch simulator, unknown to the driver.
        on_progress: Called with the number of trials done and the total.

    Raises:
        UserError: The simulator does not support the robot, or a command is not finite.
    """
    if simulator != BATCH:
        engine, log = StandSimulator(simulator, task, robot, trials, seed, first), StandLog(task, robot, len(trials))
        return cast(StandRecord, run_in_engine(driver, engine, log, name, on_progress))

    def run_batch(part: StandTrials, seed: int) -> StandRecord:
        log = StandLog(task, robot, len(part))
        pushed = _PushedTrials(StandScene(task, robot, len(part), seed), part, log)
        run(driver, departed(pushed, departures, seed))
        return log.record(BATCH)

    options: dict[str, Any] = {"batch_size": batch_size, "name": name, "seed": seed, "first": first}
    return run_batches(run_batch, trials, BATCH, **options, on_progress=on_progress)


class _PushedTrials(SceneTrials):
    """Trials in the batch simulator, with a push in each."""

    def __init__(self, scene: StandScene, trials: StandTrials, log: StandLog) -> None:
        super().__init__(scene, trials, log, scene.posture)

    def step(self, command: Array, over: Mask) -> None:
        self._scene.push(np.full(len(self), self._k))
        super().step(command, over)


class StandSimulator(JointedSimulator):
    """Trials of a quadruped, with the trial's payload on it and a push."""

    stream = 0x60

    def __init__(self, name: str, task: Any, robot: Quadruped, trials: StandTrials, seed: int, first: int = 0) -> None:
        self._sent: Signals = {}
        super().__init__(name, task, robot, trials, seed, first)

    @property
    def measured(self) -> tuple[Array, Array, Array]:
        """Height (1,) m, tilt (1,) rad and horizontal position (1, 2) m of the trunk, without noise."""
        position = self.state["position"][None]
        return position[:, 2], frames.tilt(self.state["orientation"][None]), position[:, :2]

    def make(self, number: int) -> Any:
        """Return the simulator of a trial, with its payload on the robot."""
        return self.factory(carrying(self.robot, float(self.trials.payload_kg[number])))

    def place(self, number: int) -> None:
        """Start a trial."""
        self._sent = {}
        super().place(number)

    def reset(self, state: Any = None) -> None:
        """Put the robot at the start of the trial."""
        height = float(self.trials.height_m[self.number])
        start = {"joint_position": self.trials.joints[self.number], "position": np.array([0.0, 0.0, height])}
        self.backend.reset(start)
        self._sense()

    def noisy(self, reading: Reading) -> Reading:
        """Return a reading with the task's noise."""
        return Reading(reading.time_s, noisy(self.task.noise, dict(reading.signals), self._rng))

    def step(self, duration_s: float) -> None:
        """Step one control period, after a push if one is due."""
        if self.period == int(self.trials.push_step[self.number]) * self.every and not self.lost:
            self._push()
        super().step(duration_s)

    def _push(self) -> None:
        seen = self.backend.read().signals
        velocity = frames.rotate(seen["orientation"], seen["linear_velocity"]) + self.trials.push_m_s[self.number]
        kept = ("position", "orientation", "angular_velocity", "joint_position", "joint_velocity")
        self.backend.reset({**{name: seen[name] for name in kept}, "linear_velocity": velocity})
        if self._sent:
            self.backend.write(self._sent)

    def write(self, command: Signals) -> Signals:
        """Command the robot; return the command after its limits."""
        self._sent = super().write(command)
        return self._sent
