"""Convert ``sensor_msgs/Image`` to a policy's image signals ``NAME_image`` and ``NAME_image_age``.

Images arrive at their camera's own rate, with latency. A policy gets the newest one with its age: the stamp of the
joint states that a step answers minus the image's own. Its graph can account for that, and may keep past joint states
in its memory. An image of another size, encoding or camera is refused unless the policy allows fitting it.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlstack.interfaces import cdr, topics
from rlstack.interfaces.image_messages import depth_array, rgb_array
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.signals import Signal
from rlstack.robots import Camera, lens
from rlstack.robots.sensing import rotation_from_rpy, sensor_frame
from rlstack.schema import value

Fit = Literal["exact", "resize", "crop"]
"""How an image of another size may be fitted: not at all; scaled down if the aspect ratio is the same; or cropped to
that ratio about its centre first."""

MAX_AGE_S = 0.25
"""Default maximum age of an image: at 15 Hz and 30 ms of latency, the next three have not arrived."""

COLOURED = ("rgb8", "bgr8", "rgba8", "bgra8")
"""Supported encodings; the last channel of the latter two is dropped."""

IMAGE_TYPE = topics.CAMERA_TYPES[topics.IMAGE]

_SAME_M, _SAME_RAD, _SAME_VIEW = 0.05, 0.1, 0.05
"""Allowed departures of a camera's pose, and of the tangents of its half angles of view (a share), from training:
mounts are measured by hand, and training randomizes cameras by as much."""
_RATIO = 0.01
"""Relative tolerance within which two aspect ratios are equal: the rounding of one row or column."""


@dataclass(frozen=True, kw_only=True)
class ImageGeometry:
    """Image geometry of a policy: the image size, and the camera."""

    width: int = value(unit="pixels", at_least=1, at_most=4096)
    height: int = value(unit="pixels", at_least=1, at_most=4096)
    horizontal_fov_rad: float = value(unit="rad", above=0.0, at_most=3.0)
    """Horizontal field of view of this image."""
    frames: tuple[str, ...]
    """Names that its frame may have in messages, ours first."""
    link: str = ""
    """Link that carries the camera; empty: ``base_link``."""
    position_m: tuple[float, float, float] = value(unit="m")
    rpy_rad: tuple[float, float, float] = value(unit="rad")
    """Pose of the camera's body frame in that link."""
    fit: Fit = "exact"
    """How images of another size may be fitted."""
    max_age_s: float = value(MAX_AGE_S, unit="s", above=0.0, at_most=10.0)
    """An older image counts as missing: the policy does not act on it."""

    def __post_init__(self) -> None:
        if not self.frames:
            raise ValueError("frames: [] is not allowed: name the frame of the camera's images.")


def image_geometry(
    camera: Camera,
    name: str,
    *,
    width: int | None = None,
    height: int | None = None,
    fit: Fit = "exact",
    max_age_s: float = MAX_AGE_S,
) -> ImageGeometry:
    """Return the image geometry of a policy that sees a robot file's camera.

    Args:
        camera: The camera in the robot file.
        name: Its name there.
        width: Width of the policy's image, if it differs, pixels.
        height: Height of the policy's image, if it differs, pixels.
        fit: How the camera's images are fitted.
        max_age_s: Maximum age; see :class:`ImageGeometry`.

    Raises:
        ValueError: The size is another one and ``fit`` does not allow that.
    """
    size = width or camera.width, height or camera.height
    return ImageGeometry(
        width=size[0],
        height=size[1],
        horizontal_fov_rad=2.0 * math.atan(_half_view(camera, size, fit)),
        frames=(sensor_frame(name, "optical"), *camera.frames),
        link=camera.link,
        position_m=camera.position_m,
        rpy_rad=camera.rpy_rad,
        fit=fit,
        max_age_s=max_age_s,
    )


def check_camera(wanted: ImageGeometry, camera: Camera, name: str) -> None:
    """Refuse a camera whose images differ from the policy's with a ``ValueError`` that has the values of both."""
    if not camera.rgb:
        raise ValueError(f"the camera '{name}' has no colours")
    _check_view(wanted, camera, name)
    if camera.link != wanted.link:
        raise ValueError(f"the camera '{name}' is on {camera.link or 'base_link'}, not on {wanted.link or 'base_link'}")
    off_m = float(np.linalg.norm(np.subtract(camera.position_m, wanted.position_m)))
    turned = rotation_from_rpy(camera.rpy_rad).T @ rotation_from_rpy(wanted.rpy_rad)
    off_rad = math.acos(float(np.clip(0.5 * (np.trace(turned) - 1.0), -1.0, 1.0)))
    if off_m > _SAME_M or off_rad > _SAME_RAD:
        raise ValueError(
            f"the camera '{name}' is {off_m:.3f} m and {math.degrees(off_rad):.1f} degrees from where it was"
        )


def _check_view(wanted: ImageGeometry, camera: Camera, name: str) -> None:
    """Refuse a camera with a different field of view, an off-centre axis or distortion; pixels are square."""
    size = (wanted.width, wanted.height)
    counts = crop_size(camera.width, camera.height, size, wanted.fit)
    across = math.tan(0.5 * wanted.horizontal_fov_rad)
    directions = (("left to right", across), ("top to bottom", across * wanted.height / wanted.width))
    for axis, (way, wanted_view) in enumerate(directions):
        focal, middle = camera.intrinsics[axis, axis], camera.intrinsics[axis, 2]
        seen = 0.5 * counts[axis] / focal
        if abs(seen / wanted_view - 1.0) > _SAME_VIEW:
            raise ValueError(
                f"the camera '{name}' sees {math.degrees(2.0 * math.atan(seen)):.1f} degrees from {way}, not"
                f" {math.degrees(2.0 * math.atan(wanted_view)):.1f}"
            )
        off = middle - 0.5 * ((camera.width, camera.height)[axis] - 1)
        if abs(off) > _SAME_VIEW * counts[axis]:
            raise ValueError(
                f"the camera '{name}' has its optical axis {abs(off):.0f} pixels off the centre, from {way}: crop its"
                " images about it"
            )
    if not camera.distorted:
        return
    edge = camera.border()
    bent = float(np.linalg.norm(lens.undistort(edge, camera.distortion) - edge, axis=1).max()) / (2.0 * across)
    if bent > _SAME_VIEW:
        raise ValueError(
            f"the camera '{name}' has a lens that bends its edges by {100.0 * bent:.0f}% of the view: undistort its"
            " images, as image_proc does, and leave distortion out of the robot file"
        )


def crop_size(width: int, height: int, wanted: tuple[int, int], fit: Fit) -> tuple[int, int]:
    """Return the columns and rows of an image, about its centre, that become the wanted (width, height).

    Raises:
        ValueError: The size differs and cannot be fitted.
    """
    mismatch = f"an image of {width} x {height} pixels is not {wanted[0]} x {wanted[1]}"
    if (width, height) == wanted:
        return width, height
    if fit == "exact":
        raise ValueError(mismatch)
    if width < wanted[0] or height < wanted[1]:
        raise ValueError(f"{mismatch}, and too small for that")
    ratio = wanted[0] * height / (wanted[1] * width)
    if abs(ratio - 1.0) <= _RATIO:
        return width, height
    if fit == "resize":
        raise ValueError(f"{mismatch}, and its aspect ratio differs")
    return (round(width * ratio), height) if ratio < 1.0 else (width, round(height / ratio))


def is_image(signal: Signal) -> bool:
    """Return whether a signal is an image rather than its age."""
    return len(signal.shape) == 3 and signal.type == IMAGE_TYPE


class ImageReader:
    """Reads serialized Images of one camera as a policy's image.

    Args:
        wanted: The policy's image geometry.
        name: Name of the signal.
        frames: Further names that the camera's frame may have.
    """

    def __init__(self, wanted: ImageGeometry, name: str, frames: Collection[str] = ()) -> None:
        self._wanted, self._name = wanted, name
        self._frames = {*wanted.frames, *frames}
        self._read = cdr.compile_reader(topics.message_type(IMAGE_TYPE), _FIELDS)

    def __call__(self, data: bytes) -> tuple[int, dict[str, NDArray[Any]]]:
        """Return the stamp in ns and the image (height, width, 3), uint8; raise ``ValueError`` if it cannot be used."""
        message = _message(self._read(data))
        if message.frame_id.rpartition("/")[2] not in self._frames:
            raise ValueError(
                f"an image in the frame '{message.frame_id}' is from another camera than the policy's: must be"
                f" {' or '.join(sorted(self._frames))}; add the driver's names to frames of the robot file's camera"
            )
        if message.encoding not in COLOURED:
            raise ValueError(f"the encoding '{message.encoding}' is not one of {', '.join(COLOURED)}")
        return _stamp_ns(message), {self._name: fit_image(rgb_array(message), self._wanted)}


class DepthReader:
    """Reads serialized depth Images of one camera.

    Args:
        name: The camera.
        frames: Further names that its frame may have.
    """

    def __init__(self, name: str, frames: Collection[str] = ()) -> None:
        self._name, self._frames = name, {sensor_frame(name, "optical"), *frames}
        self._read = cdr.compile_reader(topics.message_type(IMAGE_TYPE), _FIELDS)

    def __call__(self, data: bytes) -> tuple[int, dict[str, NDArray[Any]]]:
        """Return the stamp in ns and, under the camera's name, the depth (height, width) in m.

        Raises:
            ValueError: It is no depth image, or of another frame.
        """
        message = _message(self._read(data))
        if message.frame_id.rpartition("/")[2] not in self._frames:
            raise ValueError(
                f"it is in the frame '{message.frame_id}' and not in {' or '.join(sorted(self._frames))}: add the"
                " driver's name to frames of the robot file's camera"
            )
        return _stamp_ns(message), {self._name: depth_array(message)}


def _message(values: tuple[Any, ...]) -> SimpleNamespace:
    return SimpleNamespace(**dict(zip(_NAMES, values)))


def _stamp_ns(message: SimpleNamespace) -> int:
    return int(message.sec) * NANOSECONDS + int(message.nanosec)


def fit_image(image: NDArray[np.uint8], wanted: ImageGeometry) -> NDArray[np.uint8]:
    """Return an image (rows, columns, 3) at the policy's size; raise ``ValueError`` if it cannot be fitted."""
    height, width = image.shape[:2]
    if (width, height) == (wanted.width, wanted.height):
        return image
    columns, rows = crop_size(width, height, (wanted.width, wanted.height), wanted.fit)
    left, top = (width - columns) // 2, (height - rows) // 2
    return downscale(image[top : top + rows, left : left + columns], wanted.width, wanted.height)


def downscale(image: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """Return an image (rows, columns, 3) scaled down: each pixel is the rounded mean of the area that it covers."""
    narrow = _averaged(_averaged(image, height).swapaxes(0, 1), width).swapaxes(0, 1)
    return np.rint(narrow).astype(np.uint8)


def _averaged(values: NDArray[Any], count: int) -> NDArray[np.float32]:
    """Return ``count`` means (count, ...) of equal stretches of values (n, ...) along the first axis."""
    step = len(values) / count
    start, end = np.arange(count) * step, np.arange(1, count + 1) * step
    first = np.floor(start + 1e-9).astype(np.intp)
    found = np.zeros((count, *values.shape[1:]), dtype=np.float32)
    for k in range(math.ceil(step) + 1):
        at = first + k
        covered = np.clip(np.minimum(end, at + 1) - np.maximum(start, at), 0.0, None) / step
        share = covered.astype(np.float32).reshape(-1, *(1,) * (values.ndim - 1))
        found += share * values[np.minimum(at, len(values) - 1)]
    return found


def age_s(observed_ns: int, taken_ns: int) -> float:
    """Return an image's age relative to the observation that a step answers, s; 0 if it is newer.

    It is in whole microseconds, so that rounded stamps give the same age over topics and in process.
    """
    return 1e-6 * max(round((observed_ns - taken_ns) / 1000), 0)


_FIELDS = (
    *("header.stamp.sec", "header.stamp.nanosec", "header.frame_id"),
    *("height", "width", "encoding", "is_bigendian", "step", "data"),
)
_NAMES = tuple(field.rpartition(".")[2] for field in _FIELDS)


def _half_view(camera: Camera, size: tuple[int, int], fit: Fit) -> float:
    """Return the tangent of half the fitted image's horizontal field of view."""
    columns, _ = crop_size(camera.width, camera.height, size, fit)
    return 0.5 * columns / float(camera.intrinsics[0, 0])
