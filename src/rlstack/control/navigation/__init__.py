"""Classical navigation: planners that drive bases from scans and odometry, chosen by name."""

from rlstack.control.navigation.planner_interface import Planner, Status
from rlstack.registry import Registry

PLANNERS = Registry("planner", "rlstack.control.navigation.catalog", "PLANNER", "rlstack.planners")
"""Each entry is a function ``(robot, **options)`` that returns a :class:`Planner`."""

EXPLORER = "explorer_policy"
"""The planner that follows the waypoints of an exploration policy."""

__all__ = ["EXPLORER", "PLANNERS", "Planner", "Status"]
