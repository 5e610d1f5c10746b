"""What an arm carries behind its flange, by the robot file."""

from __future__ import annotations

from rlstack.robots import RobotSpec
from rlstack.robots.kind_models import robot_model


def moved_link(robot: RobotSpec, joint: str) -> str:
    """Return the link that a joint moves."""
    return next(found.child for found in robot_model(robot).joints if found.name == joint)


def mass_behind(robot: RobotSpec, flange: str) -> float:
    """Return the mass of all links behind a link, kg, without its own."""
    model = robot_model(robot)

    def carried(link: str) -> bool:
        above = model.parents.get(link)
        while above is not None and above != flange:
            above = model.parents.get(above)
        return above == flange

    return float(sum(piece.mass_kg for link, piece in model.pieces.items() if carried(link)))
