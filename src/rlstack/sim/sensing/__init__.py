"""Simulated cameras and lidars: from an engine's images and rays to measurements, the same for every engine."""

from __future__ import annotations

from rlstack.sim.sensing.cameras import camera_view
from rlstack.sim.sensing.lidars import lidar_scan

__all__ = ["camera_view", "lidar_scan"]
