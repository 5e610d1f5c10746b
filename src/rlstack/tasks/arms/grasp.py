"""Taking hold of something with sides, as scripted experts do it: above it, turned to its sides, down, and close."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlstack.tasks.arms.expert import yaw_to_sides

Array = NDArray[np.float64]

ABOVE = 0.08
"""m above the thing where the hand turns and opens before it goes down."""


@dataclass(frozen=True)
class Grasp:
    """What N hands do next to take hold of something.

    Args:
        place: (N, 3) m where the tool is to be led.
        turn: (N,) rad that it is to turn about the vertical.
        grip: (N,) action of the gripper.
        held: (N,) whether the thing is between the fingers.
    """

    place: Array
    turn: Array
    grip: Array
    held: NDArray[np.bool_]


def grasp(seen: Mapping[str, Array]) -> Grasp:
    """Return the next move of N hands; the script remembers nothing.

    Args:
        seen: Prepared inputs of :class:`rlstack.tasks.arms.pipeline.ArmPipeline`, as numpy arrays.
    """
    thing, tool = seen["object_position"], seen["tool_position"]
    opening, wanted = seen["opening"][:, 0], seen["opening_target"][:, 0]
    away = tool - thing
    level, height = np.linalg.norm(away[:, :2], axis=1), away[:, 2]
    # fingers that are told to close and do not: something is between them
    held = (opening - wanted > 0.1) & (level < 0.025) & (np.abs(height) < 0.025)
    around = (level < 0.02) & (height < 0.012)
    aligned = (level < 0.012) & (np.abs(yaw_to_sides(seen, "tool_yaw")) < 0.15)
    over = thing + np.array([0.0, 0.0, ABOVE])
    descending = (aligned | (height < 0.4 * ABOVE) & (level < 0.02)) & (opening > 0.7)
    place = np.where(descending[:, None], thing, over)
    # up first, if the hand is low beside it
    beside = ~descending & (height < 0.6 * ABOVE)
    place = np.where(beside[:, None], np.stack([tool[:, 0], tool[:, 1], over[:, 2]], axis=1), place)
    place = np.where((around & ~held)[:, None], thing, place)
    turn = np.where(held | around, 0.0, yaw_to_sides(seen))
    return Grasp(place, turn, np.where(around | held, -1.0, 1.0), held)
