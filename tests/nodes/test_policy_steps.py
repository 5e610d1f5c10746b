from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlstack.interfaces import topics
from rlstack.interfaces.step_messages import read_held, read_rows
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.nodes.policy_loop import PolicyLoop
from rlstack.nodes.policy_steps import PolicySteps
from rlstack.policies import load_policy
from tests.support.policies import write_hover_policy

MS = 1_000_000


class Listeners:
    """A node whose publishers keep what they publish."""

    def __init__(self, listening: bool = True) -> None:
        self.said: dict[str, list[Any]] = {}
        self.listening = listening

    def publisher(self, kind: Any, topic: str, quality: str) -> Any:
        kept = self.said.setdefault(topic, [])
        return SimpleNamespace(
            publish=lambda one: kept.append(copy.deepcopy(one)), get_subscription_count=lambda: int(self.listening)
        )


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_policy(write_hover_policy(tmp_path_factory.mktemp("p") / "hover.onnx", load_quadrotor("crazyflie")))


def fly(node: Listeners, policy: Any, goals: dict[int, float]) -> PolicySteps:
    """Step 5 times; ``goals``: heights by the step before which they come."""
    loop = PolicyLoop(policy, latched=topics.LATCHED)
    steps = PolicySteps(node, loop, policy.contract)
    loop.reset()
    still = {"linear_velocity": np.zeros(3), "angular_velocity": np.zeros(3)}
    seen = {"position": np.zeros(3), "orientation": np.array([0.0, 0.0, 0.0, 1.0]), **still}
    for k in range(5):
        if k in goals:
            loop.on_message("goal", 0, {"goal_position": np.array([0.0, 0.0, goals[k]])})
        answer = loop.on_message("odom", 10 * k * MS, seen)
        assert answer is not None
        steps.stepped(answer)
    steps.flush()
    return steps


def test_each_step_has_its_messages_and_what_was_held(policy: Any) -> None:
    node = Listeners()
    fly(node, policy, {0: 1.0, 2: 1.0, 3: 2.0})
    read = [read_rows(message) for message in node.said["policy/steps"]]
    rows = {name: np.concatenate([one[name] for one in read]).tolist() for name in read[0]}
    assert rows["step"] == [1, 2, 3, 4, 5] and rows["stamp"] == rows["odom"] == [0, 10 * MS, 20 * MS, 30 * MS, 40 * MS]
    assert rows["held"] == [1, 1, 1, 2, 2] and set(rows["resets"]) == {1}
    held = [read_held(message) for message in node.said["policy/held"]]
    assert [(one.version, one.values["goal_position"][2]) for one in held] == [(1, 1.0), (2, 2.0)]


def test_nobody_who_listens_costs_no_message(policy: Any) -> None:
    node = Listeners(listening=False)
    fly(node, policy, {0: 1.0})
    assert node.said["policy/steps"] == [] and len(node.said["policy/held"]) == 1
