from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest

from rlstack.sim.maps.generate import HELD_OUT_SEEDS, draw_map
from rlstack.sim.maps.pool import MOST_CIRCLES
from rlstack.verification.animation import FRAMES, AnimatedDrive, animate, seen_points
from rlstack.verification.map_drawing import corners_of
from rlstack.verification.navigation_plots import NavigationColumn, draw_drives, notable
from tests.support.bases import turtlebot
from tests.support.drives import course_of, recorded, room

pytest.importorskip("matplotlib")
image = pytest.importorskip("PIL.Image")

ROBOT = turtlebot()
INPUTS = ("position", "orientation", "scan", "goal_position")
NASTY = "<script>alert(1)</script>"


def column(endings: list[str], theirs: list[str], simulator: str = "batch") -> NavigationColumn:
    course = course_of(ROBOT, [room(k, kind=kind) for k, kind in zip(range(len(endings)), ["clutter", "mazes"] * 9)])
    kinds = course.pool.kinds.tolist()
    drives = recorded(endings, [2.0 + 0.1 * k for k in range(len(endings))], kinds=kinds, simulator=simulator)
    dwa = recorded(theirs, [2.0] * len(theirs), kinds=kinds[: len(theirs)], driver="dwa", simulator=simulator)
    return NavigationColumn(course, drives, {"dwa": dwa}, arrival_m=0.2)


def test_a_report_of_drives_has_its_pictures() -> None:
    good = column(["arrived"] * 4, ["arrived"] * 4)
    bad = column(["arrived", "collided", "timed out"], ["arrived", "arrived"])  # fewer trials, as engines have
    plots = draw_drives({"batch": good, "mujoco": bad}, ROBOT)
    stills = {"success.png", "arrival.png", "clearance.png", "paths_batch.png", "paths_mujoco.png", "same_way.png"}
    assert {plot.file for plot in plots} == {*stills, "animation_batch.gif", "animation_mujoco.gif"}
    assert image.open(io.BytesIO(plots[0].png)).size[0] == 1400
    assert draw_drives({}, ROBOT) == []


def test_what_is_worth_seeing_comes_first() -> None:
    some = column(["arrived"] * 6 + ["collided"], ["arrived", "collided", "arrived", "arrived", "arrived"])
    assert notable(some, 4).tolist() == [6, 1, 5, 4]
    none = column(["collided"] * 5, ["arrived"] * 5)
    assert len(notable(none, 4)) == 4


def test_a_film_shows_the_drive_to_its_end() -> None:
    drives = recorded(["arrived", "collided"], [12.0, 3.0], speed=0.1)
    drawn = room(1)
    takes = [AnimatedDrive(name, drives.pose[:, k], str(drives.ending[k])) for k, name in enumerate(("mine", "dwa"))]
    people = np.tile([1.0, 1.0, 0.3], (121, 1, 1))
    data = animate(ROBOT, drawn, [takes[0], replace(takes[1], people=people)], rate_hz=10.0, arrival_m=0.2)
    assert 20e3 < len(data) < 800e3
    moving = image.open(io.BytesIO(data))
    assert 50 < moving.n_frames <= FRAMES + 1

    def blue(frame: int) -> int:
        moving.seek(frame)
        pixels = np.asarray(moving.convert("RGB")).astype(int)[:, : moving.size[0] // 2]
        return int((np.abs(pixels - (0x00, 0x72, 0xB2)).sum(axis=2) < 60).sum())

    assert blue(moving.n_frames - 1) > blue(5) > 0  # the path grows


def test_a_film_shows_what_the_lidar_sees_of_people() -> None:
    pose, people = np.zeros((2, 3)), np.array([[[1.0, 0.0, 0.3]], [[0.0, 1.5, 0.3]]])
    points = seen_points(ROBOT, room(1), pose, people)
    for frame, (x, y, radius) in enumerate(people[:, 0]):
        away = np.linalg.norm(points[frame] - (x, y), axis=1)
        assert np.nanmin(away) == pytest.approx(radius, abs=2e-3) and (away < radius + 1e-2).sum() > 15
        free = np.linalg.norm(seen_points(ROBOT, room(1), pose, None)[frame] - (x, y), axis=1)
        assert np.nanmin(free) > radius + 0.1


def test_corners_of_a_box() -> None:
    np.testing.assert_allclose(
        corners_of(np.array([1.0, 2.0, 0.5, 0.1, np.pi / 2])),
        [[0.9, 2.5], [0.9, 1.5], [1.1, 1.5], [1.1, 2.5]],
        atol=1e-12,
    )


def test_a_map_with_more_circles_than_most_is_seen_whole() -> None:
    drawn = draw_map("chairs", HELD_OUT_SEEDS[7], difficulty=1.0, radius_m=0.1)
    assert len(drawn.circles) > MOST_CIRCLES
    points = seen_points(ROBOT, drawn, np.array([drawn.start]), None)
    assert np.isfinite(points).any()
