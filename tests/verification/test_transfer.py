"""The transfer table's figures and their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.verification.flight_score import score_flights
from rlstack.verification.scores import Figure, Score, mean_interval, median_interval
from rlstack.verification.transfer import TransferTable
from rlstack.verification.trial_records import FlightRecord


@settings(deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=60))
def test_an_interval_holds_its_value_and_is_made_of_what_was_seen(values: list[float]) -> None:
    low, high = median_interval(values)
    assert low <= np.median(values) <= high
    assert low in values and high in values
    low, high = mean_interval(values)
    assert low <= np.mean(values) <= high


def test_the_medians_interval_covers_the_true_median_19_times_in_20() -> None:
    random = np.random.default_rng(0)
    intervals = [median_interval(random.exponential(size=100)) for _ in range(2000)]
    covered = np.mean([low <= np.log(2.0) <= high for low, high in intervals])
    assert 0.94 < covered < 0.985


def test_the_means_interval_shrinks_with_the_root_of_the_count() -> None:
    random = np.random.default_rng(1)
    few, many = (np.diff(mean_interval(random.normal(size=count)))[0] for count in (100, 10000))
    assert few / many == pytest.approx(10.0, rel=0.2)
    assert many == pytest.approx(2.0 * 1.96 / 100.0, rel=0.05)


def test_the_table_has_a_row_for_each_policy_and_a_dash_where_it_was_not_flown() -> None:
    figures = (
        Figure("episodes", "Episodes", "count", "", 100),
        Figure("success", "Success", "share", "", 0.99, (0.95, 1.0)),
        Figure("effort_rad_s", "Effort", "rad/s", "", None),
    )
    one = Score(figures=figures, compared=("success", "effort_rad_s"))
    table = TransferTable({"mine": {"batch": one, "mujoco": one}, "Lee": {"batch": one}})
    assert table.columns == ["batch", "mujoco"]
    lines = [line.split() for line in table.text().splitlines()]
    assert lines[0] == ["Success,", "%", "[95%]", "batch", "mujoco"]
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
    found = score_flights(flights, SuccessCriteria(from_s=0.5, to_s=2.0, duration_s=2.0))
    effort = found.figure("effort_rad_s")
    assert (effort.value, effort.interval) == (1.0, (1.0, 1.0))
    assert found["success"] == 1.0
