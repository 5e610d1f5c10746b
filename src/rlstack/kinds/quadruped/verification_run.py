"""Trials of standing: in the batch simulator, in an engine, and over real topics in lock step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Index, Mask
from rlstack.bringup.episode_runner import EpisodeRecorder, run_episodes
from rlstack.bringup.parallel import OnProgress, run_trials
from rlstack.errors import Diverged
from rlstack.interfaces.backend import Reading, Signals
from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.policies import load_policy
from rlstack.robots import frames
from rlstack.sim.vector import BATCH, where_in_process
from rlstack.tasks.quadruped.scene import StandScene, StandTrials, carrying, noisy
from rlstack.verification import runner
from rlstack.verification.episode_simulator import EpisodeSimulator
from rlstack.verification.records import TrialRecord
from rlstack.verification.runner import in_batches, run

TOGETHER = 128
"""Robots in the batch simulator at once."""
_LEAST_IN_ENGINES = 20
"""Trials that a further process is worth in an engine; the batch simulator has threads of its own."""
_STREAM = 0x60
"""Keeps the noise of trials in engines apart from all else that a seed draws."""


@dataclass(frozen=True, kw_only=True)
class StandRecord(TrialRecord):
    """How N trials of standing went.

    Args:
        success: (N,) whether it stood at the end, for as long as the task asks, and never fell.
        lost: (N,) whether it fell, or its state became non-finite.
        height_error_m: (N,) largest error of the trunk's height while judged.
        tilt_rad: (N,) largest tilt while judged.
        height_m: (steps + 1, N) of the trunk; NaN after a fall.
    """

    over_time = ("height_m",)

    success: NDArray[np.bool_]
    lost: NDArray[np.bool_]
    height_error_m: Array
    tilt_rad: Array
    height_m: Array


class StandLog:
    """Keeps heights and tilts at each control period; in process and over topics.

    Args:
        task: Judges them.
        robot: Which.
        count: N trials.
    """

    def __init__(self, task: Any, robot: Quadruped, count: int) -> None:
        self._task, self._robot = task, robot
        self._height, self._tilt = np.full((2, task.steps + 1, count), np.nan)
        self._lost = np.zeros(count, dtype=np.bool_)

    def observe(self, rows: runner.Rows, k: int, posture: tuple[Array, Array], lost: Mask | bool) -> Mask:
        """Record the present of n trials after ``k`` periods; return (n,) whether they are over.

        Args:
            rows: n of the trials.
            k: Periods since the start.
            posture: (n,) m heights of the trunks, and (n,) rad tilts.
            lost: (n,) whether the state became non-finite.
        """
        height, tilt = posture
        self._lost[rows] |= lost | self._task.fallen(height, tilt)
        self._height[k, rows] = np.where(self._lost[rows], np.nan, height)
        self._tilt[k, rows] = np.where(self._lost[rows], np.nan, tilt)
        over: Mask = self._lost[rows] | (k >= self._task.steps)
        return over

    def record(self, simulator: str) -> StandRecord:
        """Return how the trials went."""
        task, first = self._task, self._task.steps - round(self._task.judged_s * self._task.rate_hz)
        height, tilt = self._height[first:], self._tilt[first:]
        stood = task.stands(self._robot, height, tilt).all(axis=0) & ~self._lost  # NaN is beyond any tolerance
        error = np.abs(height - self._robot.standing_height_m).max(axis=0)
        return StandRecord(
            simulator=simulator,
            rate_hz=task.rate_hz,
            success=stood,
            lost=self._lost.copy(),
            height_error_m=np.where(self._lost, self._robot.standing_height_m, error),
            tilt_rad=np.where(self._lost, np.pi, tilt.max(axis=0)),
            height_m=self._height,
        )


class HoldPosture:
    """The baseline: holds joints at the standing posture.

    Args:
        robot: Which.
    """

    def __init__(self, robot: Quadruped) -> None:
        self._standing, self._count = robot.standing, 1
        self.inputs = ("joint_position",)

    def reset(self, batch: int = 1) -> None:
        """Stand, ``batch`` robots."""
        self._count = batch

    def step(self, inputs: Any) -> dict[str, Array]:
        """Return the standing posture, (N, joints) rad."""
        return {"joint_target": np.tile(self._standing, (self._count, 1))}


def stand_in_batch(policy: Any, task: Any, robot: Quadruped, trials: StandTrials, *, seed: int = 0) -> StandRecord:
    """Let a policy do every trial in the batch simulator, all at once.

    Raises:
        UserError: The policy's command is not finite.
    """
    begin = time.monotonic()
    scene = StandScene(task, robot, len(trials), seed)
    try:
        done = _Batch(scene, trials)
        run(policy, done)
    finally:
        scene.close()
    return replace(done.log.record(BATCH), wall_s=time.monotonic() - begin)


def stand_in_parallel(
    policy: Path | None,
    task: Any,
    robot: Quadruped,
    trials: StandTrials,
    simulator: str,
    *,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> StandRecord:
    """Do every trial in process, in as many processes as are worth it.

    Args:
        policy: The policy file; None: :class:`HoldPosture`.
        task: What is done.
        robot: Which.
        trials: N of them.
        simulator: ``batch`` or a backend with an engine.
        seed: Of the noise.
        on_progress: Called with the trials done and their total.

    Raises:
        UserError: The policy or the simulator does not fit, or a command is not finite.
    """
    least = len(trials) + 1 if simulator == BATCH else _LEAST_IN_ENGINES
    common = {"policy": policy, "task": task, "robot": robot, "simulator": simulator, "seed": seed}
    return run_trials(_stand, trials, least=least, on_progress=on_progress, **common)


def _stand(
    policy: Path | None,
    task: Any,
    robot: Quadruped,
    trials: StandTrials,
    simulator: str,
    seed: int,
    first: int,
    on_progress: OnProgress | None,
) -> StandRecord:
    begin, count = time.monotonic(), len(trials)
    driver: Any = HoldPosture(robot) if policy is None else load_policy(policy, robot=robot)
    if simulator == BATCH:

        def some(part: slice) -> StandRecord:
            mine = trials.take(np.arange(part.start, part.stop))
            return stand_in_batch(driver, task, robot, mine, seed=seed + first + part.start)

        return StandRecord.joined(in_batches(some, count, TOGETHER, on_progress), time.monotonic() - begin)
    place, log = StandSimulator(simulator, task, robot, trials, seed, first), StandLog(task, robot, count)
    place.connect()
    try:
        in_batches(lambda part: run(driver, _InEngine(place, part.start, log)), count, 1, on_progress)
    finally:
        place.close()
    return replace(log.record(where_in_process(simulator)), wall_s=time.monotonic() - begin)


def stand_over_topics(
    policy: str | Path,
    task: Any,
    robot: Quadruped,
    trials: StandTrials,
    backend_name: str = "mujoco",
    *,
    robot_name: str = "",
    seed: int = 0,
    first: int = 0,
    on_progress: OnProgress | None = None,
) -> StandRecord:
    """Do every trial, one after the other, through the policy node and the guard of a deployment.

    Args:
        policy: The policy file.
        task: What is done.
        robot: Which.
        trials: N of them.
        backend_name: A simulator.
        robot_name: The name or file that the nodes load; empty takes the robot's name.
        seed: Of the noise, with the trial's number.
        first: The number of the first trial.
        on_progress: Called after every trial with those done and their total.

    Raises:
        UserError: The backend cannot do this, a node ended, or a command did not come.
    """
    place = StandSimulator(backend_name, task, robot, trials, seed, first)
    recorder = _Recorder(place, StandLog(task, robot, len(trials)), on_progress)
    found = run_episodes(policy, robot_name or robot.name, backend_name, recorder)
    return replace(recorder.log.record(found["simulator"]), **{**found, "rate_hz": task.rate_hz})


class StandSimulator(EpisodeSimulator):
    """One trial after the other in one simulator, behind the protocol that robots have.

    What is sensed is drawn once a control period, so that it is the same however often it is read.

    Args:
        name: Of the backend.
        task: What is done.
        robot: Which.
        trials: N of them.
        seed: Of the noise, with the trial's number.
        first: The number of the first trial.

    Raises:
        UserError: The backend is no simulator with an engine.
    """

    def __init__(self, name: str, task: Any, robot: Quadruped, trials: StandTrials, seed: int, first: int = 0) -> None:
        self.task, self.trials, self._seed, self._first = task, trials, seed, first
        self.every = round(robot.control_rate_hz / task.rate_hz)
        """Control periods of the robot in one of the policy."""
        self.lost, self.period = False, 0
        self._sent: Signals = {}
        self._reading: Reading | None = None
        super().__init__(name, robot, len(trials))

    @property
    def posture(self) -> tuple[Array, Array]:
        """Height (1,) m and tilt (1,) rad of the trunk, without noise."""
        return self.state["position"][None, 2], frames.tilt(self.state["orientation"][None])

    def make(self, number: int) -> Any:
        """Return the simulator of a trial, with its payload on the robot."""
        return self.factory(carrying(self.robot, float(self.trials.payload_kg[number])))

    def place(self, number: int) -> None:
        """Begin a trial."""
        self.number, self.lost, self.period, self._sent = number, False, 0, {}
        self._rng = np.random.default_rng([_STREAM, self._seed, self._first + number])
        self.reset()

    def reset(self, state: Any = None) -> None:
        """Put the robot where the trial begins."""
        height = float(self.trials.height_m[self.number])
        start = {"joint_position": self.trials.joints[self.number], "position": np.array([0.0, 0.0, height])}
        self.backend.reset(start)
        self._sense()

    def noisy(self, reading: Reading) -> Reading:
        """Return a reading with the task's noise."""
        return Reading(reading.time_s, noisy(self.task.noise, dict(reading.signals), self._rng))

    def read(self) -> Reading:
        """Return what is sensed in this period."""
        assert self._reading is not None  # it is connected
        return self._reading

    def step(self, duration_s: float) -> None:
        """Let a control period pass, with a push before it where one is due; who diverged begins anew."""
        if self.period == int(self.trials.push_step[self.number]) * self.every and not self.lost:
            self._push()
        self.period += 1
        try:
            self.backend.step(duration_s)
            self._sense()
            sound = all(np.isfinite(values).all() for values in self.state.values())
        except Diverged:
            sound = False
        if not sound:
            self.lost = True
            self.reset()

    def _push(self) -> None:
        seen = self.backend.read().signals
        moves = frames.rotate(seen["orientation"], seen["linear_velocity"]) + self.trials.push_m_s[self.number]
        kept = ("position", "orientation", "angular_velocity", "joint_position", "joint_velocity")
        self.backend.reset({**{name: seen[name] for name in kept}, "linear_velocity": moves})
        if self._sent:
            self.backend.write(self._sent)

    def write(self, command: Signals) -> Signals:
        """Command the robot; return what its limits leave of it."""
        self._sent = super().write(command)
        return self._sent

    def _sense(self) -> None:
        self._reading = super().read()


class _Batch(runner.Trials):
    """Trials that are done together, in the batch simulator."""

    def __init__(self, scene: StandScene, trials: StandTrials) -> None:
        super().__init__(len(trials), scene.task.rate_hz)
        self._scene, self._trials, self._k = scene, trials, 0
        self.log = StandLog(scene.task, scene.robot, len(trials))
        self._over = np.zeros(len(trials), dtype=np.bool_)
        scene.start(np.arange(len(trials)), trials)

    def observe(self, k: int) -> Mask:
        self._k = k
        self._over = self._over | self.log.observe(slice(None), k, self._scene.posture(), self._scene.lost())
        return self._over

    def signals(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        sensed = self._scene.noisy(self._scene.true())
        return {name: sensed[name] for name in names}

    def step(self, command: Array, over: Mask) -> None:
        self._scene.push(np.full(len(self), self._k))
        self._scene.worlds.step(command)
        diverged: Index = np.flatnonzero(~np.isfinite(self._scene.worlds.state).all(axis=1))
        if len(diverged):  # a diverged world must not end the others' trials
            self._over[diverged] = True
            self.log.observe(diverged.tolist(), self._k, (np.zeros(1), np.zeros(1)), True)
            self._scene.start(diverged, self._trials.take(diverged))


class _InEngine(runner.Trials):
    """One trial in an engine, which runs at the robot's control rate."""

    def __init__(self, place: StandSimulator, number: int, log: StandLog) -> None:
        super().__init__(1, place.task.rate_hz)
        self._place, self._number, self._log = place, number, log
        place.enter(number)

    def observe(self, k: int) -> Mask:
        return self._log.observe([self._number], k, self._place.posture, self._place.lost)

    def signals(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        sensed = self._place.read().signals
        return {name: sensed[name][None] for name in names}

    def step(self, command: Array, over: Mask) -> None:
        place = self._place
        for _ in range(place.every):
            place.write({place.commanded[0]: command[0]})
            place.step(1.0 / place.robot.control_rate_hz)


class _Recorder(EpisodeRecorder):
    """Records the trunk; an episode ends with a fall, or when its time is over."""

    def __init__(self, place: StandSimulator, log: StandLog, on_progress: OnProgress | None) -> None:
        super().__init__(place, on_progress)
        self.log = log

    def record(self) -> bool:
        k, between = divmod(self.period, self.simulator.every)
        if between:
            return False
        return bool(self.log.observe([self.episode], k, self.simulator.posture, self.simulator.lost)[0])
