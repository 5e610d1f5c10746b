"""Maps there and back, and what is no map."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rclpy.serialization import deserialize_message, serialize_message

from rlstack.interfaces.map_messages import UNKNOWN, Occupancy, map_message, read_map

CELLS = st.tuples(st.integers(0, 9), st.integers(0, 9)).flatmap(
    lambda shape: arrays(np.int8, shape, elements=st.integers(UNKNOWN, 100))
)


@settings(deadline=None, max_examples=40)
@given(CELLS, st.sampled_from([0.05, 0.1, 0.025, 1.0]), st.floats(-50, 50), st.floats(-3.1, 3.1))
def test_there_and_back(cells: np.ndarray, resolution_m: float, at_m: float, yaw_rad: float) -> None:
    sent = Occupancy(cells, resolution_m, (at_m, -at_m), yaw_rad, "map", 3_000_000_007)
    message = map_message(sent)
    back = read_map(deserialize_message(serialize_message(message), type(message)))
    np.testing.assert_array_equal(back.cells, cells)
    assert back.cells.shape == cells.shape and back.resolution_m == resolution_m
    assert back.origin_m == sent.origin_m and (back.frame, back.stamp_ns) == ("map", sent.stamp_ns)
    assert math.remainder(back.yaw_rad - yaw_rad, 2 * math.pi) == pytest.approx(0.0, abs=1e-9)


def test_columns_go_along_x() -> None:
    cells = np.zeros((2, 3), dtype=np.int8)
    cells[1, 2] = 100
    message = map_message(Occupancy(cells, 0.5, (0.0, 0.0)))
    assert (message.info.width, message.info.height) == (3, 2)
    assert list(message.data).index(100) == 1 * 3 + 2  # row-major from the corner, x first: nav_msgs/OccupancyGrid


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cells": np.zeros(4)}, "shape"),
        ({"cells": np.full((2, 2), 101)}, "-1 to 100"),
        ({"resolution_m": 0.0}, "above 0"),
        ({"resolution_m": math.nan}, "above 0"),
    ],
)
def test_what_is_no_map_is_not_sent(change: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        map_message(replace(Occupancy(np.zeros((2, 2), np.int8), 0.1, (0.0, 0.0)), **change))


def test_what_is_no_map_is_not_read() -> None:
    message = map_message(Occupancy(np.zeros((2, 2), np.int8), 0.1, (0.0, 0.0)))
    message.info.origin.orientation.x = 0.5
    with pytest.raises(ValueError, match="not level"):
        read_map(message)
    message.info.resolution = 0.0
    with pytest.raises(ValueError, match=r"cells of 0\.0 m"):
        read_map(message)
    message.info.width = 3
    with pytest.raises(ValueError, match="3 x 2 cells came with 4"):
        read_map(message)
