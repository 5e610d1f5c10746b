"""The transfer table's figures and their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.tasks.criteria import Criteria
from rlstack.verification.records import FlightRecord
from rlstack.verification.transfer import Cell, Estimate, TransferTable, cell, mean, median


@settings(deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=60))
def test_an_interval_holds_its_value_and_is_made_of_what_was_seen(values: list[float]) -> None:
    found = median(np.array(values))
    assert found.low <= found.value <= found.high
    assert found.low in values and found.high in values
    average = mean(np.array(values))
    assert average.low <= average.value <= average.high


def test_the_medians_interval_covers_the_true_median_19_times_in_20() -> None:
    random = np.random.default_rng(0)
    intervals = [median(random.exponential(size=100)) for _ in range(2000)]
    covered = np.mean([i.low <= np.log(2.0) <= i.high for i in intervals])
    assert 0.94 < covered < 0.985


def test_the_means_interval_shrinks_with_the_root_of_the_count() -> None:
    random = np.random.default_rng(1)
    few, many = mean(random.normal(size=100)), mean(random.normal(size=10000))
    assert (few.high - few.low) / (many.high - many.low) == pytest.approx(10.0, rel=0.2)
    assert many.high - many.value == pytest.approx(1.96 / 100.0, rel=0.05)


def test_the_table_has_a_row_for_each_policy_and_a_dash_where_it_was_not_flown() -> None:
    one = Cell(100, Estimate(0.99, 0.95, 1.0), Estimate(0.01, 0.009, 0.011), None)
    table = TransferTable({"mine": {"batch": one, "mujoco": one}, "Lee": {"batch": one}})
    assert table.simulators == ["batch", "mujoco"]
    lines = [line.split() for line in table.text().splitlines()]
    assert lines[0] == ["success,", "%", "[95%]", "batch", "mujoco"]
    assert lines[2] == ["Lee", "99.0", "[95.0,", "100.0]", "-"]
    assert table.to_json()["mine"]["mujoco"]["success"]["low"] == 0.95
    assert table.to_json()["mine"]["mujoco"]["effort_rad_s"] is None


def test_a_command_that_is_missing_from_the_record_does_not_hide_a_flights_effort() -> None:
    count, steps = 3, 21
    still = np.zeros((steps, count, 3))
    command = np.tile(np.arange(steps, dtype=float)[:, None, None], (1, count, 4))
    command[-1] = np.nan
    flights = FlightRecord(
        simulator="here",
        rate_hz=10.0,
        position=still,
        orientation=np.tile([0.0, 0.0, 0.0, 1.0], (steps, count, 1)),
        linear_velocity=still,
        angular_velocity=still,
        command=command,
        goal_position=still,
        labels=np.array(["none"] * count),
        wall_s=1.0,
    )
    found = cell(flights, Criteria(from_s=0.5, to_s=2.0, duration_s=2.0))
    assert found.effort_rad_s == Estimate(1.0, 1.0, 1.0)
    assert found.success.value == 1.0
