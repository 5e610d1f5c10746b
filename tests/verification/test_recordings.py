from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.robots import load_robot
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.verification import replay as replays
from rlstack.verification.drawing import Plot
from rlstack.verification.navigation_episodes import held_out_episodes
from rlstack.verification.navigation_trials import drive
from rlstack.verification.recordings import record_flights, replay_drives, replay_flights
from rlstack.view.recording import ReplayedTrial

ROBOT = load_quadrotor("crazyflie")


def test_a_lost_flight_ends_where_it_was_lost(flights) -> None:
    distance = np.full((81, 2), 0.05)
    distance[40:, 1] = 3.0
    distance[60:, 1] = np.nan
    kept, lost = record_flights(flights(distance), ROBOT, SuccessCriteria(), [0, 1])
    assert kept.success and kept.ending == "5.0 cm from the goal" and kept.duration_s == 8.0
    assert not lost.success and lost.ending == "lost after 4.0 s" and lost.duration_s == 4.0
    assert np.isfinite(lost.position).all()


def test_flights_are_shown_beside_the_first_controllers_where_it_has_flown(flights) -> None:
    flown, beside = flights(np.full((81, 3), 0.05)), flights(np.full((81, 1), 0.02))
    chosen = {"Best": 0, "Worst": 2}
    best, worst = replay_flights(flown, {"Lee": beside, "PID": beside}, ROBOT, SuccessCriteria(), chosen)
    assert best.title == "Best of 3, none" and [take.driver for take in best.takes] == ["", "Lee"]
    assert len(worst.takes) == 1 and best.apart_m > 0.1
    assert best.offsets[0][1] == -best.offsets[1][1] == pytest.approx(0.5 * best.apart_m)


def test_drives_are_shown_in_their_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = load_robot("turtlebot3_burger")
    trials = held_out_episodes(robot, 2, 1, kinds=["clutter"])
    still = SimpleNamespace(
        inputs=("position",), reset=lambda batch=1: None, step=lambda sensed: {"twist": np.zeros((2, 2))}
    )
    trials.limit_s[:] = 1.0
    record = drive(still, trials, robot, rate_hz=10.0, arrival_m=0.2, name="still")
    (shown,) = replay_drives(record, {}, trials, robot)[:1]
    (take,) = shown.takes
    drawn = trials.pool.maps[0]
    assert shown.title.startswith("Failed of 2, clutter:") and take.ending == "timed out after 1.0 s"
    assert len(take.shapes) == len(drawn.boxes) + len(drawn.circles) and take.position[0, 2] == robot.rest_height_m
    assert take.goal[0, :2].tolist() == pytest.approx(drawn.goal[:2].tolist(), abs=1e-6)


def test_what_cannot_be_shown_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from rlstack.errors import UserError

    def refuse(*_: object) -> list[ReplayedTrial]:
        raise UserError("This scene has no model.")

    gif = Plot("animation", "", "", json.dumps({}).encode(), "gif")
    monkeypatch.setattr(replays, "from_gif", lambda data: b"webp of " + data)
    found = replays.make_replay(SimpleNamespace(replay=refuse), {}, {}, [gif])  # type: ignore[arg-type]
    assert (found.film, found.page, found.missing) == (b"webp of {}", "", "This scene has no model.")
