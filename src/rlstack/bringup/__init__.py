"""Bringup: which processes make a system, starting and stopping them, and the proof flights that need them."""
