"""The curves of `compare.py`'s runs, as a picture and as numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from rlstack.errors import UserError
from rlstack.files import write_atomically


def draw(runs: Path, arms: Sequence[str], seeds: Sequence[int], out: Path) -> None:
    """Write `out`.png and `out`.json: success against environment steps, of those seeds that are there."""
    from matplotlib.figure import Figure

    every = [json.loads(path.read_text()) for path in sorted(runs.glob("*/curve.json"))]
    found = [curve for curve in every if curve["arm"] in arms and curve["seed"] in seeds and curve["points"]]
    each = {arm: [curve for curve in found if curve["arm"] == arm] for arm in arms}
    if not any(each.values()):
        raise UserError(f"{runs} holds no runs: learn first.")
    figure = Figure(figsize=(7.0, 4.0), dpi=100, layout="constrained")
    axes = figure.add_subplot()
    for number, (arm, curves) in enumerate(each.items()):
        if not curves:
            continue
        colour, shares = f"C{number}", [_shares(curve) for curve in curves]
        for share in shares:
            axes.plot(*zip(*share.items()), color=colour, alpha=0.25, linewidth=1)
        common = sorted(set.intersection(*(set(share) for share in shares)))
        means = [mean(share[steps] for share in shares) for steps in common]
        axes.plot(common, means, color=colour, linewidth=2, marker="o", label=f"{arm} ({len(curves)})")
    axes.axhline(95.0, color="0.6", linestyle=":", linewidth=1)
    axes.set(xlabel="environment steps", ylabel="success, % of held-out episodes", ylim=(-2, 102), xlim=(0, None))
    axes.legend(title="mean of seeds (how many)", loc="lower right")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out.with_suffix(".png"))
    write_atomically(out.with_suffix(".json"), json.dumps(found, separators=(",", ":")) + "\n")
    for arm, curves in each.items():
        for curve in curves:
            points = "  ".join(f"{point['steps']}: {point['won']}/{point['of']}" for point in curve["points"])
            print(f"{arm:18} seed {curve['seed']:3}  {points}  {curve['cpu_s']:.0f} CPU-s")


def _shares(curve: dict[str, Any]) -> dict[int, float]:
    return {point["steps"]: 100.0 * point["won"] / point["of"] for point in curve["points"]}
