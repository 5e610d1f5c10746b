"""Axes of arms: what they vary, and which of them a robot and a task have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlstack.kinds.manipulator.verification_reality import arm_axes
from rlstack.robots import load_robot
from rlstack.tasks import TASKS
from rlstack.verification.manipulation_trials import held_out
from rlstack.verification.reality import Axis, Conditions

PANDA, SO100 = load_robot("panda"), load_robot("so100")


def axes(name: str, robot: Any) -> dict[str, Axis]:
    task = TASKS.load(name)().judged()
    return {axis.key: axis for axis in arm_axes(robot, task, "object_position" in task.inputs)}


def test_only_arms_that_handle_objects_vary_them_and_only_compensated_ones_sag() -> None:
    reach, pick, servos = axes("arm_reach", PANDA), axes("arm_pick_place", PANDA), axes("arm_reach", SO100)
    assert {"object_mass_scale", "object_noise_m"} <= set(pick) - set(reach)
    assert set(reach) - set(servos) == {"gravity_compensation_share"}
    judged = {key for key, axis in pick.items() if axis.required is not None}
    assert {"observation_delay_s", "command_delay_s", "stiffness_scale", "stiffness_scale_low"} < judged
    assert all(axis.reason for axis in pick.values())


@pytest.mark.parametrize("key", list(axes("arm_pick_place", PANDA)))
def test_each_axis_departs_in_one_thing(key: str) -> None:
    task = TASKS.load("arm_pick_place")().judged()
    nominal = Conditions(trials=held_out(task, PANDA, 3, 0), robot=PANDA)
    axis = axes("arm_pick_place", PANDA)[key]
    there = axis.apply(axis.farthest, nominal)
    changed = [
        there.departures != nominal.departures,
        there.trials.departures is not None,
        there.options != nominal.options,
    ]
    assert changed.count(True) == 1
    np.testing.assert_array_equal(there.trials.goal, nominal.trials.goal)


def test_a_stiffer_arm_keeps_its_damping_ratio_and_longer_trials_their_task() -> None:
    task = TASKS.load("arm_reach")().judged()
    nominal = Conditions(trials=held_out(task, PANDA, 2, 0), robot=PANDA)
    known = axes("arm_reach", PANDA)
    stiff = known["stiffness_scale"].apply(2.0, nominal).trials.departures
    np.testing.assert_allclose(stiff.damping, np.sqrt(stiff.stiffness))
    assert known["trial_s"].apply(10.0, nominal).options["task"].steps == 200


def test_policies_that_see_have_margins_of_their_cameras() -> None:
    task = TASKS.load("table_push")().judged()
    known = axes("table_push", PANDA)
    assert set(known) - set(axes("arm_reach", PANDA)) == {"camera_m", "camera_rad", "image_noise"}
    nominal = Conditions(trials=held_out(task, PANDA, 2, 0), robot=PANDA)
    moved = known["camera_m"].apply(0.02, nominal).options["task"]
    assert moved.pictures.look == replace(task.pictures.look, camera_m=0.02)
    assert known["image_noise"].apply(4.0, nominal).departures.noise == {"scene_image": 4.0}
