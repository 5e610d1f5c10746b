"""The segments of recordings as a least-squares problem: derivatives by differences of many simulations at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.identification.fit import Linearised
from rlstack.identification.motion_model import MotionModel, Windows
from rlstack.identification.recorded import Recorded, Track

_STEP = 1e-5
"""Step of finite differences of a parameter, as a share of its prior's standard deviation."""

_LONGEST_GAP = 3.0
"""Usual periods between two measurements above which they are not of one window."""

CYCLE_S, HELD_OUT_S = 5.0, 1.0
"""Of every so many seconds of a recording, the last ones are held out, so that all of a manoeuvre is in both."""

WASHOUT_S = 1.0
"""Time at the beginning of a recording that is left out: what was commanded before it is unknown."""


def cut(track: Track, length_s: float, *, held_out: bool | None) -> NDArray[np.intp]:
    """Return the first measurements (S,) of windows of ``length_s`` one after the other, without gaps in them.

    Args:
        track: The measurements.
        length_s: Length of a window, s.
        held_out: Whether windows are of the time that is held out, or of the rest; None: of all.
    """
    count, slack = steps_of(track, length_s), 1.5 * track.period_s
    middle = CYCLE_S - HELD_OUT_S - slack
    begin, end = (middle, CYCLE_S) if held_out else (0.0, middle - 0.5 * slack)
    gaps = np.concatenate([[0], np.cumsum(np.diff(track.time_s) > _LONGEST_GAP * track.period_s)])
    found, at = [], int(np.searchsorted(track.time_s, track.time_s[0] + WASHOUT_S))
    while at + count < len(track):
        phase = track.time_s[at] % CYCLE_S
        lasts = track.time_s[at + count] - track.time_s[at]
        if (held_out is None or (begin <= phase and phase + lasts <= end)) and gaps[at] == gaps[at + count]:
            found.append(at)
            at += count + 1
        else:
            at += 1
    return np.array(found, dtype=np.intp)


def steps_of(track: Track, length_s: float) -> int:
    """Return the number of measurements in ``length_s``."""
    return max(round(length_s / track.period_s), 2)


def windows_of(recordings: list[Recorded], topic: str, length_s: float, *, held_out: bool | None) -> Windows:
    """Return the windows of all recordings; they have as many measurements as the slowest one's."""
    tracks = [recorded.tracks[topic] for recorded in recordings]
    firsts = [cut(track, length_s, held_out=held_out) for track in tracks]
    count = min(steps_of(track, length_s) for track in tracks) + 1
    numbers = [np.full(len(first), k, dtype=np.intp) for k, first in enumerate(firsts)]
    return Windows(np.concatenate(numbers), np.concatenate(firsts), count)


class Shooting:
    """A :class:`rlstack.identification.fit.Problem` of a model, its windows, and the parameters that are free.

    Args:
        model: The model.
        windows: Its windows.
        values: (P,) of all parameters; those that are not free keep theirs.
        free: Indices of the free ones.
    """

    def __init__(self, model: MotionModel, windows: Windows, values: Array, free: list[int]) -> None:
        self._model, self._windows, self._values, self._free = model, windows, values, free
        rows = np.repeat(np.arange(len(model.channels)), [channel.width for channel in model.channels])
        self.channels = np.tile(rows, windows.count)
        self.noise = np.array([channel.noise for channel in model.channels])
        self.prior = np.array([model.parameters[k].prior for k in free])
        # below it nothing would change with a parameter any more, which would then pass for one that nothing tells
        self.least = np.array([-np.inf if model.parameters[k].logarithmic else model.parameters[k].least for k in free])

    @property
    def start(self) -> Array:
        """(free,) where the parameters begin."""
        return np.array([float(self._model.parameters[k].inward(self._values[k])) for k in self._free])

    def values(self, parameters: Array) -> Array:
        """Return all parameters (..., P), in their units, for free ones (..., free)."""
        values = np.broadcast_to(self._values, (*parameters.shape[:-1], len(self._values))).copy()
        for column, k in enumerate(self._free):
            values[..., k] = self._model.parameters[k].outward(parameters[..., column])
        return values

    def moved(self, states: Array, change: Array) -> Array:
        """See the protocol."""
        return self._model.moved(states, change)

    def residual(self, parameters: Array, states: Array) -> Array:
        """See the protocol."""
        found = self._model.residual(self.values(parameters[None]), states[None], self._windows)[0]
        return found.reshape(len(self._windows), -1)

    def linearise(self, parameters: Array, states: Array) -> Linearised:
        """See the protocol."""
        steps, own = self._model.state_steps, _STEP * self.prior
        n, p = len(steps), len(parameters)
        varied = np.tile(parameters, (1 + n + p, 1))
        varied[1 + n :] += np.diag(own)
        changes = np.zeros((1 + n + p, len(states), n))
        for k in range(n):
            changes[1 + k, :, k] = steps[k]
        started = self._model.moved(np.broadcast_to(states, (1 + n + p, *states.shape)), changes)
        rows = self._model.residual(self.values(varied), started, self._windows)
        rows = rows.reshape(1 + n + p, len(states), -1)
        slopes = np.moveaxis(rows[1:] - rows[0], 0, -1) / np.concatenate([steps, own])
        return Linearised(rows[0], slopes[..., :n], slopes[..., n:])


def kept_windows(model: MotionModel, windows: Windows) -> Windows:
    """Return those windows that the model can be expected to predict."""
    usable = model.usable(windows)
    return Windows(windows.recording[usable], windows.first[usable], windows.count)
