"""Trials of robots under joint targets: together in MuJoCo worlds, or one after the other in an engine."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Index, Mask
from rlstack.errors import Diverged, UserError
from rlstack.interfaces.backend import Reading
from rlstack.interfaces.image_reader import is_image
from rlstack.interfaces.signals import SENSED
from rlstack.sim.vector import where_in_process
from rlstack.verification.episode_simulator import EpisodeSimulator
from rlstack.verification.runner import Driver, OnProgress, Trials, run
from rlstack.verification.trial_records import TrialRecord


class JointedLog(Protocol):
    """Records N trials, in process and over topics."""

    @property
    def observe(self) -> Callable[..., Mask]:
        """Record n trials, and return (n,) which of them are over.

        Its arguments are the indices of the n trials, the periods since the start, (n,) whether each trial has failed
        for good, such as by a state that is not finite, and what the task judges, (n, ...) each.
        """

    def record(self, simulator: str) -> Any:
        """Return the record of the trials."""


class JointedSimulator(EpisodeSimulator):
    """Trials of a jointed robot in an engine, one after the other.

    Sensor noise is drawn once per control period, so that repeated reads agree. A trial whose state becomes non-finite
    is lost and restarts, so that the others continue.

    Args:
        name: Name of the backend.
        task: The task.
        robot: The robot.
        trials: N trials.
        seed: Seed of the noise, combined with the trial's number.
        first: Number of the first trial.

    Raises:
        UserError: The backend is not a simulator with an engine, or the robot's rate is not a multiple of the policy's.
    """

    stream: ClassVar[int]
    """Separates the noise from other draws with the same seed."""

    def __init__(self, name: str, task: Any, robot: Any, trials: Any, seed: int, first: int = 0) -> None:
        self.every = round(robot.control_rate_hz / task.rate_hz)
        """Control periods of the robot per policy step."""
        if abs(self.every * task.rate_hz - robot.control_rate_hz) > 1e-6:
            raise UserError(
                f"{robot.name} is controlled at {robot.control_rate_hz:g} Hz, which is no whole multiple of the task's"
                f" {task.rate_hz:g} Hz: choose another rate_hz."
            )
        self.task, self.trials, self._seed, self._first = task, trials, seed, first
        self.lost, self.period = False, 0
        """Whether the current trial is lost; control periods since its start."""
        self._reading: Reading | None = None
        super().__init__(name, robot, len(trials))

    @property
    @abstractmethod
    def measured(self) -> tuple[Array, ...]:
        """Arrays (1, ...) that the task judges, without noise."""

    @abstractmethod
    def noisy(self, reading: Reading) -> Reading:
        """Return a reading with the task's noise."""

    def place(self, number: int) -> None:
        """Start a trial."""
        self.number, self.lost, self.period = number, False, 0
        self._rng = np.random.default_rng([self.stream, self._seed, self._first + number])
        self.reset()

    def read(self) -> Reading:
        """Return this period's noisy reading."""
        assert self._reading is not None  # it is connected
        return self._reading

    def look(self) -> None:
        """Take the images that are due in this control period."""

    def signals(self) -> Mapping[str, NDArray[Any]]:
        """Return the signals that the policy may take."""
        return self.read().signals

    def step(self, duration_s: float) -> None:
        """Step one control period."""
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

    def _sense(self) -> None:
        self._reading = super().read()


class SceneTrials(Trials):
    """Trials simulated together in the batch simulator.

    Args:
        scene: N robots; it is closed after the trials.
        trials: N trials.
        log: Their log.
        measure: Returns arrays (N, ...) that the task judges.
    """

    def __init__(self, scene: Any, trials: Any, log: JointedLog, measure: Callable[[], tuple[Array, ...]]) -> None:
        super().__init__(len(trials), scene.task.rate_hz)
        self._scene, self._trials, self._log, self._measure = scene, trials, log, measure
        self._lost, self._k = np.zeros(len(trials), dtype=np.bool_), 0
        scene.start(np.arange(len(trials)), trials)

    def observe(self, k: int) -> Mask:
        """Record the state after ``k`` periods; return (N,) which trials are over."""
        self._k = k
        return self._log.observe(slice(None), k, self._lost, *self._measure())

    def signals(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return the current signals with noise."""
        pictured = any(name in SENSED and is_image(SENSED[name]) for name in names)
        sensed = self._scene.noisy(self._scene.true(images=pictured))
        return {name: sensed[name] for name in names}

    def waiting(self, command: Array) -> Array:
        """Return the scene's command under which its robots stay where they are."""
        return np.array(self._scene.waiting(), dtype=float)

    def step(self, command: Array, over: Mask) -> None:
        """Step one control period; newly lost trials restart."""
        self._scene.step(command)
        fresh = self._scene.lost() & ~self._lost
        if fresh.any():  # a diverged world must not end the other trials
            index: Index = np.flatnonzero(fresh)
            self._scene.start(index, self._trials.take(index))
            self._lost |= fresh

    def close(self) -> None:
        """Close the scene."""
        self._scene.close()


class _EngineTrial(Trials):
    """One trial in an engine, which runs at the robot's control rate."""

    def __init__(self, simulator: JointedSimulator, number: int, log: JointedLog) -> None:
        super().__init__(1, simulator.task.rate_hz)
        self._simulator, self._number, self._log = simulator, number, log
        simulator.enter(number)

    def observe(self, k: int) -> Mask:
        simulator = self._simulator
        return self._log.observe([self._number], k, np.array([simulator.lost]), *simulator.measured)

    def signals(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        self._simulator.look()
        sensed = self._simulator.signals()
        return {name: sensed[name][None] for name in names}

    def step(self, command: Array, over: Mask) -> None:
        simulator = self._simulator
        for k in range(simulator.every):
            if k > 0:
                simulator.look()
            simulator.write({simulator.commanded[0]: command[0]})
            simulator.step(1.0 / simulator.robot.control_rate_hz)


def run_in_engine(
    driver: Driver,
    simulator: JointedSimulator,
    log: JointedLog,
    name: str = "",
    on_progress: OnProgress | None = None,
) -> Any:
    """Run every trial of a simulator in sequence and return their record.

    Args:
        driver: The policy or baseline.
        simulator: The trials, not yet connected; it is closed after them.
        log: Their log.
        name: Name of the driver, for reports.
        on_progress: Called with the number of trials done and the total.

    Raises:
        UserError: A command is not finite.
    """
    begin, count = time.monotonic(), len(simulator)
    simulator.connect()
    try:
        for number in range(count):
            run(driver, _EngineTrial(simulator, number, log))
            if on_progress is not None:
                on_progress(number + 1, count)
    finally:
        simulator.close()
    record: TrialRecord = log.record(where_in_process(simulator.name))
    return replace(record, driver=name, wall_s=time.monotonic() - begin)
