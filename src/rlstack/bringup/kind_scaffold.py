"""Starting files for robots of one kind: what they start from, and how the values of a robot file are measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_SENSING: Mapping[str, str] = {
    "control_rate_hz": "Hz: commands a second that the robot takes; its driver or autopilot states it",
    "sensors": "by topic, each with its rate_hz as `ros2 topic hz TOPIC` measures it on the robot. Noise is a standard"
    " deviation: record the topic for a minute while the robot rests, and take it of each value, in the key's unit",
    "cameras": "by name. position_m (m) and rpy_rad (rad) in base_link: measure with a ruler, or take them from the"
    " CAD; width, height and rate_hz as the driver is set; horizontal_fov_rad (rad): from the calibration,"
    " 2 atan(width / (2 fx)); latency_s (s): film a clock and compare it with the stamp",
    "lidars": "by topic. position_m (m): where the beam leaves, in base_link; rays, angles (rad) and ranges (m): one"
    " message of the driver states them; noise_m (m): standard deviation at a wall 1 m away",
}
"""How to find the values that every kind has."""


@dataclass(frozen=True)
class KindScaffold:
    """Starting files for robots of one kind.

    Args:
        robot: The robot that a new file starts from if none is named.
        recipe: Likewise the recipe; its task is the one that a new task starts from.
        task_class: Base class of the tasks that ``task_body`` extends, as ``module:name``.
        transition: What a reward term takes, likewise; ``Transition`` in ``task_body`` stands for its name.
        task_body: Fields and methods of a new task's class, which add one reward term.
        measure: How to find each value, by its keys in the robot file with dots; a section's sentence covers its keys.
        short: Options, each with its value, with which the recipe trains for a moment, in tests.
    """

    robot: str
    recipe: str
    task_class: str
    transition: str
    task_body: str
    measure: Mapping[str, str]
    short: tuple[str, ...]

    def how(self, keys: str) -> str:
        """Return how to find the value under ``keys``, or an empty string."""
        return {**_SENSING, **self.measure}.get(keys, "")
