"""Recorded trials in the browser: in a scene that is shown live, or as a page of its own that plays them in a loop."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.libraries import import_library
from rlstack.view.film import COLOURS
from rlstack.view.framing import AXES, distance, seen_points
from rlstack.view.recording import Recording, ReplayedTrial
from rlstack.view.robot_model import RobotModel
from rlstack.view.shapes import add_shape, light_shapes, wxyz
from rlstack.view.spinning import spun

_GOAL, _PATH = (34, 173, 90), (115, 122, 140)
_PIECES = 40
"""Pieces of a trail, which appear one after the other."""
_STAYS_S = 1.5
"""How long the end of a trial is shown."""
_VIEW_RAD = math.radians(75.0)
"""Field of view of a page's camera."""
_ASPECT = 1.6


class ReplayScene:
    """Trials in a viser scene, of which one is shown at a time.

    Args:
        scene: viser's ``SceneApi``.
        trials: The trials.
        name: Name of the node that they are below.
    """

    def __init__(self, scene: Any, trials: Sequence[ReplayedTrial], name: str = "/replay") -> None:
        self._root = scene.add_frame(name, show_axes=False)
        self._stages = [_Stage(scene, f"{name}/{k}", trial) for k, trial in enumerate(trials)]
        self._trials, self._shown = trials, -1

    @property
    def away_m(self) -> float:
        """Distance from the origin at which a camera sees every trial, m."""
        return max(stage.away_m for stage in self._stages)

    def show(self, number: int, time_s: float) -> None:
        """Show a trial at a time since its start; after its end, its end."""
        if number != self._shown:
            for k, stage in enumerate(self._stages):
                stage.begin(k == number)
            self._shown = number
        self._stages[number].draw(time_s)

    def remove(self) -> None:
        """Remove it from the scene."""
        self._root.remove()


class _Stage:
    """One trial, with its middle at the origin."""

    def __init__(self, scene: Any, name: str, trial: ReplayedTrial) -> None:
        points = seen_points(trial)
        middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
        self.away_m = distance(points - middle, _ASPECT, _VIEW_RAD)
        top = float(points[:, 2].max() - middle[2])
        self._frame = scene.add_frame(name, show_axes=False, position=-middle, visible=False)
        floor = float(min(take.floor_m for take in trial.takes))
        wide = max(2.0, 4.0 * float(np.ptp(points, axis=0).max()))
        scene.add_grid(
            f"{name}/floor",
            wide,
            wide,
            cell_size=0.5,
            section_size=1.0,
            cell_color=(226, 229, 233),
            section_color=(196, 201, 208),
            position=(float(middle[0]), float(middle[1]), floor),
            plane_color=(244, 245, 247),
            plane_opacity=1.0,
        )
        title = (float(middle[0]), float(middle[1]), float(middle[2]) + top + 0.18 * self.away_m)
        said = next((take.instruction for take in trial.takes if take.instruction), "")
        text = f"{trial.title}: {said}" if said else trial.title
        scene.add_label(f"{name}/title", text, position=title, anchor="bottom-center")
        self._takes = [
            _Take(scene, f"{name}/{k}", take, offset, COLOURS[k % len(COLOURS)], k == 0 or trial.apart_m > 0.0)
            for k, (take, offset) in enumerate(zip(trial.takes, trial.offsets))
        ]

    def begin(self, visible: bool) -> None:
        self._frame.visible = visible
        if visible:
            for take in self._takes:
                take.begin()

    def draw(self, time_s: float) -> None:
        for take in self._takes:
            take.draw(time_s)


class _Take:
    """One driver's robot, its world, its way and how it ended."""

    def __init__(
        self, scene: Any, name: str, take: Recording, offset: Array, colour: Sequence[float], world: bool
    ) -> None:
        self._take, paint = take, tuple(round(255 * part) for part in colour)
        self._joints = spun(take)
        scene.add_frame(name, show_axes=False, position=offset)
        self._robot = RobotModel(scene, f"{name}/robot", take.urdf, light_shapes(take.urdf))
        above = (0.0, 0.0, 0.35 * self._robot.reach_m + 0.06)
        self._name = scene.add_label(f"{name}/robot/name", take.driver, position=above, anchor="bottom-center")
        words = f"{take.driver}: {take.ending}"
        self._ending = scene.add_label(f"{name}/robot/ending", words, position=above, anchor="bottom-center")
        self._movers: list[Any] = []
        if world:
            for k, shape in enumerate(take.shapes):
                add_shape(scene, f"{name}/world/{k}", shape)
            for k, mover in enumerate(take.movers):
                self._movers.append(scene.add_frame(f"{name}/mover{k}", show_axes=False))
                for number, shape in enumerate(mover.shapes):
                    add_shape(scene, f"{name}/mover{k}/{number}", shape)
        size = max(0.012, 0.02 * float(np.ptp(take.position, axis=0).max()))
        self._goal: Any = None
        if take.goal is not None:
            self._goal = scene.add_icosphere(f"{name}/goal", radius=size, color=_GOAL, opacity=0.6)
        if take.path is not None:
            thinned = take.path[:: max(1, len(take.path) // 150)]
            scene.add_line_segments(f"{name}/path", _pieces(thinned), _PATH, thickness=1.5, thickness_units="screen")
        self._ends: list[int] = []
        self._trail: list[Any] = []
        bounds = np.unique(np.linspace(0, len(take) - 1, _PIECES + 1).round().astype(int)).tolist()
        if np.ptp(take.position, axis=0).max() > 0.01:
            for start, end in itertools.pairwise(bounds):
                points = _pieces(take.position[start : end + 1])
                pixels: dict[str, Any] = {"thickness": 3.0, "thickness_units": "screen"}
                line = scene.add_line_segments(f"{name}/trail{end}", points, paint, visible=False, **pixels)
                self._trail.append(line)
                self._ends.append(end)
        self._drawn = 0
        self._ended = False
        self.begin()

    def begin(self) -> None:
        """Go to the start."""
        for line in self._trail[: self._drawn]:
            line.visible = False
        self._drawn, self._ended = 0, False
        self._name.visible, self._ending.visible = True, False
        self._place(0)

    def draw(self, time_s: float) -> None:
        """Show it at a time."""
        at = self._take.at(time_s)
        self._place(at)
        while self._drawn < len(self._trail) and self._ends[self._drawn] <= at:
            self._trail[self._drawn].visible = True
            self._drawn += 1
        if at == len(self._take) - 1 and not self._ended:
            self._ended, self._name.visible, self._ending.visible = True, False, True

    def _place(self, at: int) -> None:
        take = self._take
        self._robot.place(take.position[at], take.orientation[at])
        self._robot.move_joints(self._joints[at])
        for frame, mover in zip(self._movers, take.movers):
            if np.isfinite(mover.position[at]).all():
                frame.position, frame.wxyz = mover.position[at], wxyz(mover.orientation[at])
        if self._goal is not None and take.goal is not None:
            self._goal.position = take.goal[at]


def replay_page(trials: Sequence[ReplayedTrial], rate_hz: float = 20.0) -> str:
    """Return trials as an HTML page that plays them in a loop, without scripts or data from elsewhere.

    Args:
        trials: One or more trials.
        rate_hz: Pictures per second.

    Raises:
        UserError: viser is not installed, or a mesh cannot be read.
    """
    viser = import_library("viser", "view")
    hidden = "127." + ".".join(str(1 + secrets.randbelow(254)) for _ in range(3))
    with contextlib.redirect_stdout(io.StringIO()):
        server: Any = viser.ViserServer(hidden, port=0, verbose=False)  # it records what it would send to browsers
    try:
        shown = ReplayScene(server.scene, trials)
        shown.show(0, 0.0)
        look_from(server.initial_camera, shown.away_m)
        recorded = server.get_scene_serializer()
        for number, trial in enumerate(trials):
            for time_s in np.arange(0.0, trial.duration_s + 1.0 / rate_hz, 1.0 / rate_hz).tolist():
                shown.show(number, time_s)
                recorded.insert_sleep(1.0 / rate_hz)
            recorded.insert_sleep(_STAYS_S)
        page: str = recorded.as_html()
    finally:
        with contextlib.redirect_stdout(io.StringIO()):
            server.stop()
    return page


def look_from(camera: Any, away_m: float) -> None:
    """Point one of viser's cameras at the origin from a distance, m."""
    camera.position = tuple((-away_m * AXES[:, 2]).tolist())
    camera.look_at = (0.0, 0.0, 0.0)


def _pieces(points: Array) -> Array:
    """Return a line through points (n, 3) as segments (n - 1, 2, 3)."""
    return np.stack([points[:-1], points[1:]], axis=1).astype(np.float32)
