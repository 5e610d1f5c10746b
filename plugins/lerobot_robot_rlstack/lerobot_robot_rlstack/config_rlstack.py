"""Configuration of the robot ``rlstack``: ``--robot.type=rlstack --robot.robot=so100 ...``."""

from dataclasses import dataclass, field

from lerobot.robots.config import RobotConfig


@RobotConfig.register_subclass("rlstack")
@dataclass(kw_only=True)
class RlstackConfig(RobotConfig):
    """Which robot, and how its features are named and scaled.

    Attributes:
        robot: Name or file of rlstack's robot.
        namespace: Namespace of its topics; empty: the robot's name.
        units: ``rad``, ``degrees`` or ``range``: see docs/lerobot.md of rlstack.
        reverse: Joints that count the other way than in the robot file.
        images: Names of the robot file's cameras to observe.
        max_age_s: Age from which an observation is too old to act on, s.
        timeout_s: Time limit for the first message of every topic, s.
    """

    robot: str = "so100"
    namespace: str = ""
    units: str = "rad"
    reverse: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    max_age_s: float = 0.3
    timeout_s: float = 15.0
