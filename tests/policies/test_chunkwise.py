"""Policies that plan chunks, stepped for N robots at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.policies import Policy, load_policy
from rlstack.policies import chunkwise as module
from rlstack.policies.chunkwise import ChunkwisePolicy, chunkwise
from rlstack.robots import load_robot
from tests.support.planners import write_planning_policy

CHUNK = 4


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    path = tmp_path_factory.mktemp("chunkwise") / "policy.onnx"
    return load_policy(write_planning_policy(path, load_robot("panda"), CHUNK))


def seen(steps: int, robots: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(5)
    rest = np.array([drive.rest for drive in load_robot("panda").drives])
    return [
        {
            "joint_position": rest + 0.05 * rng.normal(size=(robots, 9)),
            "joint_velocity": 0.1 * rng.normal(size=(robots, 9)),
            "goal_position": np.array([0.5, 0.1, 0.3]) + 0.05 * rng.normal(size=(robots, 3)),
        }
        for _ in range(steps)
    ]


def test_it_gives_the_commands_of_the_whole_and_plans_once_a_chunk(policy: Policy) -> None:
    stepped = chunkwise(policy)
    assert isinstance(stepped, ChunkwisePolicy) and stepped.contract == policy.contract
    plans: list[Any] = []
    plan = stepped._plan.step
    stepped._plan.step = lambda inputs: (plans.append(inputs), plan(inputs))[1]  # type: ignore[method-assign, func-returns-value]
    for robots in (3, 2):
        policy.reset(robots)
        stepped.reset(robots)
        for row in seen(2 * CHUNK + 2, robots):
            given = {name: row[name] for name in stepped.due}
            assert np.array_equal(policy.step(row)["joint_target"], stepped.step(given)["joint_target"])
    assert len(plans) == 2 * 3


def test_between_plans_what_only_the_plan_takes_is_not_due(policy: Policy) -> None:
    stepped = ChunkwisePolicy(policy)
    assert set(stepped.due) == {port.name for port in policy.contract.inputs}
    for row in seen(CHUNK - 1, 1):
        stepped.step(row)
        assert "goal_position" not in stepped.due and "joint_position" in stepped.due
    stepped.step(row)
    assert "goal_position" in stepped.due
    stepped.step(row)
    stepped.reset()
    assert "goal_position" in stepped.due


def test_other_drivers_and_what_cannot_be_cut_are_stepped_as_a_whole(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = object()
    assert chunkwise(driver) is driver

    def refuse(_: Policy) -> None:
        raise UserError("It cannot be cut.")

    monkeypatch.setattr(module, "halves", refuse)
    assert chunkwise(policy) is policy
