"""From a ``sensor_msgs/Image`` to the signals ``NAME_image`` and ``NAME_image_age``: what a policy was made to see.

A picture comes at its camera's own rate, and late. A policy gets the newest one with its age, the stamp of the joint
states that a step answers minus the picture's own; what to make of that is up to its graph, which can keep past joint
states in its memory. A picture of another size, kind or camera is refused unless the policy says that it may be fitted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlstack.interfaces.signals import Signal
from rlstack.robots import Camera
from rlstack.robots.sensing import rotation_from_rpy, sensor_frame
from rlstack.schema import value

Fit = Literal["exact", "resize", "crop"]
"""What may be done to a picture of another size: nothing; made smaller where it has the same sides' ratio; or cut to
that ratio about its middle before."""

MAX_AGE_S = 0.25
"""How old a picture may be unless a policy says otherwise: with the usual 30 Hz and 30 ms, five are missing by then."""

_SAME_M, _SAME_RAD, _SAME_VIEW = 0.05, 0.1, 0.05
"""How far a camera may be from where a policy had it in training, and its view's half angles' tangents, as a share:
mounts are measured by hand, and training moves cameras about by as much."""
_RATIO = 0.01
"""How far the ratio of two pictures' sides may be apart to count as one, as a share: of a rounded row or column."""


@dataclass(frozen=True, kw_only=True)
class PictureGeometry:
    """What a policy sees: the size of a picture, and the camera that it is of."""

    width: int = value(unit="pixels", at_least=1, at_most=4096)
    height: int = value(unit="pixels", at_least=1, at_most=4096)
    horizontal_fov_rad: float = value(unit="rad", above=0.0, at_most=3.0)
    """Of this picture, from its left edge to its right edge."""
    frames: tuple[str, ...]
    """Names that its frame may have in messages, our own first."""
    link: str = ""
    """That the camera sits on; empty: ``base_link``."""
    position_m: tuple[float, float, float] = value(unit="m")
    rpy_rad: tuple[float, float, float] = value(unit="rad")
    """Of the camera's body frame in that link."""
    fit: Fit = "exact"
    """What may be done to a camera's picture of another size."""
    max_age_s: float = value(MAX_AGE_S, unit="s", above=0.0, at_most=10.0)
    """An older picture is none: the policy does not act on it."""


def picture_geometry(
    camera: Camera,
    name: str,
    *,
    width: int | None = None,
    height: int | None = None,
    fit: Fit = "exact",
    max_age_s: float = MAX_AGE_S,
) -> PictureGeometry:
    """Return what a policy sees that sees pictures of a robot file's camera.

    Args:
        camera: Of the robot file.
        name: Its name there.
        width: Of what the policy sees, where that is another size, pixels.
        height: Likewise.
        fit: How the camera's pictures become those.
        max_age_s: As of :class:`PictureGeometry`.

    Raises:
        ValueError: The size is another one and ``fit`` does not allow that.
    """
    size = width or camera.width, height or camera.height
    return PictureGeometry(
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


def check_pictured(wanted: PictureGeometry, camera: Camera, name: str) -> None:
    """Refuse a camera whose pictures are not what a policy was made to see.

    Raises:
        ValueError: With the numbers of both.
    """
    if not camera.rgb:
        raise ValueError(f"the camera '{name}' has no colours")
    seen, asked = (
        _half_view(camera, (wanted.width, wanted.height), wanted.fit),
        math.tan(0.5 * wanted.horizontal_fov_rad),
    )
    if abs(seen / asked - 1.0) > _SAME_VIEW:
        raise ValueError(
            f"the camera '{name}' sees {math.degrees(2.0 * math.atan(seen)):.1f} degrees from left to right, not"
            f" {math.degrees(wanted.horizontal_fov_rad):.1f}"
        )
    if camera.link != wanted.link:
        raise ValueError(f"the camera '{name}' is on {camera.link or 'base_link'}, not on {wanted.link or 'base_link'}")
    off_m = float(np.linalg.norm(np.subtract(camera.position_m, wanted.position_m)))
    turned = rotation_from_rpy(camera.rpy_rad).T @ rotation_from_rpy(wanted.rpy_rad)
    off_rad = math.acos(float(np.clip(0.5 * (np.trace(turned) - 1.0), -1.0, 1.0)))
    if off_m > _SAME_M or off_rad > _SAME_RAD:
        raise ValueError(
            f"the camera '{name}' is {off_m:.3f} m and {math.degrees(off_rad):.1f} degrees from where it was"
        )


def kept(width: int, height: int, wanted: tuple[int, int], fit: Fit) -> tuple[int, int]:
    """Return which columns and rows of a picture, about its middle, become the wanted (width, height).

    Raises:
        ValueError: It is not what was asked for, and cannot be made so.
    """
    said = f"a picture of {width} x {height} pixels is not {wanted[0]} x {wanted[1]}"
    if (width, height) == wanted:
        return width, height
    if fit == "exact":
        raise ValueError(said)
    if width < wanted[0] or height < wanted[1]:
        raise ValueError(f"{said}, and too small to be made so")
    ratio = wanted[0] * height / (wanted[1] * width)
    if abs(ratio - 1.0) <= _RATIO:
        return width, height
    if fit == "resize":
        raise ValueError(f"{said}, and its sides have another ratio")
    return (round(width * ratio), height) if ratio < 1.0 else (width, round(height / ratio))


def is_picture(signal: Signal) -> bool:
    """Return whether a signal is a picture, and not its age."""
    return len(signal.shape) == 3 and signal.type == "sensor_msgs/msg/Image"


def _half_view(camera: Camera, size: tuple[int, int], fit: Fit) -> float:
    """Return the tangent of half of what the fitted picture sees from left to right."""
    columns, _ = kept(camera.width, camera.height, size, fit)
    return 0.5 * columns / float(camera.intrinsics[0, 0])
