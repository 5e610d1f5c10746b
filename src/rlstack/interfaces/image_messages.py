"""Images: ``sensor_msgs/Image`` and ``sensor_msgs/CameraInfo`` to and from arrays.

No Python loops over pixels: arrays are views of a message's memory, and messages copy an array's memory at once.
"""

from __future__ import annotations

import array
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.interfaces.messages import set_stamp
from rlstack.robots import Camera

ENCODINGS: dict[str, tuple[str, int]] = {
    "rgb8": ("u1", 3),
    "bgr8": ("u1", 3),
    "rgba8": ("u1", 4),
    "bgra8": ("u1", 4),
    "mono8": ("u1", 1),
    "8UC1": ("u1", 1),
    "8UC3": ("u1", 3),
    "mono16": ("u2", 1),
    "16UC1": ("u2", 1),
    "32FC1": ("f4", 1),
    "64FC1": ("f8", 1),
}
"""Number type and channels by ``encoding``; for others see :func:`rlstack.perception.images.decoded`."""

DISTORTION_MODEL = "plumb_bob"


def filled(data: NDArray[Any]) -> array.array[int]:
    """Return an array's bytes in the form that rclpy accepts for ``uint8[]`` without checking each element."""
    taken = array.array("B")
    taken.frombytes(np.ascontiguousarray(data).reshape(-1).view(np.uint8).data)
    return taken


def unpadded_rows(data: Any, rows: int, row_bytes: int, step: int, what: str) -> NDArray[np.uint8]:
    """Return the rows (rows, row_bytes) of a message's data, without the padding that follows each.

    Args:
        data: The message's bytes.
        rows: Number of rows.
        row_bytes: Bytes used in each.
        step: Bytes from one row to the next.
        what: The wanted content in the error, such as ``4 x 3 rgb8``.

    Raises:
        ValueError: There are fewer bytes than that.
    """
    found = np.frombuffer(data, dtype=np.uint8)
    if step < row_bytes or len(found) < step * rows:
        raise ValueError(f"{len(found)} bytes, {step} to a row, are too few for {what}")
    return np.ascontiguousarray(found[: step * rows].reshape(rows, step)[:, :row_bytes])


class ImageMessage:
    """One Image that is refilled for every capture.

    Args:
        message: An empty ``sensor_msgs/Image``.
        frame: ``header.frame_id``: a camera's optical frame.
        encoding: One of :data:`ENCODINGS`, such as ``rgb8`` or, for depth in m, ``32FC1``.
    """

    def __init__(self, message: Any, frame: str, encoding: str) -> None:
        self.message = message
        self._kind, self._channels = np.dtype(ENCODINGS[encoding][0]), ENCODINGS[encoding][1]
        message.header.frame_id, message.encoding = frame, encoding
        message.is_bigendian = int(sys.byteorder == "big")

    def fill(self, stamp_ns: int, image: NDArray[Any]) -> Any:
        """Return the filled message.

        Args:
            stamp_ns: Capture time, ns.
            image: (height, width), or (height, width, channels), of the encoding's number type.

        Raises:
            ValueError: It has another shape or number type.
        """
        shape = image.shape[:2] if self._channels == 1 else (*image.shape[:2], self._channels)
        if image.ndim < 2 or image.shape != shape or image.dtype != self._kind:
            raise ValueError(f"an image of {image.dtype} {image.shape} is not {self.message.encoding}")
        message = self.message
        set_stamp(message.header.stamp, stamp_ns)
        message.height, message.width = shape[:2]
        message.step = shape[1] * self._channels * self._kind.itemsize
        message.data = filled(image)
        return message


def image_array(message: Any) -> NDArray[Any]:
    """Return an Image as an array (height, width) or (height, width, channels), a view of its data if possible.

    Raises:
        ValueError: The encoding is not one of :data:`ENCODINGS`, or there are fewer bytes than the size needs.
    """
    if message.encoding not in ENCODINGS:
        raise ValueError(f"the encoding '{message.encoding}' is not one of {', '.join(ENCODINGS)}")
    kind, channels = ENCODINGS[message.encoding]
    native: np.dtype[Any] = np.dtype(kind)
    number = native.newbyteorder() if bool(message.is_bigendian) != (sys.byteorder == "big") else native
    height, width = message.height, message.width
    row, what = width * channels * number.itemsize, f"an image of {width} x {height} {message.encoding}"
    rows = unpadded_rows(message.data, height, row, message.step, what)
    pixels = rows.view(number).reshape(height, width, channels).astype(native, copy=False)
    return pixels[..., 0] if channels == 1 else pixels


def rgb_array(message: Any) -> NDArray[np.uint8]:
    """Return an 8-bit Image, colour or grey, as (height, width, 3) RGB; raise ``ValueError`` for other encodings."""
    image, encoding = image_array(message), message.encoding
    if image.dtype != np.uint8:
        raise ValueError(f"the encoding '{encoding}' is not one of colours or grey of 8 bit")
    if image.ndim == 2:
        return np.repeat(image[..., None], 3, axis=2)
    return image[..., 2::-1] if encoding.startswith("bgr") or encoding == "8UC3" else image[..., :3]


def depth_array(message: Any) -> NDArray[np.float32]:
    """Return a depth Image (height, width) in m: ``32FC1`` unchanged, ``16UC1`` from mm with 0 as NaN (REP-118).

    Raises:
        ValueError: It has another encoding, or too few bytes.
    """
    image = image_array(message)
    if message.encoding in ("32FC1", "64FC1"):
        return image.astype(np.float32, copy=False)
    if message.encoding in ("16UC1", "mono16"):
        return np.where(image == 0, np.float32(np.nan), image * np.float32(1e-3))
    raise ValueError(f"the encoding '{message.encoding}' is not a depth encoding: 32FC1 (m) or 16UC1 (mm)")


@dataclass(frozen=True)
class Calibration:
    """Camera calibration from ``sensor_msgs/CameraInfo``, in OpenCV's form.

    Args:
        width: Pixels.
        height: Pixels.
        matrix: K (3, 3) of the raw image.
        distortion: (5,) k1, k2, p1, p2, k3; zeros for a pinhole.
        rectification: R (3, 3).
        projection: P (3, 4) of the rectified image.
    """

    width: int
    height: int
    matrix: Array
    distortion: Array
    rectification: Array
    projection: Array

    @property
    def distorted(self) -> bool:
        """Whether the lens distorts."""
        return bool(self.distortion.any())


def calibration(camera: Camera) -> Calibration:
    """Return a camera's ``camera_info``: K, its distortion, no rotation, and K again for rectified images."""
    matrix = camera.intrinsics.copy()
    projection = np.hstack((matrix, np.zeros((3, 1))))
    return Calibration(camera.width, camera.height, matrix, np.array(camera.distortion), np.eye(3), projection)


class CameraInfoMessage:
    """One CameraInfo that is stamped again for every image.

    Args:
        message: An empty ``sensor_msgs/CameraInfo``.
        frame: ``header.frame_id``, that of the images.
        known: Its calibration.
    """

    def __init__(self, message: Any, frame: str, known: Calibration) -> None:
        self.message = message
        message.header.frame_id = frame
        message.width, message.height = known.width, known.height
        message.distortion_model, message.d = DISTORTION_MODEL, known.distortion.tolist()
        message.k, message.r, message.p = known.matrix.ravel(), known.rectification.ravel(), known.projection.ravel()

    def fill(self, stamp_ns: int) -> Any:
        """Return the message with the stamp of its image."""
        set_stamp(self.message.header.stamp, stamp_ns)
        return self.message


def read_camera_info(message: Any) -> Calibration:
    """Return the calibration in a CameraInfo; raise ``ValueError`` if it is none or has another distortion model."""
    matrix = np.array(message.k, dtype=float).reshape(3, 3)
    if not (matrix[0, 0] > 0.0 and matrix[1, 1] > 0.0):
        raise ValueError("camera_info has no focal length: the camera is not calibrated")
    distortion = np.zeros(5)
    given = np.array(message.d, dtype=float)
    if message.distortion_model not in ("", DISTORTION_MODEL) or len(given) not in (0, 4, 5):
        raise ValueError(
            f"camera_info's distortion '{message.distortion_model}' of {len(given)} numbers is not plumb_bob of 5"
        )
    distortion[: len(given)] = given
    projection = np.array(message.p, dtype=float).reshape(3, 4)
    rectification = np.array(message.r, dtype=float).reshape(3, 3)
    return Calibration(
        int(message.width),
        int(message.height),
        matrix,
        distortion,
        rectification if rectification.any() else np.eye(3),
        projection if projection.any() else np.hstack((matrix, np.zeros((3, 1)))),
    )
