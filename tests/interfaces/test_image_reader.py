"""Pictures as a policy was made to see them: fitted where it says so, else refused with the numbers of both."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import serialize_message

from rlstack.interfaces import topics
from rlstack.interfaces.image_messages import ImageMessage
from rlstack.interfaces.image_reader import (
    ImageReader,
    age_s,
    check_camera,
    crop_size,
    downscale,
    fit_image,
    image_geometry,
)
from rlstack.robots import Camera, load_robot

WRIST = load_robot("panda").cameras["wrist"]
CALIBRATED = {"horizontal_fov_rad": None, "fx_px": 49.9, "fy_px": 49.9, "cx_px": 41.5, "cy_px": 41.5}
WIDE = Camera(width=640, height=480, rate_hz=30.0, horizontal_fov_rad=1.2)


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def sent(image: np.ndarray, frame: str = "wrist_optical_frame", encoding: str = "rgb8", stamp_ns: int = 7) -> bytes:
    message = ImageMessage(topics.message_type("sensor_msgs/msg/Image")(), frame, encoding)
    data: bytes = serialize_message(message.fill(stamp_ns, image))
    return data


def test_a_picture_comes_as_it_was_taken_in_any_order_of_colours_with_its_stamp() -> None:
    read = ImageReader(image_geometry(WRIST, "wrist"), "wrist_image", ["hand_color_frame"])
    image = picture(84, 84)
    for data in (
        sent(image, stamp_ns=3_000_000_007),
        sent(image, "cf1/wrist_optical_frame", stamp_ns=3_000_000_007),
        sent(image[..., ::-1].copy(), "hand_color_frame", "bgr8", stamp_ns=3_000_000_007),
        sent(np.dstack([image, np.zeros((84, 84), np.uint8)]), encoding="rgba8", stamp_ns=3_000_000_007),
    ):
        stamp_ns, signals = read(data)
        assert stamp_ns == 3_000_000_007 and list(signals) == ["wrist_image"]
        assert signals["wrist_image"].dtype == np.uint8
        np.testing.assert_array_equal(signals["wrist_image"], image)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (sent(picture(84, 84), "scene_optical_frame"), "in the frame 'scene_optical_frame' is from another camera"),
        (sent(picture(84, 84)[..., 0], encoding="mono8"), "the encoding 'mono8' is not one of rgb8, bgr8"),
        (sent(picture(96, 128)), "an image of 128 x 96 pixels is not 84 x 84"),
    ],
)
def test_what_is_not_the_policys_picture_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ImageReader(image_geometry(WRIST, "wrist"), "wrist_image")(data)


@settings(deadline=None, max_examples=25)
@given(*[st.integers(1, 20)] * 4, st.integers(0, 99))
def test_a_smaller_picture_has_the_means_of_the_larger(a: int, b: int, c: int, d: int, seed: int) -> None:
    (height, rows), (width, columns) = sorted((a, b)), sorted((c, d))
    image = picture(rows, columns, seed)
    made = downscale(image, width, height)
    assert made.shape == (height, width, 3) and made.dtype == np.uint8
    assert np.abs(made.mean(axis=(0, 1)) - image.mean(axis=(0, 1))).max() <= 0.51
    by_number = np.repeat(np.repeat(image.astype(float), height, axis=0), width, axis=1)
    whole = by_number.reshape(height, rows, width, columns, 3).mean(axis=(1, 3))
    assert np.abs(made - whole).max() <= 0.501


def test_a_picture_is_fitted_only_as_the_policy_says() -> None:
    image = picture(480, 640)
    cut = image_geometry(WIDE, "wrist", width=84, height=84, fit="crop")
    np.testing.assert_array_equal(fit_image(image, cut), downscale(image[:, 80:560], 84, 84))
    assert math.isclose(math.tan(0.5 * cut.horizontal_fov_rad), 0.75 * math.tan(0.6))
    small = image_geometry(WIDE, "wrist", width=160, height=120, fit="resize")
    np.testing.assert_array_equal(fit_image(image, small), downscale(image, 160, 120))
    assert crop_size(640, 480, (84, 126), "crop") == (320, 480) and crop_size(480, 640, (84, 63), "crop") == (480, 360)
    for size, fit, said in (
        ((84, 84), "exact", "is not 84 x 84"),
        ((84, 84), "resize", "its aspect ratio differs"),
        ((700, 84), "crop", "too small"),
    ):
        with pytest.raises(ValueError, match=said):
            crop_size(640, 480, size, fit)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"width": 128, "height": 128}, "128 x 128 pixels is not 84 x 84"),
        ({"horizontal_fov_rad": 1.1}, "sees 63.0 degrees from left to right, not 80.2"),
        ({"link": ""}, "is on base_link, not on panda_hand"),
        ({"position_m": (0.07, 0.0, 0.08)}, "0.060 m and 0.0 degrees"),
        ({"rpy_rad": (0.0, -1.9, 0.0)}, "0.000 m and 11.5 degrees"),
        ({"rgb": False, "depth": True}, "has no colours"),
        ({**CALIBRATED, "fy_px": 30.0}, "sees 108.9 degrees from top to bottom, not 80.2"),
        ({**CALIBRATED, "cx_px": 61.5}, "its optical axis 20 pixels off the centre, from left to right"),
        ({**CALIBRATED, "distortion": (-0.25, 0.06, 0.0, 0.0, 0.0)}, "a lens that bends its edges by 23% of the view"),
    ],
)
def test_another_camera_than_the_policys_is_refused(changes: dict, said: str) -> None:
    geometry = image_geometry(WRIST, "wrist")
    check_camera(geometry, replace(WRIST, position_m=(0.08, 0.01, 0.02), rate_hz=10.0), "wrist")
    about = {**CALIBRATED, "cx_px": 43.0, "fy_px": 49.0, "distortion": (-0.01, 0.0, 0.0, 0.0, 0.0)}
    check_camera(geometry, replace(WRIST, **about), "wrist")
    with pytest.raises(ValueError, match=said):
        check_camera(geometry, replace(WRIST, **changes), "wrist")


def test_an_age_is_in_whole_microseconds_and_never_below_zero() -> None:
    assert age_s(130_000_400, 100_000_000) == pytest.approx(0.03, abs=1e-12)
    assert age_s(100, 200) == 0.0
