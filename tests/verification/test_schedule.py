import pytest

from rlstack.verification.schedule import Part, Schedule


def scheduled(parts):
    reports, time_s = [], [0.0]
    schedule = Schedule([Part(*part) for part in parts], reports.append, lambda: time_s[0])

    def at(now_s, *progress):
        time_s[0] = now_s
        schedule(*progress)
        return reports[-1]

    return at


def test_the_first_trials_correct_the_expected_times():
    at = scheduled([("batch", 10.0), ("topics", 100.0)])
    as_expected = at(5.0, "batch", 5, 10)
    assert as_expected.left_s == pytest.approx(105.0, abs=0.1)
    slower = scheduled([("batch", 10.0), ("topics", 100.0)])(20.0, "batch", 10, 10)
    assert 150.0 < slower.left_s < 200.0


def test_a_part_that_is_over_is_not_counted_again_and_its_own_pace_counts():
    at = scheduled([("batch", 10.0), ("topics", 100.0)])
    at(10.0, "batch", 10, 10)
    assert at(10.0, "topics", 0, 40).left_s == pytest.approx(100.0)
    assert at(210.0, "topics", 40, 40).left_s == pytest.approx(0.0)
    half = scheduled([("topics", 100.0)])(100.0, "topics", 20, 40)
    assert half.left_s == pytest.approx(0.5 * 100.0 + 0.5 * (105.0 / 55.0) * 50.0)


def test_a_part_that_nobody_expected_costs_nothing_in_the_estimate():
    at = scheduled([("batch", 10.0)])
    assert at(0.0, "batch: dwa", 0, 10).left_s == pytest.approx(10.0)
    assert at(1.0, "batch: dwa", 5, 10).elapsed_s == 1.0
