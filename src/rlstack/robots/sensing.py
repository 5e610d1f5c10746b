"""Sensors of a robot: rates, noise, latency, and the poses and properties of cameras and lidars.

Frames are REP-103. A camera's or lidar's *body* frame is forward-left-up like ``base_link``; a camera's *optical* frame
is x right, y down, z forward, and so are the rows and columns of its images (OpenCV). Poses are as in URDF:
roll, pitch and yaw about fixed axes, in this order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from rlstack.arrays import Array
from rlstack.robots import lens
from rlstack.schema import value

OPTICAL = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
"""(3, 3) whose columns are the optical frame's axes (right, down, forward) in a camera's body frame; read only."""
OPTICAL.flags.writeable = False

RESERVED = frozenset(
    (
        *("odom", "imu", "joint_states", "battery", "goal", "goal_path", "instruction", "cmd", "cmd_vel", "policy"),
        *("people", "map", "object", "live_check", "external_pose", "agent", "flow", "range"),
        *("guard", "diagnostics", "markers", "clock", "tf", "tf_static", "robot_description", "reset", "arm", "estop"),
        *("real_time_factor", "disturbance", "adaptation"),
    )
)
"""Topics, and first parts of topics, that cameras and lidars must not use as names."""

_TURN = 2.0 * math.pi
_NAME = re.compile(r"[a-z](_?[a-z0-9])*")


@dataclass(frozen=True, kw_only=True)
class Sensor:
    """Rate, noise (standard deviations) and latency of a topic.

    White noise is drawn for every reading. A *bias* is drawn once per run; a *bias walk* adds to it over time, its
    standard deviation growing with the square root of the time.
    """

    rate_hz: float = value(unit="Hz", above=0.0)
    position_noise_m: float = value(0.0, unit="m", at_least=0.0)
    orientation_noise_rad: float = value(0.0, unit="rad", at_least=0.0)
    linear_velocity_noise_m_s: float = value(0.0, unit="m/s", at_least=0.0)
    angular_velocity_noise_rad_s: float = value(0.0, unit="rad/s", at_least=0.0)
    linear_acceleration_noise_m_s2: float = value(0.0, unit="m/s^2", at_least=0.0)
    angular_velocity_bias_rad_s: float = value(0.0, unit="rad/s", at_least=0.0)
    linear_acceleration_bias_m_s2: float = value(0.0, unit="m/s^2", at_least=0.0)
    angular_velocity_bias_walk_rad_s_sqrt_s: float = value(0.0, unit="rad/s per square root of s", at_least=0.0)
    """After 1 s; equals the rad/s^2/sqrt(Hz) of an Allan variance plot."""
    linear_acceleration_bias_walk_m_s2_sqrt_s: float = value(0.0, unit="m/s^2 per square root of s", at_least=0.0)
    latency_s: float = value(0.0, unit="s", at_least=0.0, at_most=10.0)
    """Age of a reading on arrival."""


@dataclass(frozen=True, kw_only=True)
class Mount:
    """Pose of a sensor on a robot."""

    position_m: tuple[float, float, float] = value((0.0, 0.0, 0.0), unit="m")
    """Its origin in ``base_link``."""
    rpy_rad: tuple[float, float, float] = value((0.0, 0.0, 0.0), unit="rad")
    """Roll, pitch, yaw of its body frame in ``base_link``; zero looks forward, a positive pitch looks down."""

    @property
    def position(self) -> Array:
        """(3,) m in ``base_link``."""
        return np.array(self.position_m, dtype=float)

    @property
    def rotation(self) -> Array:
        """(3, 3) whose columns are the body frame's axes in ``base_link``."""
        return rotation_from_rpy(self.rpy_rad)


@dataclass(frozen=True, kw_only=True)
class Camera(Mount):
    """A pinhole camera with lens distortion, and optionally depth.

    Pixel coordinates count from the centre of the upper left pixel, as in OpenCV and ``sensor_msgs/CameraInfo``. Give
    either ``horizontal_fov_rad``, or all of ``fx_px``, ``fy_px``, ``cx_px``, ``cy_px`` from a calibration.
    """

    width: int = value(unit="pixels", at_least=1, at_most=8192)
    height: int = value(unit="pixels", at_least=1, at_most=8192)
    rate_hz: float = value(unit="Hz", above=0.0)
    horizontal_fov_rad: float | None = value(None, unit="rad", above=0.0, at_most=3.0)
    """Horizontal field of view without distortion."""
    fx_px: float | None = value(None, unit="pixels", above=0.0)
    fy_px: float | None = value(None, unit="pixels", above=0.0)
    cx_px: float | None = value(None, unit="pixels")
    cy_px: float | None = value(None, unit="pixels")
    distortion: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)
    """k1, k2, p1, p2, k3 of OpenCV's model (``plumb_bob``)."""
    near_m: float = value(0.05, unit="m", above=0.0)
    far_m: float = value(100.0, unit="m", above=0.0)
    """Range of depth along the optical axis; beyond it nothing is measured."""
    rgb: bool = True
    depth: bool = False
    depth_noise_m: float = value(0.0, unit="m", at_least=0.0)
    """Standard deviation of depth at any distance."""
    depth_noise_per_m: float = value(0.0, unit="1/m", at_least=0.0)
    """Standard deviation at 1 m of the part that grows with the square of the depth, as a stereo camera's does."""
    depth_dropout: float = value(0.0, at_least=0.0, at_most=1.0)
    """Share of depth pixels without a measurement (NaN)."""
    latency_s: float = value(0.0, unit="s", at_least=0.0, at_most=10.0)
    """Latency of an image after its capture; its stamp is the capture time."""
    link: str = ""
    """The link of an arm's model that carries it, and in which its pose is; empty: ``base_link``."""
    frames: tuple[str, ...] = ()
    """Names that the robot's own driver uses for the images' frame, besides ``NAME_optical_frame``."""

    def __post_init__(self) -> None:
        given = [n for n in ("fx_px", "fy_px", "cx_px", "cy_px") if getattr(self, n) is not None]
        if (self.horizontal_fov_rad is None) != (len(given) == 4) or len(given) not in (0, 4):
            raise ValueError(
                f"horizontal_fov_rad: {self.horizontal_fov_rad} with {', '.join(given) or 'no focal length'} is not"
                " allowed: give either horizontal_fov_rad, or all of fx_px, fy_px, cx_px and cy_px."
            )
        if self.far_m <= self.near_m:
            raise ValueError(f"far_m: {self.far_m} is not allowed: must be above near_m ({self.near_m}).")
        if not (self.rgb or self.depth):
            raise ValueError("rgb: false is not allowed where depth is false too: the camera would see nothing.")
        if self.distorted:
            edge = self.border()
            there = lens.undistort(edge, self.distortion)
            with np.errstate(over="ignore", invalid="ignore"):
                back = np.abs(lens.distort(there, self.distortion) - edge).max()
            if not back < 1e-6 or not lens.is_one_to_one(there, self.distortion):
                raise ValueError(
                    f"distortion: {list(self.distortion)} is not allowed: with it some pixels have no unique"
                    " direction; calibrate again, with points up to the corners."
                )

    @cached_property
    def intrinsics(self) -> Array:
        """K (3, 3), pixels, with integer pixel coordinates at pixel centres; read only."""
        if self.horizontal_fov_rad is None:
            fx, fy, cx, cy = (float(v or 0.0) for v in (self.fx_px, self.fy_px, self.cx_px, self.cy_px))
        else:
            fx = fy = 0.5 * self.width / math.tan(0.5 * self.horizontal_fov_rad)
            cx, cy = 0.5 * (self.width - 1), 0.5 * (self.height - 1)
        matrix = np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
        matrix.flags.writeable = False
        return matrix

    @property
    def distorted(self) -> bool:
        """Whether the lens distorts."""
        return any(self.distortion)

    @property
    def vertical_fov_rad(self) -> float:
        """Vertical field of view without distortion."""
        fy, cy = self.intrinsics[1, 1], self.intrinsics[1, 2]
        return math.atan((cy + 0.5) / fy) + math.atan((self.height - 0.5 - cy) / fy)

    @property
    def is_plain(self) -> bool:
        """Whether pixels are square, the optical axis is centred, and there is no distortion.

        Engines render such cameras; see :attr:`rendered` for others.
        """
        (fx, _, cx), (_, fy, cy), _ = self.intrinsics.tolist()
        middle = (0.5 * (self.width - 1), 0.5 * (self.height - 1))
        same = math.isclose(fx, fy, rel_tol=1e-9)
        return same and not self.distorted and np.allclose((cx, cy), middle, rtol=0.0, atol=1e-6)

    @cached_property
    def rendered(self) -> Camera:
        """The plain camera that an engine renders for this one: the same, or one whose view covers it.

        It also sees objects nearer than ``near_m``, so that they occlude what is behind them.
        """
        near_m = _RENDERED_NEAR * self.near_m
        if self.is_plain:
            return replace(self, near_m=near_m)
        seen = np.abs(lens.undistort(self.border(), self.distortion)).max(axis=0)
        # as fine as this camera's finest pixels; two more, for interpolation between two
        focal = float(max(self.intrinsics[0, 0], self.intrinsics[1, 1]))
        width, height = (2 * math.ceil(focal * s + 1.0) + 2 for s in seen)
        shrink = min(1.0, _MOST_RENDERED / max(width, height))
        width, height, focal = (math.ceil(shrink * width), math.ceil(shrink * height), shrink * focal)
        plain = dict.fromkeys(("fx_px", "fy_px", "cx_px", "cy_px"))
        fov = 2.0 * math.atan(0.5 * width / focal)
        size = {"width": width, "height": height, "horizontal_fov_rad": fov}
        return replace(self, **plain, **size, near_m=near_m, distortion=(0.0,) * 5)  # type: ignore[arg-type]

    @property
    def optical_rotation(self) -> Array:
        """(3, 3) whose columns are the optical frame's axes (right, down, forward) in ``base_link``."""
        return self.rotation @ OPTICAL

    def border(self) -> Array:
        """Return the edges of the image (points, 2) at a depth of 1, with the optical axis at 0."""
        across, down = np.linspace(-0.5, self.width - 0.5, 33), np.linspace(-0.5, self.height - 0.5, 33)
        edges = [(u, v) for u in across for v in (down[0], down[-1])] + [
            (u, v) for u in (across[0], across[-1]) for v in down
        ]
        (fx, _, cx), (_, fy, cy), _ = self.intrinsics
        return np.array([((u - cx) / fx, (v - cy) / fy) for u, v in edges])


_RENDERED_NEAR = 0.25
_MOST_RENDERED = 4096
"""Largest side of a rendered image, pixels."""


@dataclass(frozen=True, kw_only=True)
class Lidar(Mount):
    """A lidar that rotates about its z axis; one ring of rays makes a scan, several make a point cloud."""

    rays: int = value(unit="rays in a ring", at_least=1, at_most=65536)
    rate_hz: float = value(unit="Hz", above=0.0)
    """Scans per second; all rays of a scan have one capture time."""
    angle_min_rad: float = value(-math.pi, unit="rad", at_least=-_TURN, at_most=_TURN)
    angle_max_rad: float = value(math.pi, unit="rad", at_least=-_TURN, at_most=_TURN)
    """Angles of the first and the last ray, from straight ahead towards the left. If they are a full circle apart, the
    last ray is one step short of it, so that no direction comes twice."""
    elevations_rad: tuple[float, ...] = value((0.0,), unit="rad", above=-0.5 * math.pi, at_most=0.5 * math.pi)
    """Elevation of each ring above the lidar's horizon, in any order."""
    range_min_m: float = value(unit="m", at_least=0.0)
    range_max_m: float = value(unit="m", above=0.0)
    noise_m: float = value(0.0, unit="m", at_least=0.0)
    """Standard deviation of a range, independent of distance."""
    noise_share: float = value(0.0, at_least=0.0, at_most=0.2)
    """Further standard deviation, as a share of the range."""
    dropout: float = value(0.0, at_least=0.0, at_most=1.0)
    """Share of rays without a measurement (NaN)."""
    latency_s: float = value(0.0, unit="s", at_least=0.0, at_most=10.0)
    """Latency of a scan after its capture; its stamp is the capture time."""
    frames: tuple[str, ...] = ()
    """Names that the robot's own driver uses for the lidar's frame, such as ``base_scan``, besides ``NAME_link``."""

    def __post_init__(self) -> None:
        span = self.angle_max_rad - self.angle_min_rad
        if not (0.0 < span <= _TURN + 1e-9) and not (self.rays == 1 and span == 0.0):
            raise ValueError(
                f"angle_max_rad: {self.angle_max_rad} is not allowed: must be above angle_min_rad"
                f" ({self.angle_min_rad}), by one turn at most."
            )
        if self.range_max_m <= self.range_min_m:
            raise ValueError(
                f"range_max_m: {self.range_max_m} is not allowed: must be above range_min_m ({self.range_min_m})."
            )
        if not self.elevations_rad:
            raise ValueError("elevations_rad: [] is not allowed: must have at least one ring.")

    @property
    def rings(self) -> int:
        """Number of rings."""
        return len(self.elevations_rad)

    @property
    def angle_increment_rad(self) -> float:
        """Angle from one ray to the next."""
        span = self.angle_max_rad - self.angle_min_rad
        if abs(span - _TURN) < 1e-6:
            return _TURN / self.rays
        return span / (self.rays - 1) if self.rays > 1 else 0.0

    @property
    def angles_rad(self) -> Array:
        """(rays,) from straight ahead towards the left."""
        return np.asarray(self.angle_min_rad + self.angle_increment_rad * np.arange(self.rays, dtype=float))

    @cached_property
    def directions(self) -> Array:
        """(rings, rays, 3) unit vectors in the lidar's own frame; read only."""
        around, up = self.angles_rad[None, :], np.array(self.elevations_rad)[:, None]
        level = np.cos(up)
        found = np.stack(np.broadcast_arrays(level * np.cos(around), level * np.sin(around), np.sin(up)), axis=-1)
        found.flags.writeable = False
        return found


def rotation_from_rpy(rpy_rad: ArrayLike) -> Array:
    """Return the rotation (3, 3) by roll, pitch, yaw about the fixed x, y, z axes in this order (URDF, REP-103)."""
    angles = np.asarray(rpy_rad, dtype=float)
    (cr, cp, cy), (sr, sp, sy) = np.cos(angles), np.sin(angles)
    rows: Array = np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )
    return rows


def sensor_frame(name: str, which: Literal["link", "optical"] = "link") -> str:
    """Return the name of the frame in a camera's or lidar's messages.

    ``link`` is its body frame, which a lidar's messages are in; ``optical`` is a camera's, which images are in.
    """
    return f"{name}_link" if which == "link" else f"{name}_optical_frame"


def check_names(cameras: Iterable[str], lidars: Iterable[str], taken: Iterable[str] = ()) -> None:
    """Refuse names of cameras and lidars that are not valid topics, or that are taken.

    Args:
        cameras: Names of cameras, which their topics start with.
        lidars: Names of lidars, which are their topics.
        taken: Topics in other use, besides :data:`RESERVED`.

    Raises:
        ValueError: A name is refused; the text has the robot file's section, the name and what is allowed.
    """
    seen = {*RESERVED, *taken}
    for section, name in [("cameras", name) for name in cameras] + [("lidars", name) for name in lidars]:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{section}: {name!r} is not allowed: it becomes a topic, so it must be small letters, digits and"
                " single underscores, and begin with a letter."
            )
        if name in seen:
            raise ValueError(f"{section}: {name!r} is not allowed: another topic or sensor has that name.")
        seen.add(name)
