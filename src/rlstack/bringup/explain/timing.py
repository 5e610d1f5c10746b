"""Delay, jitter, gaps and losses of a recorded policy's inputs and commands, against what its file allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.explain.events import Event, joined
from rlstack.bringup.explain.recorded_run import RecordedRun, Stream
from rlstack.bringup.explain.steps import Step
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.nodes.live_check import LiveCheck
from rlstack.policies.proven import proven_for
from rlstack.policies.record import read_record

_GAP = 2.5
"""An interval this many times the usual one is a gap: two messages in a row are missing."""
_TOLD = 200
"""Most faults of a kind that are told one by one."""


@dataclass
class InputTiming:
    """Timing of one input topic; times in s.

    Args:
        topic: Its name.
        messages: How many the bag has.
        lost: How many did not arrive at the recorder.
        rate_hz: Mean rate by their stamps.
        least_hz: Lowest rate that the policy is proven for.
        jitter_s: Standard deviation of the intervals between stamps.
        delay_s: Median and 99% of the time from stamp to receipt; None: the clocks are not known.
        delay_limit_s: Greatest delay that is proven, and where that comes from.
        age_s: Median and greatest age at the steps of the policy.
        age_limit_s: Greatest age on which the policy may act; None: none is stated.
        faults: What is outside, on the timeline.
    """

    topic: str
    messages: int
    lost: int
    rate_hz: float = 0.0
    least_hz: float = 0.0
    jitter_s: float = 0.0
    delay_s: tuple[float, float] | None = None
    delay_limit_s: tuple[float, str] = (0.0, "")
    age_s: tuple[float, float] | None = None
    age_limit_s: float | None = None
    faults: list[Event] = field(default_factory=list)


def input_timings(run: RecordedRun, steps: Sequence[Step]) -> list[InputTiming]:
    """Return the timing of each input."""
    contract = run.policy.contract
    proof = read_record(run.policy.path).proof_of(run.policy.sha256)
    check = LiveCheck(contract, proven_for(contract, proof), run.robot)
    allowed = contract.envelope.max_age_s
    found = []
    for topic, stream in run.inputs.items():
        ports = [port for port in contract.inputs if port.topic == topic]
        own = [p.picture.max_age_s for p in ports if p.picture] or [allowed[p.name] for p in ports if p.name in allowed]
        made = InputTiming(topic, len(stream), run.lost.get(topic, 0), age_limit_s=min(own) if own else None)
        made.least_hz, made.delay_limit_s = check.rate_limit_hz(topic), check.delay_limit_s(topic)
        if len(stream) > 1:
            _measure(run, stream, made)
        _ages(run, steps, topic, made)
        made.faults += [
            Event(
                "inputs",
                run.seconds(at),
                run.seconds(at),
                f"{topic} refused",
                f"{topic}: a message cannot be read: {why}",
            )
            for at, why in stream.refused[:_TOLD]
        ]
        if made.lost:
            end_s = run.seconds(run.last_ns)
            text = f"{topic}: {made.lost} messages did not arrive at the recorder, and maybe not at the policy"
            made.faults.append(Event("inputs", 0.0, end_s, f"{topic} lost", text, bad=False))
        found.append(made)
    return found


def _measure(run: RecordedRun, stream: Stream, made: InputTiming) -> None:
    stamps, at = stream.stamp_ns, stream.received_ns
    apart = np.diff(stamps) / NANOSECONDS
    ahead = apart[apart > 0.0]
    usual_s = float(np.median(ahead)) if len(ahead) else 0.0
    made.rate_hz = 1.0 / float(ahead.mean()) if len(ahead) else 0.0
    made.jitter_s = float(np.std(ahead[ahead < _GAP * usual_s])) if len(ahead) else 0.0
    topic, faults = made.topic, made.faults
    for k in np.flatnonzero(apart < 0.0).tolist()[:_TOLD]:
        time_s = run.seconds(at[k + 1])
        text = f"{topic}: message {k + 2} is out of order: its stamp is {-apart[k]:.3f} s before the last one's"
        faults.append(Event("inputs", time_s, time_s, f"{topic} out of order", text))
    gap_s = max(_GAP * usual_s, 1.0 / made.least_hz if made.least_hz else 0.0)
    for k in np.flatnonzero(apart > gap_s).tolist()[:_TOLD]:
        text = f"{topic}: {apart[k]:.3f} s between messages {k + 1} and {k + 2}, {usual_s:.3f} s are usual"
        faults.append(Event("inputs", run.seconds(at[k]), run.seconds(at[k + 1]), f"{topic} gap", text))
    if made.rate_hz < made.least_hz:
        text = f"{topic}: comes at {made.rate_hz:.3g} Hz, proven down to {made.least_hz:.3g} Hz"
        faults.append(Event("inputs", run.seconds(at[0]), run.seconds(at[-1]), f"{topic} slow", text))
    arrived = run.on_stamps_clock(at)
    if arrived is not None:
        _delays(run, stream, arrived, made)


def _delays(run: RecordedRun, stream: Stream, arrived: Array, made: InputTiming) -> None:
    delay = (arrived - stream.stamp_ns) / NANOSECONDS
    made.delay_s = float(np.median(delay)), float(np.quantile(delay, 0.99))
    limit_s, source = made.delay_limit_s
    late = [
        Event(
            "inputs",
            run.seconds(stream.received_ns[k]),
            run.seconds(stream.received_ns[k]),
            f"{made.topic} late",
            f"{made.topic}: message {k + 1} was {1000.0 * delay[k]:.0f} ms old when the recorder received it, proven up"
            f" to {1000.0 * limit_s:.0f} ms ({source})",
        )
        for k in np.flatnonzero(delay > limit_s).tolist()
    ]
    # the recorder gives way to everything else: a single message may have waited for it alone
    made.faults += [replace(one, bad=one.end_s > one.start_s) for one in joined(late, 0.5)[:_TOLD]]


def _ages(run: RecordedRun, steps: Sequence[Step], topic: str, made: InputTiming) -> None:
    used = [
        (step, (step.stamp_ns - step.stamps[topic]) / NANOSECONDS) for step in steps if step.stamps.get(topic, -1) >= 0
    ]
    if not used or topic == run.trigger:
        return
    ages = np.array([age for _, age in used])
    made.age_s = float(np.median(ages)), float(ages.max())
    limit_s = made.age_limit_s
    if limit_s is None:
        return
    old = [
        Event(
            "inputs",
            run.seconds(step.at_ns),
            run.seconds(step.at_ns),
            f"{topic} old",
            f"{topic}: {1000.0 * age:.0f} ms older than the observation that a step answered,"
            f" {1000.0 * limit_s:.0f} ms allowed",
        )
        for step, age in used
        if age > limit_s
    ]
    made.faults += joined(old, 0.5)[:_TOLD]


def silences(run: RecordedRun) -> list[Event]:
    """Return where the policy sent no command for more than two control periods, and commands out of order."""
    period_s, found = 1.0 / run.policy.contract.rate_hz, list[Event]()
    answered = run.inputs[run.trigger].stamp_ns
    for stream in run.commands.values():
        apart = np.diff(stream.stamp_ns) / NANOSECONDS
        for k in np.flatnonzero(apart > _GAP * period_s).tolist()[:_TOLD]:
            start_s, end_s = run.seconds(stream.received_ns[k]), run.seconds(stream.received_ns[k + 1])
            came = int(((answered > stream.stamp_ns[k]) & (answered < stream.stamp_ns[k + 1])).sum())
            why = f"{came} messages of {run.trigger} were there" if came else f"no message of {run.trigger} was there"
            text = f"{stream.topic}: no command for {apart[k]:.3f} s, after message {k + 1}; {why} in between"
            found.append(Event("commands", start_s, end_s, "no command", text))
        for k in np.flatnonzero(apart < 0.0).tolist()[:_TOLD]:
            at_s = run.seconds(stream.received_ns[k + 1])
            text = f"{stream.topic}: message {k + 2} is out of order, its stamp is {-apart[k]:.3f} s before the last"
            found.append(Event("commands", at_s, at_s, "out of order", text))
    return sorted(found, key=lambda one: one.start_s)
