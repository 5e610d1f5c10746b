"""Meta-World as a package with an environment of its own, since it pins another MuJoCo."""

from __future__ import annotations

from collections.abc import Sequence
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


def dealt(tasks: Sequence[str], workers: int) -> list[list[str]]:
    """Return the tasks of each worker."""
    return [list(tasks[k::workers]) for k in range(workers)]
