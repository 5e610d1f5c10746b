"""The check of a new policy before its first run, with a real verification, of as few trials as there can be."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from rlstack.bringup import fresh_policy
from rlstack.policies import find_policy


def test_a_policy_without_a_passed_verification_over_topics_does_not_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = partial(fresh_policy.verify, topics=False, episodes=2, margins=("none",))
    monkeypatch.setattr(fresh_policy, "verify", few)
    monkeypatch.setattr(fresh_policy, "simulators_at_hand", lambda: ("batch", "pybullet"))
    policy = shutil.copy(find_policy("quadrotor_hover"), tmp_path / "policy.onnx")
    assert fresh_policy.main([str(policy), "crazyflie", "mujoco"]) == 2
    out, err = capfd.readouterr()
    assert "Not passed" in out and "pybullet" not in out
    assert "has not been verified" in err and "Traceback" not in err
