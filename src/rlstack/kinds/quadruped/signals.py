"""Quadrupeds on the common topics: joints by name."""

from rlstack.interfaces.kind_signals import KindSignals

SIGNALS = KindSignals()
