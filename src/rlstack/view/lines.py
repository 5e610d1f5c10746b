"""Lines in a viser scene: paths, and the way that a robot has come."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from rlstack.arrays import Array

Rgb = tuple[int, int, int]


class Line:
    """A line through points.

    Args:
        scene: viser's ``SceneApi``.
        name: Name of its node.
        colour: Red, green, blue, 0 to 255.
        width: Width, pixels.
    """

    def __init__(self, scene: Any, name: str, colour: Rgb, width: float = 2.0) -> None:
        self._scene, self._name, self._colour, self._width = scene, name, colour, width
        self._handle: Any = None

    def show(self, points: Array) -> None:
        """Draw it through points (n, 3), m; fewer than two: nothing."""
        if len(points) < 2:
            self.remove()
            return
        pieces = np.stack([points[:-1], points[1:]], axis=1).astype(np.float32)
        if self._handle is None:
            self._handle = self._scene.add_line_segments(self._name, pieces, self._colour, line_width=self._width)
        else:
            self._handle.points = pieces
            self._handle.colors = np.broadcast_to(np.array(self._colour, np.uint8), pieces.shape).copy()

    def remove(self) -> None:
        """Draw nothing."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None


class Trail(Line):
    """The way that something has come.

    Args:
        apart_m: Distance between its points, m.
        points: How many of them it has at most.
    """

    def __init__(self, scene: Any, name: str, colour: Rgb, apart_m: float = 0.02, points: int = 500) -> None:
        super().__init__(scene, name, colour)
        self._apart_m = apart_m
        self._points: deque[Array] = deque(maxlen=points)
        self._shown = 0

    def add(self, position: Array) -> None:
        """Add a position (3,), m, if it is far enough from the last one; after a jump it begins anew."""
        if self._points:
            gone = float(np.linalg.norm(position - self._points[-1]))
            if gone < self._apart_m:
                return
            if gone > 50.0 * self._apart_m:
                self._points.clear()
        self._points.append(np.array(position))
        self._shown += 1

    def draw(self) -> None:
        """Draw it, if it has grown since."""
        if self._shown:
            self._shown = 0
            self.show(np.array(self._points))
