from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message

from rlstack.interfaces import scan_messages, topics
from rlstack.robots import Lidar

LIDAR = Lidar(rays=8, rate_hz=10.0, range_min_m=0.1, range_max_m=5.0)


def sent(lidar: Lidar, ranges: np.ndarray) -> object:
    filler = scan_messages.ScanMessage(topics.message_type(topics.SCAN_TYPE)(), "scan_link", lidar)
    return deserialize_message(serialize_message(filler.fill(3, ranges)), type(filler.message))


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(st.floats(0.125, 4.875, width=32), st.sampled_from([np.inf, -np.inf, np.nan])), min_size=8, max_size=8
    )
)
def test_ranges_come_back_as_they_were(ranges: list[float]) -> None:
    got = sent(LIDAR, np.array(ranges, dtype=np.float32))
    assert np.array_equal(scan_messages.scan_ranges(got), np.array(ranges, dtype=np.float32), equal_nan=True)


def test_the_message_says_where_rays_point() -> None:
    got = sent(LIDAR, np.ones(8))
    assert got.header.frame_id == "scan_link" and got.header.stamp.nanosec == 3
    assert got.angle_min == pytest.approx(-math.pi) and got.angle_increment == pytest.approx(math.pi / 4)
    assert got.angle_max == pytest.approx(got.angle_min + 7 * got.angle_increment), "of the last ray"
    assert (got.range_min, got.range_max) == pytest.approx((0.1, 5.0)) and got.scan_time == pytest.approx(0.1)
    assert np.allclose(scan_messages.scan_angles(got), LIDAR.angles_rad, atol=1e-6)


def test_points_are_where_the_lidar_hit() -> None:
    ranges = np.array([1.0, np.inf, 2.0, np.nan, 3.0, -np.inf, 4.0, np.inf])
    hit = np.isfinite(ranges)
    expected = LIDAR.directions[0][hit] * ranges[hit][:, None]
    assert np.allclose(scan_messages.scan_points(sent(LIDAR, ranges)), expected, atol=1e-5)


def test_what_older_drivers_send_for_nothing_becomes_infinite() -> None:
    got = sent(LIDAR, np.array([0.0, 5.5, 1.0, 0.05, np.inf, np.nan, 2.0, 5.0]))
    found = scan_messages.scan_ranges(got)
    assert found[:5].tolist() == [-np.inf, np.inf, 1.0, -np.inf, np.inf] and np.isnan(found[5])


def test_a_scan_of_another_lidar_is_not_sent() -> None:
    with pytest.raises(ValueError, match="is not one of 8 rays"):
        sent(replace(LIDAR), np.ones(7))
