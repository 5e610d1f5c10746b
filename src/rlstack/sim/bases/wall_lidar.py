"""A planar lidar between two polyline walls: what a car on a race track measures.

As in :mod:`rlstack.sim.bases.lidar`, each piece becomes a vector q once a robot, so that the inverse of a ray's range
is its product with the ray's direction; a ray meets a piece if it goes between the piece's ends.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.fused import Sweep, clip, maximum, where
from rlstack.sim.bases.layout import STATE

Rows = NDArray[Any]

_LEAST = 1e-9


class WallLidar:
    """Measures ranges (rays, N) of N robots, each between walls of its own.

    Args:
        angles_rad: Of the rays in base_link (rays,).
        mount_xy_m: The lidar's place in base_link.
        range_min_m: Least range that is reported.
        range_max_m: Greatest range that is reported, also of a ray that meets nothing.
        corners: Of each of the two walls.
        device: Where the arrays are.
        slopes: Whether it also tells at what slant each ray meets its wall, which gives the ranges' derivatives.
    """

    def __init__(
        self,
        angles_rad: NDArray[Any],
        mount_xy_m: tuple[float, float],
        range_min_m: float,
        range_max_m: float,
        corners: int,
        device: str = "cpu",
        slopes: bool = False,
    ) -> None:
        self._mount, self._range, self._corners = mount_xy_m, (range_min_m, range_max_m), corners
        self.rays, self._slopes = len(angles_rad), slopes
        self._cast = Sweep(
            self._ray,
            {"position": 2, "turn": 2, "walls": 4 * corners},
            np.stack([np.cos(angles_rad), np.sin(angles_rad)], axis=1),
            device=device,
        )

    def prepare(self, state: Any, walls: Any, ranges: Any, slopes: Any = None) -> Callable[[], None]:
        """Return what measures on these arrays whenever it is called; they must stay where they are.

        Args:
            state: (rows, N) as in :data:`rlstack.sim.bases.layout.STATE`; place and turn are read.
            walls: (4 corners, N): x and y of the left wall's corners, one after the other, then of the right one's; m.
            ranges: (rays, N) m, written.
            slopes: (rays, N), written if asked for at first: cotangent of the angle from the ray to the wall it meets,
                0 where it meets none. A ray turned to the left by d rad has a range longer by range x slope x d.
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
