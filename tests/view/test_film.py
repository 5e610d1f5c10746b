from __future__ import annotations

import io

import numpy as np
import PIL.Image
import pytest

from rlstack.robots import load_robot
from rlstack.robots.urdf import to_urdf
from rlstack.robots.visuals import Visual
from rlstack.verification.replay import filmed
from rlstack.view import film as films
from rlstack.view.recording import Mover, Recording, ReplayedTrial, choose, side_by_side

LEVEL = np.array([0.0, 0.0, 0.0, 1.0])


def recording(robot: str = "crazyflie", *, steps: int = 51, success: bool = True, **changes) -> Recording:
    """Return a flight of 2 s, 1 m along x."""
    time_s = np.linspace(0.0, 2.0, steps)
    position = np.column_stack([np.linspace(0.0, 1.0, steps), np.zeros(steps), np.ones(steps)])
    arguments = {
        "driver": robot,
        "urdf": to_urdf(load_robot(robot)),
        "time_s": time_s,
        "position": position,
        "orientation": np.tile(LEVEL, (steps, 1)),
        "goal": np.tile([1.0, 0.0, 1.0], (steps, 1)),
        "ending": "arrived",
        "success": success,
    }
    return Recording(**{**arguments, **changes})


def test_thinned_keeps_both_ends_and_what_moves_together() -> None:
    mover = Mover(shapes=(), position=np.arange(303.0).reshape(101, 3), orientation=np.tile(LEVEL, (101, 1)))
    thin = recording(steps=101, movers=(mover,)).thinned(25.0)
    assert thin.time_s[[0, -1]].tolist() == [0.0, 2.0] and len(thin) == 51
    assert len(thin.movers[0].position) == len(thin.goal) == 51
    assert (thin.at(0.0), thin.at(1.0), thin.at(99.0)) == (0, 25, 50)


@pytest.mark.parametrize(
    ("success", "lost", "cost", "chosen"),
    [
        ([1, 1, 1, 0], [0, 0, 0, 1], [3.0, 1.0, 2.0, np.inf], {"Best": 1, "Median": 2, "Worst": 0, "Lost": 3}),
        ([0, 1], [0, 0], [0.1, 5.0], {"Best": 1, "Median": 0}),  # a success is better than any failure
        ([0], [1], [np.nan], {"Lost": 0}),
    ],
)
def test_the_best_median_worst_and_lost_trials_are_chosen_once_each(success, lost, cost, chosen) -> None:
    assert choose(np.array(success, bool), np.array(lost, bool), np.array(cost)) == chosen


def test_of_each_group_of_trials_the_median_one_is_chosen_and_filmed_before_a_bad_one() -> None:
    success, lost, cost = np.array([1, 1, 1, 1, 0, 0], bool), np.zeros(6, bool), np.array([1.0, 2, 3, 4, 5, 6])
    chosen = choose(success, lost, cost, np.array(["push", "push", "push", "pick", "pick", "pick"]))
    assert chosen == {"Best": 0, "Median pick": 4, "Median push": 1, "Worst": 5}
    trials = [ReplayedTrial(f"{title} of 6", (recording(),)) for title in chosen]
    assert [trial.title for trial in filmed(trials)] == ["Median pick of 6", "Median push of 6", "Worst of 6"]
    one = choose(success, lost, cost, np.array(["push"] * 6))
    assert [*one] == ["Best", "Median", "Worst"], "all are of one group"
    assert [trial.title for trial in filmed(trials[:1])] == ["Best of 6"]


def test_a_film_shows_the_robots_their_world_and_how_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(films, "MOST_FRAMES", 3)
    box = Visual("box", "box", (0.2, 0.2, 0.2), np.zeros(3), LEVEL, (1.0, 0.0, 0.0, 1.0))
    mover = Mover(shapes=(box,), position=np.tile([0.5, 0.4, 1.0], (51, 1)), orientation=np.tile(LEVEL, (51, 1)))
    takes = (recording(movers=(mover,), instruction="fly"), recording(success=False))
    trial = ReplayedTrial("Worst", takes, side_by_side(takes, 0.2))
    with PIL.Image.open(io.BytesIO(films.film([trial], 160, 100))) as shown:
        assert (shown.format, shown.size, shown.n_frames) == ("WEBP", (160, 100), 3)
        pictures = []
        for number in range(3):
            shown.seek(number)
            pictures.append(np.asarray(shown.convert("RGB"), dtype=int))
    red = (pictures[0][..., 0] - pictures[0][..., 1:].max(axis=-1)) > 80
    assert red.sum() > 20, "the box is not seen"
    assert np.abs(pictures[0] - pictures[-1]).max() > 60, "nothing moves"
