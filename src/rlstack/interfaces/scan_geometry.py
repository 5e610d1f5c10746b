"""The scan that a policy or a node wants: rays, range and mount of one ring of a robot's lidar."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rlstack.arrays import Array
from rlstack.robots import Lidar
from rlstack.robots.sensing import sensor_frame
from rlstack.schema import value

_TURN = 2.0 * math.pi


@dataclass(frozen=True, kw_only=True)
class ScanGeometry:
    """Scan geometry of a robot's lidar with one ring: its rays, range and mount."""

    rays: int = value(unit="rays", at_least=1, at_most=65536)
    angle_min_rad: float = value(unit="rad", at_least=-2.0 * _TURN, at_most=2.0 * _TURN)
    """Angle of the first ray, from straight ahead towards the left."""
    angle_increment_rad: float = value(unit="rad", at_least=0.0, at_most=_TURN)
    """Angle from one ray to the next; 0 for a single ray."""
    range_min_m: float = value(unit="m", at_least=0.0)
    range_max_m: float = value(unit="m", above=0.0)
    frames: tuple[str, ...]
    """Names that its frame may have in messages, ours first."""
    position_m: tuple[float, float, float] = value(unit="m")
    rpy_rad: tuple[float, float, float] = value(unit="rad")
    """Pose of that frame in ``base_link``."""

    def __post_init__(self) -> None:
        if self.range_max_m <= self.range_min_m:
            raise ValueError(f"range_max_m: {self.range_max_m} is not allowed: must be above {self.range_min_m}.")
        if self.rays > 1 and not 0.0 < self.angle_increment_rad * (self.rays - 1) <= _TURN + 1e-6:
            raise ValueError(
                f"angle_increment_rad: {self.angle_increment_rad} is not allowed: {self.rays} rays must be within a"
                " turn."
            )

    @cached_property
    def angles_rad(self) -> Array:
        """(rays,) from straight ahead towards the left, ascending."""
        return np.asarray(self.angle_min_rad + self.angle_increment_rad * np.arange(self.rays, dtype=float))


def scan_geometry(lidar: Lidar, name: str = "scan") -> ScanGeometry:
    """Return the geometry of a robot file's lidar with one ring."""
    return ScanGeometry(
        rays=lidar.rays,
        angle_min_rad=lidar.angle_min_rad,
        angle_increment_rad=lidar.angle_increment_rad,
        range_min_m=lidar.range_min_m,
        range_max_m=lidar.range_max_m,
        frames=(sensor_frame(name), *lidar.frames),
        position_m=lidar.position_m,
        rpy_rad=lidar.rpy_rad,
    )
