"""Undistortion, rectification and decoding of images, with OpenCV."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.interfaces.image_messages import ENCODINGS, Calibration, image_array, rgb_array, unpadded_rows
from rlstack.libraries import import_library
from rlstack.robots import lens


class Undistorter:
    """Removes lens distortion from one camera's images; the maps are computed once.

    Args:
        known: The camera's calibration.
        rectified: Whether to apply the calibration's ``rectification`` and ``projection`` as well (for a stereo pair);
            otherwise undistorted images have the same K.

    Raises:
        UserError: OpenCV is not installed.
    """

    def __init__(self, known: Calibration, rectified: bool = False) -> None:
        self._opencv = import_library("cv2", "perception")
        turn = known.rectification if rectified else np.eye(3)
        matrix = known.projection[:, :3] if rectified else known.matrix
        self.known = Calibration(
            known.width,
            known.height,
            matrix.copy(),
            np.zeros(5),
            np.eye(3),
            known.projection if rectified else np.hstack((matrix, np.zeros((3, 1)))),
        )
        """Calibration of the undistorted images."""
        size = (known.width, known.height)
        self._maps = self._opencv.initUndistortRectifyMap(
            known.matrix, known.distortion, turn, matrix, size, self._opencv.CV_32FC1
        )

    def undistort(self, image: NDArray[Any]) -> NDArray[Any]:
        """Return the undistorted image, (height, width) or (height, width, channels).

        Float images count as depth: they take the nearest pixel, with NaN outside of the source image. Colours are
        interpolated, with black outside.
        """
        depth = np.issubdtype(image.dtype, np.floating)
        opencv = self._opencv
        way, border = (opencv.INTER_NEAREST, np.nan) if depth else (opencv.INTER_LINEAR, 0)
        found: NDArray[Any] = opencv.remap(
            image, *self._maps, way, borderMode=opencv.BORDER_CONSTANT, borderValue=(border,) * 4
        )
        return found


def undistort_points(pixels: Array, known: Calibration) -> Array:
    """Return the undistorted position of pixels (points, 2: column, row), with the same K.

    The result is exact; OpenCV's ``undistortPoints`` stops after a few iterations by default, depending on its version.
    """
    scale, middle = known.matrix[(0, 1), (0, 1)], known.matrix[:2, 2]
    seen = lens.undistort((np.asarray(pixels, dtype=float) - middle) / scale, known.distortion.tolist())
    return np.asarray(seen * scale + middle)


_DECODINGS = {
    "bayer_rggb8": "COLOR_BayerBG2RGB",  # OpenCV names a pattern after its second row
    "bayer_bggr8": "COLOR_BayerRG2RGB",
    "bayer_gbrg8": "COLOR_BayerGR2RGB",
    "bayer_grbg8": "COLOR_BayerGB2RGB",
}
_TWO_BYTES = {
    "yuv422": "COLOR_YUV2RGB_UYVY",
    "uyvy": "COLOR_YUV2RGB_UYVY",
    "yuv422_yuy2": "COLOR_YUV2RGB_YUY2",
    "yuyv": "COLOR_YUV2RGB_YUY2",
}


def decoded(message: Any) -> NDArray[np.uint8]:
    """Decode a colour ``sensor_msgs/Image`` to RGB (height, width, 3), including Bayer, YUV 4:2:2 and 16-bit encodings.

    Raises:
        ValueError: The encoding is not supported, or there are too few bytes.
        UserError: The encoding needs OpenCV, which is not installed.
    """
    encoding = message.encoding
    if encoding in ENCODINGS and ENCODINGS[encoding][0] == "u1":
        return rgb_array(message)
    if encoding in ("mono16", "16UC1"):
        return np.repeat((image_array(message) >> 8).astype(np.uint8)[..., None], 3, axis=2)
    opencv = import_library("cv2", "perception")
    if encoding in _DECODINGS:
        flat, code = _bytes(message, 1), _DECODINGS[encoding]
    elif encoding in _TWO_BYTES:
        flat, code = _bytes(message, 2), _TWO_BYTES[encoding]
    else:
        known = ", ".join((*ENCODINGS, *_DECODINGS, *_TWO_BYTES))
        raise ValueError(f"the encoding '{encoding}' is not one of {known}")
    colours: NDArray[np.uint8] = opencv.cvtColor(flat, getattr(opencv, code))
    return colours


def _bytes(message: Any, channels: int) -> NDArray[np.uint8]:
    height, width = message.height, message.width
    rows = unpadded_rows(message.data, height, width * channels, message.step, f"an image of {width} x {height}")
    return rows if channels == 1 else rows.reshape(height, width, channels)
