"""Gymnasium's spaces of a task."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rlstack.tasks.quadrotor.external_step import ExternalStep


def action_space(step: ExternalStep) -> spaces.Box:
    """Return -1..1 for each action, from the least to the most that can be commanded."""
    return spaces.Box(-1.0, 1.0, (step.pipeline.action_size,), np.float32)


def observation_space(step: ExternalStep) -> spaces.Space:
    """Return a box of the columns of the observation, or a dictionary of boxes by signal."""
    if step.kind == "policy":
        return spaces.Box(-step.bounds, step.bounds, dtype=np.float32)
    found, start = {}, 0
    for name, shape in step.shapes.items():
        end = start + int(np.prod(shape))
        most = step.bounds[start:end].reshape(shape)
        found[name] = spaces.Box(-most, most, dtype=np.float32)
        start = end
    return spaces.Dict(found)
