"""Two forms of a policy in the same trials."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlstack.policies import load_policy
from rlstack.robots import load_robot
from rlstack.verification.twin import compare_twins
from tests.support.arms import write_posture_policy


def test_differences_are_those_of_the_same_inputs(tmp_path: Path) -> None:
    robot = load_robot("panda")
    posture = np.array([drive.rest for drive in robot.drives])
    one, other = (
        load_policy(write_posture_policy(tmp_path / f"{speed}.onnx", robot, posture, speed=speed))
        for speed in (0.2, 0.3)
    )
    found = compare_twins(one, other, robot, 3)
    assert found.success == (0.0, 0.0) and found.inputs == 3 * 100
    most = 0.1 / 20.0 * np.array([drive.velocity_max for drive in robot.drives])
    arm = slice(len(robot.joints))
    assert found.largest[arm] == pytest.approx(most[arm], rel=1e-3)  # while both are on their way
    assert 0.0 < found.mean[0] < found.largest[0] and 0 < found.changed < found.inputs
