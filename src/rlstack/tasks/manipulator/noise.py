"""What of an arm and its object is sensed, with a task's noise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlstack.arrays import Array
from rlstack.robots import frames
from rlstack.tasks.manipulator.trials import ArmNoise


def noisy(noise: ArmNoise, signals: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Return signals (..., elements) as they are sensed; those that the noise does not know stay as they are."""
    sensed = dict(signals)
    for name, sigma in (("joint_position", noise.joint_rad), ("joint_velocity", noise.joint_velocity_rad_s)):
        sensed[name] = signals[name] + sigma * rng.standard_normal(signals[name].shape)
    if "object_position" in signals:
        place, turn = signals["object_position"], signals["object_orientation"]
        sensed["object_position"] = place + noise.object_m * rng.standard_normal(place.shape)
        about = frames.from_rotation_vector(noise.object_rad * rng.standard_normal((*turn.shape[:-1], 3)))
        sensed["object_orientation"] = frames.multiply(about, turn)
    return sensed
