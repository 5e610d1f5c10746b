"""The in-process runner: steps a policy, planner or controller with N robots until every trial is over."""

from __future__ import annotations

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Mask
from rlstack.control.navigation import Status
from rlstack.errors import UserError
from rlstack.policies import Contract, PolicyOutputError
from rlstack.verification.trial_records import TrialRecord

Record = TypeVar("Record", bound=TrialRecord)
OnProgress: TypeAlias = Callable[[int, int], None]
Rows: TypeAlias = slice | Sequence[int]
"""Indices of some of N trials."""


class Driver(Protocol):
    """A policy, planner or controller for N robots at once; it has ``inputs``, or a ``contract`` that names them.

    One that does not take all of them in each step has ``due``, the names of those that its next step takes.
    """

    def reset(self, batch: int = 1) -> None:
        """Reset the state for ``batch`` robots."""

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the command by name for inputs with a leading batch axis."""


class Steppable(Driver, Protocol):
    """A loaded policy file, or anything with its interface."""

    contract: Contract
    path: Path


class Trials(ABC):
    """N trials of a task that run together; a task subclasses it for :func:`run`.

    Args:
        count: N.
        rate_hz: Control rate.
    """

    last_command = False
    """Whether the command at the last sample is recorded, though it has no effect."""

    def __init__(self, count: int, rate_hz: float) -> None:
        self._count, self.rate_hz = count, rate_hz

    def __len__(self) -> int:
        return self._count

    @abstractmethod
    def observe(self, k: int) -> Mask:
        """Record the state after ``k`` periods; return (N,) which trials are over."""

    @abstractmethod
    def signals(self, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """Return the robots' current signals, (N, ...) by name; called once per period."""

    def command(self, k: int, command: Array) -> None:  # noqa: B027
        """Record a command (N, width) at the sample ``k``."""

    def waiting(self, command: Array) -> Array:
        """Return the command (N, width) that acts until the first one, ``command``, arrives; by default that one."""
        return command

    @abstractmethod
    def step(self, command: Array, over: Mask) -> None:
        """Step one control period under ``command`` (N, width), which is ignored where ``over`` (N,)."""

    def close(self) -> None:  # noqa: B027
        """Release the simulator."""


def input_names(driver: Any) -> tuple[str, ...]:
    """Return the names of the signals that a driver takes in its next step; empty if not declared."""
    if hasattr(driver, "due"):
        return tuple(driver.due)
    contract = getattr(driver, "contract", None)
    return tuple(getattr(driver, "inputs", ())) if contract is None else tuple(port.name for port in contract.inputs)


def commanded(driver: Driver, sensed: Mapping[str, NDArray[Any]], at_s: float) -> Array:
    """Return a driver's command for its observations, ``at_s`` into its trials.

    Raises:
        UserError: The command is not finite.
    """
    try:
        return next(iter(driver.step(sensed).values()))
    except PolicyOutputError as error:
        raise UserError(f"{error} That was {at_s:g} s into the trials: train it again.") from error


def run(driver: Driver, trials: Trials) -> None:
    """Run trials until all are over, and close their simulator.

    Args:
        driver: The driver, which is reset first.
        trials: The trials, which keep the record.

    Raises:
        UserError: The driver needs signals that are not sensed, or a command is not finite.
    """
    try:
        driver.reset(len(trials))
        for k in itertools.count():
            over = trials.observe(k)
            if over.all() and not trials.last_command:
                return
            sensed = trials.signals(input_names(driver))
            command = commanded(driver, sensed, k / trials.rate_hz)
            trials.command(k, command)
            if over.all():
                return
            trials.step(command, over)
    finally:
        trials.close()


def run_batches(
    run_batch: Callable[[Any, int], Record],
    trials: Any,
    where: str,
    *,
    batch_size: int | None = None,
    name: str = "",
    seed: int = 0,
    first: int = 0,
    on_progress: OnProgress | None = None,
) -> Record:
    """Return the joined record of trials that run batch by batch.

    Args:
        run_batch: Called with the trials of a batch and a seed; returns their record.
        trials: N trials: a sequence, or an object with ``take(index)``.
        where: Name of the simulator, for reports.
        batch_size: Largest number of trials in a batch, which are simulated together; None: all.
        name: Name of the driver, for reports.
        seed: Seed of the sensors' noise, combined with the number of a batch's first trial.
        first: The number of the first trial.
        on_progress: Called after every batch with the number done and N.
    """
    parts, total = [], len(trials)
    for start in range(0, total, batch_size or total):
        begin, end = time.monotonic(), min(start + (batch_size or total), total)
        record = run_batch(take(trials, start, end), seed + first + start)
        parts.append(replace(record, simulator=where, driver=name, wall_s=time.monotonic() - begin))
        if on_progress is not None:
            on_progress(end, total)
    return parts[0].joined(parts)


def take(trials: Any, start: int, end: int) -> Any:
    """Return the trials from ``start`` to ``end``, or to the last one."""
    return trials.take(np.arange(start, min(end, len(trials)))) if hasattr(trials, "take") else trials[start:end]


def gave_up(driver: Any, count: int) -> Mask:
    """Return (N,) whether a planner reports that its goal cannot be reached; a policy never does."""
    status = getattr(driver, "status", None)
    return np.zeros(count, dtype=bool) if status is None else np.asarray(status == Status.UNREACHABLE)
