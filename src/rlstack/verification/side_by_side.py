"""Trials that run at the same time, so that a policy acts once for all of them, although they depart differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Mask
from rlstack.verification.runner import Trials


def side_by_side(parts: Sequence[Trials]) -> Trials:
    """Return several trials of the same rate, signals and commands as one: those of all parts in order."""
    return _SideBySide(parts)


class _SideBySide(Trials):
    """See :func:`side_by_side`."""

    def __init__(self, parts: Sequence[Trials]) -> None:
        super().__init__(sum(map(len, parts)), parts[0].rate_hz)
        self.last_command = parts[0].last_command
        self._parts, ends = tuple(parts), np.cumsum([len(part) for part in parts]).tolist()
        self._rows = [slice(end - len(part), end) for part, end in zip(parts, ends)]

    def observe(self, k: int) -> Mask:
        return np.concatenate([part.observe(k) for part in self._parts])

    def signals(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        found = [part.signals(names) for part in self._parts]
        return {name: np.concatenate([one[name] for one in found]) for name in names}

    def command(self, k: int, command: Array) -> None:
        for part, rows in zip(self._parts, self._rows):
            part.command(k, command[rows])

    def step(self, command: Array, over: Mask) -> None:
        for part, rows in zip(self._parts, self._rows):
            part.step(command[rows], over[rows])

    def close(self) -> None:
        """Release all simulators."""
        for part in self._parts:
            part.close()


def shares(trials: Trials, sizes: Sequence[int]) -> list[Trials]:
    """Return trials of one simulator in parts, which run side by side: each call is made of all parts, in order."""
    shared, ends = _Shared(trials), np.cumsum(sizes).tolist()
    return [_Share(shared, slice(end - size, end)) for size, end in zip(sizes, ends)]


class _Shared:
    """What the shares of trials have in common: the first one asks the simulator, and the last one steps it."""

    def __init__(self, trials: Trials) -> None:
        self.trials = trials
        self._over: tuple[int, Mask] = -1, np.empty(0, dtype=bool)
        self._sensed: Mapping[str, NDArray[Any]] | None = None
        self._commanded: dict[str, list[tuple[Array, Mask]]] = {"command": [], "step": []}

    def over(self, k: int) -> Mask:
        """Return which trials are over after ``k`` periods."""
        if self._over[0] != k:
            self._over, self._sensed = (k, self.trials.observe(k)), None
        return self._over[1]

    def signals(self, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """Return the signals of this period."""
        if self._sensed is None:
            self._sensed = self.trials.signals(names)
        return self._sensed

    def complete(self, what: str, rows: slice, command: Array, over: Mask) -> tuple[Array, Mask] | None:
        """Keep a share's command; return those of all trials once the last share has given its own."""
        kept = self._commanded[what]
        kept.append((command, over))
        if rows.stop < len(self.trials):
            return None
        commands, ended = (np.concatenate(arrays) for arrays in zip(*kept))
        kept.clear()
        return commands, ended


class _Share(Trials):
    """A part of trials that are simulated together."""

    def __init__(self, shared: _Shared, rows: slice) -> None:
        super().__init__(rows.stop - rows.start, shared.trials.rate_hz)
        self.last_command = shared.trials.last_command
        self._shared, self._rows = shared, rows

    def observe(self, k: int) -> Mask:
        return self._shared.over(k)[self._rows]

    def signals(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        return {name: array[self._rows] for name, array in self._shared.signals(names).items()}

    def waiting(self, command: Array) -> Array:
        every = np.zeros((len(self._shared.trials), *command.shape[1:]))
        every[self._rows] = command
        return self._shared.trials.waiting(every)[self._rows]

    def command(self, k: int, command: Array) -> None:
        if all_of := self._shared.complete("command", self._rows, command, np.zeros(len(self), dtype=bool)):
            self._shared.trials.command(k, all_of[0])

    def step(self, command: Array, over: Mask) -> None:
        if all_of := self._shared.complete("step", self._rows, command, over):
            self._shared.trials.step(*all_of)

    def close(self) -> None:
        if self._rows.start == 0:
            self._shared.trials.close()
