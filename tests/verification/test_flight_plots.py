from __future__ import annotations

import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.verification.drawing import BAD, COLOURS
from rlstack.verification.flight_path_plots import WANTED
from rlstack.verification.flight_plots import draw_flights

image = pytest.importorskip("matplotlib.image")
NAMES = ["error", "trajectories", "success", "recovery", "commands"]


def pictures(episodes, **arguments):
    """Draw small, with every warning an error, and return {name: (height, width, 3) 0..1}."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots = draw_flights(episodes, SuccessCriteria(), dpi=50, **arguments)
    return plots


def pixels(plot):
    import io

    return image.imread(io.BytesIO(plot.png), format="png")[..., :3]


def share(plot, colour: str) -> float:
    """Return the share of the pixels that have ``colour`` or are within a tenth of it."""
    wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return float((np.abs(pixels(plot) - wanted).max(axis=-1) < 0.1).mean())


def settling(count, seconds=8.0, end=0.05):
    time = np.arange(int(seconds * 10) + 1)[:, None] / 10
    return end + np.linspace(0.3, 1.0, count) * np.exp(-time / 0.5)


@pytest.fixture(scope="module")
def hovering(flights):
    """Twenty flights that come to rest near the goal, and their pictures."""
    episodes = flights(settling(20))
    return episodes, pictures({"batch": episodes})


def test_one_picture_for_each_question_with_caption_and_light_background(flights):
    plots = pictures({"batch": flights(settling(30), labels=["a", "b", "c"] * 10)}, commands=["m1", "m2", "m3", "m4"])
    assert [plot.name for plot in plots] == NAMES
    for plot in plots:
        assert plot.title and plot.caption.endswith(".")
        assert pixels(plot).shape[1] == 500
        assert (pixels(plot)[:3] == 1.0).mean() > 0.9
        assert (pixels(plot) < 0.9).any()


def test_the_same_flights_give_the_same_bytes(hovering):
    episodes, before = hovering
    assert [p.png for p in pictures({"batch": episodes})] == [p.png for p in before]


def test_each_backend_has_its_colour_and_failures_theirs(flights, hovering):
    bad = {"batch": flights(settling(20)), "mujoco": flights(0.5 * settling(20)[::-1] + 0.3, backend="MuJoCo")}
    error, trajectories, success, *_ = hovering[1]
    assert share(error, COLOURS[0]) > 0.001 and share(error, COLOURS[1]) == 0.0
    assert share(trajectories, BAD) == 0.0
    error, trajectories, success, *_ = pictures(bad)
    assert share(error, COLOURS[0]) > 0.001 and share(error, COLOURS[1]) > 0.001
    assert share(trajectories, BAD) > 0.0
    assert share(success, COLOURS[0]) > 0.0 and share(success, COLOURS[1]) > 0.0


def test_all_lost_and_values_that_are_not_finite_can_be_drawn(flights):
    episodes = flights(settling(1))
    episodes.position[10:] = np.nan
    episodes.orientation[10:] = np.nan
    episodes.command[20:] = np.nan
    assert [p.name for p in pictures({"batch": episodes})] == NAMES
    episodes.position[:] = np.nan
    assert [p.name for p in pictures({"batch": episodes})] == NAMES


def test_paths_to_follow_are_drawn_with_the_flights(hovering):
    time = np.linspace(0.0, 2.0 * np.pi, 81)
    circle = np.stack([np.cos(time) - 1.0, np.sin(time), 0.1 * time], axis=-1)
    still, (error, hovered, *_) = hovering
    one, many = circle[:, None], np.linspace(0.5, 1.5, 20)[:, None] * circle[:, None]
    alike, own = (
        replace(still, position=still.position + moved, goal_position=still.goal_position + moved)
        for moved in (one, many)
    )
    for episodes, words in ((alike, "Up to 50 flights"), (own, "Up to 5 flights")):
        again, followed, *_ = pictures({"batch": episodes})
        assert words in followed.caption and "grey: the path to follow" in followed.caption
        assert "point of the path that is due" in again.caption
        assert share(followed, WANTED) > 1.5 * share(hovered, WANTED) and share(followed, COLOURS[0]) > 0.0003
        # the error is from what moves; left of column 25 is the axis' label
        np.testing.assert_allclose(pixels(again)[:, 25:], pixels(error)[:, 25:], atol=0.02)
    assert "path" not in hovered.caption + error.caption


def test_flights_at_the_goal_from_the_start_and_more_backends_than_colours(flights):
    still = flights(np.zeros((81, 2)), labels=["x" * 60, "$x^$"])
    assert len(pictures({"batch": still})) == 5
    many = {str(i): flights(settling(3), backend=f"$\\number{i}$") for i in range(7)}
    assert len(pictures(many)) == 6


def test_nothing_flown_is_no_pictures():
    assert draw_flights({}, SuccessCriteria()) == []


def test_without_matplotlib_it_is_said_how_to_get_it(flights, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"pip install 'rlstack\[view\]'"):
        pictures({"batch": flights(settling(2))})
