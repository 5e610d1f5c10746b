"""Quadrupeds on the common topics: joints by name."""

from rlstack.interfaces.robot_signals import RobotSignals

SIGNALS = RobotSignals()
