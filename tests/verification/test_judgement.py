import pytest

from rlstack.tasks.bounds import Bounds
from rlstack.verification.judgement import judge, requirement
from rlstack.verification.scores import Figure, Score

BOUNDS = Bounds(at_least={"success": 0.95, "lead_high": 0.0}, at_most={"lost": 0.01, "error_m": 0.1})


def score(success, lost=0.0, error_m=0.05, lead=None):
    return Score(
        figures=(
            Figure("episodes", "Episodes", "count", "", 20),
            Figure("success", "Success", "share", "", success),
            Figure("lost", "Lost", "share", "", lost),
            Figure("error_m", "Error", "m", "", error_m),
            Figure("lead_high", "Lead", "share", "", lead),
        )
    )


@pytest.mark.parametrize(("success", "lost", "passes"), [(0.9, 0.0, True), (0.85, 0.0, False), (0.9, 0.05, True)])
def test_a_sample_fails_only_if_its_interval_misses_the_bound(success, lost, passes):
    sample = BOUNDS.for_sample(20, compared=False)
    assert (judge(score(success, lost), sample) == []) is passes
    assert judge(score(success, lost), BOUNDS) != []


def test_a_sample_keeps_other_bounds_and_relative_ones_only_if_compared():
    assert "lead_high" not in BOUNDS.for_sample(20, compared=False).limits
    (reason,) = judge(score(1.0, error_m=0.2, lead=0.1), BOUNDS.for_sample(20, compared=True))
    assert "Error" in reason
    sample = BOUNDS.for_sample(20, compared=False)
    assert requirement(score(1.0).figure("success"), sample).endswith("within the sample's 95% interval")
    assert requirement(score(1.0).figure("error_m"), sample) == "at most 0.100 m"
