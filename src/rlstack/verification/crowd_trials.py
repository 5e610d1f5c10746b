"""Crowd navigation trials: scenes with their own people, for policies and planners alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array, Array32, Mask
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.perception.people import PeopleTracker, TrackerSettings
from rlstack.sim.batch_wheeled_base.parameters import drawn, nominal
from rlstack.sim.batch_wheeled_base.simulator import WheeledBaseSimulator
from rlstack.sim.crowds.scenes import Scenes
from rlstack.sim.crowds.simulator import CrowdSimulator, closest_approach
from rlstack.sim.crowds.walking_models import Orca, SocialForce
from rlstack.sim.maps.pool import pool_of
from rlstack.verification.navigation_trials import NavigationSensors, people_tracker
from rlstack.verification.runner import Trials, gave_up, input_names, run

ENDINGS = ("arrived", "hit a person", "hit a thing", "timed out", "gave up")
"""Possible endings of a drive."""

DISCOMFORT_M = 0.2
"""Distance below which a robot disturbs a person (CrowdNav)."""


@dataclass(frozen=True)
class CrowdDrives:
    """Results of N drives.

    Args:
        driver: Name of the driver.
        ending: (N,) one of :data:`ENDINGS`.
        time_s: (N,) time until the end.
        length_m: (N,) path length.
        shortest_m: (N,) length of the shortest path without people.
        closest_m: (N,) least gap to a person.
        disturbed: (N,) share of the time nearer to a person than :data:`DISCOMFORT_M`.
        pose: (T, N, 3) x, y, yaw; NaN after the end.
        people: (T, N, P, 3) x, y, radius; for pictures.
    """

    driver: str
    ending: NDArray[np.str_]
    time_s: Array
    length_m: Array
    shortest_m: Array
    closest_m: Array
    disturbed: Array
    pose: Array
    people: Array

    def __len__(self) -> int:
        return len(self.ending)

    @property
    def success(self) -> NDArray[np.bool_]:
        """(N,) whether the robot arrived without a contact."""
        return self.ending == "arrived"

    def figures(self) -> dict[str, float]:
        """Return the share of each ending, and the means of time and path length over the successes."""
        there = self.success
        shares = {name.replace(" ", "_"): float((self.ending == name).mean()) for name in ENDINGS}
        time = float(self.time_s[there].mean()) if there.any() else float(self.time_s.max())
        detour = float((self.length_m[there] / self.shortest_m[there]).mean()) if there.any() else 0.0
        mean = {
            "time_s": round(time, 3),
            "length_over_shortest": round(detour, 3),
            "closest_m": round(float(np.median(self.closest_m)), 3),
            "disturbed": round(float(self.disturbed.mean()), 4),
        }
        return {"episodes": float(len(self)), **shares, **mean}


def drive_among_people(
    driver: Any,
    scenes: Scenes,
    robot: WheeledBase,
    *,
    rate_hz: float,
    arrival_m: float,
    limit_s: float,
    name: str,
    tracked: bool = True,
    rule: Orca | SocialForce | None = None,
    tracker: TrackerSettings | None = None,
    departures: bool = False,
    seed: int = 0,
) -> CrowdDrives:
    """Drive every scene and record it.

    A drive ends with arrival, at the first contact, when its time is over, or when the driver gives up.

    Args:
        driver: A policy file or a planner, for all robots at once.
        scenes: N scenes.
        robot: The robot.
        rate_hz: Control rate.
        arrival_m: Goal tolerance.
        limit_s: Time limit of each scene.
        name: Name of the driver, for reports.
        tracked: The driver senses people tracked in its scan; otherwise the ground truth.
        rule: Pedestrian model; default: ORCA.
        tracker: Settings of the tracker.
        departures: Randomize the robots' parameters as in training; otherwise use those of the robot file.
        seed: Seed of the sensors' noise and of the randomization.
    """
    count = len(scenes)
    rng = np.random.default_rng(seed)
    parameters = drawn(robot, count, rng) if departures else nominal(robot, count)
    pool = pool_of(scenes.maps, boxes=max(1, *(len(m.boxes) for m in scenes.maps)), circles=0, fields=False)
    simulator = WheeledBaseSimulator(
        robot, pool.boxes, scenes.people, rate_hz=rate_hz, parameters=parameters, seed=seed
    )
    simulator.place(pool.starts.astype(float))
    people = CrowdSimulator(scenes, pool.boxes, None, robot, 1.0 / rate_hz, rule)
    found = people_tracker(robot, count, tracker) if tracked else None
    drives = _Drives(driver, simulator, people, found, pool.goals.astype(float), rate_hz, arrival_m, limit_s)
    run(driver, drives)
    return CrowdDrives(
        driver=name,
        ending=drives.ending,
        time_s=drives.time_s,
        length_m=drives.length,
        shortest_m=pool.shortest_m.astype(float),
        closest_m=drives.closest,
        disturbed=drives.near / np.maximum(drives.time_s * rate_hz, 1.0),
        pose=np.stack(drives.poses),
        people=np.stack(drives.crowds),
    )


class _Drives(Trials):
    """Scenes simulated together."""

    def __init__(
        self,
        driver: Any,
        simulator: WheeledBaseSimulator,
        people: CrowdSimulator,
        tracker: PeopleTracker | None,
        goal: Array,
        rate_hz: float,
        arrival_m: float,
        limit_s: float,
    ) -> None:
        count = simulator.count
        super().__init__(count, rate_hz)
        self._driver, self._simulator, self._people = driver, simulator, people
        self._sensors = NavigationSensors(self, input_names(driver), rate_hz, tracker)
        self._goal, self._arrival_m, self._steps = goal, arrival_m, round(limit_s * rate_hz)
        self.ending = np.full(count, "", dtype="<U12")
        self.time_s, self.length = np.full(count, limit_s), np.zeros(count)
        self.closest, self.near = np.full(count, np.inf), np.zeros(count)
        self.poses: list[Array] = []
        self.crowds: list[Array32] = []
        self._before = people.people[..., :2] - simulator.pose()[:, None, :2]

    def observe(self, k: int) -> Mask:
        simulator, people, count = self._simulator, self._people.people, len(self)
        self._pose, self._twist = pose, _ = simulator.pose(), simulator.twist()
        apart = people[..., :2] - pose[:, None, :2]
        gap = closest_approach(self._before, apart) - people[..., 2] - simulator.robot.radius_m
        gap = gap.min(axis=1) if people.shape[1] else np.full(count, np.inf)
        self._before = apart
        driving = self.ending == ""
        self.closest = np.where(driving, np.minimum(self.closest, gap), self.closest)
        self.near += driving & (gap < DISCOMFORT_M)
        for which, word in (
            (gap < 0.0, "hit a person"),
            (simulator.clearance() < 0.0, "hit a thing"),
            (np.linalg.norm(pose[:, :2] - self._goal[:, :2], axis=1) < self._arrival_m, "arrived"),
            (gave_up(self._driver, count), "gave up"),
            (np.full(count, k == self._steps), "timed out"),
        ):
            new = which & (self.ending == "")
            self.ending[new], self.time_s[new] = word, k / self.rate_hz
        self.poses.append(np.where(driving[:, None], pose, np.nan))
        self.crowds.append(people[..., :3].astype(np.float32))
        return self.ending != ""

    def signals(self, names: Sequence[str]) -> dict[str, Array]:
        return self._sensors.signals(self._pose, self._twist, self._goal)

    def scan(self) -> Array:
        """Return the robots' scans."""
        return self._simulator.scan()

    def people(self) -> Array:
        """Return the people around the robots."""
        return self._people.people

    def step(self, command: Array, over: Mask) -> None:
        self._people.step(self._pose, self._twist)
        self._simulator.set_circles(0, self._people.people)
        self._simulator.step(np.where(over[:, None], 0.0, command))
        driven = np.linalg.norm(self._simulator.pose()[:, :2] - self._pose[:, :2], axis=1)
        self.length += np.where(over, 0.0, driven)
