"""Departures of signals and commands from nominal trials, the same for every kind of robot.

:func:`departed` wraps :class:`rlstack.verification.runner.Trials`: robot, world and record stay as they are, and only
what the driver senses, and when its commands act, changes. No driver is told: signals arrive without their age.
Departures come on top of what the trials already have, such as the noise of a robot file or a task's command delay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Mask
from rlstack.interfaces.signals import SENSED
from rlstack.robots.frames import from_rotation_vector, multiply, normalise
from rlstack.verification.runner import Trials

Signals = dict[str, NDArray[Any]]

CHOSEN = frozenset({"goal", "goal_path", "instruction"})
"""Topics of goals and instructions: the operator chooses them, so they are neither late, lost nor noisy."""

INTERPOLATED = frozenset({"odom", "imu", "joint_states", "object"})
"""Topics whose signals are interpolated between two periods; others (scans, people, maps, images) are the last one
that is old enough."""


class SignalChange(Protocol):
    """A kind's own departure of sensed signals, such as a scale of odometry; it can be pickled."""

    def begin(self, count: int, rate_hz: float, rng: np.random.Generator) -> Callable[[int, Signals], Signals]:
        """Return the change for ``count`` trials: called once per period with its number and the signals by name.

        It returns changed copies; arrays are (N, ...). Goals are among the signals.
        """


@dataclass(frozen=True, kw_only=True)
class Departures:
    """Departures of signals and commands; the defaults depart in nothing.

    Args:
        observation_delay_s: Age of sensed signals when the driver receives them. Ages between two periods are
            interpolated for :data:`INTERPOLATED` topics, and rounded up to whole periods for the others.
        observation_jitter_s: Each message is later by a further time, uniform from 0 to this; a message that was
            overtaken is not used.
        command_delay_s: Time from a command to its effect. Within a period in which two commands act, the robot
            receives their mean, weighted by time.
        command_jitter_s: Each command is later by a further time, uniform from 0 to this.
        lost: Share of the messages of each topic, and of the commands, that are lost; the last one holds.
        period: Control periods of the driver in nominal ones: 2 halves its rate. Its command holds in between, while
            sensors and robot keep their rate.
        noise: Standard deviation of white noise by signal, in the signal's unit; rad about each axis for a quaternion.
        bias: Constant offset by signal, likewise, with a random sign for each trial and axis.
        topics: Topics to which delay, jitter and loss of observations apply; empty: all but goals.
        changes: A kind's own changes of signals, applied first.
        received: What the policy node does with signals whose age it knows, such as extrapolating people: called
            with the delivered signals by name and the ages by topic, (N,) s; returns the driver's signals.
    """

    observation_delay_s: float = 0.0
    observation_jitter_s: float = 0.0
    command_delay_s: float = 0.0
    command_jitter_s: float = 0.0
    lost: float = 0.0
    period: int = 1
    noise: Mapping[str, float] = field(default_factory=dict)
    bias: Mapping[str, float] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    changes: tuple[SignalChange, ...] = ()
    received: Callable[[Signals, Mapping[str, Array]], Signals] | None = None

    @property
    def nominal(self) -> bool:
        """Whether nothing departs."""
        names = (one.name for one in fields(self) if one.name not in ("topics", "received"))
        return all(getattr(self, name) == getattr(NOMINAL, name) for name in names)

    def affects(self, name: str) -> bool:
        """Return whether messages with a signal can be late or lost."""
        topic = topic_of(name)
        return topic in self.topics if self.topics else topic not in CHOSEN and topic != ""


NOMINAL = Departures()


def topic_of(name: str) -> str:
    """Return the topic of a sensed signal; empty for values from the robot file."""
    return SENSED[name].topic if name in SENSED else ""


def departed(trials: Trials, departures: Departures, seed: int = 0) -> Trials:
    """Return trials with departures; the same trials if nothing departs.

    Args:
        trials: N trials.
        departures: Their departures.
        seed: Seed of everything random in them; the same trials with the same seed are the same.
    """
    return trials if departures.nominal else _Departed(trials, departures, seed)


class _Departed(Trials):
    """Trials behind late, lost and changed signals and commands."""

    def __init__(self, trials: Trials, departures: Departures, seed: int) -> None:
        super().__init__(len(trials), trials.rate_hz / departures.period)
        self.last_command = trials.last_command
        self._trials, self._departures, self._sensed_at = trials, departures, -1
        rngs = [np.random.default_rng([seed, part]) for part in range(4)]
        self._random, self._messages, commands, self._changes_random = rngs
        self._late: dict[str, _Ages] = {}
        self._history: dict[str, list[NDArray[Any]]] = {}
        self._names: Sequence[str] = ()
        self._signs: dict[str, Array] = {}
        self._over: Mask = np.zeros(len(trials), dtype=bool)
        self._ended = False
        """Whether all ended between two periods of the driver."""
        self._changes = [c.begin(len(trials), trials.rate_hz, self._changes_random) for c in departures.changes]
        d, rate = departures, trials.rate_hz
        self._command_ages = _Ages(len(trials), d.command_delay_s * rate, d.command_jitter_s * rate, d.lost, commands)
        self._commands: list[Array] = []
        self._aged = bool(d.observation_delay_s or d.observation_jitter_s or d.lost) or d.received is not None
        """Whether messages have ages that matter."""

    def observe(self, k: int) -> Mask:
        inner = k * self._departures.period
        if not self._ended:
            self._over = self._trials.observe(inner)
        return self._over

    def signals(self, names: Sequence[str]) -> Signals:
        # of what is late, or changes over time, the past is needed whenever the driver takes it
        past = self._aged or self._departures.changes
        self._names = tuple(dict.fromkeys((*self._names, *names))) if past else names
        if not self._ended:
            self._sense()
        delivered = {name: self._delivered(name) for name in names}
        if self._departures.received is None:
            return delivered
        ages_s = {topic: late.ages / self._trials.rate_hz for topic, late in self._late.items()}
        return self._departures.received(delivered, ages_s)

    def command(self, k: int, command: Array) -> None:
        if not self._ended:
            self._trials.command(k * self._departures.period, command)

    def step(self, command: Array, over: Mask) -> None:
        for part in range(self._departures.period):
            if part > 0:
                at = self._sensed_at + 1
                over = self._over = self._trials.observe(at)
                self._ended = bool(over.all())
                if self._ended and not self.last_command:
                    return
                self._sense()
                self._trials.command(at, command)
                if self._ended:
                    return
            self._trials.step(self._acting(command), over)

    def close(self) -> None:
        """Release the simulator."""
        self._trials.close()

    def _sense(self) -> None:
        """Take this period's signals from the sensors, and the messages' ages."""
        self._sensed_at += 1
        departures, now = self._departures, dict(self._trials.signals(self._names))
        for change in self._changes:
            now = change(self._sensed_at, now)
        for name in now:
            if topic_of(name) not in CHOSEN:
                now[name] = self._disturbed(name, now[name])
        known = self._names if self._aged else ()
        topics = dict.fromkeys(topic_of(name) for name in known if departures.affects(name))
        for topic in topics:
            if topic not in self._late:
                rate = self._trials.rate_hz
                delay, jitter = departures.observation_delay_s * rate, departures.observation_jitter_s * rate
                self._late[topic] = _Ages(len(self), delay, jitter, departures.lost, self._messages)
            self._late[topic].advance()
        for name, array in now.items():
            kept = self._history.setdefault(name, [])
            kept.append(array)
            oldest = math.ceil(self._late[topic_of(name)].oldest) if topic_of(name) in self._late else 0
            del kept[: -(oldest + 2)]

    def _delivered(self, name: str) -> NDArray[Any]:
        """Return what the driver receives of a signal now."""
        kept, topic = self._history[name], topic_of(name)
        if topic not in self._late:
            return kept[-1]
        return _aged(kept, self._late[topic].ages, name, topic in INTERPOLATED)

    def _disturbed(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        noise, bias = self._departures.noise.get(name, 0.0), self._departures.bias.get(name, 0.0)
        if not noise and not bias:
            return array
        turned = SENSED[name].unit.startswith("quaternion")
        shape = (*array.shape[:-1], 3) if turned else array.shape
        if name not in self._signs:
            self._signs[name] = np.sign(self._random.random(shape) - 0.5)
        offset = bias * self._signs[name]
        if noise:
            offset = offset + noise * self._random.standard_normal(shape)
        if array.dtype == np.uint8:
            return np.clip(np.rint(array + offset), 0, 255).astype(np.uint8)
        return multiply(array, from_rotation_vector(offset)) if turned else array + offset

    def _acting(self, command: Array) -> Array:
        """Return the command that acts over the next period."""
        if not (self._departures.command_delay_s or self._departures.command_jitter_s or self._departures.lost):
            return np.asarray(command, dtype=float)
        ages, commands = self._command_ages, self._commands
        if not commands:
            commands.append(np.asarray(self._trials.waiting(command), dtype=float))
        commands.append(np.asarray(command, dtype=float))
        ages.advance()
        del commands[: -(math.ceil(ages.oldest) + 2)]
        return _aged(commands, ages.ages, "", True)


class _Ages:
    """Ages of the newest message that has arrived, in periods, for each of N trials.

    Args:
        count: N.
        delay: Age of a message on arrival, periods.
        jitter: Greatest further age, periods.
        lost: Share of the messages that are lost.
        random: Source of both.
    """

    def __init__(self, count: int, delay: float, jitter: float, lost: float, random: np.random.Generator) -> None:
        self._delay, self._jitter, self._lost, self._random = delay, jitter, lost, random
        self.ages: Array = np.full(count, delay)
        self._first = True

    @property
    def oldest(self) -> float:
        """The greatest age so far."""
        return float(self.ages.max())

    def advance(self) -> None:
        """Advance one period: each trial's next message arrives, or its last one becomes older."""
        held, count = self.ages + 1.0, len(self.ages)
        fresh = np.full(count, self._delay)
        if self._jitter:
            fresh = fresh + self._jitter * self._random.random(count)
        if self._first:  # the first message is always there
            self.ages, self._first = fresh, False
            return
        fresh = np.minimum(fresh, held)  # one that was overtaken is not used
        self.ages = np.where(self._random.random(count) < self._lost, held, fresh) if self._lost else fresh


def _aged(history: Sequence[NDArray[Any]], ages: Array, name: str, interpolate: bool) -> NDArray[Any]:
    """Return arrays (N, ...) of the past: (N,) ages in periods; the oldest known one for greater ages.

    Before the first period nothing is known, and the first array stands for it.
    """
    last = len(history) - 1
    whole = np.ceil(ages - 1e-9).astype(int)
    if (whole == whole[0]).all():
        older, newer = history[max(last - whole[0], 0)], history[min(max(last - whole[0] + 1, 0), last)]
    else:
        rows = np.arange(len(ages))
        span = range(max(last - int(whole.max()), 0), last + 1)
        stacked = _stacked([history[k] for k in span])
        first = span.start
        older = stacked[np.maximum(last - whole - first, 0), rows]
        newer = stacked[np.clip(last - whole + 1 - first, 0, len(stacked) - 1), rows]
    share = whole - ages  # of the newer one
    if not interpolate or not (np.abs(share) > 1e-9).any() or older.shape != newer.shape:
        return older
    share = share.reshape(-1, *[1] * (older.ndim - 1))
    if name and SENSED[name].unit.startswith("quaternion"):  # use the nearer one of q and -q
        newer = np.where(np.sum(older * newer, axis=-1, keepdims=True) < 0.0, -newer, newer)
        return np.asarray(normalise(older + share * (newer - older)))
    return np.asarray(older + share * (newer - older))


def _stacked(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return arrays stacked along a new first axis; a size that varies, such as of people, repeats its last element."""
    if len({array.shape for array in arrays}) == 1:
        return np.stack(arrays)
    widest = np.max([array.shape for array in arrays], axis=0)
    return np.stack([np.pad(a, [(0, most - size) for most, size in zip(widest, a.shape)], "edge") for a in arrays])
