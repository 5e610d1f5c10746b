"""Scans of a lidar that stands elsewhere: the same obstacles, at the places where they are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.interfaces.scan_geometry import ScanGeometry, scan_geometry
from rlstack.interfaces.scan_messages import ScanReader
from rlstack.interfaces.transform_buffer import NoTransform, Placed
from rlstack.robots import Lidar, frames

TURN = 2.0 * math.pi
FAR = 8.0
WANTED = replace(
    scan_geometry(
        Lidar(rays=360, rate_hz=10.0, angle_min_rad=0.0, angle_max_rad=TURN, range_min_m=0.05, range_max_m=FAR)
    ),
    position_m=(0.05, -0.02, 0.2),
    rpy_rad=(0.0, 0.0, 0.4),
)
Discs = list[tuple[float, float, float]]


def placed(x: float, y: float, yaw: float, flipped: bool = False) -> Placed:
    upright = np.array([1.0, 0.0, 0.0, 0.0]) if flipped else np.array([0.0, 0.0, 0.0, 1.0])
    return Placed(np.array([x, y, 0.35]), frames.multiply(frames.from_yaw(yaw), upright))


def ways(origin: np.ndarray, angles: np.ndarray, walls: tuple[float, ...], discs: Discs) -> np.ndarray:
    """Return how far it is to the walls of a room, or a disc in it, in directions of ``base_link``."""
    towards = np.stack((np.cos(angles), np.sin(angles)), axis=-1)
    towards[np.abs(towards) < 1e-12] = 1e-12
    x = np.where(towards[:, 0] > 0, walls[0] - origin[0], -walls[1] - origin[0]) / towards[:, 0]
    y = np.where(towards[:, 1] > 0, walls[2] - origin[1], -walls[3] - origin[1]) / towards[:, 1]
    found = np.minimum(x, y)
    for cx, cy, radius in discs:
        along = towards @ (np.array([cx, cy]) - origin)
        inside = radius**2 - ((cx - origin[0]) ** 2 + (cy - origin[1]) ** 2 - along**2)
        reach = along - np.sqrt(np.maximum(inside, 0.0))
        found = np.where((inside > 0.0) & (reach > 0.0), np.minimum(found, reach), found)
    return found


def read(pose: Placed | None, ranges: np.ndarray, start: float, step: float, **changes: Any) -> np.ndarray:
    reader = ScanReader(changes.pop("wanted", WANTED), place=lambda frame, stamp_ns: pose)
    values = {"range_min": 0.05, "range_max": FAR, **changes}
    return reader.signal(7, "laser", start, step, values["range_min"], values["range_max"], ranges)


def expected(wanted: ScanGeometry, walls: tuple[float, ...], discs: Discs, turned: float = 0.0) -> np.ndarray:
    found = ways(np.array(wanted.position_m[:2]), wanted.angles_rad + wanted.rpy_rad[2] + turned, walls, discs)
    return np.clip(found, wanted.range_min_m, wanted.range_max_m)


places = st.floats(-0.4, 0.4)
sides = st.tuples(*[st.floats(0.8, 5.0)] * 4)


def measured(pose: Placed, flipped: bool, rays: int, walls: tuple[float, ...], discs: Discs) -> np.ndarray:
    own = (-1.0 if flipped else 1.0) * TURN / rays * np.arange(rays)
    yaw = 2.0 * math.atan2(*(pose.orientation[[1, 0]] if flipped else pose.orientation[[2, 3]]))
    found = ways(pose.position[:2], yaw + own, walls, discs)
    return np.where(found > FAR, np.inf, found)


@settings(deadline=None, max_examples=60)
@given(x=places, y=places, yaw=st.floats(-math.pi, math.pi), flipped=st.booleans(), walls=sides)
def test_the_walls_of_a_room_are_where_they_are(
    x: float, y: float, yaw: float, flipped: bool, walls: tuple[float, ...]
) -> None:
    pose = placed(x, y, yaw, flipped)
    found = read(pose, measured(pose, flipped, 720, walls, []), 0.0, TURN / 720)
    true = expected(WANTED, walls, [])
    turned = [expected(WANTED, walls, [], share) for share in np.linspace(-0.04, 0.04, 41)]
    assert (found <= true + 1e-6).all()  # no wall is farther away than it is
    assert (found >= np.min(turned, axis=0) - 0.05).all()  # nor nearer than it is beside the ray


@settings(deadline=None, max_examples=60)
@given(
    x=places,
    y=places,
    yaw=st.floats(-math.pi, math.pi),
    bearing=st.floats(-math.pi, math.pi),
    away=st.floats(0.9, 2.5),
    radius=st.floats(0.15, 0.3),
)
def test_an_obstacle_is_never_farther_away_than_it_is(
    x: float, y: float, yaw: float, bearing: float, away: float, radius: float
) -> None:
    """Whatever hides what: space that the lidar has not seen is no way through."""
    pose, walls = placed(x, y, yaw), (5.0, 5.0, 5.0, 5.0)
    discs = [(away * math.cos(bearing), away * math.sin(bearing), radius)]
    found = read(pose, measured(pose, False, 720, walls, discs), 0.0, TURN / 720)
    turned = [expected(WANTED, walls, discs, share) for share in np.linspace(-0.04, 0.04, 41)]
    assert (found <= np.max(turned, axis=0) + 0.01).all()
    nearest = np.argmin(expected(WANTED, walls, discs))
    assert found[nearest] == pytest.approx(expected(WANTED, walls, discs)[nearest], abs=0.03)


def test_a_hit_has_the_place_that_tf_gives_it() -> None:
    pose = placed(0.3, 0.1, 0.5)
    ranges = np.full(360, np.inf)
    ranges[90] = 1.0
    hit = pose.points(np.array([0.0, 1.0, 0.0]))[:2]
    off = hit - WANTED.position_m[:2]
    angle = math.atan2(off[1], off[0]) - WANTED.rpy_rad[2]
    found = read(pose, ranges, 0.0, TURN / 360)
    ray = round(math.degrees(angle)) % 360
    assert found[ray] == pytest.approx(np.hypot(*off), abs=1e-9)
    assert found[(ray + 180) % 360] == FAR and (found == FAR).sum() > 340  # the others end at the shadow of the hit


def test_the_same_mount_reads_as_the_lidar_itself() -> None:
    ranges = np.linspace(1.0, 2.0, 360)
    same = Placed(np.array(WANTED.position_m), frames.from_yaw(0.4))
    assert np.array_equal(read(same, ranges, 0.0, TURN / 360), ranges)
    assert np.array_equal(read(None, ranges, 0.0, TURN / 360), ranges)


def test_unknown_space_is_blocked_and_an_empty_room_is_empty() -> None:
    pose, empty = placed(0.3, 0.0, 0.0), np.full(360, np.inf)
    assert (read(pose, empty, 0.0, TURN / 360) == FAR).all()
    assert (read(pose, empty, 0.0, TURN / 360, range_max=5.0) == 5.0).all()
    behind = read(pose, np.where(np.abs(np.arange(360) - 180) < 60, 0.08, np.inf), 0.0, TURN / 360)
    assert behind[round(180 - math.degrees(0.4))] < 0.2  # something between the two lidars


HALF = replace(WANTED, rays=91, angle_min_rad=-0.25 * math.pi, angle_increment_rad=math.pi / 180, rpy_rad=(0.0,) * 3)


def test_a_field_of_view_must_hold_what_the_policy_sees() -> None:
    ahead = placed(0.25, 0.0, 0.0)
    ranges = np.full(181, 2.0)
    found = read(ahead, ranges, -math.pi / 2, math.pi / 180, wanted=HALF)
    assert found[45] == pytest.approx(2.2, abs=1e-3)
    with pytest.raises(ValueError, match=r"frame 'laser'.*does not look to where the policy's scan is at -45 degrees"):
        read(placed(0.25, 0.0, 0.3), ranges[:91], -math.pi / 4, math.pi / 180, wanted=HALF)


@pytest.mark.parametrize(
    ("pose", "why"),
    [
        (placed(3.0, 0.0, 0.0), r"2\.9\d m from the lidar of the robot file, and at most 2\.00 m"),
        (Placed(np.zeros(3), np.array([0.0, math.sin(0.25), 0.0, math.cos(0.25)])), "tilted by 29 degrees"),
    ],
)
def test_a_lidar_that_is_not_beside_the_wanted_one_is_refused(pose: Placed, why: str) -> None:
    with pytest.raises(ValueError, match=rf"frame 'laser', and the policy's is 'scan_link'.*{why}"):
        read(pose, np.ones(360), 0.0, TURN / 360)


def test_a_transform_that_may_still_come_is_told_from_a_scan_that_is_wrong() -> None:
    def place(frame: str, stamp_ns: int) -> None:
        assert (frame, stamp_ns) == ("/laser", 7)
        raise NoTransform("there is no frame laser on /tf", later=True)

    with pytest.raises(NoTransform, match=r"no frame laser on /tf.*scan_frame.*--child-frame-id laser ") as missing:
        ScanReader(WANTED, place=place).signal(7, "/laser", 0.0, TURN / 360, 0.05, FAR, np.ones(360))
    assert missing.value.later
    with pytest.raises(ValueError, match="rays are 10 degrees apart"):
        read(placed(0.3, 0.0, 0.0), np.ones(36), 0.0, TURN / 36)
