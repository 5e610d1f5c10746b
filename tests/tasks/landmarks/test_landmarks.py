"""Rooms with landmarks: sentences name the first one, experts go there, images show where it is, states resume."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.interfaces.instruction import decoded, split_words
from rlstack.robots import load_robot
from rlstack.sim.visual_randomization import AppearanceRange
from rlstack.tasks.catalog.base_landmark import BaseLandmarkTask
from rlstack.tasks.catalog.quadrotor_landmark import QuadrotorLandmarkTask
from rlstack.tasks.core.image_streams import CameraRange
from rlstack.tasks.core.phrases import COLOURS
from rlstack.tasks.landmarks.task import LandmarkTask
from rlstack.tasks.landmarks.trials import LANDMARKS, SIDES, LandmarkTrials, Room

pytest.importorskip("mujoco")

STEADY = CameraRange(
    rate_hz=(20.0, 20.0),
    latency_s=(0.0, 0.0),
    look=AppearanceRange(camera_m=0.0, camera_rad=0.0, view=0.0, shadows=0.0, object_colour=0.0),
)
TASKS = {"turtlebot3_burger": BaseLandmarkTask(pictures=STEADY), "x500_rates": QuadrotorLandmarkTask(pictures=STEADY)}
NOUNS = {noun: shape for shape, nouns in LANDMARKS.shapes.items() for noun in nouns}


def shape_of(trials: LandmarkTrials, trial: int, which: int, room: Room) -> str:
    if trials.pillar[trial, which]:
        return "pillar"
    return "door" if trials.half[trial, which, 0] == 0.02 * room.depth_m else "box"


def named(words: list[str], trials: LandmarkTrials, trial: int, room: Room) -> list[int]:
    """Return the landmarks that a sentence fits."""
    colours = {colour: name for name, colour in COLOURS.items()}
    fits = list(range(trials.place.shape[1]))
    if nouns := [word for word in words if word in NOUNS]:
        fits = [k for k in fits if shape_of(trials, trial, k, room) == NOUNS[nouns[0]]]
    if said := [word for word in words if word in COLOURS]:
        fits = [k for k in fits if colours[tuple(trials.colour[trial, k])] == said[0]]
    assert nouns or said, words
    side = next((word for word in words if word in SIDES), None)
    if side is None:
        return fits
    return [max(fits, key=lambda k: (1 if side == "left" else -1) * np.arctan2(*trials.place[trial, k, 1::-1]))]


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("words", ["train", "held_out"])
def test_a_sentence_fits_the_first_landmark_alone_and_a_swapped_one_another(name: str, words: Any) -> None:
    task, robot = replace(TASKS[name], words=words), load_robot(name)
    sides, short, halves = 0, 0, 0
    for said in ("normal", "swapped"):
        trials = replace(task, instruction=said).draw(robot, np.random.default_rng(0), 80)  # type: ignore[arg-type]
        for k in range(len(trials)):
            sentence = split_words(decoded(trials.instruction[k]))
            found = named(sentence, trials, k, task.room)
            assert len(found) == 1 and (found[0] == 0) == (said == "normal"), sentence
            sides += bool({*SIDES} & {*sentence})
            short += not ({*COLOURS} & {*sentence} and {*NOUNS} & {*sentence}) and not {*SIDES} & {*sentence}
            colour = next(n for n, c in COLOURS.items() if c == tuple(trials.colour[k, 0]))
            held_out = (colour, shape_of(trials, k, 0, task.room)) in LANDMARKS.held_out
            halves += held_out
            if words == "held_out":
                assert held_out
            elif held_out and said == "normal":  # its colour and its shape are never said together
                assert not ({*COLOURS} & {*sentence} and {*NOUNS} & {*sentence})
            if words == "train":
                assert {*sentence} <= {*task.text.words}
        bearing = np.sort(np.arctan2(trials.place[..., 1], trials.place[..., 0]), axis=1)
        assert (np.diff(bearing, axis=1) > task.room.apart_rad - 1e-9).all()
    assert halves == 160 if words == "held_out" else 15 < halves < 50
    assert 10 < sides < 80 and (20 < short < 80 if words == "train" else not short)
    blank = replace(task, instruction="blank").draw(robot, np.random.default_rng(0), 2)  # type: ignore[arg-type]
    assert not blank.instruction.any()


def made(task: LandmarkTask, name: str, count: int) -> Any:
    robot = task.reference(load_robot(name))
    environment = task.environment(robot, task.pipeline(robot), count, "cpu", 0)
    environment.restart(torch.arange(count))
    return environment


@pytest.mark.parametrize("name", TASKS)
def test_the_expert_goes_to_the_named_landmark_and_stays_within_limits(name: str) -> None:
    task = TASKS[name]
    environment = made(task, name, 8)
    environment.autoreset = False
    environment.observe()
    robot, fastest = environment.robot, 0.0
    for _ in range(5):
        result = environment.roll(environment.expert_action, -(-task.steps // 5))
        fastest = max(fastest, float(environment.scene.motion()[1].max()))
        if result.done.any():
            break
    assert result.done.all() and result.success.all() and result.timed_out.all()
    assert (result.achieved <= result.desired).all() and (result.reward > -25.0).all()
    limits = robot.limits
    assert 0.5 * min(1.2, limits.linear_velocity_m_s) < fastest < 1.05 * limits.linear_velocity_m_s  # wheels slip
    environment.close()


def test_images_show_the_landmark_where_a_pinhole_does() -> None:
    name = "turtlebot3_burger"
    environment = made(TASKS[name], name, 6)
    seen, _ = environment.observe()
    camera = environment.robot.cameras["front"]
    images = seen[:, -camera.height * camera.width * 3 :].reshape(-1, camera.height, camera.width, 3).numpy()
    trials = environment.scene.trials
    for k in range(6):
        x, y, yaw = *trials.start[k, :2], trials.start[k, 3]
        for which in range(3):
            offset = trials.place[k, which, :2] - (x, y)
            ahead = np.cos(yaw) * offset[0] + np.sin(yaw) * offset[1] - camera.position_m[0]
            left = np.cos(yaw) * offset[1] - np.sin(yaw) * offset[0]
            column = camera.intrinsics[0, 2] - camera.intrinsics[0, 0] * left / ahead
            if not 2.0 < column < camera.width - 3.0:
                continue
            if which == 0:
                place = environment.image_places()[k, 0, 0, 0].item()
                assert (place + 1.0) * camera.width / 2.0 - 0.5 == pytest.approx(column, abs=2.5)
            row = camera.intrinsics[1, 2]  # at the camera's height, which all landmarks pass
            pixel = images[k, round(row), round(column)]
            wanted = trials.colour[k, which]
            likeness = pixel @ wanted / (np.linalg.norm(pixel) * np.linalg.norm(wanted))
            assert likeness > 0.95, (k, which, pixel, wanted)
    environment.close()


@pytest.mark.parametrize("name", TASKS)
def test_a_saved_state_goes_on_in_the_same_way(name: str) -> None:
    environment = made(TASKS[name], name, 3)
    environment.observe()
    action = torch.rand(3, 4, environment.pipeline.action_size, generator=torch.Generator().manual_seed(0))
    environment.chunk_step(action)
    state = environment.state_dict()
    one = environment.chunk_step(action)
    environment.chunk_step(action)
    environment.load_state_dict(state)
    other = environment.chunk_step(action)
    assert torch.equal(one.actor, other.actor) and torch.equal(one.privileged, other.privileged)
    environment.restart_alike(3)
    assert (environment.scene.trials.place == environment.scene.trials.place[:1]).all()
    environment.close()


def test_touching_anything_ends_an_episode_as_lost() -> None:
    name = "turtlebot3_burger"
    environment = made(TASKS[name], name, 2)
    environment.autoreset = False
    environment.observe()
    ahead = torch.tensor([1.0, 0.0]).expand(2, 130, 2)
    result = environment.chunk_step(ahead)
    assert result.done.all() and not result.success.any() and not result.timed_out.any()
    assert (result.steps < 130).all()
    environment.close()


def test_robots_that_lack_what_the_task_needs_are_refused() -> None:
    base = TASKS["turtlebot3_burger"]
    with pytest.raises(UserError, match="husky has no camera called 'front'"):
        base.reference(load_robot("husky"))
    with pytest.raises(UserError, match="x500_rates is a quadrotor"):
        base.reference(load_robot("x500_rates"))
    with pytest.raises(UserError, match="The region is too small for 3 things"):
        replace(base, room=Room(apart_m=3.0)).draw(None, np.random.default_rng(0), 1)
    with pytest.raises(UserError, match=r"room: apart_rad: 0\.4 is not allowed with 5 landmarks"):
        replace(base, landmarks=5).draw(None, np.random.default_rng(0), 1)
    with pytest.raises(ValueError, match="distance_m"):
        Room(distance_m=(1.0, 3.0))


def test_noise_on_demonstrations_ends_where_the_robot_is_to_stand() -> None:
    name = "turtlebot3_burger"
    environment = made(TASKS[name], name, 2)
    assert environment.noisy_actions().tolist() == [[1.0, 1.0]] * 2
    start = environment.scene.trials.start.copy()
    start[0, :2] = 0.8 * environment.scene.trials.place[0, 0, :2]
    environment.scene.vehicles.place(np.arange(2), start, np.random.default_rng(0))
    environment.scene.step(environment.scene.vehicles.waiting())
    assert environment.noisy_actions().tolist() == [[0.0, 0.0], [1.0, 1.0]]
    environment.close()
