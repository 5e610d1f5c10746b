"""Which members of a population go on from another's checkpoint, and with what settings: PBT and PB2.

PBT: Jaderberg et al., "Population Based Training of Neural Networks" (arXiv 1711.09846), with its truncation selection.
PB2: see :mod:`rlstack.bringup.sweep.gaussian_process`. All is drawn by generators seeded with the sweep's seed, the
generation and the member, and follows from the figures of the generations before, and from nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.sweep.gaussian_process import DriftingProcess
from rlstack.bringup.sweep.plan import Plan
from rlstack.bringup.sweep.space import Range, setting_at, share_of

_QUARTER = 0.25
"""Share of the members that are replaced, and of those that they are replaced by."""
_DRAWN_ANEW = 0.25
"""How often PBT draws a setting anew, rather than changing it by :data:`_FACTORS`."""
_FACTORS = 1.2, 0.8
_STEP = 0.1
"""Share of its range by which a setting changes that may be 0 or less."""
_CANDIDATES = 2048
"""Settings of which PB2 takes the most promising ones."""


@dataclass(frozen=True)
class Member:
    """A member of a population after a generation.

    Args:
        number: The member.
        run: Name of its run's folder.
        parent: The member from whose checkpoint it went on in this generation; None: its own, or none yet.
        values: Its settings in this generation, by path.
        value: The figure at the end; None if the training failed.
        over: By how much it is beyond each constraint; 0 or less: within.
        cpu_seconds: What this generation took.
        why: Why it failed.
    """

    number: int
    run: str
    parent: int | None
    values: dict[str, Any]
    value: float | None
    over: tuple[float, ...]
    cpu_seconds: float
    why: str = ""

    @property
    def counts(self) -> bool:
        """Whether it did not fail, and keeps all constraints."""
        return self.value is not None and all(beyond <= 0.0 for beyond in self.over)


Generation = Sequence[Member]


def merit(plan: Plan, one: Member) -> tuple[float, ...]:
    """Return what members are ordered by, the best first: those that keep the constraints, the rest by how much."""
    if one.value is None:
        return (math.inf,)
    return sum(max(0.0, beyond) for beyond in one.over), one.value if plan.lower else -one.value


def best_first(plan: Plan, members: Generation) -> list[Member]:
    """Return members in their order; the first of equal ones comes first."""
    return sorted(members, key=lambda one: (merit(plan, one), one.number))


def first_settings(plan: Plan) -> list[dict[str, Any]]:
    """Return the members' first settings: evenly over each range, in a random order (a Latin hypercube)."""
    rng = np.random.default_rng([plan.seed, 0])
    count = plan.population
    shares = {one.path: (rng.permutation(count) + rng.random(count)) / count for one in plan.ranges}
    return [{one.path: setting_at(one, float(shares[one.path][k])) for one in plan.ranges} for k in range(count)]


def next_settings(plan: Plan, past: Sequence[Generation]) -> list[tuple[int, dict[str, Any]]]:
    """Return for each member the one whose checkpoint it goes on from, and its settings; itself: it goes on as it is.

    Args:
        plan: The sweep's plan.
        past: All generations so far.
    """
    order = best_first(plan, past[-1])
    count = max(1, round(_QUARTER * len(order)))
    best = order[:count]
    worst = {one.number for one in order[-count:] if merit(plan, one) > merit(plan, best[-1])}
    left = worst | {one.number for one in order if one.value is None}
    best = [one for one in best if one.value is not None]
    model = _model(plan, past) if plan.search == "pb2" else None
    tried = [_shares(plan, one.values) for one in past[-1] if one.number not in left]
    found = []
    for one in past[-1]:
        if one.number not in left:
            found.append((one.number, one.values))
            continue
        rng = np.random.default_rng([plan.seed, len(past), one.number])
        parent = best[rng.integers(len(best))]
        if model is None:
            values = {r.path: _perturbed(r, parent.values[r.path], rng) for r in plan.ranges}
        else:
            drawn = rng.random((_CANDIDATES, len(plan.ranges)))
            chosen = drawn[np.argmax(model.upper_bound(drawn, float(len(past)), np.array(tried)))]
            values = {r.path: setting_at(r, float(share)) for r, share in zip(plan.ranges, chosen)}
            tried.append(_shares(plan, values))
        found.append((parent.number, values))
    return found


def _shares(plan: Plan, values: Mapping[str, Any]) -> list[float]:
    return [share_of(one, values[one.path]) for one in plan.ranges]


def _model(plan: Plan, past: Sequence[Generation]) -> DriftingProcess:
    """Return what is known of how settings improve the figure, by the differences among each generation's members."""
    settings: list[list[float]] = []
    times: list[float] = []
    gains: list[Array] = []
    before: dict[int, float | None] = {}
    for time, members in enumerate(past):
        seen, gained = [], []
        for one in members:
            began = before.get(one.number if one.parent is None else one.parent, 0.0)
            if one.value is not None and began is not None:
                seen.append(_shares(plan, one.values))
                gained.append((one.value - began) * (-1.0 if plan.lower else 1.0))
        before = {one.number: one.value for one in members}
        if gained:
            apart = np.array(gained) - np.mean(gained)
            settings += seen
            times += [float(time)] * len(seen)
            gains.append(apart / (np.std(apart) or 1.0))
    return DriftingProcess(np.array(settings), np.array(times), np.concatenate(gains))


def _perturbed(one: Range, value: Any, rng: np.random.Generator) -> Any:
    """Return another value of a setting: near the present one, or anywhere."""
    anew, up, share = rng.random() < _DRAWN_ANEW, bool(rng.random() < 0.5), float(rng.random())
    if anew:
        return setting_at(one, share)
    if one.values:
        at = one.values.index(value) + (1 if up else -1)
        return one.values[at if 0 <= at < len(one.values) else one.values.index(value) - (1 if up else -1)]
    for upwards in (up, not up):  # the other way, if it is at the end already
        if one.low > 0.0:
            changed = value * _FACTORS[0 if upwards else 1]
        else:
            changed = value + (1.0 if upwards else -1.0) * _STEP * (one.high - one.low)
        if one.whole:
            changed = round(changed) if round(changed) != value else value + (1 if upwards else -1)
        changed = type(value)(min(max(float(f"{changed:.4g}"), one.low), one.high))
        if changed != value:
            return changed
    return value
