"""benchmarks/released_policies.py: what it makes of a released policy and its record."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from rlstack.policies.released import Released
from tests.policies.graphs import mlp_contract, mlp_model
from tests.support.benchmarks import load_benchmark

OPTIONS = argparse.Namespace(backends="batch", no_topics=True, episodes=2, seed=2)


@pytest.fixture(scope="module")
def benchmark() -> Any:
    return load_benchmark("released_policies")


def test_a_record_of_another_file_and_a_policy_that_fails_are_told(benchmark: Any, tmp_path: Path) -> None:
    from rlstack.policies import write_policy

    path = tmp_path / "policy.onnx"
    write_policy(mlp_model(), mlp_contract(task="no_task"), path)
    one = Released("mine", path, {"robot": "crazyflie", "sha256": "0" * 64})
    found = benchmark.prove(one, OPTIONS)
    assert not found["passed"] and found["success"] == {}
    assert found["reasons"][0] == "its record is for another file" and "no_task" in found["reasons"][1]
    assert not (tmp_path / "verify.json").exists()


def test_the_table_has_success_and_margins_now_and_by_the_record(benchmark: Any) -> None:
    axes = {"observation_delay_s": {"margin": 0.02}}
    record = {"backends": {"batch": {"success": 0.99}}, "reality": {"axes": axes}}
    found = {"passed": True, "reasons": [], "success": {"batch": 0.985}, "margins": {"observation_delay_s": 0.03}}
    table = benchmark.rows({"mine": Released("mine", Path("x"), record)}, {"mine": {**found, "wall_s": 12.5}})
    assert table[1] == ["mine", "batch", "98.5%", "99.0%", "passed", "12.5"]
    assert table[2][1:4] == ["margin of observation_delay_s", "0.03", "0.02"]
