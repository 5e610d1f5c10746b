"""Shared by the tasks of wheeled bases; racing and exploration have their own folders."""
