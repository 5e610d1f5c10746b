"""benchmarks/racing.py: what it says of runs that have not ended, and how it counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.verification.trial_records import RaceRecord
from tests.support.benchmarks import FOLDER, load_benchmark

PROGRAM = FOLDER / "racing.py"


@pytest.fixture(scope="module")
def benchmark() -> Any:
    return load_benchmark("racing")


def raced(lap_s: list[list[float]], contact: list[bool]) -> RaceRecord:
    count = len(lap_s)
    return RaceRecord(
        simulator="batch",
        seeds=np.arange(count),
        length_m=np.full(count, 40.0),
        lap_s=np.array(lap_s),
        contact=np.array(contact),
        clearance_m=np.where(contact, -0.01, 0.05),
        pose=np.zeros((1, count, 3)),
        speed_m_s=np.zeros((1, count)),
        rate_hz=20.0,
    )


def test_the_ratio_is_of_laps_that_both_finished(benchmark: Any) -> None:
    nan = float("nan")
    driven = raced([[11.0, 10.0], [11.0, nan], [11.0, 8.0]], [False, True, False])
    line = benchmark.row("policy", driven, np.array([8.0, 8.0, nan]))
    assert line == "| policy | 9.00 | 4.50 | 1.250 | 5 | 1 | -0.010 |"


def test_where_nobody_finished_there_is_no_time(benchmark: Any) -> None:
    driven = raced([[float("nan")] * 2], [True])
    assert benchmark.row("policy", driven, np.array([8.0])) == "| policy |  |  |  | 0 | 1 | -0.010 |"


def test_the_first_clean_lap_is_of_the_first_evaluation_that_saw_one(benchmark: Any, tmp_path: Path) -> None:
    evaluations = [{"cpu_seconds": 10.2 * k, "success": max(0.0, 0.1 * (k - 2))} for k in range(5)]
    (tmp_path / "training.json").write_text(json.dumps({"evaluations": evaluations}))
    assert benchmark.first_clean_s(tmp_path) == "31"
    (tmp_path / "training.json").write_text(json.dumps({"evaluations": evaluations[:2]}))
    assert benchmark.first_clean_s(tmp_path) == "never"
    (tmp_path / "training.json").write_text('{"evalu')
    with pytest.raises(UserError, match=r"training\.json is damaged"):
        benchmark.first_clean_s(tmp_path)


def test_a_run_that_has_not_ended_is_named(benchmark: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no "):
        benchmark.policy_of(tmp_path / "nothing")
    (tmp_path / "recipe.yaml").write_text("")
    with pytest.raises(UserError, match=r"has no policy\.onnx.*--resume"):
        benchmark.policy_of(tmp_path)
    (tmp_path / "policy.onnx").write_bytes(b"")
    with pytest.raises(UserError, match=r"has no training\.json"):
        benchmark.policy_of(tmp_path)
    assert benchmark.policy_of(tmp_path / "policy.onnx") == tmp_path / "policy.onnx"
    (tmp_path / "training.json").write_text("{}")
    assert benchmark.policy_of(tmp_path) == tmp_path / "policy.onnx"


def test_it_ends_in_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(PROGRAM), str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "has no policy.onnx" in done.stderr and "Traceback" not in done.stderr and "|" not in done.stdout
