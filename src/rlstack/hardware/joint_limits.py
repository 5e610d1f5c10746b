"""What a robot says of a joint's limits, held against the robot file."""

from __future__ import annotations

from rlstack.errors import UserError
from rlstack.robots.joints import DrivenJoint


def check_limits(robot: str, joint: DrivenJoint, lower: float, upper: float, velocity: float, who: str) -> None:
    """Refuse a robot that allows less than the robot file; infinite limits allow everything.

    Args:
        robot: The robot file's name.
        joint: The robot file's joint.
        lower: What the robot allows, rad or m.
        upper: Likewise.
        velocity: rad/s or m/s.
        who: Who says so, such as ``the controller``.

    Raises:
        UserError: It does; the message has both values.
    """
    unit = "m" if joint.type == "prismatic" else "rad"
    if lower > joint.lower + 1e-3 or upper < joint.upper - 1e-3:
        raise UserError(
            f"{joint.name}: {who} allows {lower:.3f} to {upper:.3f} {unit}, and the robot file of {robot} has"
            f" {joint.lower:.3f} to {joint.upper:.3f}: narrow the robot file, or take that of the right robot."
        )
    if velocity < 0.99 * joint.velocity_max:
        raise UserError(
            f"{joint.name}: {who} allows {velocity:.3f} {unit}/s, and the robot file of {robot} has"
            f" {joint.velocity_max:.3f}: lower the robot file's."
        )
