from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message

from rlstack.interfaces import image_messages, messages, topics
from rlstack.robots import Camera

CAMERA = Camera(width=20, height=10, rate_hz=5.0, horizontal_fov_rad=1.0, distortion=(-0.1, 0.01, 0.001, 0.002, 0.0))


def message(**fields: object) -> object:
    made = topics.message_type("sensor_msgs/msg/Image")(**fields)
    return deserialize_message(serialize_message(made), type(made))


def drawn(encoding: str, height: int, width: int, seed: int) -> np.ndarray:
    kind, channels = image_messages.ENCODINGS[encoding]
    shape = (height, width) if channels == 1 else (height, width, channels)
    values = np.random.default_rng(seed).integers(0, 256, (*shape, np.dtype(kind).itemsize), dtype=np.uint8)
    if kind.startswith("f"):
        return np.random.default_rng(seed).uniform(-10, 10, shape).astype(kind)
    return values.view(kind)[..., 0]


@settings(deadline=None)
@given(
    st.sampled_from(sorted(image_messages.ENCODINGS)), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1)
)
def test_images_come_back_as_they_were(encoding: str, height: int, width: int, seed: int) -> None:
    sent = drawn(encoding, height, width, seed)
    filler = image_messages.ImageMessage(
        topics.message_type("sensor_msgs/msg/Image")(), "camera_optical_frame", encoding
    )
    got = deserialize_message(serialize_message(filler.fill(1_500_000_000, sent)), type(filler.message))
    assert (got.height, got.width, got.encoding) == (height, width, encoding)
    assert got.header.frame_id == "camera_optical_frame" and messages.stamp_to_ns(got.header.stamp) == 1_500_000_000
    back = image_messages.image_array(got)
    assert back.dtype == sent.dtype and np.array_equal(back, sent)


@settings(deadline=None)
@given(st.sampled_from(["rgb8", "16UC1", "32FC1"]), st.integers(0, 5), st.booleans(), st.integers(0, 2**32 - 1))
def test_padded_rows_and_foreign_byte_order_are_read(encoding: str, padding: int, big: bool, seed: int) -> None:
    image = drawn(encoding, 4, 5, seed)
    kind = image.dtype.newbyteorder(">" if big else "<")
    rows = image.astype(kind).reshape(4, -1).view(np.uint8).reshape(4, -1)
    padded = np.pad(rows, ((0, 0), (0, padding)), constant_values=7)
    got = message(
        height=4, width=5, encoding=encoding, is_bigendian=int(big), step=padded.shape[1], data=padded.tobytes()
    )
    assert np.array_equal(image_messages.image_array(got), image)


def test_colours_come_in_any_order() -> None:
    red = np.array([[[255, 1, 2]]], dtype=np.uint8)
    for encoding, stored in (
        ("rgb8", [255, 1, 2]),
        ("bgr8", [2, 1, 255]),
        ("rgba8", [255, 1, 2, 9]),
        ("bgra8", [2, 1, 255, 9]),
    ):
        got = message(height=1, width=1, encoding=encoding, step=len(stored), data=bytes(stored))
        assert np.array_equal(image_messages.rgb_array(got), red), encoding
    grey = message(height=1, width=2, encoding="mono8", step=2, data=bytes([3, 4]))
    assert image_messages.rgb_array(grey).tolist() == [[[3, 3, 3], [4, 4, 4]]]


def test_depth_comes_in_metres() -> None:
    data = np.array([[0, 1500]], dtype=np.uint16).tobytes()
    depth = image_messages.depth_array(message(height=1, width=2, encoding="16UC1", step=4, data=data))
    assert np.isnan(depth[0, 0]) and depth[0, 1] == pytest.approx(1.5) and depth.dtype == np.float32
    data = np.array([[np.inf, 2.5]], dtype=np.float32).tobytes()
    assert image_messages.depth_array(message(height=1, width=2, encoding="32FC1", step=8, data=data)).tolist() == [
        [np.inf, 2.5]
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"encoding": "bayer_rggb8"}, "the encoding 'bayer_rggb8' is not one of rgb8"),
        (
            {"encoding": "rgb8", "height": 2, "width": 2, "step": 5, "data": bytes(12)},
            "for an image of 2 x 2 rgb8",
        ),
        (
            {"encoding": "mono8", "height": 2, "width": 2, "step": 2, "data": bytes(3)},
            "3 bytes, 2 to a row, are too few",
        ),
    ],
)
def test_images_that_are_not_what_they_say_are_refused(fields: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        image_messages.image_array(message(**fields))


def test_depth_is_no_colour_and_colour_no_depth() -> None:
    with pytest.raises(ValueError, match="not a depth encoding"):
        image_messages.depth_array(message(height=1, width=1, encoding="rgb8", step=3, data=bytes(3)))
    with pytest.raises(ValueError, match="not one of colours"):
        image_messages.rgb_array(message(height=1, width=1, encoding="32FC1", step=4, data=bytes(4)))


def test_an_array_of_another_shape_or_kind_is_not_sent() -> None:
    filler = image_messages.ImageMessage(topics.message_type("sensor_msgs/msg/Image")(), "f", "rgb8")
    for wrong in (np.zeros((2, 2), np.uint8), np.zeros((2, 2, 3)), np.zeros((2, 2, 4), np.uint8)):
        with pytest.raises(ValueError, match="is not rgb8"):
            filler.fill(0, wrong)


def test_camera_info_says_what_the_camera_is() -> None:
    known = image_messages.calibration(CAMERA)
    filler = image_messages.CameraInfoMessage(topics.message_type("sensor_msgs/msg/CameraInfo")(), "optical", known)
    got = deserialize_message(serialize_message(filler.fill(7)), type(filler.message))
    assert got.distortion_model == "plumb_bob" and got.header.stamp.nanosec == 7
    assert got.k.reshape(3, 3).tolist() == CAMERA.intrinsics.tolist()
    assert got.p.reshape(3, 4)[:, :3].tolist() == CAMERA.intrinsics.tolist() and got.p[3] == 0.0
    back = image_messages.read_camera_info(got)
    assert (back.width, back.height, back.distorted) == (20, 10, True)
    for name in ("matrix", "distortion", "rectification", "projection"):
        assert np.array_equal(getattr(back, name), getattr(known, name)), name


def test_camera_info_that_cannot_be_used_is_refused() -> None:
    info = topics.message_type("sensor_msgs/msg/CameraInfo")()
    with pytest.raises(ValueError, match="not calibrated"):
        image_messages.read_camera_info(info)
    info.k = CAMERA.intrinsics.ravel()
    assert not image_messages.read_camera_info(info).distorted
    assert np.array_equal(image_messages.read_camera_info(info).rectification, np.eye(3)), "left out"
    info.distortion_model, info.d = "equidistant", [0.1, 0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="'equidistant' of 4 numbers is not plumb_bob"):
        image_messages.read_camera_info(info)
