"""Meta-World as a package with an environment of its own, since it pins another MuJoCo."""

from __future__ import annotations

from pathlib import Path

from rlstack.foreign.workers import Package
from rlstack.training.metaworld.suite import METAWORLD, MUJOCO

PACKAGE = Package(
    title="Meta-World",
    versions={"metaworld": METAWORLD, "mujoco": MUJOCO},
    why="where experts behave differently",
    program=Path(__file__).with_name("worker.py"),
    further=("packaging", "imageio"),  # packaging is missing among its requirements
)
