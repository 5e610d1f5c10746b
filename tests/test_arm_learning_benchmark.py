"""benchmarks/arm_learning.py: what its entries mean, when what was asked is reached, and what it says of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlstack.errors import UserError
from tests.support.benchmarks import load_benchmark


@pytest.fixture(scope="module")
def benchmark() -> Any:
    return load_benchmark("arm_learning")


def test_an_entry_is_a_label_a_recipe_and_options(benchmark: Any) -> None:
    own = benchmark.entry("half as often = arm_insert_interventions --algorithm-settings.intervener.rate 0.1")
    assert (own.label, own.recipe, own.peer) == ("half as often", "arm_insert_interventions", False)
    assert own.words == ("--algorithm-settings.intervener.rate", "0.1")
    peer = benchmark.entry("sb3:arm_push batch_size=512 tau=0.05 ent_coef=auto_0.1")
    assert (peer.label, peer.recipe, peer.peer) == ("sb3:arm_push", "arm_push", True)
    assert benchmark.settings_of(peer.words) == {"batch_size": 512, "tau": 0.05, "ent_coef": "auto_0.1"}
    assert benchmark.slug(own, 3) != benchmark.slug(benchmark.entry("arm_insert_interventions"), 3)
    with pytest.raises(UserError, match="write name=value"):
        benchmark.settings_of(("--steps", "5"))
    with pytest.raises(UserError, match="is no entry"):
        benchmark.entry("label = ")


def curve(*success: float) -> list[dict[str, float]]:
    return [{"step": 100.0 * k, "cpu_seconds": 3.0 * k, "success": one} for k, one in enumerate(success, start=1)]


def test_enough_is_enough_twice_or_at_the_end(benchmark: Any) -> None:
    assert benchmark.enough(curve(0.2, 0.96, 0.9, 0.95, 0.97, 0.8), 0.95)["step"] == 400.0
    assert benchmark.enough(curve(0.2, 0.96, 0.9, 0.99), 0.95)["step"] == 400.0
    assert benchmark.enough(curve(0.2, 0.96, 0.9, 0.94), 0.95) is None


def test_runs_are_told_with_their_median_and_drawn(benchmark: Any, tmp_path: Path) -> None:
    rows = [
        {
            "asked": {"seed": seed},
            "label": label,
            "task": "arm_push",
            "evaluations": curve(0.5, good, good),
            "learning_cpu_s": 9.0,
            "steps": 300,
            "led": 12,
            "trials": {"success": good},
        }
        for label, seed, good in (("ours", 1, 0.96), ("ours", 2, 0.98), ("theirs", 1, 0.97), ("theirs", 2, 0.4))
    ]
    lines = benchmark.table(rows, 0.95).splitlines()
    assert [line.split()[-6:] for line in lines[1:3]] == [
        ["96.0%", "200", "6", "300", "9", "12"],
        ["98.0%", "200", "6", "300", "9", "12"],
    ]
    assert lines[3].split()[-3:] == ["median", "97.0%", "200"]
    assert lines[6].split()[-3:] == ["median", "68.5%", "-"]  # one of them never was good enough
    benchmark.draw(rows, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
