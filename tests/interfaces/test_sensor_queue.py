"""Cameras see at rates of their own, and what they saw is there late: to who takes it and to who waits for it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.interfaces.messages import NANOSECONDS, seconds_to_ns
from rlstack.interfaces.sensor_queue import SensorQueue, samples_arrived, samples_until

MS = 1_000_000


def run(queue: SensorQueue[int], begin_ns: int, stamps: list[int]) -> list[list[int]]:
    """Return at each stamp when what came then was seen."""
    queue.restart(begin_ns)
    come = []
    for stamp in stamps:
        if queue.is_due(stamp):
            queue.push(stamp, stamp, stamp)
        come.append([seen for seen, what in queue.pop_arrived(stamp) if what == seen])
    return come


def test_the_first_is_there_at_once_and_the_others_when_their_latency_is_over() -> None:
    queue: SensorQueue[int] = SensorQueue(15.0, 30 * MS)
    come = run(queue, 1000 * MS, [(1000 + 10 * k) * MS for k in range(22)])
    there = {k: [(ns - 1000 * MS) // MS for ns in seen] for k, seen in enumerate(come) if seen}
    assert there == {0: [0], 10: [70], 17: [140]}
    assert queue.newest == (1140 * MS, 1140 * MS)
    queue.restart(5000 * MS)
    assert queue.newest is None and not queue.pop_arrived(9000 * MS) and queue.is_due(5000 * MS)


@settings(deadline=None)
@given(
    begin_ns=st.integers(0, 10**15),
    control_hz=st.sampled_from([20.0, 30.0, 50.0, 100.0, 333.0]),
    rate_hz=st.floats(1.0, 60.0),
    latency_s=st.one_of(st.just(0.0), st.sampled_from([0.03, 1.0 / 30.0, 0.1]), st.floats(0.0, 0.3)),
)
def test_who_waits_knows_which_one_is_to_come(
    begin_ns: int, control_hz: float, rate_hz: float, latency_s: float
) -> None:
    latency_ns, step_ns = seconds_to_ns(latency_s), round(NANOSECONDS / control_hz)
    stamps = [begin_ns + seconds_to_ns(k / control_hz) for k in range(80)]
    newest = -1
    for stamp, seen in zip(stamps, run(SensorQueue(rate_hz, latency_ns), begin_ns, stamps)):
        newest = seen[-1] if seen else newest
        there = samples_arrived(stamp - begin_ns, rate_hz, latency_ns, step_ns)
        assert samples_until(newest - begin_ns, rate_hz) == there


def test_turns_before_the_first_are_below_zero() -> None:
    assert (
        samples_until(-1000 * MS, 15.0) == -15 and samples_until(0, 15.0) == 0 and samples_until(1000 * MS, 15.0) == 15
    )
    assert samples_arrived(50 * MS, 15.0, 80 * MS, 10 * MS) == 0
