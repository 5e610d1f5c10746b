"""Lookup tables of many tracks, for the frames and walls around N cars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rlstack.sim.maps.tracks import CORNERS, SAMPLES, Track

BEHIND, AHEAD = 8, 32
"""Wall corners behind and ahead of a car: about 3 and 12 m of track."""

SEEN = BEHIND + AHEAD

FRAME_WIDTH = 8
"""Rows of the track at a car: nearest point of the centre line, cosine and sine of its direction, curvature, half the
width, z and w of the direction's quaternion."""

WALL_WIDTH = 4 * SEEN
"""Rows of the walls around a car: x and y of the left one's corners, then of the right one's."""


class TrackTables:
    """Tables of K tracks.

    Args:
        tracks: The K tracks.
        device: Device of the tables.
    """

    def __init__(self, tracks: Sequence[Track], device: torch.device) -> None:
        self.tracks = tuple(tracks)
        frames, walls = [], []
        wrapped = np.arange(-BEHIND, CORNERS + AHEAD) % CORNERS
        for track in tracks:
            yaw = np.arctan2(track.tangent[:, 1], track.tangent[:, 0])
            width = np.full(SAMPLES, track.half_width_m)
            columns = [*track.middle.T, *track.tangent.T, track.curvature, width, np.sin(yaw / 2.0), np.cos(yaw / 2.0)]
            frames.append(np.stack(columns, axis=1))
            walls.append(np.stack([track.left[wrapped], track.right[wrapped]]))
        table = torch.from_numpy(np.concatenate(frames).astype(np.float32)).to(device)
        self._frames = table
        """(K * SAMPLES, FRAME_WIDTH)."""
        sides = torch.from_numpy(np.stack(walls, axis=1).astype(np.float32)).to(device)
        rows = len(wrapped)
        # the corners from one on are contiguous in memory
        self._walls = [
            side.reshape(-1, 2).as_strided((len(tracks) * rows - SEEN + 1, 2 * SEEN), (2, 1)) for side in sides.unbind()
        ]
        self._rows = rows
        self.spacing_m = torch.tensor([t.length_m / SAMPLES for t in tracks], dtype=torch.float32, device=device)
        """(K,) spacing of the centre line's points, m."""

    def follow(self, course: Tensor, index: Tensor, position: Tensor) -> Tensor:
        """Return the nearest centre-line points (N,) to cars that were nearest to ``index`` one step ago.

        Args:
            course: (N,) index of each car's track.
            index: (N,) long.
            position: (2, N) m.
        """
        spacing = self.spacing_m[course]
        for _ in range(2):
            x, y, c, s, bend, *_ = self._frames.index_select(0, course * SAMPLES + index).unbind(dim=1)
            dx, dy = position[0] - x, position[1] - y
            ahead = (dx * c + dy * s) / (1.0 - bend * (dy * c - dx * s)).clamp(min=0.2)
            index = (index + (ahead / spacing).round().clamp(-64, 64).nan_to_num(0.0).long()) % SAMPLES
        return index

    def frame(self, course: Tensor, index: Tensor) -> Tensor:
        """Return the track frames (N, FRAME_WIDTH) at centre-line points."""
        return self._frames.index_select(0, course * SAMPLES + index)

    def walls(self, course: Tensor, index: Tensor) -> Tensor:
        """Return the walls (N, WALL_WIDTH) around centre-line points."""
        first = course * self._rows + index // (SAMPLES // CORNERS)
        return torch.cat([wall.index_select(0, first) for wall in self._walls], dim=1)
