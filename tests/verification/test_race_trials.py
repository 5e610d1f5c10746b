"""Races: laps are timed to a fraction of a period, contacts end them, engines and the batch simulator agree."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from rlstack.control.racing_line import PursuitGains, RacingLine, RacingLineController
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import load_robot
from rlstack.sim.maps.tracks import Track, draw_track
from rlstack.verification.race_trials import race
from rlstack.verification.trial_records import RaceRecord

GAINS = PursuitGains(ahead_m=0.5, ahead_s=0.1, lead_s=0.05)


@pytest.fixture(scope="module")
def robot() -> WheeledBase:
    robot = load_robot("racecar")
    assert isinstance(robot, WheeledBase)
    return robot


def along_the_middle(tracks: list[Track], speed: float) -> RacingLineController:
    lines = [RacingLine(t.middle[::4], np.full(128, speed), t.length_m / speed) for t in tracks]
    return RacingLineController(lines, GAINS)


def raced(robot: WheeledBase, tracks: list[Track], speed: float = 2.0, **options: object) -> RaceRecord:
    return race(along_the_middle(tracks, speed), tracks, robot, rate_hz=20.0, **options)  # type: ignore[arg-type]


def test_a_lap_takes_as_long_as_its_length_at_its_speed(robot: WheeledBase) -> None:
    tracks = [draw_track(seed) for seed in (0, 1, 2)]
    driven = raced(robot, tracks)
    assert not driven.contact.any() and driven.clean_laps == 6
    # bends are cut a little, which the length along the middle does not say
    np.testing.assert_allclose(driven.flying_s, driven.length_m / 2.0, rtol=0.05)
    assert (driven.lap_s[:, 0] > driven.lap_s[:, 1]).all(), "the first begins at rest"
    assert (driven.clearance_m > 0.2).all()


def test_the_first_contact_ends_it(robot: WheeledBase) -> None:
    class Straight:
        inputs = ("linear_velocity",)

        def reset(self, batch: int = 1) -> None:
            pass

        def step(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {"twist": np.tile([3.0, 0.0], (len(inputs["linear_velocity"]), 1))}

    driven = race(Straight(), [draw_track(0)], robot, rate_hz=20.0)
    assert driven.contact.all() and driven.clean_laps == 0 and np.isnan(driven.flying_s).all()
    assert -0.3 < driven.clearance_m[0] < 0.0
    # it stopped there: 3 m/s over a straight of a few metres
    assert len(driven.pose) < 100 and np.isfinite(driven.pose[-1]).all()


@pytest.mark.parametrize("simulator", ["mujoco", "pybullet"])
def test_engines_race_like_the_batch_simulator(robot: WheeledBase, simulator: str) -> None:
    if simulator == "pybullet":
        pytest.importorskip("pybullet")
    tracks = [draw_track(5)]
    batch, engine = raced(robot, tracks, 3.0, laps=1), raced(robot, tracks, 3.0, laps=1, simulator=simulator)
    assert not engine.contact.any()
    np.testing.assert_allclose(engine.lap_s, batch.lap_s, rtol=0.02)
    assert abs(engine.clearance_m[0] - batch.clearance_m[0]) < 0.12


def test_a_backend_that_is_no_simulator_is_refused(robot: WheeledBase) -> None:
    with pytest.raises(UserError, match="carreras"):
        raced(robot, [draw_track(0)], simulator="carreras")


def test_a_driver_that_wants_a_goal_is_refused(robot: WheeledBase) -> None:
    class Goal:
        inputs = ("linear_velocity", "goal_position")

        def reset(self, batch: int = 1) -> None:
            pass

        def step(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {"twist": np.zeros((1, 2))}

    with pytest.raises(UserError, match="no signal 'goal_position'"):
        race(Goal(), [draw_track(0)], robot, rate_hz=20.0)
