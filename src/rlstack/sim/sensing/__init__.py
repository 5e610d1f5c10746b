"""What simulated cameras and lidars make of what an engine shows them; the same for every engine."""

from __future__ import annotations

from rlstack.sim.sensing.cameras import camera_view
from rlstack.sim.sensing.lidars import lidar_scan

__all__ = ["camera_view", "lidar_scan"]
