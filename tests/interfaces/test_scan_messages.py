"""Scans: REP-117 as numbers, and other rays than the policy's, which are measured or refused and never made up."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import serialize_message

from rlstack.interfaces import topics
from rlstack.interfaces.scan_geometry import ScanGeometry, scan_geometry
from rlstack.interfaces.scan_messages import (
    Resampling,
    ScanMessage,
    ScanReader,
    finite_ranges,
)
from rlstack.interfaces.signal_reader import topic_reader
from rlstack.interfaces.signals import SENSED
from rlstack.robots import Lidar, load_robot

TURN = 2.0 * math.pi


def geometry(rays: int = 360, start: float = 0.0, span: float = TURN, **changes: object) -> ScanGeometry:
    full = abs(span - TURN) < 1e-9
    lidar = Lidar(
        rays=rays, rate_hz=10.0, angle_min_rad=start, angle_max_rad=start + span, range_min_m=0.1, range_max_m=8.0
    )
    assert lidar.angle_increment_rad == pytest.approx(span / (rays if full else max(rays - 1, 1)))
    return replace(scan_geometry(lidar), **changes)  # type: ignore[arg-type]


def seen(angles: np.ndarray) -> np.ndarray:
    """A room that is different in every direction, m."""
    return 2.0 + np.sin(angles) + 0.3 * np.cos(7.0 * angles)


def angle_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.abs(np.remainder(a - b + math.pi, TURN) - math.pi)


@settings(deadline=None, max_examples=200)
@given(
    rays=st.integers(2, 800),
    start=st.floats(-TURN, TURN),
    share=st.floats(0.05, 1.0),
    falling=st.booleans(),
    wanted_rays=st.integers(2, 400),
    wanted_start=st.floats(-math.pi, math.pi),
    wanted_share=st.floats(0.05, 1.0),
)
def test_every_number_was_measured_where_it_is_said_to_be(
    rays: int, start: float, share: float, falling: bool, wanted_rays: int, wanted_start: float, wanted_share: float
) -> None:
    wanted = geometry(wanted_rays, wanted_start, wanted_share * TURN)
    step = share * TURN / (rays if share == 1.0 else rays - 1)
    angles = start + step * np.arange(rays)
    if falling:
        angles, step = angles[::-1], -step
    try:
        resample = Resampling(float(angles[0]), step, rays, wanted)
    except ValueError as error:
        near = np.array([angle_between(angles, a).min() for a in wanted.angles_rad])
        coarse = abs(step) > 2.0 * wanted.angle_increment_rad
        # refused for a reason only: too coarse, or a wanted ray with nothing beside it
        assert coarse or near.max() > 0.5 * abs(step) * 0.999, str(error)
        assert f"{rays} rays" in str(error) and f"{wanted_rays} rays" in str(error)
        return
    # the number that comes out for a wanted ray is that of a measured ray: which one is told by numbering them
    which = resample(np.arange(rays, dtype=float)).astype(int)
    reach = 0.5 * max(abs(step), wanted.angle_increment_rad)
    apart = angle_between(angles[which], wanted.angles_rad)
    assert (apart <= np.maximum(reach, 2.0 * wanted.angle_increment_rad) * 1.01).all()
    ranges = seen(angles)
    found = resample(ranges)
    assert np.isin(found, ranges).all()
    # the shortest in sight is never lost: a ray that is longer than a measured one next to it would be a hole
    for wanted_angle, value in zip(wanted.angles_rad, found):
        beside = angle_between(angles, wanted_angle) <= reach * 0.999
        assert not beside.any() or value <= ranges[beside].min() + 1e-12


@pytest.mark.parametrize(
    ("start", "step"),
    [(0.0, 1), (-180.0, 1), (-179.0, 1), (180.0, -1), (359.0, -1), (90.0, 1), (-0.3, 1), (0.0, 0.5), (0.0, 1.5652)],
    ids=["same", "from behind", "a step on", "falling", "falling all", "turned", "between", "finer", "LDS-02 at 10 Hz"],
)
def test_a_whole_turn_can_always_be_had(start: float, step: float) -> None:
    wanted = geometry(360)
    rays = round(360 / abs(step))
    measured = np.radians(start + step * np.arange(rays))
    found = Resampling(float(measured[0]), math.radians(step), rays, wanted)(seen(measured))
    # no farther off than half a step allows: the room changes by at most 3.1 m a radian
    assert np.abs(found - seen(wanted.angles_rad)).max() <= 3.1 * math.radians(max(abs(step), 1.0) / 2 + 0.01)
    if step in (1, -1) and start != -0.3:
        np.testing.assert_allclose(found, seen(wanted.angles_rad), atol=1e-9)


def test_what_was_not_measured_is_refused_with_both_numbers() -> None:
    wanted = geometry(360)
    with pytest.raises(
        ValueError, match=r"181 rays from -90 to 90 degrees cannot be resampled to 360 rays from 0 to 359 deg"
    ):
        Resampling(-math.pi / 2, math.pi / 180, 181, wanted)
    with pytest.raises(ValueError, match=r"90 rays .* its rays are 4 degrees apart, and 2 times 1 degrees are allowed"):
        Resampling(0.0, math.radians(4.0), 90, wanted)
    for bad in ((0.0, 0.0, 5), (math.nan, 0.1, 5), (0.0, 0.1, 0)):
        with pytest.raises(ValueError, match="is not allowed"):
            Resampling(*bad, wanted)
    # the front of a whole turn is there
    front = geometry(91, -math.pi / 4, math.pi / 2)
    angles = np.radians(np.arange(360.0))
    np.testing.assert_allclose(
        Resampling(0.0, math.radians(1.0), 360, front)(seen(angles)), seen(front.angles_rad), atol=1e-9
    )


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from([0.05, 1.0, 2.0, 3.0, 9.0, math.inf, -math.inf, math.nan]), min_size=1, max_size=40))
def test_numbers_follow_rep_117_and_what_is_unknown_counts_as_blocked(ranges: list[float]) -> None:
    step, near, far = math.radians(2.0), 0.1, 8.0
    for turns in (False, True):
        found = finite_ranges(np.array(ranges), increment_rad=step, range_min_m=near, range_max_m=far, turns=turns)
        count = len(ranges)
        for k, raw in enumerate(ranges):
            if not math.isnan(raw):
                assert found[k] == min(max(raw, near), far)
                continue
            sides = []
            for way in (1, -1):  # the first on each side that was measured, at most two rays (4 degrees) away
                for away in (1, 2):
                    at = k + way * away
                    at = at % count if turns else at
                    if 0 <= at < count and away < count and not math.isnan(ranges[at]):
                        sides.append(min(max(ranges[at], near), far))
                        break
            assert found[k] == (min(sides) if sides else near)


def test_many_robots_at_once_are_as_one_by_one() -> None:
    random = np.random.default_rng(2)
    ranges = random.uniform(0.0, 9.0, (7, 90))
    ranges[random.random(ranges.shape) < 0.3] = np.nan
    options = {"increment_rad": math.radians(4.0), "range_min_m": 0.1, "range_max_m": 8.0, "turns": True}
    together = finite_ranges(ranges, **options)  # type: ignore[arg-type]
    for row, alone in zip(ranges, together):
        np.testing.assert_array_equal(finite_ranges(row, **options), alone)  # type: ignore[arg-type]


def lidar() -> Lidar:
    return load_robot("turtlebot3_burger").lidars["scan"]


def sent(measured: np.ndarray, frame: str = "tb3/scan_link", **changes: object) -> bytes:
    message = ScanMessage(topics.message_type(topics.SCAN_TYPE)(), frame, lidar())
    filled = message.fill(12, measured)
    for name, value in changes.items():
        setattr(filled, name, value)
    return serialize_message(filled)


def test_a_message_of_the_robots_own_lidar_comes_through_ray_by_ray() -> None:
    wanted = scan_geometry(lidar())
    signal = SENSED["scan"]
    read = topic_reader(signal.type, {"scan": signal.field}, scan=wanted)
    ranges = 0.5 * seen(wanted.angles_rad)
    ranges[[10, 20, 30]] = np.inf, -np.inf, np.nan
    for k in (0.0, 0.5):
        stamp, signals = read(sent(ranges + k))
        expected = ranges + k
        expected[[10, 20]] = wanted.range_max_m, wanted.range_min_m
        expected[30] = min(expected[29], expected[31])
        assert stamp == 12
        np.testing.assert_allclose(signals["scan"], expected, atol=1e-6)


def test_a_real_lidar_of_other_limits_and_rays() -> None:
    wanted = scan_geometry(lidar())
    read = ScanReader(wanted, zero_is_far=False)
    half = np.full(230, 2.0)
    half[:3] = 0.0, 3.6, np.inf
    data = sent(
        np.zeros(360), angle_min=0.0, angle_increment=TURN / 230, range_max=3.5, ranges=half.astype(np.float32).tolist()
    )
    found = read(data)[1]["scan"]
    assert found.shape == (360,)
    assert found[0] == 2.0  # 0 is not measured: of its neighbours the shorter
    assert found[2] == found[3] == 3.5  # a lidar that reaches 3.5 m says nothing of what is beyond
    assert ScanReader(wanted, zero_is_far=True)(data)[1]["scan"][0] == 3.5


def test_another_frame_is_refused_unless_it_is_said_to_be_the_same() -> None:
    wanted, ranges = scan_geometry(lidar()), np.ones(360)
    read = ScanReader(wanted)
    with pytest.raises(ValueError, match=r"frame 'laser', and the policy's is 'scan_link'.*scan_frame:=laser"):
        read(sent(ranges, "laser"))
    for name in (*wanted.frames, "a/scan_link"):
        read(sent(ranges, name))
    ScanReader(wanted, ("laser",))(sent(ranges, "robot/laser"))
    with pytest.raises(ValueError, match=r"range_min of 9\.0 m"):
        read(sent(ranges, range_min=9.0, range_max=8.0))


@pytest.mark.parametrize("rays", [228, 229])
def test_a_spinning_lidar_may_leave_out_rays_where_its_turn_ends(rays: int) -> None:
    """As the LDS-02's driver does: about 1.57 degrees apart, and another count each turn."""
    wanted = scan_geometry(load_robot("turtlebot3_burger").lidars["scan"])
    step = math.radians(1.57)
    chosen = Resampling(math.radians(0.4), step, rays, wanted)
    angles = math.radians(0.4) + step * np.arange(rays)
    ranges = np.linspace(1.0, 2.0, rays)
    found = chosen(ranges)
    assert found.shape == (360,)
    missing = np.flatnonzero(wanted.angles_rad > angles[-1] + 0.5 * step)
    assert (found[missing] == ranges[[0, -1]].min()).all()


def test_a_turn_that_leaves_out_more_than_that_is_refused() -> None:
    wanted = scan_geometry(load_robot("turtlebot3_burger").lidars["scan"])
    with pytest.raises(ValueError, match="nothing was measured at"):
        Resampling(0.0, math.radians(1.57), 225, wanted)
