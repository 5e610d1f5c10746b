"""Policies that plan chunks while the robot carries out the last one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from rlstack.errors import UserError
from rlstack.policies import Policy, PolicyOutputError, describe, load_policy, write_policy
from rlstack.policies.fixed_policy import fixed_policy
from rlstack.policies.planning import ChunkQueue, PlanningPolicy, steps_ahead
from rlstack.robots import load_robot
from tests.support.planners import write_planning_policy

CHUNK = 4


class Held:
    """Planning that waits until it is let go."""

    def __init__(self, part: Any) -> None:
        self._part, self.gate, self.contract = part, threading.Semaphore(0), part.contract
        self.plans: list[np.ndarray] = []

    def step(self, inputs: Any) -> Any:
        self.gate.acquire()
        found = self._part.step(inputs)
        self.plans.append(found["chunk.plan"])
        return found


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    path = tmp_path_factory.mktemp("planning") / "policy.onnx"
    return load_policy(write_planning_policy(path, load_robot("panda"), CHUNK))


@pytest.fixture
def planning(policy: Policy) -> Iterator[PlanningPolicy]:
    made = PlanningPolicy(policy)
    made._period_s = 20.0  # a step waits for a plan however busy this machine is
    yield made
    if isinstance(made._plan, Held):
        made._plan.gate.release(9)
    made.close()


def seen(steps: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(3)
    rest = np.array([drive.rest for drive in load_robot("panda").drives])
    return [
        {
            "joint_position": rest,
            "joint_velocity": 0.1 * rng.normal(size=9),
            "goal_position": np.array([0.5, 0.1, 0.3]),
        }
        for _ in range(steps)
    ]


def settled(planning: PlanningPolicy, plans: int) -> None:
    with planning._wake:
        assert planning._wake.wait_for(lambda: planning.counts.plans == plans, 30.0)


def test_quick_planning_gives_the_commands_of_the_whole_and_runs_once_a_chunk(
    policy: Policy, planning: PlanningPolicy
) -> None:
    assert policy.contract.chunk == (CHUNK, 3)
    for episode in range(2):
        policy.reset()
        planning.reset()
        for row in seen(10):
            assert np.array_equal(policy.step(row)["joint_target"], planning.step(row)["joint_target"])
        assert planning.counts.plans == 3 * (episode + 1)
    assert planning.counts.late == 0 and planning.warning == ""


def test_noise_is_an_input_that_need_not_be_given(policy: Policy, tmp_path: Path) -> None:
    panda = load_robot("panda")
    noisy = load_policy(write_planning_policy(tmp_path / "noisy.onnx", panda, CHUNK, noisy=True), robot=panda)
    assert noisy.contract.noise == (CHUNK, 3) and "[4, 3], 0 where it is not given" in describe(noisy.contract)
    planning = PlanningPolicy(noisy)
    planning._period_s = 20.0
    changed = 0.0
    try:
        for given in (None, *np.random.default_rng(0).normal(size=(2, CHUNK, 3)), None):
            added = {} if given is None else {"noise": given}
            for part in (policy, noisy, planning):
                part.reset()
            for row in seen(CHUNK):
                plain, one, two = policy.step(row), noisy.step({**row, **added}), planning.step({**row, **added})
                assert np.array_equal(one["joint_target"], two["joint_target"])
                apart = float(np.abs(one["joint_target"] - plain["joint_target"]).max())
                assert given is not None or apart == 0.0
                changed = max(changed, apart)
    finally:
        planning.close()
    assert changed > 1e-3
    with pytest.raises(ValueError, match=r"noise: the shape \(3,\) is not allowed: must be \(4, 3\) or \(1, 4, 3\)"):
        noisy.step({**row, "noise": np.zeros(3)})
    with pytest.raises(ValueError, match="unknown: noise"):
        policy.step({**row, "noise": np.zeros((CHUNK, 3))})
    fixed = fixed_policy(noisy.path, panda, {})  # of other forms it is no input
    assert "noise" not in {entry.name for entry in fixed.graph.input}
    model = onnx.load(noisy.path)
    for tensor in model.graph.initializer:
        if tensor.name == "noise":
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.ones((1, CHUNK, 3), np.float32), "noise"))
    with pytest.raises(UserError, match=r"takes noise \[4, 3\], but its graph has no zeros \[1, 4, 3\] named 'noise'"):
        write_policy(model, noisy.contract, tmp_path / "other.onnx")


def test_of_a_chunk_that_comes_late_what_was_carried_out_meanwhile_is_left_out(planning: PlanningPolicy) -> None:
    planning._plan = held = Held(planning._plan)  # type: ignore[assignment]
    rows = seen(8)
    planning._period_s = 1e-3
    first = planning.step(rows[0])["joint_target"]  # no plan yet: it stays
    assert planning.counts.late == 1 and planning.warning.startswith("no plan was ready, so the robot waits")
    np.testing.assert_allclose(first[:7], rows[0]["joint_position"][:7], atol=1e-3)
    held.gate.release()
    settled(planning, 1)
    planning.counts.latency_ms = 2.0  # from now on it plans two steps ahead
    planning.step(rows[1])
    assert planning._queue.left == 3 and planning._is_free
    planning.step(rows[2])
    assert planning._queue.left == 2 and planning._is_free
    planning.step(rows[3])  # it begins to plan
    planning.step(rows[4])
    held.gate.release()
    settled(planning, 2)
    acted = planning._act.step
    took: list[np.ndarray] = []
    planning._act.step = lambda given: took.append(given["chunk.action"]) or acted(given)  # type: ignore[assignment, func-returns-value]
    planning.step(rows[5])
    assert planning.counts.late == 1 and planning._queue.taken == 5 and planning._queue.left == 1
    assert np.array_equal(took[0], held.plans[1][2])  # two of its actions were those of the chunk before


def test_without_a_plan_for_a_whole_chunk_it_stops_answering_until_there_is_one(planning: PlanningPolicy) -> None:
    planning._plan = held = Held(planning._plan)  # type: ignore[assignment]
    planning._period_s = 1e-3
    rows = seen(CHUNK + 3)
    for row in rows[:CHUNK]:
        planning.step(row)
    with pytest.raises(PolicyOutputError, match=r"no plan was ready.*4 steps of 1 ms are planned"):
        planning.step(rows[CHUNK])
    held.gate.release()
    settled(planning, 1)
    planning.step(rows[CHUNK + 1])
    assert planning.warning == ""
    planning.reset()  # what is planned belongs to the episode before
    planning.step(rows[CHUNK + 2])
    assert planning.counts.late == CHUNK + 2


def test_a_refused_input_is_that_of_the_step_and_planning_goes_on(planning: PlanningPolicy) -> None:
    row = seen(1)[0]
    with pytest.raises(ValueError, match="goal_position: holds a value that is not finite"):
        planning.step({**row, "goal_position": np.array([np.nan, 0.0, 0.0])})
    planning.step(row)
    assert planning.counts.late == 0


def test_an_action_whose_command_was_refused_is_still_due(planning: PlanningPolicy) -> None:
    row = seen(1)[0]
    planning.step(row)
    with pytest.raises(ValueError, match="joint_position: holds a value that is not finite"):
        planning.step({**row, "joint_position": np.full(9, np.nan)})
    assert planning._queue.taken == 1 and planning._queue.left == CHUNK - 1


def test_a_queue_leaves_out_what_was_carried_out() -> None:
    queue = ChunkQueue(3)
    assert queue.present is None and queue.left == 0
    queue.add(np.arange(3.0)[:, None], 0)
    assert queue.present == [0.0]
    queue.taken += 1
    assert queue.left == 2
    queue.add(np.arange(10.0, 13.0)[:, None], 0)  # planned one action ago
    assert queue.present == [11.0]
    queue.taken += 2
    assert queue.present is None and queue.left == 0


def test_planning_begins_as_early_as_it_takes() -> None:
    assert [steps_ahead(s, 0.05) for s in (0.0, 0.02, 0.03, 0.05, 0.12, 0.15)] == [0, 0, 1, 1, 3, 3]


def test_what_cannot_be_cut_is_refused(policy: Policy, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not plan chunks"):
        PlanningPolicy(load_policy("arm_reach"))
    copy = tmp_path / "policy.onnx"
    copy.write_bytes(policy.path.read_bytes())
    loaded = load_policy(copy)
    copy.write_bytes(b"another")
    with pytest.raises(UserError, match="was replaced since it was loaded"):
        PlanningPolicy(loaded)
