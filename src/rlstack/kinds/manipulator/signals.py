"""Manipulators on the common topics: joints by name, the arm's before the gripper's."""

from rlstack.interfaces.kind_signals import KindSignals

SIGNALS = KindSignals()
