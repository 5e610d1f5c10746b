"""Records of trials: arrays of N robots' states and results, the same in process and over topics."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array

Index = NDArray[np.integer] | NDArray[np.bool_] | slice

NAVIGATION_ENDINGS = ("arrived", "collided", "timed out", "gave up")
"""Possible endings of a navigation trial."""


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """N trials by one driver in one simulator.

    Each task adds its arrays: (N, ...), or (T, N, ...) if in ``over_time``.

    Args:
        simulator: Where they ran, such as ``batch`` or ``mujoco (topics)``.
        rate_hz: Control and recording rate.
        driver: The policy, planner or controller.
        wall_s: Wall time of the trials, s.
        labels: (N,) group of each trial, such as its disturbance or its kind of map; None: no groups.
        interventions: (N,) number of guard interventions; None: there was no guard.
        latency_s: (K,) time from sending an observation to its command's arrival, over topics; None: in process.
    """

    over_time: ClassVar[tuple[str, ...]] = ()
    """Names of the fields with a leading time axis; the second axis is the trial."""

    simulator: str
    rate_hz: float
    driver: str = ""
    wall_s: float = 0.0
    labels: NDArray[np.str_] | None = None
    interventions: NDArray[np.int64] | None = None
    latency_s: Array | None = None

    def __len__(self) -> int:
        _, axis, array = self._arrays()[-1]
        return array.shape[axis]

    def take(self, index: Index) -> Self:
        """Return the trials at ``index``; latencies stay those of all trials."""
        arrays: dict[str, Any] = {
            name: array[(slice(None), index) if axis else index] for name, axis, array in self._arrays()
        }
        return replace(self, **arrays)

    @classmethod
    def joined(cls, parts: Sequence[Self], wall_s: float | None = None) -> Self:
        """Return the trials of all parts in order, padded with NaN to the longest.

        Args:
            parts: Records of the same driver and simulator.
            wall_s: Wall time of all of them; None: the sum.
        """
        found: dict[str, Any] = {}
        for name, axis, array in parts[0]._arrays():
            arrays = [array, *(np.asarray(getattr(part, name)) for part in parts[1:])]
            longest = max(len(one) for one in arrays)
            found[name] = np.concatenate([_padded(one, longest) if axis else one for one in arrays], axis=axis)
        latency = [part.latency_s for part in parts if part.latency_s is not None]
        return replace(
            parts[0],
            **found,
            latency_s=np.concatenate(latency) if latency else None,
            wall_s=sum(part.wall_s for part in parts) if wall_s is None else wall_s,
        )

    def _arrays(self) -> list[tuple[str, int, NDArray[Any]]]:
        """Return name, trial axis and values of every array with such an axis."""
        arrays = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        return [
            (name, int(name in self.over_time), array)
            for name, array in arrays
            if isinstance(array, np.ndarray) and name != "latency_s"
        ]


@dataclass(frozen=True, kw_only=True)
class FlightRecord(TrialRecord):
    """Recorded flights.

    Args:
        position: (T, N, 3) m, world.
        orientation: (T, N, 4) xyzw, body to world.
        linear_velocity: (T, N, 3) m/s, world.
        angular_velocity: (T, N, 3) rad/s, body.
        command: (T, N, rotors) rad/s, rotor commands at each step.
        goal_position: (T, N, 3) m, world: goal at each sample, constant for a static goal.
        labels: (N,) disturbance of each flight.
    """

    over_time = ("position", "orientation", "linear_velocity", "angular_velocity", "command", "goal_position")

    position: Array
    orientation: Array
    linear_velocity: Array
    angular_velocity: Array
    command: Array
    goal_position: Array
    labels: NDArray[np.str_]

    @property
    def time_s(self) -> Array:
        """(T,) s since the start; sample 0 is the start state."""
        return np.arange(len(self.position)) / self.rate_hz

    @property
    def moving(self) -> bool:
        """Whether any goal moves."""
        return bool((self.goal_position != self.goal_position[:1]).any())

    @property
    def error_m(self) -> Array:
        """(T, N) distance from the goal, m; not finite counts as infinitely far."""
        error = np.linalg.norm(self.position - self.goal_position, axis=-1)
        return np.where(np.isfinite(error), error, np.inf)


@dataclass(frozen=True, kw_only=True)
class NavigationRecord(TrialRecord):
    """Recorded drives from a start to a goal.

    Args:
        pose: (T, N, 3) x and y in m, yaw in rad; NaN after the end.
        twist: (T, N, 3) m/s, m/s, rad/s in base_link; NaN after the end.
        command: (T, N, k) commands from each sample on; NaN after the end.
        clearance_m: (T, N) distance from the footprint to the nearest obstacle; NaN after the end.
        ending: (N,) one of :data:`NAVIGATION_ENDINGS`.
        time_s: (N,) time until the end.
        shortest_m: (N,) length of the shortest path.
        labels: (N,) the kinds of the maps.
        people_m: (T, N) distance from the footprint to the nearest person; NaN after the end. None: no people.
        people: (T, N, P, 3) x, y and radius of people, m, for plots; None: no people.
    """

    over_time = ("pose", "twist", "command", "clearance_m", "people_m", "people")

    pose: Array
    twist: Array
    command: Array
    clearance_m: Array
    ending: NDArray[np.str_]
    time_s: Array
    shortest_m: Array
    labels: NDArray[np.str_]
    people_m: Array | None = None
    people: NDArray[np.float32] | None = None

    @property
    def success(self) -> NDArray[np.bool_]:
        """(N,) whether the robot arrived without a contact."""
        return self.ending == "arrived"

    @property
    def hit_people(self) -> NDArray[np.bool_] | None:
        """(N,) whether the robot touched a person; None: no people."""
        if self.people_m is None:
            return None
        return np.asarray((self.ending == "collided") & (np.nanmin(self.people_m, axis=0) < 0.0))

    @property
    def length_m(self) -> Array:
        """(N,) path length, m."""
        steps = np.linalg.norm(np.diff(self.pose[..., :2], axis=0), axis=-1)
        return np.asarray(np.nansum(steps, axis=0))

    @property
    def nearest_m(self) -> Array:
        """(N,) least clearance, m."""
        return np.asarray(np.nanmin(self.clearance_m, axis=0))

    @property
    def jerk(self) -> Array:
        """(N,) root mean square of the speed's second derivative, m/s^3."""
        speed = self.twist[..., 0]
        second = (speed[2:] - 2.0 * speed[1:-1] + speed[:-2]) * self.rate_hz**2
        known = np.isfinite(second)
        total = np.where(known, second, 0.0)
        return np.asarray(np.sqrt((total**2).sum(axis=0) / np.maximum(known.sum(axis=0), 1)))


@dataclass(frozen=True, kw_only=True)
class RaceRecord(TrialRecord):
    """Races of N cars on N tracks, from rest; a race ends at the first contact.

    Args:
        seeds: (N,) seeds of the tracks.
        length_m: (N,) lengths of their centre lines.
        lap_s: (N, laps) time of each lap; NaN where it was not finished.
        contact: (N,) whether each car touched a wall.
        clearance_m: (N,) least distance to a wall; below 0 across one.
        pose: (T, N, 3) x, y, m, yaw, rad; NaN after the end.
        speed_m_s: (T, N).
    """

    over_time = ("pose", "speed_m_s")

    seeds: NDArray[np.int64]
    length_m: Array
    lap_s: Array
    contact: NDArray[np.bool_]
    clearance_m: Array
    pose: Array
    speed_m_s: Array

    @property
    def success(self) -> NDArray[np.bool_]:
        """(N,) whether every lap was finished without contact."""
        return np.asarray(np.isfinite(self.lap_s).all(axis=1))

    @property
    def clean_laps(self) -> int:
        """Laps without contact."""
        return int(np.isfinite(self.lap_s).sum())

    @property
    def flying_s(self) -> Array:
        """(N,) mean time of the laps after the first, which starts from rest; NaN if one is missing."""
        return np.asarray(self.lap_s[:, 1:].mean(axis=1)) if self.lap_s.shape[1] > 1 else self.lap_s[:, 0]


@dataclass(frozen=True, kw_only=True)
class ManipulationRecord(TrialRecord):
    """N manipulation trials.

    Args:
        success: (N,) whether the task was done for long enough, without an earlier loss.
        lost: (N,) whether the object left the table, or the state became non-finite.
        time_s: (N,) time to success, s; infinite where it failed.
        error_m: (N,) distance to the goal at the end.
        distance_m: (steps + 1, N) distance to the goal over time; NaN after the loss.
        labels: (N,) what each trial asks for; None: all the same.
    """

    over_time = ("distance_m",)

    success: NDArray[np.bool_]
    lost: NDArray[np.bool_]
    time_s: Array
    error_m: Array
    distance_m: Array

    def figures(self) -> dict[str, float]:
        """Return the reported figures; all finite."""
        found = {
            "episodes": float(len(self)),
            "success": float(self.success.mean()),
            "lost": float(self.lost.mean()),
        }
        if self.success.any():
            found["time_s"] = round(float(self.time_s[self.success].mean()), 4)
            found["error_m"] = round(float(np.median(self.error_m[self.success])), 6)
        for kind in [] if self.labels is None else np.unique(self.labels):
            found[f"success_{kind}"] = round(float(self.success[self.labels == kind].mean()), 4)
        return found


@dataclass(frozen=True, kw_only=True)
class ExplorationRecord(TrialRecord):
    """N exploration trials.

    Args:
        coverage: (N, T + 1) known share of the area, after each move or second.
        done: (N,) whether the coverage sufficed in time.
        contacts: (N,) number of contacts, or of refused moves.
        moves: Whether time is counted in moves; otherwise in seconds.
        enough: Coverage that ends an episode; it then stays constant.
        pose: (steps, N, 3) x, y, m, and yaw, rad; None: not recorded.
    """

    over_time = ("pose",)

    coverage: Array
    done: NDArray[np.bool_]
    contacts: NDArray[np.intp]
    moves: bool = False
    enough: float = 1.0
    pose: Array | None = None

    @property
    def crashed(self) -> NDArray[np.bool_]:
        """(N,) whether there was any contact or refused move."""
        return np.asarray(self.contacts > 0)

    @property
    def success(self) -> NDArray[np.bool_]:
        """(N,) whether the coverage sufficed in time without a contact."""
        return self.done & ~self.crashed

    def time_to(self, share: float) -> Array:
        """Return (N,) the time until a share is known; the whole duration if it never is."""
        there = self.coverage >= share
        return np.where(there.any(axis=1), there.argmax(axis=1), self.coverage.shape[1] - 1).astype(float)

    def time_beyond(self, share: float) -> Array:
        """Return (N,) the time until more than a share is known; the whole duration if it never is."""
        return self.time_to(np.nextafter(share, np.inf))

    def normalized(self) -> Self:
        """Return the record with coverage relative to ``enough``, at most 1."""
        return replace(self, coverage=np.minimum(self.coverage / self.enough, 1.0), enough=1.0)


def _padded(array: NDArray[Any], length: int) -> NDArray[Any]:
    more = np.full((length - len(array), *array.shape[1:]), np.nan, dtype=array.dtype)
    return np.concatenate([array, more])
