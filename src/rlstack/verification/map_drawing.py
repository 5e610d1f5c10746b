"""Draw maps and drives seen from above on matplotlib axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.verification.drawing import BAD, COLOURS, FAINT

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SOLID, ROUND = "#7d8590", "#a8845c"
GOAL = COLOURS[2]


def draw_map(axes: Axes, drawn: FloorMap, arrival_m: float) -> None:
    """Draw the obstacles, the start as a dot, and the goal with its tolerance circle."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Circle, Polygon

    boxes = [Polygon(corners_of(box)) for box in drawn.boxes]
    circles = [Circle((x, y), radius) for x, y, radius in drawn.circles]
    axes.add_collection(PatchCollection(boxes, facecolor=SOLID, edgecolor="none"))
    axes.add_collection(PatchCollection(circles, facecolor=ROUND, edgecolor="none"))
    x, y = drawn.goal[:2].tolist()
    axes.add_patch(Circle((x, y), arrival_m, facecolor="none", edgecolor=GOAL, linewidth=1.3))
    axes.plot(x, y, "*", color=GOAL, markersize=6, markeredgewidth=0)
    axes.plot(*drawn.start[:2], "o", color=FAINT, markersize=4, markeredgewidth=0)
    half_x, half_y = drawn.size_m[0] / 2.0, drawn.size_m[1] / 2.0
    axes.set(xlim=(-half_x, half_x), ylim=(-half_y, half_y), aspect="equal", xticks=[], yticks=[])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def draw_path(axes: Axes, pose: Array, colour: str, ending: str, label: str | None = None, width: float = 1.4) -> None:
    """Draw one drive (T, 3), padded with NaN; a cross marks a contact, a square an end without arrival."""
    known = pose[np.isfinite(pose[:, 0])]
    axes.plot(known[:, 0], known[:, 1], color=colour, linewidth=width, label=label, solid_capstyle="round")
    if ending == "collided":
        axes.plot(*known[-1, :2], "x", color=BAD, markersize=8, markeredgewidth=2.2, zorder=6)
    elif ending != "arrived":
        axes.plot(*known[-1, :2], "s", color=BAD, markersize=5, markeredgewidth=0, zorder=6)


def corners_of(box: Array) -> Array:
    """Return the corners (4, 2) of a box (5,), m."""
    x, y, half_x, half_y, yaw = box
    cos, sin = math.cos(yaw), math.sin(yaw)
    local = np.array([[half_x, half_y], [-half_x, half_y], [-half_x, -half_y], [half_x, -half_y]])
    return np.asarray(local @ np.array([[cos, sin], [-sin, cos]]) + (x, y))


def outline_at(robot: WheeledBase, pose: Array) -> Array:
    """Return the corners (corners, 2) of a base's footprint at a pose (3,), m and rad."""
    cos, sin = math.cos(pose[2]), math.sin(pose[2])
    return np.asarray(robot.corners_m @ np.array([[cos, sin], [-sin, cos]]) + pose[:2])
