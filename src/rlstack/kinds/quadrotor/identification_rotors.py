"""Rotor speeds over a recording, from its commands alone: motor lag and delay, as every simulator has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstack.arrays import Array
from rlstack.sim.physics.rotor import lagged

_PILED = 5
"""Commands at one extreme value from which it is a limit: the extremes of free commands differ."""


def commanded_range(commands: Sequence[Array], low: float, high: float) -> tuple[float, float]:
    """Return the least and greatest speed, rad/s, that rotors are commanded, as recordings show it.

    Args:
        commands: (n, rotors) of each recording.
        low: By the robot file; where commands go below it, or pile up elsewhere, the file is wrong.
        high: Likewise.
    """
    every = np.concatenate([sent.ravel() for sent in commands])
    found = []
    for file, extreme, beyond in ((low, every.min(), every.min() < low), (high, every.max(), every.max() > high)):
        piled = np.sum(np.abs(every - extreme) <= 1e-6 * high) >= _PILED
        same = abs(extreme - file) <= 1e-3 * high
        found.append(float(extreme) if (piled or beyond) and not same else file)
    return found[0], found[1]


class RotorHistory:
    """The speeds of a recording's rotors; they turn as first commanded until then.

    Args:
        time_s: (n,) stamps of the commands, s.
        command: (n, rotors) rad/s.
    """

    def __init__(self, time_s: Array, command: Array) -> None:
        self._time_s, self._command = time_s, command
        self._lasts = np.diff(time_s)

    def speeds(self, at_s: Array, lags: Array, delay_s: Array) -> Array:
        """Return speeds (U, *at_s.shape, rotors) rad/s of U sets of motors.

        Args:
            at_s: Times, s, any shape.
            lags: (U, 2) time constants, s, of rise and fall.
            delay_s: (U,) time from a command's stamp to its effect, s.
        """
        # a delay moves all commands alike, so the speeds at their effects depend on the lags alone
        different, which = np.unique(lags, axis=0, return_inverse=True)
        held = self._at_commands(different)
        found = np.empty((len(lags), *at_s.shape, self._command.shape[1]))
        for k, (lag, delay) in enumerate(zip(lags, delay_s)):
            before = at_s - delay
            last = np.clip(np.searchsorted(self._time_s, before, side="right") - 1, 0, len(self._time_s) - 1)
            since = np.maximum(before - self._time_s[last], 0.0)[..., None]
            keep = np.exp(-since / lag[0]), np.exp(-since / lag[1])
            found[k] = lagged(held[last, which.ravel()[k]], self._command[last], keep)
        return found

    def _at_commands(self, lags: Array) -> Array:
        """Return the speeds (n, different, rotors) at the effect of each command."""
        keep = np.exp(-self._lasts[:, None, None, None] / lags[:, :, None])  # (n - 1, different, 2, 1)
        held = np.empty((len(self._time_s), len(lags), self._command.shape[1]))
        held[0] = speed = np.broadcast_to(self._command[0], held[0].shape)
        for k, command in enumerate(self._command[:-1]):
            held[k + 1] = speed = lagged(speed, command, (keep[k, :, 0], keep[k, :, 1]))
        return held
