"""Rates and latencies of things whose speed is known."""

from __future__ import annotations

import gc
import time

import pytest

from rlstack.training.benchmarks.timing import latency, rate, spread


def busy(seconds: float) -> None:
    begin = time.process_time()
    while time.process_time() - begin < seconds:
        pass


def test_a_rate_counts_cpu_time_and_wall_time_apart() -> None:
    def half_asleep() -> None:
        busy(0.002)
        time.sleep(0.006)

    found = rate(half_asleep, 10, seconds=0.05, repeats=3)

    assert 10 / 0.004 < found["per_cpu_second"]["median"] <= 10 / 0.002
    assert found["per_second"]["most"] <= 10 / 0.008
    assert found["calls"] >= 1


def test_what_runs_on_after_the_call_is_waited_for() -> None:
    pending: list[int] = []

    def wait() -> None:
        time.sleep(0.001 * len(pending))
        pending.clear()

    found = rate(lambda: pending.append(1), 1, seconds=0.02, repeats=2, wait=wait)
    assert found["per_second"]["most"] <= 1000.0


def test_latency_is_of_single_calls_and_leaves_the_collector_as_it_was() -> None:
    waits = iter([0.0] * 10 + [0.0005] * 90 + [0.02] * 10)
    assert gc.isenabled()
    found = latency(lambda: time.sleep(next(waits)), 100)
    assert gc.isenabled()
    assert 500 <= found["p50_us"] < 20_000 <= found["p99_us"]


def test_spread() -> None:
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "least": 1.0, "most": 3.0}
    with pytest.raises(ValueError):
        spread([])
