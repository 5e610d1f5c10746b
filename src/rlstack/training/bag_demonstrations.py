"""Demonstrations of an arm's task from ROS 2 bags, read without ROS; each bag is a successful episode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.data.bags import Recording, open_bag
from rlstack.demonstrations.from_bag import check_senses, convert
from rlstack.demonstrations.task_file import task_name

_FILES = (".mcap", ".db3")
_OF_A_BAG = "metadata.yaml"


def bags_in(path: Path) -> list[Path]:
    """Return the bags at a path: a bag, or those in a folder; empty: there are none."""
    if (path / _OF_A_BAG).is_file() or (path.is_file() and path.suffix in _FILES):
        return [path]
    inside = sorted(path.iterdir()) if path.is_dir() else []
    return [one for one in inside if (one / _OF_A_BAG).is_file() or (one.is_file() and one.suffix in _FILES)]


class BagDemonstrations:
    """The demonstrations in bags.

    Args:
        path: A bag, or a folder of them.
        environment: Environment of the task, whose inputs and rate they are read at.

    Raises:
        UserError: A bag cannot be read, is of a robot with other joints, or lacks a topic or image size that the task
            senses; says which.
    """

    def __init__(self, path: Path, environment: Any) -> None:
        self.path = path
        self._environment = environment
        self._name = task_name(environment.task)
        self._bags = bags_in(path)
        for number in range(len(self._bags)):
            check_senses(self._opened(number), self._name, environment.task, environment.robot)

    def numbers(self, most: int) -> list[int]:
        """Return the numbers of the first demonstrations."""
        return list(range(len(self._bags)))[:most]

    def length(self, number: int) -> int:
        """Return the largest number of frames that a demonstration can have."""
        stamps = self._opened(number).state_ns
        return int((stamps[-1] - stamps[0]) / 1e9 * self._environment.task.rate_hz) + 2

    def frames(self, number: int) -> dict[str, NDArray[Any]]:
        """Return the frames of a demonstration, by feature.

        Raises:
            UserError: A topic was silent, the bag is slower than the task, or its commands are not the task's motions.
        """
        task, robot = self._environment.task, self._environment.robot
        shown = convert(self._opened(number), self._name, task, robot, succeeded=True).frames
        return {name: np.stack([frame[name] for frame in shown]) for name in shown[0]}

    def where(self, number: int) -> str:
        """Return what to call a demonstration in a sentence."""
        return str(self._bags[number])

    def _opened(self, number: int) -> Recording:
        return open_bag(self._bags[number], tuple(drive.name for drive in self._environment.robot.drives))
