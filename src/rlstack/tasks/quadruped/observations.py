"""Observation terms of quadrupeds."""

from __future__ import annotations

from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.tasks.core.observations import ActionHistory, Signal, UpDirection
from rlstack.tasks.core.pipeline import Term


def stand_terms(robot: Quadruped) -> list[Term]:
    """Return the observation of a robot that stands."""
    count, meaning = len(robot.drives), "joint positions from the standing posture"
    return [
        UpDirection("up_direction"),
        Signal("linear_velocity", 3, "m/s", "of base_link, in its own axes"),
        Signal("angular_velocity", 3, "rad/s", "of base_link, in its own axes", 0.25),
        Signal("joint_offset", count, "rad", meaning, signal="joint_position", centre=robot.standing.tolist()),
        Signal("joint_velocity", count, "rad/s", "of the joints", 0.05),
        ActionHistory(count),
    ]
