from __future__ import annotations

import io
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from rlstack.policies import contract_for
from rlstack.tasks.bounds import Bounds
from rlstack.verification.drive_page import render, shown
from rlstack.verification.drive_plots import interesting
from rlstack.verification.drive_report import Column, DriveVerification, record_drives, write_drive_report
from rlstack.verification.film import FRAMES, Take, film, seen_points
from rlstack.verification.map_drawing import corners_of
from rlstack.verification.report import IN_PROCESS_NAME, OVER_TOPICS, RECORD_NAME
from tests.support.bases import turtlebot
from tests.support.drives import course_of, recorded, room

pytest.importorskip("matplotlib")
image = pytest.importorskip("PIL.Image")

ROBOT = turtlebot()
INPUTS = ("position", "orientation", "scan", "goal_position")
NASTY = "<script>alert(1)</script>"


def column(endings: list[str], theirs: list[str], simulator: str = "batch", success: float = 0.95) -> Column:
    course = course_of(ROBOT, [room(k, kind=kind) for k, kind in zip(range(len(endings)), ["clutter", "mazes"] * 9)])
    kinds = course.pool.kinds.tolist()
    drives = recorded(endings, [2.0 + 0.1 * k for k in range(len(endings))], kinds=kinds, simulator=simulator)
    dwa = recorded(theirs, [2.0] * len(theirs), kinds=kinds[: len(theirs)], driver="dwa", simulator=simulator)
    return Column(
        course=course,
        drives=drives,
        baselines={"dwa": dwa},
        bounds=Bounds(at_least={"success": success}, episodes=1),
        reference="dwa",
        arrival_m=0.2,
    )


def verification(**columns: Column) -> DriveVerification:
    contract = contract_for(ROBOT, INPUTS, ("twist",), name="mine", task="base_navigation", rate_hz=10.0)
    return DriveVerification(
        name="mine",
        contract=contract,
        sha256="ab" * 32,
        task="base_navigation",
        robot=ROBOT,
        columns={name.replace("_", " "): one for name, one in columns.items()},
        provenance={"seed": 1},
        command=f"rlstack verify {NASTY}",
    )


GOOD = column(["arrived"] * 4, ["arrived"] * 4, success=0.5)
BAD = column(["arrived", "collided", "arrived", "timed out"], ["arrived", "arrived"], success=0.9)


class Page(HTMLParser):
    """Checks that tags are closed in order, and keeps the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text, self.tags = "", []  # type: ignore[var-annotated]
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data + " "


def test_the_verdict_is_that_of_every_column() -> None:
    assert verification(batch=GOOD).passed
    both = verification(batch=GOOD, mujoco=BAD)
    assert not both.passed
    assert both.failures == ["mujoco: Success is 50.0%, but at least 90.0% is asked."]
    assert verification(batch=replace(BAD, bounds=None)).passed


def test_the_record_holds_what_deployment_asks_for() -> None:
    data = json.loads(json.dumps(record_drives(verification(batch=BAD)), allow_nan=False))
    assert (data["passed"], data["robot"], data["task"]) == (False, "turtlebot3_burger", "base_navigation")
    entry = data["backends"]["batch"]
    assert entry["flown_in"] == "batch" and entry["success"] == 0.5 and entry["asked"]["success"] == 0.9
    theirs = entry["baselines"]["dwa"]
    # dwa drove the first two ways, of which mine finishes one
    assert theirs["episodes"] == 2 and theirs["paired"] == 1 and theirs["policy_lead"] == -0.5
    assert data["transfer"]["mine"]["batch"]["success"]["value"] == 0.5


def test_only_what_went_over_topics_is_called_a_proof() -> None:
    assert verification(batch=GOOD).record_name == IN_PROCESS_NAME
    topics = column(["arrived"] * 2, ["arrived"] * 2, simulator=f"mujoco {OVER_TOPICS}")
    over = verification(batch=GOOD, mujoco_topics=topics)
    assert over.record_name == RECORD_NAME
    # planners drive in process, and are shown where they drove
    beside = replace(topics, baselines={"dwa": replace(topics.baselines["dwa"], simulator="mujoco")})
    assert set(verification(batch=GOOD, mujoco_topics=beside).transfer.cells["dwa"]) == {"batch"}
    assert "They drive in process." in render(verification(mujoco_topics=beside), [])


def test_the_page_is_whole_and_says_everything() -> None:
    page = Page(render(verification(batch=GOOD, mujoco=BAD), []))
    for words in ("Failed", "Beside classical planners", "By class of map", "mazes", "Success, mine over each", NASTY):
        assert words.replace("Success, mine", "Lead over the planner, mine") in page.text
    assert not any(tag == "script" for tag, _ in page.tags)
    assert "They drive the first 2 of these ways." in page.text
    rows = shown(verification(batch=GOOD, mujoco=BAD).columns)
    assert rows[0] == ["", "batch", "mujoco"] and ["Success", "100.0%", "50.0%"] in rows


def test_a_report_has_its_pictures_inside_and_beside(tmp_path: Path) -> None:
    page = write_drive_report(tmp_path, verification(batch=GOOD, mujoco=BAD))
    names = {path.name for path in tmp_path.iterdir()}
    stills = {"success.png", "arrival.png", "clearance.png", "paths_batch.png", "paths_mujoco.png", "same_way.png"}
    assert names == {*stills, "film_batch.gif", "film_mujoco.gif", "report.html", IN_PROCESS_NAME}
    shown_in = [attrs["src"] for tag, attrs in Page(page.read_text()).tags if tag == "img"]
    assert len(shown_in) == 8 and sum(str(src).startswith("data:image/gif;base64,") for src in shown_in) == 2
    assert image.open(tmp_path / "success.png").size[0] == 1400


def test_what_is_worth_seeing_comes_first() -> None:
    some = column(["arrived"] * 6 + ["collided"], ["arrived", "collided", "arrived", "arrived", "arrived"])
    assert interesting(some, 4).tolist() == [6, 1, 5, 4]
    none = column(["collided"] * 5, ["arrived"] * 5)
    assert len(interesting(none, 4)) == 4


def test_a_film_shows_the_drive_to_its_end() -> None:
    drives = recorded(["arrived", "collided"], [12.0, 3.0], speed=0.1)
    drawn = room(1)
    takes = [Take(name, drives.pose[:, k], str(drives.ending[k])) for k, name in enumerate(("mine", "dwa"))]
    people = np.tile([1.0, 1.0, 0.3], (121, 1, 1))
    data = film(ROBOT, drawn, [takes[0], replace(takes[1], people=people)], rate_hz=10.0, arrival_m=0.2)
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
