"""Shared by the manipulation tasks: observation, environment, scripted experts."""
