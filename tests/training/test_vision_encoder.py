"""Networks that see, learning from pictures, and their policy file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.data.lerobot import Dataset
from rlstack.demonstrations.recording import Choice, record
from rlstack.errors import UserError
from rlstack.sim.visual_randomization import AppearanceRange
from rlstack.tasks.catalog.arm_pick_place import PickPlaceTask
from rlstack.tasks.catalog.arm_pick_place_camera import CameraPickPlaceTask
from rlstack.tasks.core.image_streams import CameraRange
from rlstack.tasks.manipulator.environment import ArmEnvironment
from rlstack.training.algorithms.bc_camera import BCCamera, BCCameraSettings, EncoderSettings
from rlstack.training.algorithms.rlpd_camera import RLPDCamera, RLPDCameraSettings
from rlstack.training.hindsight_replay import keep_episode
from rlstack.training.run_folder import save_checkpoint
from rlstack.training.vision_encoder import Encoder, SoftArgmax, encoded, shifted, split_of
from tests.support.arms import small_panda

SMALL = EncoderSettings(channels=(4, 8), hidden=(16,), size=6, batch=8)
TASK = CameraPickPlaceTask(pictures=CameraRange(rate_hz=(4.0, 8.0), look=AppearanceRange(shadows=0.0)))


@pytest.fixture(autouse=True)
def few_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlstack.tasks.manipulator.environment.STARTS", 32)


def environment(count: int = 4) -> ArmEnvironment:
    robot = small_panda(20)
    return TASK.environment(robot, TASK.pipeline(robot), count, "cpu", 0)


def cloning(made: ArmEnvironment) -> BCCamera:
    torch.manual_seed(0)
    settings = BCCameraSettings(demonstrations=3, stills=6, looking=0.5, copies=2, hidden=(16,), chunk=3, encoder=SMALL)
    return BCCamera(settings, made)


def test_soft_argmax_says_where_a_feature_is() -> None:
    features = torch.zeros(1, 2, 5, 9)
    features[0, 0, 0, 8] = features[0, 1, 4, 0] = 50.0
    x0, y0, x1, y1, sure0, sure1 = SoftArgmax(5, 9)(features)[0].tolist()
    assert (x0, y0, x1, y1) == pytest.approx((1.0, -1.0, -1.0, 1.0), abs=1e-4)
    assert (sure0, sure1) == pytest.approx((1.0, 1.0), abs=1e-4)
    even = SoftArgmax(5, 9)(torch.zeros(1, 1, 5, 9))[0]
    torch.testing.assert_close(even, torch.tensor([0.0, 0.0, 1.0 / 45.0]))


def test_shifted_pictures_are_moved_whole() -> None:
    pictures = torch.arange(6 * 2 * 8 * 8 * 3).reshape(6, 2, 8, 8, 3)
    moved = shifted(pictures, 2, torch.Generator().manual_seed(0))
    assert torch.equal(shifted(pictures, 0, torch.Generator()), pictures)
    for before, after in zip(pictures.flatten(0, 1), moved.flatten(0, 1)):
        inner = after[2:6, 2:6]
        found = [(r, c) for r in range(5) for c in range(5) if torch.equal(before[r : r + 4, c : c + 4], inner)]
        assert len(found) == 1
    assert not torch.equal(moved, pictures)


def test_a_task_without_pictures_is_refused_in_words() -> None:
    robot, task = small_panda(20), PickPlaceTask()
    with pytest.raises(UserError, match="bc_camera is not allowed: this task's observation has no images"):
        split_of(task.pipeline(robot), "bc_camera")


def test_cloning_from_pictures_learns_keeps_them_and_goes_on_exactly(tmp_path: Path) -> None:
    made = environment()
    one = cloning(made)
    one.open(tmp_path)
    shown = one._shown
    assert shown is not None and len(shown.buffer.episodes()) == 6 + 3
    assert shown.bounds[:6].tolist() == [[k, k] for k in range(6)] and shown.bounds[6, 1] > 10
    # labels are true: the tool's place in dm with the label is where the box lies, at the start of an episode
    begin = int(shown.bounds[6, 0])
    place = shown.state[begin, :3] / 10.0 + torch.tensor(TASK.workspace.middle) + shown.labels[begin, :3] / 10.0
    assert 0.39 < place[0] < 0.61 and abs(place[1]) < 0.21 and 0.015 < place[2] < 0.025
    first = [one.iterate(k / 6).logged() for k in range(3)]
    assert first[2]["loss/place_dm"] < first[0]["loss/place_dm"]
    state = one.state_dict()
    rest = [one.iterate(k / 6).logged()["loss/clone"] for k in range(3, 6)]
    assert rest[2] < rest[0]
    other = cloning(made)
    other.load_state_dict(state)
    other.open(tmp_path)  # the demonstrations that are there
    again = [other.iterate(k / 6).logged()["loss/clone"] for k in range(3, 6)]
    assert again == rest
    save_checkpoint(tmp_path / "run", {"algorithm": state})
    made.close()
    _go_on_by_trying(tmp_path, one.encoder_trainer.encoder)


@pytest.mark.parametrize("kept", [2, 7])
def test_what_was_stopped_while_it_demonstrated_has_no_episode_twice(
    kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = environment()
    whole = cloning(made)
    whole.open(tmp_path / "whole")
    made.close()
    left = kept

    def until(*given: Any) -> None:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        keep_episode(*given)

    monkeypatch.setattr("rlstack.training.image_replay.keep_episode", until)
    made = environment()
    with pytest.raises(KeyboardInterrupt):
        cloning(made).open(tmp_path / "stopped")
    made.close()
    monkeypatch.undo()
    monkeypatch.setattr("rlstack.tasks.manipulator.environment.STARTS", 32)
    made = environment()
    again = cloning(made)
    again.open(tmp_path / "stopped")
    made.close()
    assert whole._shown is not None and again._shown is not None
    assert again._shown.bounds.tolist() == whole._shown.bounds.tolist()
    torch.testing.assert_close(again._shown.labels, whole._shown.labels)


def _go_on_by_trying(folder: Path, encoder: Encoder) -> None:
    made = environment()
    settings = RLPDCameraSettings(
        cloned=str(folder / "run"), encoder=SMALL, demonstrations=1, critics=2, hidden=(16,), batch=16, warm_up=0
    )
    some = RLPDCamera(settings, made)
    some.open(folder / "tried")
    frozen = {name: array.clone() for name, array in some.encoder.state_dict().items()}
    logged = some.iterate(0.0).logged()
    assert np.isfinite(list(logged.values())).all()
    assert all(torch.equal(array, frozen[name]) for name, array in some.encoder.state_dict().items())
    assert some._experience is not None
    kept = some._experience.buffer.spec.observations["observation"].shape
    assert kept == (some.encoder.split.state + SMALL.size,), "numbers, no pictures"
    observation = made.observe()[0]
    head = some.learner.actor(encoded(some.encoder, observation), {})[0]
    torch.testing.assert_close(some.actor()(observation, {})[0], head)
    for wrong, told in (("", "cloned: is empty"), (str(folder / "tried"), "cannot be resumed")):
        with pytest.raises(UserError, match=told):
            RLPDCamera(replace(settings, cloned=wrong), made).open(None)
    large = replace(settings, encoder=replace(SMALL, size=7))
    with pytest.raises(UserError, match="has an encoder for other cameras, images or sizes"):
        RLPDCamera(large, made).open(None)
    made.close()


def test_what_demo_record_writes_with_cameras_is_learned_from(tmp_path: Path) -> None:
    robot, pixels = small_panda(20), 20
    ended = record(
        tmp_path / "shown", "arm_pick_place_camera", TASK, robot, lambda station: Choice(station.expert()), 1, seed=1
    )
    dataset = Dataset(tmp_path / "shown")
    assert len(dataset) == 1 and dataset.features["observation.images.wrist"].shape == (pixels, pixels, 3)
    assert "pictures.0" not in dataset.features["policy.observation"].names
    made = environment(1)
    settings = BCCameraSettings(
        demonstrations=1, dataset=str(tmp_path / "shown"), looking=0.5, hidden=(16,), chunk=3, encoder=SMALL
    )
    some = BCCamera(settings, made)
    some.open(tmp_path / "run")
    shown = some._shown
    assert shown is not None and len(shown) == ended[0].frames
    frames = dataset.read(0)
    for camera, name in enumerate(("wrist", "scene")):
        images = np.stack([np.asarray(one) for one in frames[f"observation.images.{name}"]])
        assert np.array_equal(shown.images(np.arange(len(shown)))[:, camera].numpy(), images)
    np.testing.assert_allclose(shown.state.numpy(), frames["policy.observation"], atol=1e-5)
    place = shown.state[:, :3] / 10.0 + torch.tensor(TASK.workspace.middle) + shown.labels[:, :3] / 10.0
    np.testing.assert_allclose(place.numpy(), frames["simulation.object_position"], atol=2e-3)  # joints have noise
    assert np.isfinite([*some.iterate(0.0).logged().values(), *some.iterate(0.9).logged().values()]).all()
    other = replace(robot, cameras={n: replace(c, width=24, height=24) for n, c in robot.cameras.items()})
    elsewhere = TASK.environment(other, TASK.pipeline(other), 1, "cpu", 0)
    with pytest.raises(UserError, match=r"'observation.images.wrist' is 20 x 20 pixels, not 24 x 24"):
        BCCamera(settings, elsewhere).open(tmp_path / "none")
    elsewhere.close()
    made.close()
