"""What was driven: N drives as arrays, and what became of each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array

ENDINGS = ("arrived", "collided", "timed out", "gave up")
"""How a drive may end."""

PEOPLED = ("people_m", "people")
"""What is recorded over time where there are people."""


@dataclass(frozen=True)
class Drives:
    """Recorded drives.

    Args:
        driver: Who drove.
        simulator: Where, such as ``"batch"`` or ``"mujoco (topics)"``.
        rate_hz: Control and recording rate.
        pose: (T, N, 3) x and y in m, yaw in rad; NaN after the end.
        twist: (T, N, 3) m/s, m/s, rad/s in base_link; NaN after the end.
        command: (T, N, k) what was commanded from each sample on; NaN after the end.
        clearance_m: (T, N) from the footprint to the nearest obstacle; NaN after the end.
        ending: (N,) one of :data:`ENDINGS`.
        time_s: (N,) until the end.
        shortest_m: (N,) length of the shortest way.
        kinds: (N,) of the maps.
        wall_s: How long driving them took.
        people_m: (T, N) from the footprint to the nearest person; NaN after the end. None: there are no people.
        people: (T, N, P, 3) x, y and radius of people, m, for pictures; None: there are none.
        interventions: (N,) how often the guard took over; None: there was no guard.
        latency_s: (K,) of commands over topics, from sending an observation to its command's arrival; None: in process.
    """

    driver: str
    simulator: str
    rate_hz: float
    pose: Array
    twist: Array
    command: Array
    clearance_m: Array
    ending: NDArray[np.str_]
    time_s: Array
    shortest_m: Array
    kinds: NDArray[np.str_]
    wall_s: float
    people_m: Array | None = None
    people: NDArray[np.float32] | None = None
    interventions: NDArray[np.int64] | None = None
    latency_s: Array | None = None

    def __len__(self) -> int:
        return len(self.ending)

    def take(self, index: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Drives:
        """Return the drives at ``index``; the latencies are of all."""
        over_time = {name: getattr(self, name)[:, index] for name in ("pose", "twist", "command", "clearance_m")}
        each = {name: getattr(self, name)[index] for name in ("ending", "time_s", "shortest_m", "kinds")}
        over_time |= {name: seen[:, index] for name in PEOPLED if (seen := getattr(self, name)) is not None}
        guarded = None if self.interventions is None else self.interventions[index]
        return replace(self, **over_time, **each, interventions=guarded)

    @property
    def success(self) -> NDArray[np.bool_]:
        """(N,) who arrived, without ever touching anything."""
        return self.ending == "arrived"

    @property
    def hit_people(self) -> NDArray[np.bool_] | None:
        """(N,) who touched somebody; None: there are no people."""
        if self.people_m is None:
            return None
        return np.asarray((self.ending == "collided") & (np.nanmin(self.people_m, axis=0) < 0.0))

    @property
    def length_m(self) -> Array:
        """(N,) of what was driven, m."""
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
