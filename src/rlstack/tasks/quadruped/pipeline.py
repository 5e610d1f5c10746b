"""From a quadruped's signals to the network, and from its action to joint targets about the standing posture."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.tasks.core.pipeline import Pipeline, Tensors, Term
from rlstack.tasks.core.terms import ActionHistory, Signal


class UpDirection(Term):
    """The world's up axis in ``base_link``: what there is of attitude without a heading."""

    name, size, unit, meaning = "up_direction", 3, "-", "the world's up axis in base_link"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, 3)."""
        return inputs["rotation"][:, 2]


class JointOffset(Term):
    """How far joints are from the standing posture.

    Args:
        standing: (joints,) rad.
    """

    name, unit, meaning = "joint_offset", "rad", "joint positions from the standing posture"

    def __init__(self, standing: Tensor) -> None:
        super().__init__()
        self.size = len(standing)
        self.register_buffer("standing", standing)

    standing: Tensor

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return (batch, joints)."""
        return inputs["joint_position"] - self.standing


def stand_pipeline(robot: Quadruped, action_rad: float) -> Pipeline:
    """Return the pipeline of a policy that commands joint targets at most ``action_rad`` from the standing posture."""
    standing, count = robot.standing, len(robot.drives)
    lower = np.maximum(standing - action_rad, [drive.lower for drive in robot.drives])
    upper = np.minimum(standing + action_rad, [drive.upper for drive in robot.drives])
    terms = [
        UpDirection(),
        Signal("linear_velocity", 3, "m/s", "of base_link, in its own axes"),
        Signal("angular_velocity", 3, "rad/s", "of base_link, in its own axes", 0.25),
        JointOffset(torch.tensor(standing, dtype=torch.float32)),
        Signal("joint_velocity", count, "rad/s", "of the joints", 0.05),
        ActionHistory(count),
    ]
    return Pipeline(terms, "joint_target", lower.tolist(), upper.tolist())
