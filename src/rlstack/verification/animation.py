"""Animated drives seen from above: map, lidar points and the base's path, for several drivers side by side."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.batch_wheeled_base.simulator import WheeledBaseSimulator
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.pool import box_rows, circle_rows
from rlstack.verification.drawing import BAD, COLOURS, INK, STYLE, literal, matplotlib_or_refuse, new_figure
from rlstack.verification.map_drawing import GOAL, draw_map, outline_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


FRAMES, FRAME_MS, STILL_FRAMES = 75, 80, 15
"""Largest number of frames, duration of each, and frames for which the end stays."""

PANEL_IN, DPI, WIDEST, INKS = 3.3, 90, 780, 32
"""Side of a driver's panel, inches, pixels per inch, total width in pixels, and number of colours."""

_SEEN = "#d1495b"


@dataclass(frozen=True)
class AnimatedDrive:
    """One drive.

    Args:
        driver: Name of the driver, for the title.
        pose: (T, 3) x and y in m, yaw in rad; NaN after the end.
        ending: How it ends.
        people: (T, P, 3) x, y and radius of people, m; None: there are none.
    """

    driver: str
    pose: Array
    ending: str
    people: NDArray[Any] | None = None


def animate(
    robot: WheeledBase, drawn: FloorMap, drives: Sequence[AnimatedDrive], *, rate_hz: float, arrival_m: float
) -> bytes:
    """Return drives over one map as an animated GIF of a few hundred kilobytes.

    The points are those of a noise-free lidar, if the robot has one called ``scan``.

    Args:
        robot: The robot.
        drawn: The map.
        drives: One or more drives over it, side by side.
        rate_hz: Samples per second.
        arrival_m: Goal tolerance.

    Raises:
        UserError: matplotlib or Pillow is not installed.
    """
    matplotlib = matplotlib_or_refuse()
    lengths, samples = frames_of([drive.pose for drive in drives])
    speed = samples[1] / rate_hz * 1e3 / FRAME_MS
    with matplotlib.rc_context({**STYLE, "axes.titlesize": 9.0}):
        figure = new_figure(PANEL_IN * len(drives), PANEL_IN + 0.45)
        figure.set_dpi(min(DPI, WIDEST / (PANEL_IN * len(drives))))
        grid = figure.subplots(1, len(drives), squeeze=False)[0]
        panels = [
            _Panel(axes, robot, drawn, drive, samples, arrival_m, COLOURS[k % len(COLOURS)])
            for k, (axes, drive) in enumerate(zip(grid, drives))
        ]
        canvas: Any = figure.canvas
        canvas.draw()
        empty = canvas.copy_from_bbox(figure.bbox)
        pictures = []
        for number, sample in enumerate(samples):
            canvas.restore_region(empty)
            for panel, length in zip(panels, lengths):
                panel.draw(number, min(sample, length - 1), over=sample >= length - 1, rate_hz=rate_hz, speed=speed)
            pictures.append(pixels(figure))
    return gif(pictures)


class _Panel:
    """One driver's panel: a static background, and what changes in each frame."""

    def __init__(
        self,
        axes: Axes,
        robot: WheeledBase,
        drawn: FloorMap,
        drive: AnimatedDrive,
        samples: Sequence[int],
        arrival_m: float,
        colour: str,
    ) -> None:
        from matplotlib.patches import Circle, Polygon

        self._axes, self._robot, self._drive = axes, robot, drive
        draw_map(axes, drawn, arrival_m)
        axes.set_title(literal(drive.driver))
        last = int(np.isfinite(drive.pose[:, 0]).sum()) - 1
        shown = [min(s, last) for s in samples]
        self._points = seen_points(
            robot, drawn, drive.pose[shown], None if drive.people is None else drive.people[shown]
        )
        (self._path,) = axes.plot([], [], color=colour, linewidth=1.6, animated=True)
        (self._scan,) = axes.plot([], [], ".", color=_SEEN, markersize=1.6, animated=True)
        self._body = Polygon(outline_at(robot, drive.pose[0]), facecolor=colour, animated=True)
        self._caption = axes.text(
            0.5, -0.02, "", transform=axes.transAxes, ha="center", va="top", fontsize=8.5, animated=True
        )
        many = 0 if drive.people is None else drive.people.shape[1]
        self._people = [Circle((0.0, 0.0), 0.3, facecolor=COLOURS[3], animated=True) for _ in range(many)]
        for patch in (self._body, *self._people):
            axes.add_patch(patch)

    def draw(self, frame: int, sample: int, *, over: bool, rate_hz: float, speed: float) -> None:
        """Draw the moving parts of a frame."""
        pose = self._drive.pose
        self._path.set_data(pose[: sample + 1, 0], pose[: sample + 1, 1])
        self._scan.set_data(self._points[frame, :, 0], self._points[frame, :, 1])
        self._body.set_xy(outline_at(self._robot, pose[sample]))
        bad = over and self._drive.ending != "arrived"
        if bad:
            self._body.set_facecolor(BAD)
        shown = (
            f"{sample / rate_hz:.1f} s, {self._drive.ending}" if over else f"{sample / rate_hz:.1f} s, {speed:.0f} x"
        )
        self._caption.set_text(shown)
        self._caption.set_color(BAD if bad else GOAL if over else INK)
        for circle, (x, y, radius) in zip(
            self._people, () if self._drive.people is None else self._drive.people[sample]
        ):
            circle.set_center((x, y))
            circle.set_radius(radius)
        for artist in (self._scan, self._path, *self._people, self._body, self._caption):
            self._axes.draw_artist(artist)


def seen_points(robot: WheeledBase, drawn: FloorMap, pose: Array, people: NDArray[Any] | None) -> Array:
    """Return the lidar's hit points (T, rays, 2) m on the map and on people (T, P, 3); NaN for rays without a hit."""
    lidar = robot.lidars.get("scan")
    if lidar is None:
        return np.full((len(pose), 1, 2), np.nan)
    rows = box_rows(drawn, max(len(drawn.boxes), 1)), circle_rows(drawn, max(len(drawn.circles), 1))
    boxes, circles = (np.tile(row, (len(pose), 1)) for row in rows)  # chairs have more legs than other maps circles
    if people is not None:
        moving = np.concatenate([people, np.zeros((*people.shape[:2], 2))], axis=2)
        circles = np.concatenate([circles, moving.reshape(len(pose), -1).astype(np.float32)], axis=1)
    simulator = WheeledBaseSimulator(robot, boxes, circles, rate_hz=robot.control_rate_hz)
    simulator.place(pose)
    ranges = simulator.scan(noise=False)
    forward = math.atan2(lidar.rotation[1, 0], lidar.rotation[0, 0])
    turn = pose[:, 2:]
    x = pose[:, :1] + np.cos(turn) * lidar.position[0] - np.sin(turn) * lidar.position[1]
    y = pose[:, 1:2] + np.sin(turn) * lidar.position[0] + np.cos(turn) * lidar.position[1]
    angles = turn + forward + lidar.angles_rad
    ranges = np.where(ranges < 0.999 * lidar.range_max_m, ranges, np.nan)
    return np.stack([x + ranges * np.cos(angles), y + ranges * np.sin(angles)], axis=-1)


def frames_of(poses: Sequence[Array]) -> tuple[list[int], list[int]]:
    """Return the number of samples of each drive (T, 3), padded with NaN, and the samples that frames show."""
    lengths = [int(np.isfinite(pose[:, 0]).sum()) for pose in poses]
    stride = max(1, math.ceil(max(lengths) / FRAMES))
    return lengths, [*range(0, max(lengths), stride), max(lengths) - 1]


def pixels(figure: Figure) -> NDArray[np.uint8]:
    """Return a drawn figure's pixels (height, width, 3)."""
    canvas: Any = figure.canvas
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def gif(frames: Sequence[NDArray[np.uint8]]) -> bytes:
    """Return frames (height, width, 3) as an animated GIF.

    Raises:
        UserError: Pillow is not installed.
    """
    try:
        import PIL.Image
    except ImportError as error:
        raise UserError("Animations need Pillow, which is not installed: pip install 'rlstack[view]'.") from error
    images = [PIL.Image.fromarray(frame) for frame in frames]
    # one palette for all frames, from the last, which contains everything: frames differ only where something moves
    palette = images[-1].quantize(INKS)
    inked = [image.quantize(palette=palette, dither=PIL.Image.Dither.NONE) for image in images]
    file = io.BytesIO()
    durations = [FRAME_MS] * (len(inked) - 1) + [FRAME_MS * STILL_FRAMES]
    inked[0].save(file, "GIF", save_all=True, append_images=inked[1:], duration=durations, loop=0, optimize=False)
    return file.getvalue()
