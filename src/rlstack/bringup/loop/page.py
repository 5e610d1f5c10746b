"""The report of a loop: what each turn found and changed, as a table, a page and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlstack.text_table import aligned
from rlstack.verification.drawing import COLOURS, new_figure
from rlstack.verification.plain_page import write_plain_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TEMPLATE = Path(__file__).with_name("page.html.jinja")
_HEADER = ("turn", "flown before", "after", "gap over 1 s before", "after", "told", "not told", "proof")


def rows(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each turn of a loop's ``loop.json``, as texts; what is not there yet is empty."""
    turns: list[dict[str, Any]] = list(data["turns"])
    flights = [turn.get("fly") for turn in turns[1:]] + [data.get("last")]
    found = []
    for turn, after in zip(turns, flights):
        told = turn.get("identify", {})
        parameters: dict[str, Any] = told.get("parameters", {})
        proof = turn.get("prove")
        found.append(
            {
                "turn": str(turn["turn"]),
                "before": _accuracy(turn.get("fly")),
                "after": _accuracy(after),
                "gap_before": _gap(told, "gap_before"),
                "gap_after": _gap(told, "gap_after"),
                "told": [
                    f"{name} {one['value']:.4g}{' ' + one['unit'] if one['unit'] else ''}"
                    for name, one in parameters.items()
                    if one["verdict"] == "told"
                ],
                "kept": {name: one["why"] for name, one in parameters.items() if one["verdict"] == "kept"},
                "proof": "" if proof is None else "passed" if proof["passed"] else "not passed",
                "reasons": [] if proof is None else list(proof["reasons"]),
                "trained": turn.get("train", {}),
                "robot": turn["robot"],
                "policy": turn["policy"],
            }
        )
    return found


def table(data: Mapping[str, Any]) -> str:
    """Return the turns as text."""
    lines = [list(_HEADER)]
    for row in rows(data):
        lines.append(
            [
                row["turn"],
                row["before"],
                row["after"],
                row["gap_before"],
                row["gap_after"],
                str(len(row["told"])),
                ", ".join(row["kept"]) or "-",
                row["proof"],
            ]
        )
    return "\n".join(aligned(lines))


def write_page(path: Path, data: Mapping[str, Any]) -> None:
    """Write the page of a loop as far as it is.

    Raises:
        UserError: Jinja2 or matplotlib is missing, or it cannot be written.
    """
    caption = (
        "Left: distance from the goals where they are held, in each flight. Right: error of the position predicted 1 s"
        " ahead on held-out recordings, with the robot file before and after each turn."
    )
    plan = data["plan"]
    write_plain_page(
        path,
        _TEMPLATE,
        [("turns", "What the turns changed", caption, lambda: _figure(data))],
        title=f"{plan['recipe']} for {Path(plan['robot']).stem}: {len(data['turns'])} turns of the loop",
        scope=(
            f"Begun with the policy {plan['policy']} and the robot file {plan['robot']}; flown:"
            f" {plan['options'].get('flight', {}).get('flown') or plan['robot']}."
        ),
        rows=rows(data),
    )


def _accuracy(flight: Mapping[str, Any] | None) -> str:
    if flight is None:
        return ""
    return "not measured" if flight["accuracy_m"] is None else f"{1e3 * flight['accuracy_m']:.1f} mm"


def _gap(told: Mapping[str, Any], which: str) -> str:
    errors: Sequence[float] = told.get(which, {}).get("position", ())
    return f"{1e3 * errors[-1]:.1f} mm" if errors else ""


def _figure(data: Mapping[str, Any]) -> Figure:
    figure = new_figure(10.0, 3.2)
    left, right = figure.subplots(1, 2)
    flights = [turn.get("fly") for turn in data["turns"]] + [data.get("last")]
    flown = [(k + 1, 1e3 * one["accuracy_m"]) for k, one in enumerate(flights) if one and one["accuracy_m"] is not None]
    left.plot([k for k, _ in flown], [error for _, error in flown], "o-", color=COLOURS[0])
    left.set(xlabel="flight", ylabel="mm", title="distance from the goal", ylim=(0.0, None))
    left.set_xticks(range(1, len(flights) + 1))
    gaps = [(turn["turn"], turn["identify"]) for turn in data["turns"] if "identify" in turn]
    for which, colour in (("gap_before", COLOURS[1]), ("gap_after", COLOURS[0])):
        known = [(turn, 1e3 * told[which]["position"][-1]) for turn, told in gaps if "position" in told[which]]
        label = which.removeprefix("gap_")
        right.plot([turn for turn, _ in known], [error for _, error in known], "o-", color=colour, label=label)
    right.set(xlabel="turn", ylabel="mm", title="position predicted 1 s ahead", yscale="log")
    right.set_xticks(range(1, len(data["turns"]) + 1))
    if gaps:
        right.legend(loc="best")
    return figure
