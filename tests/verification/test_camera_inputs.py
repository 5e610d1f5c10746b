"""What a policy sees in process: the cameras of an arm in its engine, each at its rate, and late."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.policies import contract_for
from rlstack.tasks.catalog.arm_push import PushTask
from rlstack.verification.camera_inputs import CameraInputs
from rlstack.verification.manipulation_simulator import ManipulationSimulator
from rlstack.verification.manipulation_trials import held_out
from tests.kinds.manipulator.guard_loop import panda

MS = 1_000_000
NAMES = ("joint_position", "wrist_image", "wrist_image_age", "scene_image", "scene_image_age")


def test_pictures_are_taken_late_and_aged_and_the_wrist_moves_with_the_hand() -> None:
    small = {name: replace(camera, width=24, height=24) for name, camera in panda().cameras.items()}
    small["scene"] = replace(small["scene"], rate_hz=20.0, latency_s=0.0)
    robot = replace(panda(), cameras=small)
    contract = contract_for(robot, NAMES, ["joint_target"], name="p", task="t", rate_hz=20.0)
    cell = ManipulationSimulator("mujoco", PushTask(), robot, held_out(PushTask(), robot, 2, 3), seed=0)
    cell.connect()
    taken: list[str] = []
    capture, pictures = cell.capture, CameraInputs(cell, contract)
    cell.capture = lambda name: (taken.append(name), capture(name))[1]  # type: ignore[method-assign]
    try:
        for number in (1,):
            cell.enter(number)
            pictures.begin()
            ages, shown, taken[:] = [], [], []
            turned = cell.trials.joints[number] + np.array([0.5, *np.zeros(8)])
            for k in range(12):
                pictures.look(10 * k * MS)
                seen = pictures.signals(10 * k * MS)
                assert set(seen) == set(NAMES[1:])
                ages.append(
                    (round(1e3 * float(seen["wrist_image_age"][0])), round(1e3 * float(seen["scene_image_age"][0])))
                )
                shown.append((seen["wrist_image"], seen["scene_image"]))
                cell.write({"joint_target": turned})
                cell.step(0.01)
            assert ages == [(10 * k, 10 * (k % 5)) for k in range(10)] + [(30, 0), (40, 10)]
            assert sorted(taken) == ["scene"] * 3 + ["wrist"] * 2
            (first, _), (before, _), (after, scene) = shown[0], shown[9], shown[11]
            assert first is before and first.shape == scene.shape == (24, 24, 3) and scene.dtype == np.uint8
            assert np.abs(after.astype(int) - first).max() > 20 and np.ptp(scene) > 50
        with pytest.raises(UserError, match=r"camera 'wrist' is 0\.300 s old, and the policy acts on none older"):
            pictures.signals(370 * MS)
    finally:
        cell.close()
