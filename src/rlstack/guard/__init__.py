"""Safety: the last word before the actuators, in plain numpy, without ROS and without a clock of its own."""

from rlstack.guard.config import GuardConfig
from rlstack.guard.decision import Decision, Mode
from rlstack.guard.guard import Guard

__all__ = ["Decision", "Guard", "GuardConfig", "Mode"]
