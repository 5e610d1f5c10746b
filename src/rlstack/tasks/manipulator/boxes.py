"""The boxes of episodes as they stand in worlds for engines."""

from __future__ import annotations

from rlstack.arrays import Array
from rlstack.sim.obstacle import Obstacle
from rlstack.tasks.manipulator.trials import Trials

Colour = tuple[float, float, float]


def box_of(trials: Trials, number: int, name: str, place: Array, yaw_rad: float, colour: Colour) -> Obstacle:
    """Return a box like that of an episode, as it stands in a world for engines.

    Args:
        trials: Some episodes.
        number: Which of them.
        name: The box's.
        place: (3,) m of its middle.
        yaw_rad: Of the box.
        colour: Of the box.
    """
    return Obstacle(
        name=name,
        shape="box",
        size_m=tuple(map(float, 2.0 * trials.half[number])),  # type: ignore[arg-type]
        position_m=tuple(map(float, place)),  # type: ignore[arg-type]
        yaw_rad=yaw_rad,
        colour=colour,
        mass_kg=float(trials.mass[number]),
        friction=float(trials.friction[number]),
    )
