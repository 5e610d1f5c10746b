"""Manipulators on the common topics: joints by name, the arm's before the gripper's."""

from rlstack.interfaces.robot_signals import RobotSignals

SIGNALS = RobotSignals()
