"""The ``pybullet`` backend: engine, physics server, robots, world, rays and camera."""

from rlstack.sim.backends.pybullet.engine import PybulletBackend, PybulletEngine

__all__ = ["BACKEND", "PybulletBackend", "PybulletEngine"]

BACKEND = PybulletBackend
