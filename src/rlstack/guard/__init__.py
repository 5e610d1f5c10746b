"""Safety guards: the last check before the actuators, in plain numpy, without ROS and without their own clock.

The behaviour that all guards share is here; each kind's guard is ``rlstack/kinds/<kind>/guard.py``.
"""

from rlstack.guard.decision import CommonMode, Decision, Mode

__all__ = ["CommonMode", "Decision", "Mode"]
