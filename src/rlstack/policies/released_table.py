"""Format the released policies as plain text, for ``rlstack policies``."""

from __future__ import annotations

from collections.abc import Sequence

from rlstack.policies.contract_table import as_table
from rlstack.policies.envelope import unit_of
from rlstack.policies.released import Released

SHOWN = ("observation_delay_s", "command_delay_s", "scan_delay_s", "people_delay_s", "mass_scale", "noise_scale")
"""Margins in the table; verify.json and report.html have all."""

_HEADER = ("name", "robot", "verified", "least success", "proven up to")


def describe_released(policies: Sequence[Released]) -> str:
    """Return a table of the released policies and how to use them."""
    if not policies:
        return "No policy is released with this installation: train one with `rlstack train RECIPE`.\n"
    rows = []
    for one in policies:
        least = min(one.success.items(), key=lambda item: item[1], default=None)
        worst = "-" if least is None else f"{100.0 * least[1]:.1f}% ({least[0]})"
        margins = ", ".join(_margin(name, one.margins[name]) for name in SHOWN if name in one.margins)
        rows.append((one.name, one.robot, one.verdict, worst, margins or "no margins recorded"))
    name = policies[0].name
    hints = (
        f"rlstack up deploy --policy {name}    runs one over ROS 2 topics",
        f"rlstack show {name}                  prints its inputs, outputs and envelope",
        f"rlstack verify {name} --robot NAME   proves it again, or for another robot of its family",
    )
    return as_table(_HEADER, rows) + "\n\n" + "\n".join(f"  {hint}" for hint in hints) + "\n"


def _margin(name: str, margin: float) -> str:
    shown = name.removesuffix("_s").removesuffix("_scale").replace("_", " ")
    if unit_of(name) == "s":
        return f"{shown} {1000.0 * margin:.3g} ms"
    return f"{shown} x{margin:.3g}"
