"""Corrections, a frozen encoder and a classifier of success together, on pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.sim.visual_randomization import AppearanceRange
from rlstack.tasks.catalog.arm_pick_place_camera import CameraPickPlaceTask
from rlstack.tasks.core.image_streams import CameraRange
from rlstack.training import rollout_fleet
from rlstack.training.algorithms.bc_camera import EncoderSettings
from rlstack.training.algorithms.hil_serl_camera import HILSERLCamera, HILSERLCameraSettings
from rlstack.training.hindsight_replay import HindsightReplay
from rlstack.training.intervention_strategies import IntervenerSettings
from rlstack.training.reward_classifier import ClassifiedEnvironment, RewardClassifierSettings
from rlstack.training.run_files import RECIPE
from rlstack.training.run_folder import save_checkpoint
from rlstack.training.vision_encoder import Encoder, encoded, split_of
from tests.support.arms import small_panda
from tests.support.worker_pools import Inside

SMALL = EncoderSettings(channels=(4, 8), hidden=(16,), size=6, batch=8)
TASK = CameraPickPlaceTask(ends=False, pictures=CameraRange(rate_hz=(4.0, 8.0), look=AppearanceRange(shadows=0.0)))


def robots(count: int, seed: int = 0) -> Any:
    robot = small_panda(20)
    return TASK.environment(robot, TASK.pipeline(robot), count, "cpu", seed)


def settings_of(made: Any, folder: Path, **more: Any) -> HILSERLCameraSettings:
    """Return settings with the encoder of a cloning run, which is written."""
    encoder = Encoder(split_of(made.pipeline, "test"), SMALL.channels, SMALL.hidden, SMALL.size)
    save_checkpoint(folder / "cloned", {"algorithm": {"looker": {"encoder": encoder.state_dict()}}})
    return HILSERLCameraSettings(
        cloned=str(folder / "cloned"),
        encoder=SMALL,
        demonstrations=1,
        critics=2,
        hidden=(16,),
        batch=16,
        warm_up=0,
        judge=RewardClassifierSettings(shown=400, updates=100, hidden=(16,)),
        intervener=IntervenerSettings(kind="random", rate=0.3),
        **more,
    )


@pytest.fixture(autouse=True)
def few_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inverse kinematics for a thousand starts would take most of the time."""
    monkeypatch.setattr("rlstack.tasks.manipulator.environment.STARTS", 32)


def check_rewards(judged: ClassifiedEnvironment, kept: HindsightReplay, settings: HILSERLCameraSettings) -> None:
    """Stored steps are rewarded where the classifier sees success, but for the gripper's penalty."""
    rows = kept.buffer.gather(kept.buffer.indices())
    found = judged.predict(torch.from_numpy(rows["next_observation"])).numpy()
    penalty = settings.gripper_penalty * (1.0 + 1e-6)
    assert (rows["reward"][found] >= -penalty).all() and (rows["reward"][~found] <= -1.0).all()


def test_a_classifier_of_pictures_tells_success_and_somebody_corrects(tmp_path: Path) -> None:
    torch.manual_seed(0)
    made = robots(4)
    settings = settings_of(made, tmp_path)
    algorithm = HILSERLCamera(settings, made)
    judged = algorithm.environment
    assert isinstance(judged, ClassifiedEnvironment)
    grip, nobody = torch.zeros(4, judged.pipeline.action_size), torch.zeros(4, dtype=torch.bool)
    told = []
    for side in (1.0, -1.0):
        grip[:, list(made.pipeline.axes).index("gripper")] = side
        told.append(algorithm._reward(grip, judged.step(grip), nobody, nobody))
    cost = told[0] - told[1]
    assert cost.tolist() == pytest.approx([settings.gripper_penalty] * 4), "a gripper that changes its mind costs"
    algorithm.open(tmp_path / "run")
    logged = algorithm.iterate(0.0).logged()
    assert np.isfinite(list(logged.values())).all()
    assert logged["judge/recall"] == judged.figures["recall"] > 0.0
    assert 0.0 < logged["train/intervened"] < 1.0
    assert algorithm.interventions is not None and len(algorithm.interventions) > 0
    kept = algorithm._experience
    assert kept is not None
    check_rewards(judged, kept, settings)

    torch.manual_seed(1)
    other = HILSERLCamera(settings, made)
    other.load_state_dict(algorithm.state_dict())
    other.open(tmp_path / "again")  # the classifier is there: nothing is shown again
    assert isinstance(other.environment, ClassifiedEnvironment)
    assert other.environment.figures == judged.figures
    made.close()


def test_a_task_that_tells_success_itself_is_refused() -> None:
    robot = load_robot("panda")
    assert isinstance(robot, Manipulator)
    task = replace(TASK, ends=True)
    made = task.environment(robot, task.pipeline(robot), 1, "cpu", 0)
    with pytest.raises(UserError, match="ends: false"):
        HILSERLCamera(HILSERLCameraSettings(), made)
    made.close()


@pytest.mark.integration
def test_workers_see_and_judge_by_what_the_run_has_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    made = robots(4)
    settings = settings_of(made, tmp_path, apart=True, workers=2, hindsight=0.0, rollout=8)
    alone = replace(settings, apart=False, workers=0, cloned="")
    pool = Inside(lambda plan: HILSERLCamera(alone, robots(2, plan.seed % 1000)))
    monkeypatch.setattr(rollout_fleet, "LocalPool", lambda *given: pool)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / RECIPE).write_text("")
    algorithm = HILSERLCamera(settings, made)
    algorithm.open(tmp_path / "run")
    result = algorithm.iterate(0.0)
    judged, store = algorithm.environment, algorithm._experience
    assert isinstance(judged, ClassifiedEnvironment) and store is not None
    assert len(store) == 4 * settings.rollout and 0.0 < result.scalars["train/intervened"] < 1.0
    check_rewards(judged, store, settings)
    worker = pool.workers[0]
    seen = worker.environment.inner.inner.observe()[0]  # images and state, before they are encoded
    assert torch.equal(encoded(worker.encoder, seen), encoded(algorithm.encoder, seen))
    algorithm.close()
    for environment in (made, *(one.environment for one in pool.workers.values())):
        environment.close()
