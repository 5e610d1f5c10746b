"""Pegs that were led wrong: the script for arm_insert saves them, as whoever corrects a policy must."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.robots import frames
from rlstack.tasks.catalog.arm_insert import InsertTask
from rlstack.tasks.manipulator.environment import ArmEnvironment
from rlstack.tasks.manipulator.observations import ObjectLean
from tests.support.arms import small_panda

PANDA = small_panda(16)


def environment(count: int) -> ArmEnvironment:
    task = InsertTask()
    made = task.environment(PANDA, task.pipeline(PANDA), count, "cpu", 3)
    assert isinstance(made, ArmEnvironment)
    return made


@settings(deadline=None)
@given(st.tuples(*[st.floats(-3.0, 3.0)] * 3))
def test_an_objects_lean_is_where_its_upper_end_is(turn: tuple[float, float, float]) -> None:
    orientation = frames.from_rotation_vector(np.array([turn]))
    seen = ObjectLean().observe({"object_orientation": torch.from_numpy(orientation)}, {})
    np.testing.assert_allclose(seen, frames.rotate(orientation, np.array([[0.0, 0.0, 1.0]]))[:, :2], atol=1e-9)


@pytest.mark.parametrize("aside_m", [0.004, 0.03], ids=["pressed-on-the-rim", "beside-the-walls"])
def test_the_script_saves_pegs_that_were_led_beside_the_hole(aside_m: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlstack.tasks.manipulator.environment.STARTS", 64)
    count, wrong = 12, 40
    some = environment(count)
    some.restart(torch.arange(count))
    won, over = torch.zeros(count, dtype=torch.bool), torch.zeros(count, dtype=torch.bool)
    lean = np.zeros(count)
    for step in range(some.task.steps):
        seen = some.senses()
        if step < wrong:  # somebody who takes another place for the hole, and then presses
            seen["goal_position"] = seen["goal_position"] + np.array([aside_m, 0.0, 0.0])
        action = some.task.expert().act(seen, some.pipeline)
        if wrong - 10 <= step < wrong:
            action[:, 2] = -0.2
        lean = np.maximum(lean, np.degrees(frames.tilt(some.scene.true()["object_orientation"])))
        result = some.step(torch.from_numpy(action.astype(np.float32)))
        assert step >= wrong or not result.success.any()
        won, over = won | (result.success & ~over), over | result.done
    some.close()
    assert np.median(lean) > 2.0  # they slip in the fingers
    assert int(won.sum()) >= count - 2
