"""Rotor speeds over a recording: from its commands, by motor lag and delay, and as they were measured, if they were."""

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


_EXACT = 1e-3
"""Share of a variance that counts as nothing."""


_ALONE = 4.0
"""How much larger than its neighbours, squared, a step of the commands is whose delay is told."""

_BLOCK = 100
"""Measurements of which a variance is taken; the median of all blocks counts, so that a start or a fall does not."""

_LAGS = 20
"""Measurements by which those that tell of a process are apart, at most."""

_TOLD_S = 1e-3
"""Standard deviation of such a delay, at most."""


class RotorHistory:
    """The speeds of a recording's rotors; they turn as first commanded until then.

    Args:
        time_s: (n,) stamps of the commands, s.
        command: (n, rotors) rad/s.
    """

    def __init__(self, time_s: Array, command: Array) -> None:
        self._time_s, self._command = time_s, command
        self._lasts = np.diff(time_s)
        self._held: tuple[bytes, Array] = b"", np.empty(0)

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

    def commanded(self, at_s: Array) -> tuple[Array, Array]:
        """Return the commands in force (n, rotors) at times (n,), s, and since when (n,)."""
        last = np.clip(np.searchsorted(self._time_s, at_s, side="right") - 1, 0, None)
        return self._command[last], self._time_s[last]

    def _at_commands(self, lags: Array) -> Array:
        """Return the speeds (n, different, rotors) at the effect of each command; those of the last lags are kept."""
        if self._held[0] == lags.tobytes():
            return self._held[1]
        keep = np.exp(-self._lasts[:, None, None, None] / lags[:, :, None])  # (n - 1, different, 2, 1)
        held = np.empty((len(self._time_s), len(lags), self._command.shape[1]))
        held[0] = speed = np.broadcast_to(self._command[0], held[0].shape)
        for k, command in enumerate(self._command[:-1]):
            # rlstack.sim.physics.rotor.lagged, in plain arrays: this loop takes most of an identification's time
            off = speed - command
            held[k + 1] = speed = command + off * np.where(off < 0.0, keep[k, :, 0], keep[k, :, 1])
        self._held = lags.tobytes(), held
        return held


class MeasuredRotors:
    """The speeds of a recording's rotors where they were measured: by the commands, corrected by the measurements.

    What the measurements are off the motor model is carried from one to the next, and the model gives the shape in
    between. How far they are followed is found from that difference: a first-order Markov process, from commands that
    take effect earlier or later than they are recorded and from motors that differ from the model, in white noise of
    the measurement. The best estimate of such a process is a two-sided exponential mean (Wiener's smoother; Kailath,
    Sayed and Hassibi, "Linear Estimation", 2000, ch. 7). So exact measurements are followed whatever was commanded,
    and noisy ones leave the commands' speeds as they are, where these are right.

    Args:
        history: What the commands say.
        time_s: (n,) stamps of the measurements, s.
        measured: (n, rotors) rad/s.
    """

    def __init__(self, history: RotorHistory, time_s: Array, measured: Array) -> None:
        self.history, self.time_s, self.measured = history, time_s, measured
        self._period_s = float(np.median(np.diff(time_s)))

    def off(self, lags: Array, delay_s: Array) -> Array:
        """Return measured minus commanded speeds (U, n, rotors) of U sets of motors."""
        return self.measured - self.history.speeds(self.time_s, lags, delay_s)

    def speeds(self, at_s: Array, lags: Array, delay_s: Array) -> Array:
        """As :meth:`RotorHistory.speeds`; the first set of motors decides how far measurements are followed."""
        off = self.off(lags, delay_s)
        keep = float(np.exp(-self._period_s / np.mean(lags[0])))
        common = np.mean(off, axis=2, keepdims=True)  # late commands move all rotors, the noise each of them
        off = _smoothed(common, keep) + _smoothed(off - common, keep)
        last = np.clip(np.searchsorted(self.time_s, at_s, side="right") - 1, 0, len(self.time_s) - 2)
        share = (at_s - self.time_s[last]) / (self.time_s[last + 1] - self.time_s[last])
        share = np.clip(share, 0.0, 1.0)[..., None]
        found = self.history.speeds(at_s, lags, delay_s)
        for k in range(len(found)):
            found[k] += off[k, last] * (1.0 - share) + off[k, last + 1] * share
        return found

    def exact(self, lags: Array, delay_s: float) -> bool:
        """Return whether the measurements have no noise that counts, where motors lag by ``lags`` (2,), s."""
        off = self.off(lags[None], np.array([delay_s]))[0]
        step, noise = markov_variances(off, float(np.exp(-self._period_s / np.mean(lags))))
        return noise <= _EXACT * step

    def delays(self, lags: Array, delay_s: float) -> Array:
        """Return the times (m,) from a command's stamp to its effect, s, of the steps that tell it to a millisecond.

        Args:
            lags: (2,) time constants, s, of rise and fall.
            delay_s: Their usual value.
        """
        off = self.off(lags[None], np.array([delay_s]))[0]
        keep = np.exp(-self._period_s / np.mean(lags))
        _, noise = markov_variances(off, float(keep))
        # a command that is late by d leaves a rotor -d (change of the command) / lag off, within a period or two
        found = off[3:] - keep**3 * off[:-3]
        commanded, since_s = self.history.commanded(self.time_s - delay_s)
        change = np.diff(commanded, axis=0)
        lag = np.where(change > 0.0, lags[0], lags[1])
        age_s = np.append(np.diff(self.time_s), self._period_s)[1:] + self.time_s[1:] - delay_s - since_s[1:]
        slope = -change / lag * np.exp(-age_s[:, None] / lag)  # as it is one measurement later
        power = np.sum(slope**2, axis=1)
        before, own, after = power[:-2], power[1:-1], power[2:]
        clear = (own > _ALONE * (before + after)) & (own > 2.0 * noise / _TOLD_S**2)
        shift = np.sum(slope[1:-1] * found, axis=1)[clear] / own[clear]
        return np.asarray(delay_s + shift)


def markov_variances(off: Array, keep: float) -> tuple[float, float]:
    """Return the variances of a Markov process' steps and of the white noise in which it was measured.

    Args:
        off: (n, rotors) measurements.
        keep: Share of the process that remains after a period.
    """
    shares = keep ** np.arange(1, _LAGS + 1)
    length = min(_BLOCK, len(off))
    blocks = off[: len(off) // length * length].reshape(-1, length, off.shape[1])
    steps = blocks[:, 1:] - keep * blocks[:, :-1]
    # the covariance of a step with the next one is that of the noise alone, those of what lies apart the process' alone
    noise = -np.median(np.mean(steps[:, 1:] * steps[:, :-1], axis=(1, 2))) / keep
    apart = [np.mean(blocks[:, k:] * blocks[:, :-k], axis=(1, 2)) for k in range(1, _LAGS + 1)]
    process = np.median(shares @ np.array(apart)) / np.sum(shares**2)
    return max(float(process) * (1.0 - keep**2), 0.0), max(float(noise), 0.0)


def _smoothed(off: Array, keep: float) -> Array:
    """Return the best estimate (U, n, rotors) of a Markov process measured in noise, by the first set."""
    step, noise = markov_variances(off[0], keep)
    if noise <= _EXACT * step:
        return off
    if step <= _EXACT * noise:
        return np.zeros_like(off)
    half = 0.5 * (step + noise * (1.0 + keep**2)) / (noise * keep)
    decay = half - np.sqrt(half**2 - 1.0)  # per measurement
    reach = min(int(np.ceil(np.log(_EXACT) / np.log(decay))), len(off[0]) - 1)
    weights = step * decay / (noise * keep * (1.0 - decay**2)) * decay ** np.abs(np.arange(-reach, reach + 1))
    padded = np.pad(off, ((0, 0), (reach, reach), (0, 0)), mode="edge")
    found = np.zeros_like(off)
    for k, weight in enumerate(weights):
        found += weight * padded[:, k : k + off.shape[1]]
    return found
