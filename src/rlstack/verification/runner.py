"""The runner in process: a policy, planner or controller acts on what N robots sense until every trial is over."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from numpy.typing import NDArray

from rlstack.arrays import Array, Mask
from rlstack.errors import UserError
from rlstack.policies import Contract, PolicyOutputError

Record = TypeVar("Record")
OnProgress: TypeAlias = Callable[[int, int], None]
Rows: TypeAlias = slice | Sequence[int]
"""Some of N trials."""


class Driver(Protocol):
    """A policy, planner or controller for N robots at once; it has ``inputs``, or a ``contract`` that names them."""

    def reset(self, batch: int = 1) -> None:
        """Forget everything, for ``batch`` robots."""

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the command by name for inputs with a leading batch axis."""


class Steppable(Driver, Protocol):
    """A loaded policy file, or anything with its interface."""

    contract: Contract
    path: Path


class Trials(ABC):
    """N trials of a task that run together: what a task adds to :func:`run`.

    Args:
        count: N.
        rate_hz: Control rate.
    """

    last_command = False
    """Whether the command at the last sample is recorded, though nothing comes of it."""

    def __init__(self, count: int, rate_hz: float) -> None:
        self._count, self.rate_hz = count, rate_hz

    def __len__(self) -> int:
        return self._count

    @abstractmethod
    def observe(self, k: int) -> Mask:
        """Record the present, after ``k`` periods; return (N,) which trials are over."""

    @abstractmethod
    def signals(self, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """Return what the robots sense now, (N, ...) by name; called once a period."""

    def command(self, k: int, command: Array) -> None:  # noqa: B027
        """Record a command (N, width) at the sample ``k``."""

    @abstractmethod
    def step(self, command: Array, over: Mask) -> None:
        """Let one control period pass under ``command`` (N, width), which does not count where ``over`` (N,)."""


def input_names(driver: Any) -> tuple[str, ...]:
    """Return the names of the signals that a driver takes; empty: it does not say."""
    contract = getattr(driver, "contract", None)
    return tuple(getattr(driver, "inputs", ())) if contract is None else tuple(port.name for port in contract.inputs)


def commanded(driver: Driver, sensed: Mapping[str, NDArray[Any]], at_s: float) -> Array:
    """Return what a driver commands for what it senses, ``at_s`` into its trials.

    Raises:
        UserError: It is not finite.
    """
    try:
        return next(iter(driver.step(sensed).values()))
    except PolicyOutputError as error:
        raise UserError(f"{error} That was {at_s:g} s into the trials: train it again.") from error


def run(driver: Driver, trials: Trials) -> None:
    """Run trials until all are over.

    Args:
        driver: Is reset first.
        trials: Keep the record.

    Raises:
        UserError: The driver takes what is not sensed, or a command is not finite.
    """
    names = input_names(driver)
    driver.reset(len(trials))
    for k in itertools.count():
        over = trials.observe(k)
        if over.all() and not trials.last_command:
            return
        sensed = trials.signals(names)
        command = commanded(driver, sensed, k / trials.rate_hz)
        trials.command(k, command)
        if over.all():
            return
        trials.step(command, over)


def in_batches(
    run_some: Callable[[slice], Record], total: int, at_once: int, on_progress: OnProgress | None = None
) -> list[Record]:
    """Return what ``run_some`` makes of each batch of ``total`` trials.

    Args:
        run_some: Takes the numbers of a batch.
        total: Of all trials.
        at_once: Trials in a batch, at most.
        on_progress: Called after every batch with the trials done and ``total``.
    """
    parts = []
    for first in range(0, total, at_once):
        done = min(first + at_once, total)
        parts.append(run_some(slice(first, done)))
        if on_progress is not None:
            on_progress(done, total)
    return parts
