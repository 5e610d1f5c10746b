"""Safety: the last word before the actuators, in plain numpy, without ROS and without a clock of its own.

A guard is for one kind of robot; each is a module of :mod:`rlstack.guard.kinds`.
"""

from rlstack.guard.arms.config import ArmGuardConfig
from rlstack.guard.bases.config import BaseGuardConfig
from rlstack.guard.decision import Decision, Mode
from rlstack.guard.kinds.manipulator import ArmGuard
from rlstack.guard.kinds.quadrotor import Guard
from rlstack.guard.kinds.wheeled_base import BaseGuard
from rlstack.guard.quadrotor.config import GuardConfig
from rlstack.registry import Registry

GUARDS = Registry("kind of robot with a guard", "rlstack.guard.kinds", "GUARD", "rlstack.guards")
"""By kind of robot: the class of its guard, made of a robot and settings, a :class:`rlstack.guard.machine.Machine`."""

__all__ = [
    "GUARDS",
    "ArmGuard",
    "ArmGuardConfig",
    "BaseGuard",
    "BaseGuardConfig",
    "Decision",
    "Guard",
    "GuardConfig",
    "Mode",
]
