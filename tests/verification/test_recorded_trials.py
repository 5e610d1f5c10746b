"""Small trials of every kind in process record what they did at the recording, recorded_trials.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack.control.navigation import PLANNERS
from rlstack.control.navigation.grid_frontier import GridFrontier, GridFrontierSettings
from rlstack.control.racing_line import PursuitGains, RacingLine, RacingLineController
from rlstack.policies import load_policy
from rlstack.robots import load_robot
from rlstack.sim.crowds.moving_obstacles import MovingObstacles
from rlstack.sim.crowds.scenes import Hall, halls
from rlstack.sim.grids.terrain import Floors
from rlstack.sim.maps.tracks import draw_track
from rlstack.tasks import TASKS
from rlstack.tasks.wheeled_base.exploration.setting import ExplorationSetting
from rlstack.verification.crowd_trials import drive_among_people
from rlstack.verification.exploration_trials import explore_floors, explore_grids
from rlstack.verification.flight_trials import rollout
from rlstack.verification.manipulation_trials import held_out, manipulate
from rlstack.verification.navigation_episodes import held_out_episodes
from rlstack.verification.navigation_trials import drive
from rlstack.verification.race_trials import race
from tests.support.arms import write_posture_policy
from tests.support.drives import Homing
from tests.support.policies import write_hover_policy, write_tracking_policy
from tests.support.robots import crazyflie

pytest.importorskip("llvmlite")
pytest.importorskip("mujoco")

RECORDED: dict[str, dict[str, float]] = json.loads(Path(__file__).with_name("recorded_trials.json").read_text())
"""By trials and by array: the sum of the finite absolute values, or the share of True."""

Made = Callable[[Path, str], Any]


class Tracking(Homing):
    inputs = (*Homing.inputs, "people_position", "people_radius")


def flown(task: str, write: Any, count: int) -> Made:
    def made(folder: Path, simulator: str) -> Any:
        robot = crazyflie()
        scenario = TASKS.load(task)().held_out(np.random.default_rng(3), count, robot)
        policy = load_policy(write(folder / "policy.onnx", robot), robot=robot)
        return rollout(policy, scenario, robot, 1.0, simulator=simulator, noise_seed=2)

    return made


def driven(who: str, moving: bool) -> Made:
    def made(folder: Path, simulator: str) -> Any:
        robot: Any = load_robot("turtlebot3_burger")
        movers = MovingObstacles(count=(1, 3)) if moving else None
        course = held_out_episodes(robot, 4, 3, kinds=("clutter", "corridors"), movers=movers)
        course = replace(course, limit_s=np.minimum(course.limit_s, 6.0))
        driver = Homing() if who == "homing" else PLANNERS.load(who)(robot)
        options: dict[str, Any] = {"simulator": simulator, "batch_size": 2, "seed": 5}
        return drive(driver, course, robot, rate_hz=10.0, arrival_m=0.3, name=who, **options)

    return made


def raced(folder: Path, simulator: str) -> Any:
    tracks, robot = [draw_track(seed) for seed in (0, 1)], load_robot("racecar")
    lines = [RacingLine(t.middle[::4], np.full(128, 3.0), t.length_m / 3.0) for t in tracks]
    driver = RacingLineController(lines, PursuitGains(ahead_m=0.5, ahead_s=0.1, lead_s=0.05))
    return race(driver, tracks, robot, rate_hz=20.0, simulator=simulator, laps=1, seed=4)  # type: ignore[arg-type]


def explored(folder: Path, simulator: str) -> Any:
    robot: Any = load_robot("turtlebot3_burger")
    maps = Floors(kinds=("clutter", "corridors")).maps(np.random.default_rng(0), 2, held_out=True)
    return explore_floors(
        PLANNERS.load("frontier_greedy")(robot), maps, robot, duration_s=5, simulator=simulator, seed=1
    )


def grids(folder: Path, simulator: str) -> Any:
    setting = ExplorationSetting()
    return explore_grids(GridFrontier(GridFrontierSettings(choice="greedy")), setting, setting.held_out(7, 5), 40)


def crowd(folder: Path, simulator: str) -> Any:
    robot: Any = load_robot("turtlebot2")
    scenes = halls(np.random.default_rng(1), 6, 12, Hall(), robot.radius_m)
    options: dict[str, Any] = {"rate_hz": 10.0, "arrival_m": 0.3, "limit_s": 12.0, "departures": True, "seed": 3}
    return drive_among_people(Tracking(speed=0.5), scenes, robot, name="tracking", **options)


def arm(name: str) -> Made:
    def made(folder: Path, simulator: str) -> Any:
        robot: Any = load_robot("panda")
        task = replace(TASKS.load(f"arm_{name}")(), episode_s=1.0)
        posture = np.full(len(robot.drives), 0.1)
        path = write_posture_policy(folder / "policy.onnx", robot, posture, task=f"arm_{name}", rate_hz=task.rate_hz)
        policy, trials = load_policy(path, robot=robot), held_out(task, robot, 3, 2)
        return manipulate(policy, task, robot, trials, simulator, seed=1, threads=1)

    return made


TRIALS: dict[str, Made] = {
    "hover.batch": flown("quadrotor_hover", write_hover_policy, 6),
    "hover.mujoco": flown("quadrotor_hover", write_hover_policy, 6),
    "tracking.batch": flown("quadrotor_tracking", write_tracking_policy, 3),
    "drive.still.batch.dwa": driven("dwa", False),
    "drive.still.mujoco.homing": driven("homing", False),
    "drive.people.batch.dwa": driven("dwa", True),
    "drive.people.mujoco.homing": driven("homing", True),
    "race.batch": raced,
    "race.mujoco": raced,
    "explore.batch": explored,
    "grid": grids,
    "crowd.tracked": crowd,
    "arm.reach.batch": arm("reach"),
    "arm.push.batch": arm("push"),
    "arm.push.mujoco": arm("push"),
}


@pytest.mark.parametrize("name", TRIALS)
def test_trials_record_what_they_did(name: str, tmp_path: Path) -> None:
    record = TRIALS[name](tmp_path, "mujoco" if ".mujoco" in name else "batch")
    for array, recorded in RECORDED[name].items():
        values = np.asarray(getattr(record, array), dtype=float)
        found = float(np.abs(values[np.isfinite(values)]).sum())
        assert found == pytest.approx(recorded, rel=1e-5, abs=1e-6), array
