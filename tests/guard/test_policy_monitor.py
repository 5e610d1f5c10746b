from __future__ import annotations

import pytest

from rlstack.guard.policy_monitor import PolicyMonitor


@pytest.mark.parametrize(("age_s", "delay_s", "stale"), [(0.02, 0.0, False), (0.03, 0.0, True), (0.05, 0.03, False)])
def test_commands_may_answer_observations_as_late_as_is_proven(age_s: float, delay_s: float, stale: bool) -> None:
    monitor = PolicyMonitor(4, 0.02, 0.01, delay_s)
    assert ("is stale" in monitor.lateness(1.0, 1.0, 1.0 - age_s)) == stale
    assert monitor.fresh(1.02) is not stale and not monitor.fresh(1.03)  # a policy may be silent no longer for that
