"""What the guard did and why: its modes with their reasons, and the policy's commands that it changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rlstack.bringup.explain.events import Event, joined
from rlstack.bringup.explain.recorded_run import RecordedRun, Said
from rlstack.guard.decision import CommonMode, Mode
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.kinds import find_kind

_CHANGED = 1e-6
"""Difference from which a command was changed, as a share of its range."""
_APART_S = 0.2
"""Changes that follow each other closer than this are one."""
_REASON_S = 0.5
"""A reason is sent just before its mode; the two topics may be received in another order, and a little apart."""


@dataclass(frozen=True)
class Stay:
    """The time for which the guard was in a mode.

    Args:
        mode: The mode.
        role: ``off``, ``normal`` or ``intervention``.
        start_s: When it began, since the bag began.
        end_s: When it ended.
        reason: Why it was entered.
        intervened: Whether it took over from the policy.
    """

    mode: str
    role: str
    start_s: float
    end_s: float
    reason: str
    intervened: bool


@dataclass
class GuardLog:
    """What the guard did.

    Args:
        stays: Its modes.
        limited: Share of the policy's commands that it changed while the policy commanded, None: unknown.
        limits: When it did.
    """

    stays: list[Stay] = field(default_factory=list)
    limited: float | None = None
    limits: list[Event] = field(default_factory=list)

    @property
    def interventions(self) -> list[Stay]:
        """Where it took over from the policy."""
        return [stay for stay in self.stays if stay.intervened]

    @property
    def events(self) -> list[Event]:
        """All of it on the timeline."""
        shown = [
            Event("guard", s.start_s, s.end_s, s.mode, f"{s.mode}: {s.reason}" if s.reason else s.mode, s.intervened)
            for s in self.stays
        ]
        return [*shown, *self.limits]


def guard_log(run: RecordedRun) -> GuardLog:
    """Return what the guard did in a recording."""
    roles = {str(mode): mode.role for mode in _modes(run)}
    modes, reasons = run.said.get(topics.GUARD_MODE, []), run.said.get(topics.GUARD_REASON, [])
    log = GuardLog()
    changes = [said for k, said in enumerate(modes) if k == 0 or said.text != modes[k - 1].text]
    for k, said in enumerate(changes):
        until_ns = changes[k + 1].at_ns if k + 1 < len(changes) else run.last_ns
        before = changes[k - 1].text if k else ""
        role = roles.get(said.text, "intervention")
        intervened = before == CommonMode.POLICY and role == "intervention"
        start_s, end_s = run.seconds(said.at_ns), run.seconds(until_ns)
        log.stays.append(Stay(said.text, role, start_s, end_s, _reason(said, reasons), intervened))
    _limits(run, log)
    return log


def _reason(mode: Said, reasons: Sequence[Said]) -> str:
    """Return the reason that was sent with a mode; empty: it is not in the bag."""
    nearest = min(reasons, key=lambda one: abs(one.at_ns - mode.at_ns), default=None)
    if nearest is None or abs(nearest.at_ns - mode.at_ns) > _REASON_S * NANOSECONDS:
        return ""
    return nearest.text


def _modes(run: RecordedRun) -> set[Mode]:
    guard = find_kind(run.robot.kind).load("guard")
    return {mode for one in guard.transitions() for mode in (one.source, one.target)}


def _limits(run: RecordedRun, log: GuardLog) -> None:
    """Find the commands that were changed while the policy commanded, by the stamp that both have."""
    with_policy = [(s.start_s, s.end_s) for s in log.stays if s.mode == CommonMode.POLICY]
    total, found = 0, list[Event]()
    for port in run.policy.contract.outputs:
        said, passed = run.commands[port.name], run.passed[port.name]
        low, high = port.limits
        width = np.maximum(np.ravel(high - low), 1e-12)
        for number, stamp in enumerate(passed.stamp_ns.tolist()):
            time_s = run.seconds(passed.received_ns[number])
            other = said.number_of(stamp)
            if other is None or not any(start <= time_s < end for start, end in with_policy):
                continue
            one, two = np.ravel(said.values(other)[port.name]), np.ravel(passed.values(number)[port.name])
            if one.shape != two.shape:
                continue
            total += 1
            share = np.abs(one - two) / width
            k = int(np.argmax(share))
            if share[k] > _CHANGED:
                name = port.element_names[k] if port.element_names else f"{port.name}[{k}]"
                text = f"the guard limited {name}: {one[k]:.4g} {port.unit} from the policy, {two[k]:.4g} let through"
                found.append(Event("guard", time_s, time_s, "limited", text, bad=False))
    log.limited = len(found) / total if total else None
    log.limits = joined(found, _APART_S)
