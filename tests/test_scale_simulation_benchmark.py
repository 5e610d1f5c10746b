"""benchmarks/scale_simulation.py: what is full, and at which rate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.benchmarks import load_benchmark

bench = load_benchmark("scale_simulation")
COSTS = bench.Costs()


def test_few_workers_act_all_the_time_and_many_wait_for_what_is_full() -> None:
    slow = replace(COSTS, act_s=0.01)
    few = bench.simulated(slow, 4)
    assert few.full == "workers" and few.rate == pytest.approx(400.0, rel=0.03)
    many = bench.simulated(slow, 200)
    assert many.full == "learner" and many.rate == pytest.approx(1.0 / slow.learn_s, rel=0.03)
    assert many.acting == pytest.approx(many.rate * slow.act_s / 200, rel=0.1)


@pytest.mark.parametrize(
    ("costs", "full", "rate"),
    [
        (replace(COSTS, learn_s=1e-6), "storing", COSTS.block / COSTS.store_s),
        (replace(COSTS, learn_s=1e-6, store_s=1e-5, network=1e7), "network", COSTS.block * 1e7 / COSTS.bytes),
    ],
)
def test_the_narrowest_part_bounds_the_rate(costs: object, full: str, rate: float) -> None:
    load = bench.simulated(costs, 100)
    assert load.full == full and load.rate == pytest.approx(rate, rel=0.05)
