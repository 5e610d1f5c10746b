"""Classical navigation: planners that drive bases from scans and odometry, chosen by name."""

from rlstack.control.navigation.driver import Driver, Status
from rlstack.registry import Registry

PLANNERS = Registry("planner", "rlstack.control.navigation.catalog", "PLANNER", "rlstack.planners")
"""Each entry is a function ``(robot, **options)`` that returns a :class:`Driver`."""

EXPLORER = "explorer_policy"
"""The planner that drives where a policy for exploration says."""

__all__ = ["EXPLORER", "PLANNERS", "Driver", "Status"]
