"""Racing trials: laps by a policy or a controller, in the batch simulator or in an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Mask
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.simulation_vector import RaceVector, race_vector
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.batch_wheeled_base.simulator import planar_signals
from rlstack.sim.maps.tracks import Track
from rlstack.sim.vector import BATCH, where_in_process
from rlstack.verification.race_baseline import race_baseline
from rlstack.verification.runner import Trials, run, run_batches
from rlstack.verification.trial_records import RaceRecord

SLOW_M_S = 1.5
"""Mean speed that defines the time limit of a race."""


def race(
    driver: Any,
    trials: Sequence[Track],
    robot: WheeledBase,
    *,
    rate_hz: float,
    laps: int = 2,
    simulator: str = BATCH,
    parameters: NDArray[np.float32] | None = None,
    **options: Any,
) -> RaceRecord:
    """Race N cars, each alone on its track.

    Args:
        driver: See :class:`rlstack.verification.runner.Driver`; None: the baseline of the tracks.
        trials: N tracks.
        robot: The robot.
        rate_hz: Control rate.
        laps: Number of successive laps, from rest.
        simulator: The batch simulator, or a backend with an engine, such as ``mujoco``.
        parameters: Parameters of all cars in the batch simulator, together in one batch; default: those of the robot
            file.
        options: Options of :func:`rlstack.verification.runner.run_batches`: ``batch_size``, ``name``, ``seed``,
            ``first``, ``on_progress``.

    Raises:
        UserError: The simulator is unknown or not installed; the driver needs signals that cars do not sense; or the
            baseline needs casadi, which is not installed.
    """

    def run_batch(tracks: Sequence[Track], seed: int) -> RaceRecord:
        follower = race_baseline(tracks, robot) if driver is None else driver
        cars = race_vector(simulator, robot, tracks, rate_hz, parameters=parameters, seed=seed)
        races = _Races(cars, tracks, laps, rate_hz)
        run(follower, races)
        return races.log.record()

    return run_batches(run_batch, trials, where_in_process(simulator), **options)


class _Races(Trials):
    def __init__(self, cars: RaceVector, tracks: Sequence[Track], laps: int, rate_hz: float) -> None:
        super().__init__(len(tracks), rate_hz)
        self._cars, self.log = cars, RaceLog(tracks, laps, rate_hz)
        self._periods = round(max(t.length_m for t in tracks) * laps / SLOW_M_S * rate_hz)

    def observe(self, k: int) -> Mask:
        pose, twist = self._cars.pose(), self._cars.twist()
        self._sensed = planar_signals(pose, twist)
        self.log.observe(self._cars.progress_m, self._cars.clearance(), pose, twist[:, 0])
        return self.log.over | (k == self._periods - 1)

    def signals(self, names: Sequence[str]) -> dict[str, Array]:
        known = (*self._sensed, "scan")
        if unknown := [name for name in names if name not in known]:
            raise UserError(f"Races have no signal '{unknown[0]}': cars sense {', '.join(known)}.")
        return {name: self._cars.scan() if name == "scan" else self._sensed[name] for name in names}

    def step(self, command: Array, over: Mask) -> None:
        self._cars.step(np.where(over[:, None], 0.0, command))

    def close(self) -> None:
        self._cars.close()


class RaceLog:
    """Records laps, contacts and poses of N cars, one sample per period; used in process and over topics.

    Args:
        tracks: Tracks of N cars.
        laps: Number of laps.
        rate_hz: Samples per second.
    """

    def __init__(self, tracks: Sequence[Track], laps: int, rate_hz: float) -> None:
        count = len(tracks)
        self._tracks, self._laps, self._rate = tracks, laps, rate_hz
        self._length = np.array([t.length_m for t in tracks])
        self._done_s = np.full((count, laps + 1), np.nan)
        self._done_s[:, 0] = 0.0
        self._finished = np.zeros(count, dtype=int)
        self._come, self._step = np.zeros(count), 0
        self._contact, self._least = np.zeros(count, dtype=bool), np.full(count, np.inf)
        self._pose: list[Array] = []
        self._speed: list[Array] = []
        self.over = np.zeros(count, dtype=bool)
        """(N,) whether each car has finished or touched a wall."""

    def observe(self, progress_m: Array, clearance_m: Array, pose: Array, speed: Array) -> None:
        """Record the current state."""
        on = ~self.over
        self._pose.append(np.where(on[:, None], pose, np.nan))
        self._speed.append(np.where(on, speed, np.nan))
        self._least[on] = np.minimum(self._least, clearance_m)[on]
        self._contact |= on & (clearance_m < 0.0)
        line = (self._finished + 1) * self._length
        passed = np.flatnonzero(on & ~self._contact & (progress_m >= line))
        share = (line - self._come)[passed] / (progress_m - self._come)[passed]
        self._finished[passed] += 1
        self._done_s[passed, self._finished[passed]] = (self._step - 1 + share) / self._rate
        self._come, self._step = progress_m, self._step + 1
        self.over = self._contact | (self._finished == self._laps)

    def record(self) -> RaceRecord:
        """Return the record of the races."""
        return RaceRecord(
            simulator="",
            seeds=np.array([t.seed for t in self._tracks]),
            length_m=self._length,
            lap_s=np.diff(self._done_s, axis=1),
            contact=self._contact,
            clearance_m=self._least,
            pose=np.stack(self._pose),
            speed_m_s=np.stack(self._speed),
            rate_hz=self._rate,
        )
