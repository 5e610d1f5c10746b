"""Planar lidars between two polyline walls, as of cars on a race track.

As in :mod:`.obstacle_lidar`, each wall piece becomes a vector q once per robot, whose product with a ray's direction is
the inverse range; a ray hits a piece if it passes between the piece's ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.fused import LoopKernel, clip, maximum, where
from rlstack.robots import Lidar
from rlstack.sim.batch_wheeled_base.layout import STATE

Rows = NDArray[Any]

_LEAST = 1e-9


class WallLidar:
    """Measures ranges (rays, N) of N robots, each between its own walls.

    Args:
        lidar: The lidar as in the robot file, whose noise the caller adds.
        corners: Number of corners of each of the two walls.
        rays: Indices of the rays; None: all.
        device: Device of the arrays.
        slopes: Whether to compute the angle between each ray and its wall, too, for the ranges' derivatives.
    """

    def __init__(
        self,
        lidar: Lidar,
        corners: int,
        rays: Sequence[int] | None = None,
        device: str = "cpu",
        slopes: bool = False,
    ) -> None:
        self._mount, self._range = lidar.position_m[:2], (lidar.range_min_m, lidar.range_max_m)
        self._corners, self._slopes = corners, slopes
        angles_rad = (lidar.angles_rad if rays is None else lidar.angles_rad[list(rays)]) + lidar.rpy_rad[2]
        self._cast = LoopKernel(
            self._ray,
            {"position": 2, "turn": 2, "walls": 4 * corners},
            np.stack([np.cos(angles_rad), np.sin(angles_rad)], axis=1),
            device=device,
        )

    def prepare(self, state: Any, walls: Any, ranges: Any, slopes: Any = None) -> Callable[[], None]:
        """Return a function that measures on these arrays, which must not move in memory.

        Args:
            state: (rows, N) as in :data:`.layout.STATE`; only position and heading are read.
            walls: (4 corners, N): x and y of the left wall's corners in order, then of the right wall's; m.
            ranges: (rays, N) m, written.
            slopes: (rays, N), written if enabled: cotangent of the angle from the ray to the wall that it hits, 0
                without a hit. Rotating a ray left by d rad increases its range by range x slope x d.
        """
        rows = {"position": state[STATE["position"]], "turn": state[STATE["turn"]], "walls": walls, "ranges": ranges}
        return self._cast.prepare({**rows, "slopes": slopes} if self._slopes else rows)

    def _ray(self, direction: Rows, position: Rows, turn: Rows, walls: Rows) -> dict[str, Rows]:
        low, high = self._range
        z, w = turn
        c, s = w * w - z * z, 2.0 * z * w
        ux, uy = direction
        nearest: Any = 1.0 / high
        across: Any = 0.0
        for wall in np.split(walls, 2):
            ends = []
            for x, y in wall.reshape(-1, 2):
                dx, dy = x - position[0], y - position[1]
                vx, vy = c * dx + s * dy - self._mount[0], c * dy - s * dx - self._mount[1]
                ends.append((vx, vy, ux * vy - uy * vx))
            for (ax, ay, a), (bx, by, b) in pairwise(ends):
                ex, ey = bx - ax, by - ay
                reach = ax * ey - ay * ex
                scale = 1.0 / where(abs(reach) > _LEAST, reach, _LEAST)
                px, py = ey * scale, ex * scale
                nearness = ux * px - uy * py
                if self._slopes:
                    across = where((a * b <= 0.0) & (nearness > nearest), ux * py + uy * px, across)
                nearest = where(a * b <= 0.0, maximum(nearest, nearness), nearest)
        made = {"ranges": np.array([clip(1.0 / nearest, low, high)], dtype=object)}
        return {**made, "slopes": np.array([across / nearest], dtype=object)} if self._slopes else made
