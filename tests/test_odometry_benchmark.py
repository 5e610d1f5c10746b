"""benchmarks/odometry.py: a flight with each source of odometry is measured."""

from __future__ import annotations

import pytest

from tests.support.benchmarks import load_benchmark

pytest.importorskip("mujoco")


@pytest.mark.parametrize("source", ["odometry", "pose", "flow"])
def test_a_flight_with_each_source_is_measured(source: str) -> None:
    errors = load_benchmark("odometry").fly("hover", source, 0.4, 1)
    assert 0.0 < errors["error_m"] < 0.4
    assert errors["height_m"] < 0.02 and errors["velocity_m_s"] < 0.1
