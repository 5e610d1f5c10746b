"""Driving among people: scenes with their own crowd, for policies and planners alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.kinds.wheeled_base.simulation_vector import goal_signals, people_signals
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.perception.people import PeopleTracker, TrackerSettings
from rlstack.sim.bases.layout import CIRCLE_ROWS
from rlstack.sim.bases.parameters import drawn, nominal
from rlstack.sim.bases.people import Orca, SocialForce, WalkingPeople
from rlstack.sim.bases.scenes import Scenes
from rlstack.sim.bases.simulator import BaseSimulator, planar_signals
from rlstack.sim.maps.pool import pool_of
from rlstack.verification.runner import input_names

ENDINGS = ("arrived", "hit a person", "hit a thing", "timed out", "gave up")
"""How a drive among people may end."""

DISCOMFORT_M = 0.2
"""Nearer than this to a person disturbs them (CrowdNav)."""


@dataclass(frozen=True)
class CrowdDrives:
    """What became of N drives.

    Args:
        driver: Who drove.
        ending: (N,) one of :data:`ENDINGS`.
        time_s: (N,) until the end.
        length_m: (N,) of what was driven.
        shortest_m: (N,) of the shortest way without people.
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
        """(N,) who arrived without touching anything."""
        return self.ending == "arrived"

    def figures(self) -> dict[str, float]:
        """Return the shares of each ending, and means: of time and way over those that arrived."""
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
        robot: What drives.
        rate_hz: Control rate.
        arrival_m: Nearer to the goal than this is there.
        limit_s: Time for each.
        name: Of the driver, for reports.
        tracked: The driver is told of people what is tracked in its scan; otherwise the truth.
        rule: How people walk; ORCA if left out.
        tracker: Of the tracker.
        departures: Robots depart from their file as in training; otherwise all are as it says.
        seed: Of the sensors' noise, and of departures.
    """
    pool = pool_of(scenes.maps, boxes=max(1, *(len(m.boxes) for m in scenes.maps)), circles=0, fields=False)
    count, many = len(scenes), scenes.people.shape[1] // CIRCLE_ROWS
    rng = np.random.default_rng(seed)
    parameters = drawn(robot, count, rng) if departures else nominal(robot, count)
    simulator = BaseSimulator(robot, pool.boxes, scenes.people, rate_hz=rate_hz, parameters=parameters, seed=seed)
    simulator.place(pool.starts.astype(float))
    goal = pool.goals.astype(float)
    walkers = WalkingPeople(
        scenes.people, scenes.persons, pool.boxes, None, robot.radius_m, 1.0 / rate_hz, rule or Orca()
    )
    eyes: PeopleTracker | None = None
    if tracked:
        lidar = robot.lidars["scan"]
        mount = lidar.position_m[0], lidar.position_m[1], lidar.rpy_rad[2]
        eyes = PeopleTracker(lidar.angles_rad, lidar.range_max_m, count, mount, tracker)
    driver.reset(count)
    names = input_names(driver)
    sees = tracked or "scan" in names
    ending = np.full(count, "", dtype="<U12")
    time_s, length = np.full(count, limit_s), np.zeros(count)
    closest, near = np.full(count, np.inf), np.zeros(count)
    poses, crowds = [], []
    steps = round(limit_s * rate_hz)
    before = walkers.people[..., :2] - simulator.pose()[:, None, :2]
    for step in range(steps + 1):
        pose, twist, people = simulator.pose(), simulator.twist(), walkers.people
        apart = people[..., :2] - pose[:, None, :2]
        gap = _nearest(before, apart) - people[..., 2] - robot.radius_m
        gap = gap.min(axis=1) if many else np.full(count, np.inf)
        before = apart
        driving = ending == ""
        closest = np.where(driving, np.minimum(closest, gap), closest)
        near += driving & (gap < DISCOMFORT_M)
        arrived = np.linalg.norm(pose[:, :2] - goal[:, :2], axis=1) < arrival_m
        for which, word in (
            (gap < 0.0, "hit a person"),
            (simulator.clearance() < 0.0, "hit a thing"),
            (arrived, "arrived"),
            (_gave_up(driver, count), "gave up"),
            (np.full(count, step == steps), "timed out"),
        ):
            new = which & (ending == "")
            ending[new], time_s[new] = word, step / rate_hz
        over = ending != ""
        poses.append(np.where(driving[:, None], pose, np.nan))
        crowds.append(people[..., :3].astype(np.float32))
        if over.all():
            break
        inputs = {**planar_signals(pose, twist), **goal_signals(goal)}
        if sees:
            inputs["scan"] = simulator.scan()
        if eyes is not None:
            eyes.update(inputs["scan"], pose, 1.0 / rate_hz)
            inputs.update(eyes.signals())
        else:
            inputs.update(people_signals(people))
        command = next(iter(driver.step({n: inputs[n] for n in names}).values()))
        walkers.step(pose, twist)
        simulator.set_circles(0, walkers.people)
        simulator.step(np.where(over[:, None], 0.0, command))
        length += np.where(over, 0.0, np.linalg.norm(simulator.pose()[:, :2] - pose[:, :2], axis=1))
    return CrowdDrives(
        driver=name,
        ending=ending,
        time_s=time_s,
        length_m=length,
        shortest_m=pool.shortest_m.astype(float),
        closest_m=closest,
        disturbed=near / np.maximum(time_s * rate_hz, 1.0),
        pose=np.stack(poses),
        people=np.stack(crowds),
    )


def _nearest(before: Array, after: Array) -> Array:
    """Return the least distance (N, P) on the straight way from one offset (N, P, 2) to the next."""
    way = after - before
    share = np.clip(-(before * way).sum(-1) / np.maximum((way**2).sum(-1), 1e-12), 0.0, 1.0)
    return np.asarray(np.linalg.norm(before + share[..., None] * way, axis=-1))


def _gave_up(driver: Any, count: int) -> NDArray[np.bool_]:
    status = getattr(driver, "status", None)
    if status is None or len(status) != count:
        return np.zeros(count, dtype=bool)
    return np.array([word == "unreachable" or word == 2 for word in status])
