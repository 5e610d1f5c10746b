from __future__ import annotations

import numpy as np

from rlstack.hardware.pose_gate import PoseGate

HERE, LEVEL = np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0])


def test_only_new_poses_that_are_one_pass() -> None:
    gate = PoseGate()
    assert gate.admits(1.0, HERE, LEVEL)
    assert not gate.admits(1.0, HERE, LEVEL) and not gate.admits(0.5, HERE, LEVEL)
    assert not gate.admits(np.inf, HERE, LEVEL) and not gate.admits(np.nan, HERE, LEVEL)
    assert not gate.admits(2.0, np.array([0.0, np.nan, 0.0]), LEVEL)
    assert not gate.admits(2.0, HERE, np.zeros(4)) and not gate.admits(2.0, HERE, LEVEL * np.nan)
    assert gate.refused == 7
    assert gate.admits(2.0, HERE, -LEVEL)
