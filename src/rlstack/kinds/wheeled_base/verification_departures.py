"""Departures of a base's sensors that signals alone express: odometry that is wrong, and lidars that see less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces.people_messages import extrapolated
from rlstack.interfaces.topics import PEOPLE, SCAN
from rlstack.robots import Lidar
from rlstack.robots.frames import from_yaw, multiply
from rlstack.verification.departures import Signals

Change = Callable[[int, Signals], Signals]

GOAL = "goal_position"

_HEADING = 0.1
"""Drift of the heading in rad for each m of the position's."""


@dataclass(frozen=True)
class OdometryScale:
    """Odometry that measures distances and speeds ``scale`` times too long.

    The goal is a place of the odometry's frame, as on the topics: its signal is what odometry will read there. A base
    without a map cannot do more; how far that place is from the one on the floor plan is the odometry's error alone.
    """

    scale: float

    def begin(self, count: int, rate_hz: float, rng: np.random.Generator) -> Change:
        """Return the change; see :class:`rlstack.verification.departures.SignalChange`."""
        start: list[Array] = []

        def change(k: int, signals: Signals) -> Signals:
            if "position" in signals and not start:
                start.append(signals["position"].copy())
            now = dict(signals)
            for name in ("position", GOAL):
                if name in now and start:
                    now[name] = start[0] + self.scale * (now[name] - start[0])
            now |= _moved_people(signals, now)
            if "linear_velocity" in now:
                now["linear_velocity"] = self.scale * now["linear_velocity"]
            if "angular_velocity" in now:
                now["angular_velocity"] = self.scale * now["angular_velocity"]
            return now

        return change


@dataclass(frozen=True)
class OdometryDrift:
    """Odometry that drifts in a random direction: by ``share`` m, and a tenth of that in rad, for each metre driven.

    Arrival is judged on the floor, so beyond the tolerance no base without a map can succeed.
    """

    share: float

    def begin(self, count: int, rate_hz: float, rng: np.random.Generator) -> Change:
        """Return the change; see :class:`rlstack.verification.departures.SignalChange`."""
        angle, sign = rng.uniform(-np.pi, np.pi, count), np.sign(rng.random(count) - 0.5)
        towards = np.stack([np.cos(angle), np.sin(angle), np.zeros(count)], axis=1)
        driven = np.zeros(count)
        last: list[Array] = []

        def change(k: int, signals: Signals) -> Signals:
            now = dict(signals)
            if "position" not in now:
                return now
            if last:
                driven[:] += np.linalg.norm(now["position"][:, :2] - last[0][:, :2], axis=1)
            last[:] = [now["position"].copy()]
            now["position"] = now["position"] + towards * (self.share * driven)[:, None]
            turned = _HEADING * sign * self.share * driven
            if "orientation" in now:
                now["orientation"] = multiply(from_yaw(turned), now["orientation"])
            return now | _moved_people(signals, now, turned)

        return change


@dataclass(frozen=True)
class OdometryJumps:
    """Position that jumps to another place within ``most_m`` every ``every_s``, as a localisation's corrections do."""

    most_m: float
    every_s: float = 5.0

    def begin(self, count: int, rate_hz: float, rng: np.random.Generator) -> Change:
        """Return the change; see :class:`rlstack.verification.departures.SignalChange`."""
        periods, offset = max(1, round(self.every_s * rate_hz)), np.zeros((count, 3))

        def change(k: int, signals: Signals) -> Signals:
            if k % periods == 0:
                angle = rng.uniform(-np.pi, np.pi, count)
                offset[:, 0], offset[:, 1] = self.most_m * np.cos(angle), self.most_m * np.sin(angle)
            now = {**signals, **({"position": signals["position"] + offset} if "position" in signals else {})}
            return now | _moved_people(signals, now)

        return change


@dataclass(frozen=True)
class ScanDropouts:
    """A share of the rays, drawn anew in each scan, that read a fixed range."""

    share: float
    reads_m: float

    def begin(self, count: int, rate_hz: float, rng: np.random.Generator) -> Change:
        """Return the change; see :class:`rlstack.verification.departures.SignalChange`."""

        def change(k: int, signals: Signals) -> Signals:
            if SCAN not in signals:
                return signals
            scan = signals[SCAN]
            return {**signals, SCAN: np.where(rng.random(scan.shape) < self.share, self.reads_m, scan)}

        return change


@dataclass(frozen=True)
class FieldOfView:
    """A lidar that sees only within an angle about straight ahead; other rays read its greatest range."""

    lidar: Lidar
    view_rad: float

    def begin(self, count: int, rate_hz: float, rng: np.random.Generator) -> Change:
        """Return the change; see :class:`rlstack.verification.departures.SignalChange`."""
        angles = self.lidar.angles_rad + self.lidar.rpy_rad[2]
        seen = np.abs(np.mod(angles + np.pi, 2.0 * np.pi) - np.pi) <= 0.5 * self.view_rad + 1e-9

        def change(k: int, signals: Signals) -> Signals:
            if SCAN not in signals:
                return signals
            return {**signals, SCAN: np.where(seen, signals[SCAN], self.lidar.range_max_m)}

        return change


@dataclass(frozen=True)
class BlindZone:
    """A lidar that returns nothing from nearer than ``nearest_m``: such rays read its greatest range."""

    lidar: Lidar
    nearest_m: float

    def begin(self, count: int, rate_hz: float, rng: np.random.Generator) -> Change:
        """Return the change; see :class:`rlstack.verification.departures.SignalChange`."""

        def change(k: int, signals: Signals) -> Signals:
            if SCAN not in signals:
                return signals
            scan = signals[SCAN]
            return {**signals, SCAN: np.where(scan < self.nearest_m, self.lidar.range_max_m, scan)}

        return change


@dataclass(frozen=True)
class TurnedLidar:
    """A lidar that is mounted ``rays`` rays to the left or, in half of the trials, to the right."""

    rays: int

    def begin(self, count: int, rate_hz: float, rng: np.random.Generator) -> Change:
        """Return the change; see :class:`rlstack.verification.departures.SignalChange`."""
        left = rng.random(count) < 0.5

        def change(k: int, signals: Signals) -> Signals:
            if SCAN not in signals:
                return signals
            scan = signals[SCAN]
            turned = np.where(left[:, None], np.roll(scan, -self.rays, axis=1), np.roll(scan, self.rays, axis=1))
            return {**signals, SCAN: turned}

        return change


def _moved_people(signals: Signals, now: Signals, turned: Array | float = 0.0) -> Signals:
    """Return the people as odometry places them: a robot sees them from where it is, and knows that by odometry.

    Args:
        signals: The true signals.
        now: The signals of odometry.
        turned: (N,) by which its heading is wrong, rad.
    """
    if "people_position" not in signals or "position" not in signals:
        return {}
    angle = np.broadcast_to(turned, len(signals["position"]))[:, None]
    cos, sin = np.cos(angle), np.sin(angle)

    def rotated(vectors: Array) -> Array:
        x, y, z = np.moveaxis(vectors, -1, 0)
        return np.stack([cos * x - sin * y, sin * x + cos * y, z], axis=-1)

    apart = signals["people_position"] - signals["position"][:, None]
    return {
        "people_position": now["position"][:, None] + rotated(apart),
        "people_velocity": rotated(signals["people_velocity"]),
    }


def moved_on(signals: Signals, ages_s: dict[str, Array]) -> Signals:
    """Return the signals with late people moved on by their velocity, as the policy node does."""
    if PEOPLE not in ages_s or "people_position" not in signals:
        return signals
    place = extrapolated(signals["people_position"], signals["people_velocity"], ages_s[PEOPLE])
    return {**signals, "people_position": place}
