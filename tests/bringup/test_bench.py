"""`rlstack bench`: the figures that it leaves, the table that it prints, peers that are missing or broken, refusals."""

from __future__ import annotations

import copy
import json
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from rlstack import cli
from rlstack.bringup import bench
from rlstack.bringup.bench_table import describe_bench
from rlstack.bringup.measured_process import measure_part, run_measured
from rlstack.errors import UserError

RATE = {
    "per_cpu_second": {"median": 45.25e6, "least": 44e6, "most": 46e6},
    "per_second": {"median": 45e6, "least": 43e6, "most": 46e6},
    "calls": 10,
    "first_step_s": 0.25,
}
FLOWN = {"episodes": 1000.0, "success": 1.0, "within_0_1": 0.993, "lost": 0.0, "error_m": 0.01, "cpu_s": 1.0}
TRAINED = {
    "recipe": "quadrotor_hover",
    "seed": 0,
    "steps": 2_560_000,
    "setup_cpu_s": 3.0,
    "learning_cpu_s": 5.0,
    "evaluation_cpu_s": 2.0,
    "export_cpu_s": 3.0,
    "cpu_s": 13.0,
    "wall_s": 14.0,
    "peak_memory_mib": 500.0,
    "policy": "policy.onnx",
}


def looked(*shares: float) -> list[dict[str, float]]:
    return [
        {"step": k, "cpu_seconds": k / 2, "episodes": 500, "success": 1.0, "within_0_1": share, "lost": 0.0}
        for k, share in enumerate(shares)
    ]


def parts(part: str, cache: Path | None = None, **options: Any) -> dict[str, Any]:
    """Stand for the processes that measure; what they measure is tested with the processes themselves."""
    departure = {"hover +-15%": {"position_m": 6e-5, "attitude_rad": 2e-4}}
    found: dict[str, Any] = {
        "simulator": {**RATE, "late": RATE, "departure": departure},
        "environment": RATE,
        "policy": {"held_out": FLOWN, "latency": {"p50_us": 25.0, "p99_us": 31.0, "calls": 10}},
        "crazyflow": {"RK4, 100 Hz": {**RATE, "departure": departure}},
        "stable-baselines3": {"samples": 6_000_000, "cpu_s": 60.0, "samples_per_cpu_second": 1e5, "held_out": FLOWN},
        "foundation-policy": {"latency": {"p50_us": 20.0, "p99_us": 24.0, "calls": 10}},
    }[part]
    return {**copy.deepcopy(found), "peak_memory_mib": 300.0}


def train(recipe: str, seed: int, folder: Path, options: Any = (), cache: Path | None = None) -> dict[str, Any]:
    return {**TRAINED, "seed": seed, "evaluations": looked(0.2, 0.98, 0.991, 1.0)}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the peers that are there, to be filled; the processes are stood for."""
    there: set[str] = set()
    modules = {peer.module: name for name, peer in bench.PEERS.items()}
    find = bench.importlib.util.find_spec

    def find_spec(name: str) -> Any:
        return (object() if modules[name] in there else None) if name in modules else find(name)

    monkeypatch.setattr(bench.importlib.util, "find_spec", find_spec)
    monkeypatch.setattr(bench, "measure_part", parts)
    monkeypatch.setattr(bench, "measure_training", train)
    return there


def quiet(part: str, done: int, count: int, left_s: float) -> None:
    pass


@pytest.mark.integration
def test_a_quick_run_measures_everything_and_leaves_it_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"

    assert cli.main(["bench", "--quick", "--seed", "5", "--json", str(file)]) == 0

    shown, found = capsys.readouterr().out, json.loads(file.read_text())
    assert found["quick"] is True and found["seed"] == 5 and found["device"] == "cpu"
    assert found["machine"]["cores"] >= 1 and found["machine"]["versions"]["torch"]
    for part in ("simulator", "environment"):
        rates = found[part]
        for kind in ("per_cpu_second", "per_second"):
            assert 0.0 < rates[kind]["least"] <= rates[kind]["median"] <= rates[kind]["most"]
        assert rates["peak_memory_mib"] > 10.0 and rates["first_step_s"] > 0.0
    assert found["simulator"]["late"]["per_second"]["median"] > 0.0
    near = found["simulator"]["departure"]["hover +-15%"]
    assert 0.0 < near["position_m"] < 1e-3 and 0.0 < near["attitude_rad"] < 5e-3
    cold = found["training"]["cold"]
    together = sum(cold[f"{name}_cpu_s"] for name in ("setup", "learning", "evaluation", "export"))
    assert together == pytest.approx(cold["cpu_s"], abs=0.05)
    assert cold["steps"] == 3200 and cold["learning_cpu_s"] > 0.0
    assert found["policy"]["held_out"]["episodes"] == 8
    assert 0.0 < found["policy"]["latency"]["p50_us"] <= found["policy"]["latency"]["p99_us"]
    assert set(found["peers"]) == set(bench.PEERS)
    for name, peer in found["peers"].items():
        assert ("figures" in peer) == peer["installed"], peer.get("error")
        assert name in shown
    assert "QUICK" in shown and "3,200 steps" in shown


def test_peers_that_are_missing_are_listed_with_their_command(installed: set[str]) -> None:
    found = bench.bench(on_progress=quiet)

    shown = describe_bench(found)
    for name, peer in bench.PEERS.items():
        assert found["peers"][name]["installed"] is False and "figures" not in found["peers"][name]
        assert f"pip install {peer.packages}" in shown
    assert "45.2 (44 to 46)" in shown and "99.3%" in shown


def test_peers_that_are_there_are_measured_and_one_that_fails_stops_nothing(
    installed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.update(bench.PEERS)

    def broken(part: str, *cache: Path, **options: Any) -> dict[str, Any]:
        if part == "crazyflow":
            raise UserError("crazyflow could not be measured: ImportError: no jaxlib")
        return parts(part, **options)

    monkeypatch.setattr(bench, "measure_part", broken)
    told: list[tuple[str, int, int, float]] = []

    found = bench.bench(on_progress=lambda *seen: told.append(seen))

    assert [part for part, *_ in told] == ["simulator", "environment", "training", "policy", *bench.PEERS]
    assert told[-1][1:3] == (6, 7)
    left_s = [left_s for *_, left_s in told]
    assert left_s[0] > 100.0 and left_s == sorted(left_s, reverse=True), "what took no time leaves less to come"
    peers, shown = found["peers"], describe_bench(found)
    assert peers["crazyflow"]["error"].endswith("no jaxlib") and "no jaxlib" in shown
    assert peers["stable-baselines3"]["figures"]["samples"] == 6_000_000 and "100 k" in shown
    assert "20.0 us" in shown and "not installed" not in shown


def test_what_was_found_is_written_after_each_part(
    installed: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stopped(part: str, *cache: Path, **options: Any) -> dict[str, Any]:
        if part == "environment":
            raise KeyboardInterrupt
        return parts(part, **options)

    monkeypatch.setattr(bench, "measure_part", stopped)
    with pytest.raises(KeyboardInterrupt):
        bench.bench(json=tmp_path / "figures.json", on_progress=quiet)
    found = json.loads((tmp_path / "figures.json").read_text())
    assert found["simulator"]["first_step_s"] == 0.25 and "environment" not in found


def test_the_first_evaluation_that_meets_the_target_counts() -> None:
    assert bench.target({"evaluations": looked(0.5, 0.991, 0.98, 1.0)}) == looked(0.5, 0.991)[1]
    assert bench.target({"evaluations": looked(0.5, 0.98)}) is None
    lost = [{**looked(1.0)[0], "lost": 0.002}]
    assert bench.target({"evaluations": lost}) is None


def test_a_target_that_was_missed_and_an_error_without_bound_are_said(installed: set[str]) -> None:
    found = bench.bench(on_progress=quiet)
    assert "first after 1.0 CPU-seconds of learning (of 4 evaluations of 500 starts)" in describe_bench(found)

    found["training"]["target"] = None
    found["policy"]["held_out"]["error_m"] = None
    shown = describe_bench(found)
    assert "in none of 4 evaluations" in shown and "unbounded" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--seed", "-1"], "--seed -1"), (["--device", "cuba"], "'cuba'"), (["--json", "."], "is a folder")],
)
def test_what_cannot_be_is_refused_before_anything_is_measured(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: Any, **options: Any) -> dict[str, Any]:
        raise AssertionError("it measured")

    monkeypatch.setattr(bench, "measure_part", never)
    assert cli.main(["bench", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_process_that_fails_is_told_by_its_last_line() -> None:
    with pytest.raises(UserError, match="The thing could not be measured: ValueError: no such luck"):
        run_measured(["-c", "raise ValueError('no such luck')"], "The thing")
    with pytest.raises(UserError, match="ended with status 3"):
        run_measured(["-c", "raise SystemExit(3)"], "The thing")
    with pytest.raises(UserError, match=r"simulator could not be measured: There is no device 'cuba'"):
        measure_part("simulator", robots=1, seconds=0.01, repeats=1, device="cuba", flights=0)


def test_what_a_process_leaves_is_left_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "leaver.py").write_text("open('left.txt', 'w').close()")
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "modules")
    run_measured(["-c", "import leaver"], "leaver", folder=str(tmp_path / "there"))
    assert (tmp_path / "there" / "left.txt").exists() and not (tmp_path / "left.txt").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's accounting")
def test_a_process_is_charged_with_its_own_time_and_memory() -> None:
    busy = "import time\nx = bytearray(200 << 20)\nwhile time.process_time() < 0.4: pass"
    cost = run_measured(["-c", busy], "busy")
    assert 0.4 <= cost.cpu_s < 2.0 and cost.wall_s >= cost.cpu_s * 0.9
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts what was held where it was started
    assert 200.0 < cost.peak_memory_mib < 500.0 + ours
    idle = run_measured(["-c", "import time; time.sleep(0.4)"], "idle")
    assert idle.wall_s >= 0.4 and idle.cpu_s < 0.4
