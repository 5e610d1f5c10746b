from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rclpy.serialization import deserialize_message, serialize_message

from rlstack.interfaces import cloud_messages, topics
from rlstack.robots import Lidar


def cloud(coloured: bool = False) -> cloud_messages.CloudMessage:
    return cloud_messages.CloudMessage("frame", coloured)


def over_the_wire(message: object) -> object:
    return deserialize_message(serialize_message(message), type(message))


points = st.integers(0, 2**32 - 1).map(
    lambda seed: np.random.default_rng(seed).uniform(-9, 9, (seed % 7, 3)).astype(np.float32)
)


@settings(deadline=None)
@given(points, st.integers(0, 2**32 - 1))
def test_points_and_colours_come_back_as_they_were(given_points: NDArray, seed: int) -> None:
    colours = np.random.default_rng(seed).integers(0, 256, given_points.shape, dtype=np.uint8)
    got = over_the_wire(cloud(coloured=True).fill(5, given_points, colours))
    assert (got.header.frame_id, got.height, got.width, got.is_dense) == ("frame", 1, len(given_points), True)
    assert [(f.name, f.offset, f.datatype) for f in got.fields] == [
        ("x", 0, 7),
        ("y", 4, 7),
        ("z", 8, 7),
        ("rgb", 12, 7),
    ]
    assert np.array_equal(cloud_messages.cloud_points(got), given_points)
    assert np.array_equal(cloud_messages.cloud_colours(got), colours)
    plain = over_the_wire(cloud().fill(5, given_points))
    assert plain.point_step == 12 and np.array_equal(cloud_messages.cloud_points(plain), given_points)


def test_points_that_are_not_finite_are_left_out_unless_asked_for() -> None:
    got = over_the_wire(cloud().fill(0, np.array([[1.0, 2.0, 3.0], [np.nan, 0.0, 0.0], [0.0, 0.0, np.inf]])))
    assert not got.is_dense
    assert cloud_messages.cloud_points(got).tolist() == [[1.0, 2.0, 3.0]]
    assert cloud_messages.cloud_points(got, finite=False).shape == (3, 3)


@settings(deadline=None)
@given(st.booleans(), st.integers(0, 3), st.integers(0, 2), st.integers(0, 2**32 - 1))
def test_clouds_of_other_drivers_are_read(big: bool, gap: int, padding: int, seed: int) -> None:
    """Doubles beside bytes, in any order, with gaps, padded rows and foreign byte order."""
    order = ">" if big else "<"
    offsets = {"ring": 0, "z": 2 + gap, "x": 10 + 2 * gap, "y": 18 + 2 * gap}
    kinds = {"ring": "u2", "z": "f8", "x": "f8", "y": "f4"}
    step = 24 + 2 * gap
    layout = np.dtype(
        {
            "names": list(kinds),
            "formats": [order + kind for kind in kinds.values()],
            "offsets": list(offsets.values()),
            "itemsize": step,
        }
    )
    random = np.random.default_rng(seed)
    data = np.zeros((2, 3), dtype=layout)
    for name in "xyz":
        data[name] = random.uniform(-5, 5, (2, 3))
    rows = np.pad(data.view(np.uint8).reshape(2, -1), ((0, 0), (0, padding)))
    message = topics.message_type(topics.CLOUD_TYPE)()
    field = topics.message_type("sensor_msgs/msg/PointField")
    codes = {"u2": 4, "f4": 7, "f8": 8}
    message.fields = [field(name=n, offset=offsets[n], datatype=codes[kinds[n]], count=1) for n in kinds]
    message.height, message.width, message.point_step, message.row_step = 2, 3, step, rows.shape[1]
    message.is_bigendian, message.is_dense, message.data = big, True, rows.tobytes()
    expected = np.stack([data[name].ravel().astype(np.float32) for name in "xyz"], axis=-1)
    assert np.array_equal(cloud_messages.cloud_points(over_the_wire(message)), expected)


def test_a_lidars_points_are_along_its_rays() -> None:
    lidar = Lidar(rays=4, rate_hz=10.0, elevations_rad=(0.0, 0.3), range_min_m=0.1, range_max_m=9.0)
    ranges = np.array([[1.0, np.inf, 2.0, np.nan], [np.inf, 3.0, -np.inf, 4.0]], dtype=np.float32)
    found = cloud_messages.lidar_points(lidar, ranges)
    assert np.allclose(np.linalg.norm(found, axis=1), [1.0, 2.0, 3.0, 4.0])
    assert np.allclose(found[3] / 4.0, lidar.directions[1, 3])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fields": []}, "has no field 'x', only none"),
        ({"width": 5}, "too few for 5 x 1 points"),
        ({"data": bytes(3)}, "3 bytes, .* to a row, are too few"),
        ({"point_step": 4}, "too many for .* points of 4 bytes"),
    ],
)
def test_clouds_that_are_not_what_they_say_are_refused(change: dict, said: str) -> None:
    message = cloud().fill(0, np.ones((2, 3)))
    for name, value in change.items():
        setattr(message, name, value)
    with pytest.raises(ValueError, match=said):
        cloud_messages.cloud_points(message)


def test_colours_must_be_there_and_go_with_the_points() -> None:
    with pytest.raises(ValueError, match="has no field 'rgb'"):
        cloud_messages.cloud_colours(cloud().fill(0, np.ones((2, 3))))
    with pytest.raises(ValueError, match=r"must be \(points, 3\), with colours"):
        cloud(coloured=True).fill(0, np.ones((2, 3)))
    with pytest.raises(ValueError, match="not allowed for 2 points"):
        cloud(coloured=True).fill(0, np.ones((2, 3)), np.ones((3, 3), np.uint8))
