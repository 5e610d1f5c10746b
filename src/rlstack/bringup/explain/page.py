"""The explanation as one self-contained HTML page: the conclusion, the run in 3D, and a timeline that follows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rlstack.bringup.explain import text
from rlstack.bringup.explain.events import Event, Lane
from rlstack.bringup.explain.explanation import Explanation
from rlstack.bringup.explain.scene import scene_page
from rlstack.verification.html_page import rendered

_TEMPLATE = Path(__file__).with_name("page.html.jinja")
_LANES: Mapping[Lane, str] = {
    "guard": "guard",
    "commands": "commands",
    "inputs": "inputs",
    "range": "training range",
}
_LEAST_PERCENT = 0.25
"""Least width of a mark."""

_FOLLOWS = """<script>
"use strict";
(() => {
  const box = () => document.querySelector("input");
  const write = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
  setInterval(() => {
    const input = box();
    if (input) parent.postMessage({ replayed_s: parseFloat(input.value) }, "*");
  }, 100);
  addEventListener("message", (event) => {
    const input = box();
    if (!input || typeof event.data.seek_s !== "number") return;
    write.call(input, event.data.seek_s.toFixed(2));
    input.dispatchEvent(new Event("input", { bubbles: true }));
  });
})();
</script>"""
"""Tells the page around the replay of the time that its player shows, and takes one from there."""


@dataclass(frozen=True)
class Mark:
    """A mark of the timeline.

    Args:
        left: Where it begins, % of the width.
        wide: Its width, %.
        css: Its class.
        label: What is written in it.
        text: What is said of it.
        start_s: Where it begins, s.
    """

    left: float
    wide: float
    css: str
    label: str
    text: str
    start_s: float


def render(found: Explanation) -> str:
    """Return the page; the template escapes all its values.

    Raises:
        UserError: Jinja2 is not installed.
    """
    run = found.run
    end_s = max(run.seconds(run.last_ns), 1e-3)
    scene, missing = scene_page(run, f"{run.namespace.strip('/')}: {run.policy.contract.name}", "end of the recording")
    return rendered(
        _TEMPLATE,
        hint=", or give --no-page",
        found=found,
        run=run,
        end_s=end_s,
        lanes={name: [_mark(e, found, end_s) for e in found.events if e.lane == lane] for lane, name in _LANES.items()},
        scene=scene.replace("</body>", f"{_FOLLOWS}</body>") if scene else "",
        missing=missing,
        parts={
            "Commands, run again": text.commands(found),
            "Inputs": text.inputs(found),
            "Guard": text.guard(found),
            "Training": text.training(found),
            "Which inputs mattered": text.mattered(found.influences),
        },
    )


def _mark(event: Event, found: Explanation, end_s: float) -> Mark:
    left = min(max(100.0 * event.start_s / end_s, 0.0), 100.0)
    wide = min(max(100.0 * (event.end_s - event.start_s) / end_s, _LEAST_PERCENT), 100.0 - left + _LEAST_PERCENT)
    roles = {stay.mode: stay.role for stay in found.guard.stays}
    css = roles.get(event.title, "") if event.lane == "guard" else ""
    return Mark(
        left,
        wide,
        css or ("bad" if event.bad else "note"),
        event.title if wide > 5.0 else "",
        event.text,
        event.start_s,
    )
