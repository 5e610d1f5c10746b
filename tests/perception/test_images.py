from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rclpy.serialization import deserialize_message, serialize_message

from rlstack.interfaces import topics
from rlstack.interfaces.image_messages import calibration
from rlstack.perception import images
from rlstack.perception.images import Undistorter, decoded, undistort_points
from rlstack.robots import Camera

CAMERA = Camera(width=160, height=120, rate_hz=5.0, horizontal_fov_rad=1.2)
BENT = replace(CAMERA, distortion=(-0.28, 0.07, 0.002, -0.001, 0.0))


def message(encoding: str, height: int, width: int, step: int, data: bytes) -> object:
    kind = topics.message_type("sensor_msgs/msg/Image")
    made = kind(height=height, width=width, encoding=encoding, step=step, data=data)
    return deserialize_message(serialize_message(made), kind)


def test_opencv_shows_straightened_points_where_they_were() -> None:
    """projectPoints, OpenCV's distortion, undoes undistort_points."""
    import cv2

    known = calibration(BENT)
    pixels = np.random.default_rng(0).uniform((0, 0), (159, 119), (300, 2))
    straight = undistort_points(pixels, known)
    assert np.abs(straight - pixels).max() > 3.0
    rays = np.concatenate((straight, np.ones((300, 1))), axis=1) @ np.linalg.inv(known.matrix).T
    shown, _ = cv2.projectPoints(rays, np.zeros(3), np.zeros(3), known.matrix, known.distortion)
    assert np.allclose(shown[:, 0], pixels, atol=1e-9)


def test_a_dot_is_moved_to_where_its_point_is() -> None:
    known = calibration(BENT)
    image = np.zeros((120, 160, 3), dtype=np.uint8)
    image[19:22, 29:32] = 255
    straight = Undistorter(known).undistort(image)[..., 0].astype(float)
    v, u = np.mgrid[:120, :160]
    middle = np.array([(straight * u).sum(), (straight * v).sum()]) / straight.sum()
    assert np.allclose(middle, undistort_points(np.array([[30.0, 20.0]]), known)[0], atol=0.1)


def test_depth_is_not_blended_and_nothing_is_made_up() -> None:
    known = calibration(
        replace(CAMERA, distortion=(0.2, 0.0, 0.0, 0.0, 0.0))
    )  # the straight image's corners were not seen
    depth = np.where(np.arange(160) < 80, 1.0, 5.0).astype(np.float32) * np.ones((120, 1), dtype=np.float32)
    straight = Undistorter(known).undistort(depth)
    assert set(np.unique(straight[np.isfinite(straight)])) == {1.0, 5.0}
    assert np.isnan(straight[0, 0]) and not np.isnan(straight[60, 80])


def test_rectifying_turns_as_the_calibration_says() -> None:
    """A camera that is turned by 0.1 rad about its y axis looks straight ahead once rectified."""
    turn = np.array([[np.cos(0.1), 0.0, np.sin(0.1)], [0.0, 1.0, 0.0], [-np.sin(0.1), 0.0, np.cos(0.1)]])
    known = replace(calibration(CAMERA), rectification=turn)
    image = np.zeros((120, 160), dtype=np.uint8)
    ahead = known.matrix @ turn.T @ [0.0, 0.0, 1.0]
    u, v = np.rint(ahead[:2] / ahead[2]).astype(int)
    image[v - 1 : v + 2, u - 1 : u + 2] = 255
    straightener = Undistorter(known, rectified=True)
    rows, columns = np.nonzero(straightener.undistort(image) > 100)
    assert columns.mean() == pytest.approx(known.matrix[0, 2], abs=1.0)
    assert rows.mean() == pytest.approx(known.matrix[1, 2], abs=1.0)
    assert not straightener.known.distorted


@pytest.mark.parametrize("pattern", ["rggb", "bggr", "gbrg", "grbg"])
def test_bayer_patterns_are_decoded(pattern: str) -> None:
    colour = {"r": 200, "g": 100, "b": 50}
    tile = np.array(
        [[colour[pattern[0]], colour[pattern[1]]], [colour[pattern[2]], colour[pattern[3]]]], dtype=np.uint8
    )
    data = np.pad(np.tile(tile, (4, 4)), ((0, 0), (0, 3)))
    rgb = decoded(message(f"bayer_{pattern}8", 8, 8, 11, data.tobytes()))
    assert rgb.shape == (8, 8, 3)
    assert rgb[2:6, 2:6].reshape(-1, 3).tolist() == [[200, 100, 50]] * 16


@pytest.mark.parametrize(("encoding", "order"), [("yuv422", "uyvy"), ("yuv422_yuy2", "yuyv")])
def test_yuv_is_decoded(encoding: str, order: str) -> None:
    """Pure grey of a given brightness (BT.601, 16 to 235), and a strong red."""
    grey = {"y": 126, "u": 128, "v": 128}
    red = {"y": 81, "u": 90, "v": 240}
    for values, expected in ((grey, (128, 128, 128)), (red, (254, 0, 0))):
        data = bytes([values[c] for c in order] * 4)
        rgb = decoded(message(encoding, 2, 4, 8, data)).astype(int)
        assert rgb.shape == (2, 4, 3) and np.abs(rgb - expected).max() <= 3


def test_other_images_are_decoded_without_opencv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "import_library", None)
    assert decoded(message("bgr8", 1, 1, 3, bytes([1, 2, 3]))).tolist() == [[[3, 2, 1]]]
    deep = np.array([[0x1234]], dtype=np.uint16).tobytes()
    assert decoded(message("mono16", 1, 1, 2, deep)).tolist() == [[[0x12] * 3]]


@pytest.mark.parametrize(("encoding", "said"), [("jpeg", "'jpeg' is not one of rgb8"), ("bayer_rggb8", "too few")])
def test_images_that_cannot_be_decoded_are_refused(encoding: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decoded(message(encoding, 4, 4, 4, bytes(3)))
