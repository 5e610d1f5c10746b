"""What a policy is proven for: the margins of its verification record, or else the ranges of its training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlstack.interfaces.topics import ODOM, PEOPLE, SCAN
from rlstack.policies.contract import Contract

DELAYS = {ODOM: "odometry_delay_s", SCAN: "scan_delay_s", PEOPLE: "people_delay_s"}
"""The quantity that says how late a topic may be, where it is known for that topic alone."""


def delay_names(topic: str) -> tuple[str, ...]:
    """Return the quantities that say how late a topic may be, the closest first."""
    return (*([DELAYS[topic]] if topic in DELAYS else []), "observation_delay_s")


@dataclass(frozen=True, kw_only=True)
class Proven:
    """How far each quantity may depart from its nominal value.

    Args:
        margins: Measured margin of each axis of the record's reality grid, by its key, such as ``observation_delay_s``.
        trained: Ranges of the policy's envelope.
    """

    margins: Mapping[str, float] = field(default_factory=dict)
    trained: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def most(self, name: str, nominal: float) -> float:
        """Return the largest proven value of a quantity: its margin, else the highest trained value, else nominal."""
        if name in self.margins:
            return max(self.margins[name], nominal)
        return max(self.trained.get(name, (nominal, nominal))[1], nominal)

    def least(self, name: str, nominal: float) -> float:
        """Return the smallest proven value of a quantity, likewise."""
        if name in self.margins:
            return min(self.margins[name], nominal)
        return min(self.trained.get(name, (nominal, nominal))[0], nominal)

    def known(self, *names: str) -> str:
        """Return the first of some quantities that was measured, or else trained; the last if none was."""
        for found in (self.margins, self.trained):
            for name in names:
                if name in found:
                    return name
        return names[-1]

    def source(self, name: str) -> str:
        """Return where the limit of a quantity comes from."""
        return "verified" if name in self.margins else "trained" if name in self.trained else "nominal"


def proven_for(contract: Contract, record: Mapping[str, Any] | None = None) -> Proven:
    """Return what a policy is proven for.

    Args:
        contract: Its contract.
        record: The content of its verify.json, if there is one that is trusted.
    """
    return Proven(margins=margins_of(record or {}), trained=contract.envelope.trained)


def margins_of(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the margins of a verification record's reality grid by axis; axes without one are left out."""
    reality = record.get("reality")
    axes = reality.get("axes") if isinstance(reality, Mapping) else None
    if not isinstance(axes, Mapping):
        return {}
    found = {key: axis.get("margin") for key, axis in axes.items() if isinstance(axis, Mapping)}
    return {k: float(m) for k, m in found.items() if isinstance(m, (int, float)) and not isinstance(m, bool)}
