"""Quadrotor simulators for Gymnasium environments: the batch simulator or any engine, set up for a task."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.simulation_vector import QuadrotorVector, quadrotor_vector
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.vector import BATCH, whole_steps

_HEIGHT_IN_A_WORLD_M = 1.5
_BATCH_RATE_HZ = 100.0
"""Least step rate of the batch simulator, as in training."""


def make_vehicles(
    backend: str,
    robot: Quadrotor,
    count: int,
    task: Any,
    *,
    world: str | Path | None = None,
    physics_rate_hz: float | None = None,
    height_m: float | None = None,
    seed: int = 0,
) -> QuadrotorVector:
    """Return N robots in the simulator ``backend``.

    Args:
        backend: ``"batch"``, or a backend with an engine.
        robot: The quadrotor.
        count: N.
        task: The task, for its control rate, longest delay and region.
        world: World of an engine; None: a floor, far below.
        physics_rate_hz: Physics steps per second; None: about the engine's own, a whole number per control period.
        height_m: Height of the task's origin above the world's start position; None: so high that robots are lost
            before they touch the floor, or 1.5 m in a world.
        seed: Seed of a world's wind.

    Raises:
        UserError: The simulator is unknown, not installed, or does not support the settings.
    """
    if count < 1:
        raise UserError(f"num_envs: {count} is not allowed: must be at least 1.")
    if physics_rate_hz is not None:
        _check_whole(physics_rate_hz, task.rate_hz)
    if backend == BATCH:
        for name, given in (("world", world), ("height_m", height_m)):
            if given is not None:
                raise UserError(f"{name}: the batch simulator has neither world nor floor: choose another backend.")
        steps = whole_steps(physics_rate_hz or max(_BATCH_RATE_HZ, task.rate_hz), task.rate_hz)
        options: dict[str, Any] = {"longest_delay_s": max(task.max_delay_s, 0.0), "substeps": steps}
    else:
        if height_m is None:
            height_m = task.lost_m + 1.0 if world is None else _HEIGHT_IN_A_WORLD_M
        options = {"physics_rate_hz": physics_rate_hz, "world": world, "seed": seed}
        options |= {"together": count, "height_m": height_m}
    return quadrotor_vector(backend, robot, count, task.rate_hz, **options)


def _check_whole(rate_hz: float, control_hz: float) -> None:
    steps = rate_hz / control_hz
    if not math.isfinite(steps) or round(steps) < 1 or abs(steps - round(steps)) > 1e-6:
        raise UserError(
            f"physics_rate_hz: {rate_hz:g} is not allowed: must be a whole multiple of rate_hz ({control_hz:g} Hz)."
        )
