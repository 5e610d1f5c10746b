"""Where a camera stands that sees a whole trial."""

from __future__ import annotations

import math

import numpy as np

from rlstack.arrays import Array
from rlstack.robots import frames
from rlstack.robots.frame_tree import read_frames
from rlstack.view.recording import ReplayedTrial

_SIDE, _RAISED = math.radians(-52.0), math.radians(27.0)
"""Heading and elevation of the camera, seen from what it looks at."""
_FILLED, _PADDED = 0.80, 0.06
"""Share of the picture for what is to be seen, and what is added around it, as a share of its extent."""
_LOOKS = 25
"""Samples of a trial that are looked at."""
_CROWD = 4
"""Movers from which on they do not count, as people in a hall."""


def _axes() -> Array:
    flat = np.array([math.cos(_SIDE), math.sin(_SIDE), 0.0])
    back = math.cos(_RAISED) * flat + math.sin(_RAISED) * np.array([0.0, 0.0, 1.0])
    right = np.cross([0.0, 0.0, 1.0], back)
    right /= np.linalg.norm(right)
    return np.column_stack([right, np.cross(-back, right), -back])


AXES = _axes()
"""(3, 3) axes of the camera's optical frame in the world, columns right, down and forward."""


def seen_points(trial: ReplayedTrial) -> Array:
    """Return points (n, 3) m that a picture of a trial must show."""
    points: list[Array] = []
    for take, offset in zip(trial.takes, trial.offsets):
        tree = read_frames(take.urdf)
        for at in np.linspace(0, len(take) - 1, _LOOKS).round().astype(int).tolist():
            places = np.array([position for position, _ in tree.poses(take.joints_at(at)).values()])
            points += list(take.position[at] + frames.rotate(take.orientation[at], places) + offset)
            points += [mover.position[at] + offset for mover in take.movers if len(take.movers) < _CROWD]
        points += [] if take.goal is None else list(take.goal[[0, -1]] + offset)
    known = np.array(points)
    return known[np.isfinite(known).all(axis=1)]


def distance(points: Array, aspect: float, view_rad: float) -> float:
    """Return how far a camera that looks along :data:`AXES` at the origin must be from it to see points (n, 3), m.

    Args:
        points: The points, m.
        aspect: Width of the picture over its height.
        view_rad: Its vertical field of view.
    """
    along = points @ AXES
    slope = np.array([aspect, 1.0]) * math.tan(0.5 * view_rad) * _FILLED
    pad = _PADDED * float(np.abs(along).max()) + 0.03
    return float(((np.abs(along[:, :2]) + pad) / slope - along[:, 2:]).max())
