"""PyBullet as an engine for tests, driven directly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlstack.robots import RobotSpec
from rlstack.sim.backends.pybullet import PybulletEngine
from rlstack.sim.engine import BODY_ROWS, Engine, Scene
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.world import World
from tests.support.worlds import VOID

STEP_S = 1e-3


def built(
    *robots: RobotSpec, world: World | None = VOID, isolated: bool = False, step_s: float = STEP_S
) -> PybulletEngine:
    return PybulletEngine(Scene(tuple(robots), step_s, world, isolated))


def body(
    position: object = (0.0, 0.0, 1.0),
    orientation: object = (0.0, 0.0, 0.0, 1.0),
    velocity: object = (0.0, 0.0, 0.0),
    rates: object = (0.0, 0.0, 0.0),
) -> np.ndarray:
    return np.concatenate([np.asarray(part, dtype=float) for part in (position, orientation, velocity, rates)])


def states(engine: Engine, count: int = 1) -> np.ndarray:
    """Return the bodies' states, a row each."""
    rows = np.full((BODY_ROWS, count), np.nan)
    engine.refresh(rows)
    return rows.T


def world_with(*obstacles: Obstacle, floor: bool = False) -> World:
    return replace(VOID, obstacles=obstacles, floor=floor)
