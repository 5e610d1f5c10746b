"""Safety: the last word before the actuators, in plain numpy, without ROS and without a clock of its own.

What every guard shares is here; the guard of a kind of robot is ``rlstack/kinds/<kind>/guard.py``.
"""

from rlstack.guard.decision import CommonMode, Decision, Mode

__all__ = ["CommonMode", "Decision", "Mode"]
