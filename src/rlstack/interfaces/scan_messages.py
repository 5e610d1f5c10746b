"""``sensor_msgs/LaserScan`` to and from arrays, and as the signal ``scan``: one finite range for each ray of a policy.

REP-117: +Inf is nothing within range, -Inf something too near to measure, NaN not measured. The signal has them as
``range_max``, ``range_min``, and the shorter of the nearest measured neighbours within :data:`NEIGHBOUR_RAD`, or
``range_min`` if there is none: unknown counts as blocked. If a scan's own ``range_max`` is shorter, rays without a
return have that value.

A scan with other angles is resampled where it has enough measurements (:class:`Resampling`), otherwise refused. One of
a lidar that stands elsewhere is reprojected (:class:`rlstack.interfaces.scan_reprojection.Reprojection`).
"""

from __future__ import annotations

import array
import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.interfaces import cdr, topics
from rlstack.interfaces.messages import NANOSECONDS, set_stamp
from rlstack.interfaces.scan_geometry import ScanGeometry
from rlstack.interfaces.scan_reprojection import Mount, Reprojection
from rlstack.interfaces.transform_buffer import NoTransform, Place
from rlstack.robots import Lidar

NEIGHBOUR_RAD = math.radians(5.0)
"""How far a ray without a measurement looks for neighbours with one."""

MOST_COARSE = 2.0
"""Largest spacing of measured rays, in wanted steps."""

_TURN = 2.0 * math.pi
_SLACK = 1e-3
"""Angle tolerance as a share of a step: messages carry angles as float32."""
_SAME_M, _SAME_RAD = 0.01, 0.01
"""Tolerance within which two mounts are equal: robot files and calibrations are rounded."""


def check_lidar(wanted: ScanGeometry, lidar: Lidar, name: str = "scan") -> None:
    """Refuse a lidar whose scans differ from ``wanted`` and cannot be converted.

    Raises:
        ValueError: Its pose or view differs; the text has both values.
    """
    for key, most in (("position_m", _SAME_M), ("rpy_rad", _SAME_RAD)):
        here, there = getattr(lidar, key), getattr(wanted, key)
        if np.abs(np.subtract(here, there)).max() > most:
            raise ValueError(f"its lidar '{name}' has the {key} {list(here)}, not {list(there)}")
    Resampling(lidar.angle_min_rad, lidar.angle_increment_rad, lidar.rays, wanted)


def check_steps(angle_min_rad: float, angle_increment_rad: float, rays: int, wanted: ScanGeometry) -> str:
    """Refuse rays that are no scan, or too far apart; return the beginning of a refusal for another reason.

    Args:
        angle_min_rad: Angle of the first measured ray.
        angle_increment_rad: Angle to the next one; may be negative.
        rays: Number of measured rays.
        wanted: The geometry wanted.

    Raises:
        ValueError: They are not allowed; the text has the values of both.
    """
    step, wanted_step = abs(angle_increment_rad), wanted.angle_increment_rad
    if rays < 1 or not math.isfinite(angle_min_rad) or not math.isfinite(step) or (rays > 1 and step == 0.0):
        raise ValueError(
            f"a scan of {rays} rays from {angle_min_rad} rad, {angle_increment_rad} rad apart, is not allowed"
        )
    why = f"a scan of {_description(rays, angle_min_rad, angle_increment_rad)} cannot be resampled to"
    why += f" {_description(wanted.rays, wanted.angle_min_rad, wanted_step)}"
    if wanted.rays > 1 and step > MOST_COARSE * wanted_step * (1.0 + _SLACK):
        raise ValueError(
            f"{why}: its rays are {math.degrees(step):.3g} degrees apart, and {MOST_COARSE:g} times"
            f" {math.degrees(wanted_step):.3g} degrees are allowed"
        )
    return why


class Resampling:
    """Resampling of a scan: each wanted ray takes the nearest measured ray, or the shortest of those that it covers.

    A wanted ray takes the shortest of the measured rays that are within half a step of it, its own step or the
    measured one, whichever is wider; so no measured ray between the first and the last wanted ones is overlooked. That
    is possible where measured rays are at most :data:`MOST_COARSE` wanted steps apart, and each wanted ray has a
    measured one within half a measured step, or is between two that are at most :data:`MOST_COARSE` steps apart, of
    the shorter ones, or between the last and the first of a full circle, at most :data:`NEIGHBOUR_RAD` apart. All
    returned values were measured.

    Args:
        angle_min_rad: Angle of the first measured ray.
        angle_increment_rad: Angle to the next one; may be negative.
        rays: Number of measured rays.
        wanted: The geometry to resample to.

    Raises:
        ValueError: It is not possible; the text has the values of both.
    """

    def __init__(self, angle_min_rad: float, angle_increment_rad: float, rays: int, wanted: ScanGeometry) -> None:
        step, wanted_step = abs(angle_increment_rad), wanted.angle_increment_rad
        why = check_steps(angle_min_rad, angle_increment_rad, rays, wanted)
        self.rays = rays
        order, angles = _around(angle_min_rad + angle_increment_rad * np.arange(rays, dtype=float))
        slack = _SLACK * (min(step, wanted_step) or step or wanted_step)
        reach = 0.5 * max(step, wanted_step if rays > 1 else 0.0) + slack
        at = np.mod(wanted.angles_rad, _TURN)
        first, last = np.searchsorted(angles, at - reach, "left"), np.searchsorted(angles, at + reach, "right") - 1
        right = np.clip(np.searchsorted(angles, at, "left"), 1, len(angles) - 1)
        left = right - 1
        nearest = np.minimum(np.abs(at - angles[left]), np.abs(angles[right] - at))
        gap = angles[right] - angles[left]
        between = gap <= MOST_COARSE * min(step, wanted_step) * (1.0 + _SLACK)
        # spinning lidars skip a ray or two where a revolution begins and ends: these count as not measured
        between |= (gap > step * (1.0 + _SLACK)) & (gap <= NEIGHBOUR_RAD)
        near = nearest <= 0.5 * step + slack
        if not (near | between).all():
            lost = math.degrees(float(wanted.angles_rad[np.argmin(near | between)]))
            raise ValueError(f"{why}: nothing was measured at {lost:.4g} degrees")
        first, last = np.where(near, first, np.minimum(first, left)), np.where(near, last, np.maximum(last, right))
        most = int((last - first).max()) + 1
        self._chosen = order[np.minimum(first[:, None] + np.arange(most), last[:, None])]
        self.changes = most > 1 or not np.array_equal(self._chosen[:, 0], np.arange(rays))
        """Whether the output differs from the input."""

    def __call__(self, ranges: Array) -> Array:
        """Return the wanted ranges (..., rays) of measured ones (..., measured rays), finite."""
        return np.asarray(ranges[..., self._chosen].min(axis=-1)) if self.changes else ranges


def finite_ranges(
    ranges: NDArray[Any], *, increment_rad: float, range_min_m: float, range_max_m: float, turns: bool = False
) -> Array:
    """Return ranges (..., rays) m with a finite value for each ray, by the rules at the top of this module.

    Args:
        ranges: As measured, with NaN and infinities by REP-117; values outside the limits count as infinite.
        increment_rad: Between neighbouring rays.
        range_min_m: Minimum range of the lidar.
        range_max_m: Maximum range of the lidar.
        turns: Whether the last ray has the first one for a neighbour.
    """
    measured = np.asarray(ranges, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        found = np.clip(measured, range_min_m, range_max_m)
    missing = np.isnan(found)
    if not missing.any():
        return found
    count = found.shape[-1]
    reach = min(int(NEIGHBOUR_RAD / increment_rad * (1.0 + 1e-9)), count - 1) if increment_rad else 0
    padded = np.concatenate([found[..., count - reach :], found, found[..., :reach]], axis=-1)
    if not turns:
        padded[..., :reach] = padded[..., reach + count :] = np.nan
    filled = np.fmin(_last_known(padded, reach), _last_known(padded[..., ::-1], reach)[..., ::-1])
    filled = filled[..., reach : reach + count]
    return np.where(missing, np.where(np.isnan(filled), range_min_m, filled), found)


def unplaced(frame: str, stamp_ns: int) -> None:
    """Know no transforms: a :data:`rlstack.interfaces.transform_buffer.Place` that has none."""
    raise NoTransform("no transforms are known here")


class ScanReader:
    """Reads a serialized LaserScan's stamp and the signal ``scan``; see the module's docstring.

    A scan in another frame than the lidar's is one of a lidar that stands where the transform says.

    Args:
        wanted: The policy's scan geometry.
        frames: Names that the lidar's frame may have besides those of ``wanted``.
        zero_is_far: Treat a range of exactly 0 as nothing within range, as drivers older than REP-117 do; otherwise it
            counts as not measured.
        name: Name of the signal.
        place: Returns the pose of another frame in ``base_link``.
    """

    def __init__(
        self,
        wanted: ScanGeometry,
        frames: Collection[str] = (),
        *,
        zero_is_far: bool = False,
        name: str = "scan",
        place: Place = unplaced,
    ) -> None:
        self.wanted = wanted
        self._frames = frozenset((*wanted.frames, *frames))
        self._zero, self._name = (np.inf if zero_is_far else np.nan), name
        self._place = place
        self._read: Callable[[bytes], tuple[Any, ...]] | None = None
        self._resampling: Resampling | None = None
        self._key: tuple[float, float, int] | None = None
        self._reprojection: Reprojection | None = None
        self._from: tuple[Any, ...] = ()

    def __call__(self, data: bytes) -> tuple[int, dict[str, Array]]:
        """Return the stamp in ns and the signal, (rays,) m; raise ``ValueError`` as :meth:`signal`."""
        if self._read is None:
            self._read = cdr.compile_reader(topics.message_type(topics.SCAN_TYPE), _FIELDS)
        sec, nanosec, *fields = self._read(data)
        stamp_ns = sec * NANOSECONDS + nanosec
        return stamp_ns, {self._name: self.signal(stamp_ns, *fields)}

    def signal(
        self,
        stamp_ns: int,
        frame: str,
        angle_min: float,
        angle_increment: float,
        range_min: float,
        range_max: float,
        ranges: Any,
    ) -> Array:
        """Return the signal (rays,).

        Raises:
            ValueError: The scan is in a frame without a transform (:class:`NoTransform`, which may come later), or of
                a lidar that cannot be converted to the wanted one.
        """
        mount = None if frame.rpartition("/")[2] in self._frames else self._mount(frame, stamp_ns)
        if not 0.0 <= range_min < range_max:
            raise ValueError(f"the scan has a range_min of {range_min} m and a range_max of {range_max} m")
        measured = np.array(ranges, dtype=np.float64)
        measured[measured == 0.0] = self._zero
        # by the message's own limits: beyond them is no return, or too near
        measured[measured > range_max] = np.inf
        measured[measured < range_min] = -np.inf
        wanted, step = self.wanted, abs(angle_increment)
        turns = _TURN - step * (len(ranges) - 1) < NEIGHBOUR_RAD
        most = max(min(range_max, wanted.range_max_m), wanted.range_min_m)
        key = angle_min, angle_increment, len(ranges)
        if mount is not None:
            reprojection = self._reprojected(mount, frame, key, turns)
            reach = reprojection.reach_m(range_max)
            found = finite_ranges(
                measured, increment_rad=step, range_min_m=min(range_min, reach), range_max_m=reach, turns=turns
            )
            return reprojection(found, reach, most)
        if self._resampling is None or key != self._key:
            self._resampling, self._key = Resampling(*key, wanted), key
        found = finite_ranges(
            measured, increment_rad=step, range_min_m=wanted.range_min_m, range_max_m=most, turns=turns
        )
        return self._resampling(found)

    def _mount(self, frame: str, stamp_ns: int) -> Mount | None:
        """Return where the lidar of another frame stands; None: it is the wanted one."""
        try:
            pose = self._place(frame, stamp_ns)
            mount = None if pose is None else Mount(pose, self.wanted)
        except NoTransform as error:
            name = frame.lstrip("/")
            raise NoTransform(
                f"{self._of(frame)}, and {error}: if they are the same, set scan_frame:={frame}; otherwise publish"
                " where the lidar is, such as `ros2 run tf2_ros static_transform_publisher --frame-id"
                f" {topics.BODY_FRAME} --child-frame-id {name} --x 0.1 --z 0.2 --yaw 0.0`",
                later=error.later,
            ) from error
        except ValueError as error:
            raise ValueError(f"{self._of(frame)}, and {error}") from error
        return None if mount is None or mount.is_same else mount

    def _of(self, frame: str) -> str:
        names = ", ".join(sorted(self._frames))
        return f"the scan is in the frame '{frame}', and the policy's is '{self.wanted.frames[0]}' ({names})"

    def _reprojected(self, mount: Mount, frame: str, key: tuple[float, float, int], turns: bool) -> Reprojection:
        """Return the conversion from a lidar, which is the last one while nothing has changed."""
        now = key, turns, mount.origin.tobytes(), mount.axes.tobytes()
        if self._reprojection is None or now != self._from:
            try:
                check_steps(*key, self.wanted)
                angles = key[0] + key[1] * np.arange(key[2], dtype=float)
                self._reprojection, self._from = Reprojection(mount, angles, self.wanted, turns=turns), now
            except ValueError as error:
                raise ValueError(f"{self._of(frame)}, and {error}") from error
        return self._reprojection


_FIELDS = (
    *("header.stamp.sec", "header.stamp.nanosec", "header.frame_id"),
    *("angle_min", "angle_increment", "range_min", "range_max", "ranges"),
)


def _around(angles: Array) -> tuple[NDArray[np.intp], Array]:
    """Return rays sorted by angle, from one circle below 0 to two circles above it, and these angles."""
    turned = np.mod(angles, _TURN)
    order = np.argsort(turned, kind="stable")
    placed = turned[order]
    return np.tile(order, 3), np.concatenate([placed - _TURN, placed, placed + _TURN])


def _last_known(values: Array, reach: int) -> Array:
    """Return for each position the last value at or before it that is a number and within ``reach``; or NaN."""
    places = np.arange(values.shape[-1])
    known = np.maximum.accumulate(np.where(np.isnan(values), -1, places), axis=-1)
    found = np.take_along_axis(values, np.maximum(known, 0), axis=-1)
    return np.where((known >= 0) & (places - known <= reach), found, np.nan)


def _description(rays: int, angle_min_rad: float, increment_rad: float) -> str:
    first, last = math.degrees(angle_min_rad), math.degrees(angle_min_rad + increment_rad * (rays - 1))
    return f"{rays} rays from {first:.4g} to {last:.4g} degrees"


class ScanMessage:
    """One LaserScan that is refilled for every scan; ranges follow REP-117, intensities are empty.

    Args:
        message: An empty ``sensor_msgs/LaserScan``.
        frame: ``header.frame_id``: the lidar's own, whose x axis is at angle 0.
        lidar: A lidar with one ring.
    """

    def __init__(self, message: Any, frame: str, lidar: Lidar) -> None:
        self.message = message
        self._rays = lidar.rays
        message.header.frame_id = frame
        angles = lidar.angles_rad
        message.angle_min, message.angle_max = float(angles[0]), float(angles[-1])
        message.angle_increment = lidar.angle_increment_rad
        message.time_increment, message.scan_time = 0.0, 1.0 / lidar.rate_hz
        message.range_min, message.range_max = lidar.range_min_m, lidar.range_max_m

    def fill(self, stamp_ns: int, ranges: NDArray[Any]) -> Any:
        """Return the filled message.

        Args:
            stamp_ns: Time of the scan, ns.
            ranges: (rays,) m.

        Raises:
            ValueError: The number of rays is not the lidar's.
        """
        if np.shape(ranges) != (self._rays,):
            raise ValueError(f"a scan of {np.shape(ranges)} is not one of {self._rays} rays")
        set_stamp(self.message.header.stamp, stamp_ns)
        self.message.ranges = array.array("f", np.asarray(ranges, dtype=np.float32).tobytes())
        return self.message


def scan_ranges(message: Any) -> NDArray[np.float32]:
    """Return a LaserScan's ranges (rays,) m, a view of its data; values outside its limits become infinite (REP-117).

    Drivers older than that convention send 0 or ``range_max`` where there was no return.
    """
    ranges: NDArray[np.float32] = np.frombuffer(message.ranges, dtype=np.float32)
    far, near = ranges > message.range_max, ranges < message.range_min
    if far.any() or near.any():
        ranges = np.where(far, np.float32(np.inf), np.where(near, np.float32(-np.inf), ranges))
    return ranges


def scan_angles(message: Any) -> Array:
    """Return the angle of each ray of a LaserScan (rays,), rad from straight ahead towards the left."""
    return message.angle_min + message.angle_increment * np.arange(len(message.ranges), dtype=float)


def scan_points(message: Any) -> Array:
    """Return a LaserScan's hits, (points, 3) m in its frame; rays without a hit are dropped."""
    ranges = scan_ranges(message).astype(float)
    hit = np.isfinite(ranges)
    angles, ranges = scan_angles(message)[hit], ranges[hit]
    return np.stack((ranges * np.cos(angles), ranges * np.sin(angles), np.zeros_like(ranges)), axis=-1)
