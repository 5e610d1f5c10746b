from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlstack.bringup.deploy import checked_deployment
from rlstack.errors import UserError
from tests.support.policies import write_hover_policy


def test_the_adaptation_is_told_what_was_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    system = checked_deployment("quadrotor_hover", adapt=True)
    found = {process.node_name: process for process in system.processes}
    adapt, policy = found["adapt"], found["policy"]
    assert adapt.namespace == policy.namespace and policy.parameters["require_record"] is True
    for name in ("robot", "robot_sha256", "policy", "policy_sha256"):
        assert adapt.parameters[name] == policy.parameters[name]
    assert str(adapt.parameters["out"]).startswith(str(tmp_path / "adaptations"))
    assert adapt.when_it_ends == "let the rest go on" and adapt.parameters["use_sim_time"] is True


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"policy": "quadrotor_hover", "count": 2}, "several robots are not adapted to on one computer"),
        ({"policy": "quadrotor_foundation"}, "is for a family of robots, and cannot be adapted"),
        ({"policy": "quadrotor_rates"}, "takes rates and thrust"),
    ],
)
def test_what_cannot_be_adapted_is_refused_before_anything_starts(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as refused:
        checked_deployment(**options, adapt=True)
    assert says in str(refused.value)


def test_a_policy_without_a_recipe_is_refused(tmp_path: Path) -> None:
    from rlstack.kinds.quadrotor.spec import load_quadrotor

    policy = write_hover_policy(tmp_path / "policy.onnx", load_quadrotor("crazyflie"))
    with pytest.raises(UserError, match="was not trained by rlstack, and cannot be adapted in flight"):
        checked_deployment(policy, adapt=True, force=True)
