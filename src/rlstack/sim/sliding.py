"""Sliding obstacles of a world and the parts fixed to them, the same for every engine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots import frames
from rlstack.sim.obstacle import Obstacle


def parts_of(obstacles: Sequence[Obstacle], where: str) -> dict[str, tuple[Obstacle, ...]]:
    """Return, by name of each sliding obstacle, the parts fixed to it.

    Args:
        obstacles: All obstacles of a world.
        where: Name of the world in errors.

    Raises:
        UserError: An obstacle is part of one that does not exist or does not slide.
    """
    found: dict[str, tuple[Obstacle, ...]] = {o.name: () for o in obstacles if o.slide is not None}
    for obstacle in obstacles:
        if not obstacle.part_of:
            continue
        if obstacle.part_of not in found:
            sliding = ", ".join(found) or "none"
            raise UserError(
                f"{where}: '{obstacle.name}' is part_of '{obstacle.part_of}', which is no obstacle that slides"
                f" (those that do: {sliding}): give it a slide, or leave part_of out."
            )
        found[obstacle.part_of] = (*found[obstacle.part_of], obstacle)
    return found


def seen_from(body: Obstacle, part: Obstacle) -> tuple[Array, float]:
    """Return the pose of a part in the frame of its sliding obstacle: (3,) m and a yaw, rad."""
    away = np.array(part.position_m) - np.array(body.position_m)
    return frames.rotate_inverse(frames.from_yaw(body.yaw_rad), away), part.yaw_rad - body.yaw_rad


def slid(body: Obstacle, travelled_m: float) -> tuple[Array, Array]:
    """Return the world pose of an obstacle after a travel: position (3,) m and orientation (4,) xyzw."""
    assert body.slide is not None
    turned = frames.from_yaw(body.yaw_rad)
    return np.array(body.position_m) + frames.rotate(turned, travelled_m * np.array(body.slide.axis)), turned
