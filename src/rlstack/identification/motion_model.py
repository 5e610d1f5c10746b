"""What a kind of robot adds to identification: its parameters, and a model that predicts the sensors from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.identification.recorded import Recorded
from rlstack.interfaces.signals import signal_named
from rlstack.robots import Sensor
from rlstack.sim.physics.residual import ResidualModel

Z90 = 1.6449
"""Half width of a normal distribution's 90% interval, in standard deviations."""

COMMANDS = "commands"
"""What a motion is predicted from, unless further measurements drive it."""

IMU = ("imu_angular_velocity", "linear_acceleration")
"""Signals of an IMU, which tell of itself."""

Place = tuple[str | int, ...]
"""Keys and indices of a value in a robot file, such as ``("body", "inertia_kg_m2", 0)``."""


@dataclass(frozen=True)
class Parameter:
    """A number that a recording may tell.

    Args:
        name: Its name on the command line, such as ``inertia_x``.
        unit: SI; empty: a number without a unit.
        value: What the robot file has.
        place: Where in the robot file it is; empty: the file has no place for it.
        logarithmic: Whether it is positive and its relative error counts.
        prior: Standard deviation of how far robots are from their files: of the logarithm, or in the unit.
        needed: Largest half width of a 90% interval with which it counts as told, likewise.
        manoeuvre: The motion that would tell it.
        least: Its least value.
        alike: Name of the parameter that is kept as the file has it where it cannot be told from this one; this one
            is then told in proportion to it.
        needs: Name of the parameter without which this one is not told either.
        floor: Standard deviation, likewise, that no recording goes below: how far simulators themselves differ.
        given: Why no recording of this kind can tell it; it is given with ``--known``, or the file's.
        observed: Its value, where it is read off the recording and not fitted; ``given`` says how.
    """

    name: str
    unit: str
    value: float
    place: Place
    logarithmic: bool
    prior: float
    needed: float
    manoeuvre: str
    least: float = -np.inf
    alike: str = ""
    needs: str = ""
    floor: float = 0.0
    given: str = ""
    observed: float | None = None

    def inward(self, value: float | Array) -> Array:
        """Return what is estimated: the logarithm, or the value."""
        return np.log(np.asarray(value, dtype=float)) if self.logarithmic else np.asarray(value, dtype=float)

    def outward(self, estimated: float | Array) -> Array:
        """Return the value of what is estimated."""
        estimated = np.asarray(estimated, dtype=float)
        return np.exp(estimated) if self.logarithmic else np.maximum(estimated, self.least)


@dataclass(frozen=True)
class Channel:
    """Measurements with the same noise: one vector of one sensor.

    Args:
        name: Its name in reports, such as ``position``.
        unit: SI.
        width: Number of its elements.
        noise: First guess of its standard deviation.
        place: Where the robot file has that; empty: nowhere.
    """

    name: str
    unit: str
    width: int
    noise: float
    place: Place = ()


_ENDS = {"m": "_m", "rad": "_rad", "m/s": "_m_s", "rad/s": "_rad_s"}
"""Ends of a robot file's keys by unit."""


def odometry_channel(odom: Sensor, name: str, unit: str, width: int, otherwise: float) -> Channel:
    """Return a channel of odometry.

    Args:
        odom: The robot file's sensor.
        name: Of the vector, such as ``position``.
        unit: SI.
        width: Number of its elements.
        otherwise: First guess of the noise, if the file has none.
    """
    key = f"{name}_noise{_ENDS[unit]}"
    return Channel(name, unit, width, getattr(odom, key) or otherwise, ("sensors", "odom", key))


@dataclass(frozen=True)
class Windows:
    """Pieces of recordings of equal length.

    Args:
        recording: (S,) index of the recording that each is of.
        first: (S,) index of its first measurement in the reference's track.
        count: Number of measurements of each.
    """

    recording: NDArray[np.intp]
    first: NDArray[np.intp]
    count: int

    def __len__(self) -> int:
        return len(self.first)

    def cut(self, arrays: Sequence[Array]) -> Array:
        """Return the windows' measurements (S, K, ...) of arrays (n, ...), one for each recording."""
        within = np.arange(self.count)
        return np.stack([arrays[number][first + within] for number, first in zip(self.recording, self.first)])

    def commanded(self, time_s: Sequence[Array], sent_s: Sequence[Array], silent_s: float) -> NDArray[np.bool_]:
        """Return (S,) in which windows, and just before, commands were never further apart than ``silent_s``.

        Args:
            time_s: (n,) of the measurements of each recording, s.
            sent_s: (m,) of its commands, s.
            silent_s: Time without a command after which nobody commands, s.
        """
        found = []
        for number, first in zip(self.recording, self.first):
            begin, end = time_s[number][first], time_s[number][first + self.count - 1]
            inside = sent_s[number][slice(*np.searchsorted(sent_s[number], [begin - silent_s, end]))]
            found.append(len(inside) > 1 and float(np.diff(inside).max()) < silent_s)
        return np.array(found, dtype=bool)


class MotionModel(ABC):
    """Predicts the measurements of windows of recordings; one for a robot and its recordings.

    S windows of K measurements each are simulated for V variants of parameters and initial states at once.
    """

    reference: ClassVar[str]
    """The signal whose topic has the measurements."""
    parameters: tuple[Parameter, ...]
    channels: tuple[Channel, ...]
    """In the order of a measurement's rows."""
    state_steps: Array
    """(n,) steps of finite differences of an initial state."""
    driven_by: str = COMMANDS
    """What the motion is predicted from, for reports."""
    measured_inputs: tuple[str, ...] = ()
    """Channels that it is predicted from, so that they are no predictions."""

    @property
    def topic(self) -> str:
        """The topic of the reference."""
        return signal_named(self.reference).topic

    def by_commands(self) -> MotionModel:
        """Return the model that predicts from commands alone, as a simulation does: this one, if it does."""
        return self

    def alternatives(self, values: Array) -> tuple[MotionModel, ...]:
        """Return models that predict from something else and may fit better, where the parameters are ``values``."""
        return ()

    def impossible(self, values: Array) -> tuple[str, ...]:
        """Return the names of parameters whose values together no robot has, of all ``values`` (P,)."""
        return ()

    def notes(self, values: Array) -> list[str]:
        """Return what else the recordings tell, as sentences, where the parameters are ``values`` (P,)."""
        return []

    residual_inputs: tuple[str, ...] = ()
    residual_outputs: tuple[str, ...] = ()
    """Names of what a residual model of this kind takes and gives, with their units; empty: there is none."""

    def left_over(self, values: Array, windows: Windows) -> tuple[Array, Array]:
        """Return the inputs (S, n) and outputs (S, m) of a residual model that would make up for the prediction.

        Args:
            values: (P,) of :attr:`parameters`.
            windows: S short windows.
        """
        raise NotImplementedError

    def with_residual(self, residual: ResidualModel) -> MotionModel:
        """Return the model with what a residual model adds to its forces."""
        raise NotImplementedError

    @abstractmethod
    def states(self, windows: Windows) -> Array:
        """Return the measured initial states (S, ...)."""

    @abstractmethod
    def moved(self, states: Array, change: Array) -> Array:
        """Return states (..., S, width) after a small change (..., S, n)."""

    @abstractmethod
    def residual(self, values: Array, states: Array, windows: Windows) -> Array:
        """Return predicted minus measured (V, S, K, rows); NaN where nothing was measured.

        Args:
            values: (V, P) of :attr:`parameters`, in their units.
            states: (V, S, ...) initial states.
            windows: S windows.
        """

    @abstractmethod
    def recorded(self, windows: Windows) -> dict[str, Array]:
        """Return the measurements (S, K, width) of those channels whose residual is a plain difference."""

    @abstractmethod
    def usable(self, windows: Windows) -> NDArray[np.bool_]:
        """Return (S,) which windows the model can be expected to predict: the robot moves freely and is commanded."""


@dataclass(frozen=True)
class Estimate:
    """What a recording tells of a parameter.

    Args:
        parameter: The parameter.
        value: The new value; the file's, or the known one, where it is not told.
        interval: Ends of the 90% interval; None: not estimated.
        verdict: ``told``, ``known`` (given by the user), or ``kept`` (the file's value stays).
        why: Why it is kept, and which motion would tell it; or to what it is in proportion.
        method: How it was found.
    """

    parameter: Parameter
    value: float
    interval: tuple[float, float] | None
    verdict: Literal["told", "known", "kept"]
    why: str = ""
    method: str = "multiple shooting"

    @property
    def half_width(self) -> float:
        """Half width of the interval: of the logarithm, or in the unit; infinite without one."""
        if self.interval is None:
            return float("inf")
        low, high = (float(self.parameter.inward(end)) for end in self.interval)
        return 0.5 * (high - low)

    @property
    def reach(self) -> float:
        """Three standard deviations, likewise: the half width of a range for training."""
        return 3.0 / Z90 * self.half_width


@dataclass(frozen=True)
class Edit:
    """A change of a robot file.

    Args:
        place: The value.
        value: Plain data that replaces it.
        evidence: What is noted beside it.
        adds: Whether a file whose mapping lacks the last key gets it; else that is refused.
    """

    place: Place
    value: object
    evidence: str
    adds: bool = False


class KindIdentification(ABC):
    """What a kind of robot needs for identification."""

    signals: ClassVar[tuple[str, ...]]
    """Signals that are read from the bag, the reference first."""
    optional: ClassVar[tuple[str, ...]] = ()
    """Those of them that may be missing."""
    segments_s: ClassVar[tuple[float, ...]] = (0.1, 0.25, 0.5)
    """Lengths of the segments of the fit, one fit after the other: short ones find the way from far off."""

    @abstractmethod
    def check(self, robot: Any) -> None:
        """Refuse a robot that cannot be identified yet with a ``UserError``."""

    @abstractmethod
    def names(self, robot: Any) -> Mapping[str, Sequence[str]]:
        """Return the order of the elements of signals whose elements have names."""

    def readers(self, robot: Any) -> Mapping[str, Callable[[Any], Array]]:
        """Return how signals that are more than a field of their message are read from it; empty: it says nothing."""
        return {}

    def sensors(self, robot: Any, recordings: Sequence[Recorded], estimates: Mapping[str, Estimate]) -> list[Estimate]:
        """Return what recordings tell of sensors that only this kind has, and of its battery.

        Args:
            robot: The robot.
            recordings: Its recordings.
            estimates: What its motion told, by name.
        """
        return []

    @abstractmethod
    def model(self, robot: Any, recordings: Sequence[Recorded]) -> MotionModel:
        """Return the model of a robot file and its recordings."""

    @abstractmethod
    def edits(self, robot: Any, estimates: Mapping[str, Estimate], says: Callable[[str], str]) -> list[Edit]:
        """Return the changes of the robot file.

        Args:
            robot: The robot.
            estimates: By name; only those that are told or known change anything.
            says: Returns the evidence for a parameter.
        """

    @abstractmethod
    def randomisation(self, robot: Any, estimates: Mapping[str, Estimate]) -> dict[str, tuple[float, float]]:
        """Return the ranges of the task's randomisation that follow from the posterior, by its keys."""
