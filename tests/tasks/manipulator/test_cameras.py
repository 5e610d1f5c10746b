"""When pictures come, how old they are, and where the hand was when they were taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.robots.kinematics import chain_of, tool_motion
from rlstack.sim.visual_randomization import AppearanceRange
from rlstack.tasks.catalog.arm_pick_place_camera import CameraPickPlaceTask
from rlstack.tasks.core.image_streams import CameraRange
from rlstack.tasks.manipulator.camera_observations import joints_at
from rlstack.tasks.manipulator.scene import ArmScene
from rlstack.tasks.manipulator.trials import ArmNoise
from tests.support.arms import small_panda

QUIET = AppearanceRange(shadows=0.0)


PANDA = small_panda(16)


def scene(task: CameraPickPlaceTask, count: int) -> ArmScene:
    made = ArmScene(task, PANDA, count, seed=0, threads=1)
    made.start(np.arange(count), task.draw(PANDA, np.random.default_rng(0), count))
    return made


@settings(deadline=None)
@given(st.floats(0.0, 0.4), st.floats(5.0, 50.0), st.integers(0, 2**32 - 1))
def test_joints_are_interpolated_at_the_pictures_time(age: float, rate_hz: float, seed: int) -> None:
    track = np.random.default_rng(seed).normal(size=(1, 6, 3)).astype(np.float32)
    found = joints_at(torch.from_numpy(track), torch.tensor([[age]]), rate_hz, torch.arange(6.0))
    wanted = [np.interp(min(age * rate_hz, 5.0), np.arange(6.0), track[0, :, k]) for k in range(3)]
    np.testing.assert_allclose(found[0].numpy(), wanted, atol=1e-4)


def test_pictures_are_as_old_as_rate_and_latency_say() -> None:
    ranges = CameraRange(rate_hz=(10.0, 10.0), latency_s=(0.06, 0.06), look=QUIET)
    some = scene(CameraPickPlaceTask(pictures=ranges), 3)
    held, ages, changes = some.worlds.joint_position, [], 0
    before = some.true()
    for _ in range(20):
        some.worlds.step(held)
        now = some.true()
        age, last = now["wrist_image_age"][:, 0], before["wrist_image_age"][:, 0]
        grown = np.abs(age - last - 0.05) < 1e-6  # the same picture, a control period older; else a new one
        changes += int((~grown).sum())
        ages.append(age)
        before = now
    assert np.min(ages) >= 0.06 - 1e-6 and np.max(ages) < 0.06 + 0.1 + 1e-6
    assert abs(changes - 3 * 10) <= 3, "ten pictures a second, for a second"
    some.close()


def test_a_picture_shows_the_world_of_its_time() -> None:
    # without noise, and with no latency but the rate's: the hand's way back leads to where the picture was taken
    ranges = CameraRange(rate_hz=(12.0, 12.0), latency_s=(0.04, 0.04), look=QUIET)
    noise = ArmNoise(joint_rad=0.0, joint_velocity_rad_s=0.0)
    task = CameraPickPlaceTask(pictures=ranges, noise=noise)
    pipeline = task.pipeline(PANDA)
    some = scene(task, 2)
    chain = chain_of(PANDA)
    memory = pipeline.initial_memory(2)
    steps = [(0.0, some.worlds.joint_position.copy())]
    for k in range(12):
        inputs = {n: torch.from_numpy(np.asarray(a, dtype=np.float32)) for n, a in some.true().items()}
        prepared = pipeline.prepare({name: inputs[name] for name in task.inputs}, memory)
        for world in range(2):
            age = float(inputs["wrist_image_age"][world, 0])
            times = np.array([time for time, _ in steps])
            at = [np.interp(times[-1] - age, times, [q[world, j] for _, q in steps]) for j in range(9)]
            tool = tool_motion(chain.screws, np.array([at])[:, list(chain.index)]).position[0]
            np.testing.assert_allclose(prepared["wrist_tool_position"][world].numpy(), tool, atol=2e-4)
        action = torch.tensor([[1.0, -1.0, 0.5, 0.0, 0.0]] * 2)
        command = pipeline.command(action, prepared)
        memory = pipeline.remember_command(prepared, memory, action, command)
        some.worlds.step(command.numpy().astype(np.float64))
        steps.append((0.05 * (k + 1), some.worlds.joint_position.copy()))
    some.close()


def test_a_run_goes_on_with_the_pictures_on_their_way() -> None:
    task = CameraPickPlaceTask(pictures=CameraRange(look=QUIET))
    one, other = scene(task, 2), scene(task, 2)
    assert one.cameras is not None and other.cameras is not None
    held = one.worlds.joint_position
    for _ in range(3):
        one.worlds.step(held)
        one.true()
    other.cameras.load_state_dict(one.cameras.state_dict())
    other.worlds.state[:] = one.worlds.state
    for _ in range(3):
        one.worlds.step(held)
        other.worlds.step(held)
        mine, theirs = one.true(), other.true()
        for name in ("wrist_image", "wrist_image_age", "scene_image", "scene_image_age"):
            assert np.array_equal(mine[name], theirs[name])
    one.cameras.redraw_appearance(np.array([0]))
    for _ in range(4):
        one.worlds.step(held)
        one.true()
    assert not np.array_equal(one.true()["scene_image"][0], mine["scene_image"][0])
    one.close()
    other.close()


def test_ranges_are_checked() -> None:
    from rlstack import schema
    from rlstack.errors import UserError

    with pytest.raises(UserError, match="rate_hz"):
        schema.check(replace(CameraRange(), rate_hz=(0.0, 10.0)), "pictures")
