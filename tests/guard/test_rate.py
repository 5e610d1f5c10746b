"""A low rate of observations is known after a second, and said."""

from __future__ import annotations

from rlstack.guard.rate import RateMonitor
from rlstack.kinds.wheeled_base.guard import WheeledBaseGuard
from tests.kinds.wheeled_base.guard_loop import Rolling, turtlebot


def counted(rate_hz: float, seconds: float) -> str:
    monitor = RateMonitor(100.0, 0.5)
    for k in range(round(rate_hz * seconds)):
        monitor.observed(k / rate_hz)
    return monitor.low(seconds - 0.001)


def test_a_rate_below_half_of_the_control_rate_is_said() -> None:
    assert counted(100.0, 3.0) == counted(55.0, 3.0) == ""
    assert counted(40.0, 3.0) == "observations come at 40 Hz, and the policy acts at 100 Hz"


def test_nothing_is_said_before_a_second_has_passed_and_after_a_restart() -> None:
    assert counted(40.0, 0.9) == ""
    monitor = RateMonitor(100.0, 0.5)
    monitor.observed(0.0)
    assert monitor.low(2.0) == "observations come at 0 Hz, and the policy acts at 100 Hz"
    monitor.restart()
    assert monitor.low(3.0) == ""
    monitor.observed(3.0)
    assert monitor.low(3.5) == ""


def test_a_guard_warns_of_it() -> None:
    loop = Rolling(WheeledBaseGuard(turtlebot()))
    loop.run(2.0, None)
    assert not loop.guard.warning
    for k in range(20):
        now = loop.time_s + 0.199 * k
        loop.guard.on_observation(now, now, loop.seen)
        loop.guard.on_tick(now + 0.1)
    assert not loop.guard.warning  # 5 Hz are half
    slow = WheeledBaseGuard(turtlebot(), loop.guard.CONFIG.from_robot(turtlebot(), observation_rate_share=0.9))
    for k in range(20):
        slow.on_observation(0.199 * k, 0.199 * k, loop.seen)
    assert slow.warning.startswith("observations come at 6 Hz, and the policy acts at 10 Hz")
