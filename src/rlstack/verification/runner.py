"""The in-process runner: steps a policy, planner or controller with N robots until every trial is over."""

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
"""Indices of some of N trials."""


class Driver(Protocol):
    """A policy, planner or controller for N robots at once; it has ``inputs``, or a ``contract`` that names them."""

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

    @abstractmethod
    def step(self, command: Array, over: Mask) -> None:
        """Step one control period under ``command`` (N, width), which is ignored where ``over`` (N,)."""


def input_names(driver: Any) -> tuple[str, ...]:
    """Return the names of the signals that a driver takes; empty if not declared."""
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
    """Run trials until all are over.

    Args:
        driver: The driver, which is reset first.
        trials: The trials, which keep the record.

    Raises:
        UserError: The driver needs signals that are not sensed, or a command is not finite.
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
    """Return ``run_some``'s result for each batch of ``total`` trials.

    Args:
        run_some: Called with the indices of a batch.
        total: Total number of trials.
        at_once: Largest number of trials in a batch.
        on_progress: Called after every batch with the number done and ``total``.
    """
    parts = []
    for first in range(0, total, at_once):
        done = min(first + at_once, total)
        parts.append(run_some(slice(first, done)))
        if on_progress is not None:
            on_progress(done, total)
    return parts
