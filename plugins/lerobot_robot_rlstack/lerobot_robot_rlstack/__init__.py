"""LeRobot's robot ``rlstack``: any robot on rlstack's topics, behind its guard."""

from lerobot_robot_rlstack.config_rlstack import RlstackConfig
from lerobot_robot_rlstack.rlstack_robot import Rlstack

__all__ = ["Rlstack", "RlstackConfig"]
