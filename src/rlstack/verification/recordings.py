"""Recordings of flights and drives, from the records of their trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import RobotSpec, frames
from rlstack.robots.urdf import to_urdf
from rlstack.robots.visuals import Visual
from rlstack.sim.maps.floor_map import HEIGHT_M, FloorMap
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.verification.flight_outcome import outcome
from rlstack.verification.navigation_episodes import NavigationEpisodes
from rlstack.verification.trial_records import FlightRecord, NavigationRecord
from rlstack.view.recording import Mover, Recording, ReplayedTrial, choose, side_by_side

_BELOW_M = 0.3
"""Where there is no floor one is drawn, this far below a flight."""
_WALL, _PILLAR, _PERSON = (0.62, 0.65, 0.70, 1.0), (0.66, 0.52, 0.36, 1.0), (0.80, 0.47, 0.65, 1.0)
_PERSON_M = 1.7
_LEVEL = np.array([0.0, 0.0, 0.0, 1.0])


def record_flights(
    record: FlightRecord, robot: RobotSpec, criteria: SuccessCriteria, index: Sequence[int], name: str = ""
) -> list[Recording]:
    """Return the recordings of some flights; a lost one ends where it was lost.

    Args:
        record: The flights.
        robot: The robot.
        criteria: When a flight is lost, and when it succeeds.
        index: Numbers of the flights.
        name: Name of the driver; empty: the record's.
    """
    result, urdf = outcome(record.take(np.array(index)), criteria), to_urdf(robot)
    found = []
    for k, number in enumerate(index):
        away = record.error_m[:, number]
        gone = np.flatnonzero(away > criteria.lost_m)
        # what is not finite is infinitely far, and cannot be shown
        end = max(1, min(int(gone[0]) + 1 if len(gone) else len(away), int(np.isfinite(away).sum())))
        position, goal = record.position[:end, number], record.goal_position[:end, number]
        ending = f"{100.0 * result.error_m[k]:.1f} cm from the {'path' if record.moving else 'goal'}"
        if result.lost[k]:
            ending = f"lost after {record.time_s[end - 1]:.1f} s"
        elif not result.success[k]:
            ending = f"failed: {ending}"
        found.append(
            Recording(
                driver=name or record.driver,
                urdf=urdf,
                time_s=record.time_s[:end],
                position=position,
                orientation=record.orientation[:end, number],
                goal=goal,
                path=record.goal_position[:, number] if record.moving else None,
                ending=ending,
                success=bool(result.success[k]),
                floor_m=float(min(position[:, 2].min(), goal[:, 2].min())) - _BELOW_M,
            ).thinned()
        )
    return found


def record_drives(
    record: NavigationRecord, trials: NavigationEpisodes, robot: WheeledBase, index: Sequence[int], name: str = ""
) -> list[Recording]:
    """Return the recordings of some drives.

    Args:
        record: The drives.
        trials: Their maps and goals.
        robot: The robot.
        index: Numbers of the drives.
        name: Name of the driver; empty: the record's.

    Raises:
        UserError: There is no model of the robot.
    """
    urdf, found = to_urdf(robot), []
    for number in index:
        pose = record.pose[:, number]
        pose = pose[: int(np.isfinite(pose[:, 0]).sum())]
        ending, people = str(record.ending[number]), record.people
        x, y, _ = trials.pool.goals[number].tolist()
        found.append(
            Recording(
                driver=name or record.driver,
                urdf=urdf,
                time_s=np.arange(len(pose)) / record.rate_hz,
                position=_raised(pose[:, :2], robot.rest_height_m),
                orientation=frames.from_yaw(pose[:, 2]),
                shapes=map_shapes(trials.pool.maps[number]),
                movers=() if people is None else _walking(np.asarray(people[: len(pose), number], dtype=float)),
                goal=np.tile([x, y, 0.0], (len(pose), 1)),
                ending=f"{ending} after {record.time_s[number]:.1f} s",
                success=ending == "arrived",
            ).thinned()
        )
    return found


def replay_flights(
    record: FlightRecord,
    beside: Mapping[str, FlightRecord],
    robot: Quadrotor,
    criteria: SuccessCriteria,
    chosen: Mapping[str, int],
) -> list[ReplayedTrial]:
    """Return flights, by title, beside those of the first controller."""
    found = []
    for title, number in chosen.items():
        takes = record_flights(record, robot, criteria, [number])
        for who, other in list(beside.items())[:1]:
            if number < len(other):
                takes += record_flights(other, robot, criteria, [number], who)
        label = "" if record.labels is None else f", {record.labels[number]}"
        wide = 2.0 * float(np.linalg.norm(robot.rotor_positions, axis=1).max()) + 4.0 * robot.rotor_model.radius_m
        apart_m = side_by_side(takes, wide)
        found.append(ReplayedTrial(f"{title} of {len(record):,}{label}", tuple(takes), apart_m))
    return found


def replay_drives(
    record: NavigationRecord,
    beside: Mapping[str, NavigationRecord],
    trials: NavigationEpisodes,
    robot: WheeledBase,
) -> list[ReplayedTrial]:
    """Return the best, median, worst and failed drives, with those of the first planner on the same map.

    Raises:
        UserError: There is no model of the robot.
    """
    failed = record.ending != "arrived"
    found = []
    for title, number in choose(record.success, failed, record.time_s / record.shortest_m).items():
        takes = record_drives(record, trials, robot, [number])
        for who, other in list(beside.items())[:1]:
            if number < len(other):
                takes += record_drives(other, trials, robot, [number], who)
        title = title.replace("Lost", "Failed")
        found.append(ReplayedTrial(f"{title} of {len(record):,}, {trials.pool.maps[number].title}", tuple(takes)))
    return found


def map_shapes(drawn: FloorMap) -> tuple[Visual, ...]:
    """Return the obstacles of a map."""
    boxes = [
        Visual(
            "world",
            "box",
            (2.0 * half_x, 2.0 * half_y, HEIGHT_M),
            np.array([x, y, 0.5 * HEIGHT_M]),
            frames.from_yaw(yaw),
            _WALL,
        )
        for x, y, half_x, half_y, yaw in drawn.boxes.tolist()
    ]
    circles = [
        Visual(
            "world",
            "cylinder",
            (2.0 * radius, 2.0 * radius, HEIGHT_M),
            np.array([x, y, 0.5 * HEIGHT_M]),
            _LEVEL,
            _PILLAR,
        )
        for x, y, radius in drawn.circles.tolist()
    ]
    return (*boxes, *circles)


def _walking(people: Array) -> tuple[Mover, ...]:
    """Return people (T, P, 3), x, y and radius, m, as movers."""
    found = []
    for who in np.moveaxis(people, 1, 0):
        size = (2.0 * float(np.nanmax(who[:, 2])), 2.0 * float(np.nanmax(who[:, 2])), _PERSON_M)
        shape = Visual("person", "cylinder", size, np.zeros(3), _LEVEL, _PERSON)
        found.append(
            Mover(shapes=(shape,), position=_raised(who[:, :2], 0.5 * _PERSON_M), orientation=_still(len(who)))
        )
    return tuple(found)


def _raised(places: Array, height_m: float) -> Array:
    """Return places (T, 2) at a height, (T, 3) m."""
    return np.column_stack([places, np.full(len(places), height_m)])


def _still(count: int) -> Array:
    return np.tile(_LEVEL, (count, 1))
