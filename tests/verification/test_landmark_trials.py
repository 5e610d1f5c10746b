"""Trials among landmarks: who succeeds, who touches something, who is elsewhere; and the rows of a verification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rlstack.interfaces.instruction import decoded
from rlstack.policies import contract_for
from rlstack.robots import RobotSpec, load_robot
from rlstack.tasks.catalog.base_landmark import BaseLandmarkTask
from rlstack.tasks.catalog.quadrotor_landmark import QuadrotorLandmarkTask as Fly
from rlstack.tasks.landmarks.task import LandmarkTask
from rlstack.tasks.landmarks.trials import LandmarkTrials
from rlstack.verification.departures import Departures
from rlstack.verification.landmark_plots import draw_landmark_trials
from rlstack.verification.landmark_trials import LandmarkLog, seek, world_of

TASK, ROBOT = replace(BaseLandmarkTask(), episode_s=3.0), load_robot("turtlebot3_burger")


def _before(trials: LandmarkTrials, trial: int, which: int) -> np.ndarray:
    """Return the first place (3,) m on the straight way to a landmark where it is near enough."""
    way = np.linspace(0.0, 1.0, 200)[:, None] * trials.place[trial, which]
    near = [trials.take([trial]).gaps(place[None])[0, which] <= 0.9 * TASK.arrival_m for place in way]
    return np.asarray(way[near.index(True)])


def test_a_trial_succeeds_by_staying_at_the_named_landmark_to_the_end() -> None:
    trials = TASK.draw(ROBOT, np.random.default_rng(0), 5)
    log = LandmarkLog(TASK, ROBOT, trials)
    close = np.array([[_before(trials, k, which) for which in range(3)] for k in range(5)])
    start = trials.start[:, :3]
    for k in range(TASK.steps + 1):
        position, speed = start.copy(), np.zeros(5)
        if k >= 5:
            position[0], position[1] = close[0, 0], close[1, 1]  # there; at another one
            position[2], speed[2] = close[2, 0], 0.2  # there, but never at rest
        if 5 <= k < 20:
            position[3] = close[3, 0]  # it leaves again
        if k == 5:
            position[4] = trials.place[4, 2]  # into another one
        if k > 5:
            position[4] = close[4, 0]
        over = log.observe(slice(None), k, np.zeros(5, np.bool_), position, speed)
        assert over.tolist() == ([False] * 4 + [k >= 5] if k < TASK.steps else [True] * 5)
    record = log.record("batch")
    assert record.success.tolist() == [True, False, False, False, False]
    assert record.lost.tolist() == [False] * 4 + [True]
    assert record.elsewhere.tolist() == [False, True, False, False, False]
    assert record.time_s[0] == (5 + TASK.hold_steps - 1) / TASK.rate_hz and np.isinf(record.time_s[1:]).all()
    assert np.isnan(record.position_m[6:, 4]).all() and np.isfinite(record.position_m[:, :4]).all()
    plots = draw_landmark_trials({"batch": (record, trials)}, TASK, TASK.radius_m(ROBOT))
    assert [plot.file for plot in plots] == ["paths_batch.png", "animation_1.gif", "animation_2.gif"]
    assert decoded(trials.instruction[0]) in plots[1].caption and all(len(plot.png) > 1000 for plot in plots)


def test_an_engines_world_has_the_landmarks_and_walls_of_the_trial() -> None:
    trials = TASK.draw(ROBOT, np.random.default_rng(1), 3)
    for k in range(3):
        world = world_of(TASK, trials, k)
        points = np.concatenate([trials.place[k], [[0.0, 0.0, 0.3]]])
        points[:3, 2] = 0.1
        away = world.distance(points)
        assert (away[:3] <= 1e-6).all() and away[3] > 0.29
        position = np.array([[0.5, 0.1, 0.1]])
        gap = trials.take([k]).gaps(position).min()
        assert abs(float(world.distance(position)[0]) - min(gap, 0.1)) < 1e-6, "the floor is 0.1 m below"


class _Ahead:
    """A driver that drives or flies straight on, and looks at its images."""

    path = Path("ahead.onnx")

    def __init__(self, task: LandmarkTask, robot: RobotSpec) -> None:
        self.contract = contract_for(
            robot, task.inputs, task.outputs, text=task.text, name="ahead", task="t", rate_hz=task.rate_hz
        )
        self.seen: list[np.ndarray] = []
        self._pipeline = task.make_pipeline(robot, [])

    def reset(self, batch: int = 1) -> None:
        self._memory = self._pipeline.initial_memory(batch)

    def step(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.seen.append(np.asarray(inputs["front_image"]))
        named = {name: torch.from_numpy(np.asarray(array, dtype=np.float32)) for name, array in inputs.items()}
        prepared = self._pipeline.prepare(named, self._memory)
        action = torch.zeros(len(self.seen[-1]), self._pipeline.action_size)
        action[:, 0] = 0.5
        command = self._pipeline.command(action, prepared)
        self._memory = self._pipeline.remember(prepared, self._memory, action)
        return {self.contract.outputs[0].name: command.numpy().astype(float)}


@pytest.mark.parametrize(("name", "task"), [("turtlebot3_burger", BaseLandmarkTask()), ("x500_rates", Fly())])
def test_an_engine_moves_and_shows_about_the_same_as_the_batch_simulator(name: str, task: LandmarkTask) -> None:
    pytest.importorskip("mujoco")
    task, robot = replace(task, episode_s=2.0), load_robot(name)
    trials, ways, seen = task.draw(robot, np.random.default_rng(3), 1), [], []
    for simulator in ("batch", "mujoco"):
        driver = _Ahead(task, robot)
        record = seek(driver, task, robot, trials, simulator, seed=1)
        assert len(record) == 1 and not record.lost[0] and not record.success[0]
        ways.append(record.position_m[:, 0])
        seen.append(driver.seen[-1][0].astype(float))
    assert np.linalg.norm(ways[0][-1] - ways[0][0]) > 0.1
    np.testing.assert_allclose(ways[0][-1], ways[1][-1], atol=0.12 * task.arrival_m)
    colour = [image - image.mean(axis=-1, keepdims=True) for image in seen]  # light and floor differ, landmarks do not
    vivid = [np.abs(one).max(axis=-1) > 40.0 for one in colour]
    both = vivid[0] & vivid[1]
    assert both.sum() > 0.5 * max(vivid[1].sum(), 1)


@pytest.mark.parametrize(("name", "task"), [("turtlebot3_burger", BaseLandmarkTask()), ("x500_rates", Fly())])
def test_robots_stay_until_a_late_command_arrives(name: str, task: LandmarkTask) -> None:
    task, robot = replace(task, episode_s=1.0), load_robot(name)
    trials = task.draw(robot, np.random.default_rng(3), 1)
    late = Departures(command_delay_s=0.4)
    ways = [
        seek(_Ahead(task, robot), task, robot, trials, seed=1, departures=one).position_m[:, 0]
        for one in (Departures(), late)
    ]
    prompt, tardy = (np.linalg.norm(way - way[0], axis=1) for way in ways)
    begun = round(0.4 * task.rate_hz)
    assert tardy[begun] < 0.02 < prompt[-1]
    assert 0.02 < tardy[-1] < prompt[-1]
