"""Hand-made flights whose figures are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from rlstack.verification.trial_records import FlightRecord

GOAL = np.array([1.0, -2.0, 1.5])


def _flights(
    distance_m: np.ndarray | Sequence[Sequence[float]],
    *,
    rate_hz: float = 10.0,
    labels: Sequence[str] | None = None,
    backend: str = "batch",
    latency_s: Sequence[float] = (),
    interventions: Sequence[int] | None = None,
) -> FlightRecord:
    """Make episodes that are ``distance_m[t][n]`` from the goal along a direction that differs per episode."""
    distance = np.asarray(distance_m, dtype=float)
    steps, count = distance.shape
    angle = np.arange(count)[:, None] * 0.7
    direction = np.concatenate([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=1)
    upright = np.zeros((steps, count, 4))
    upright[..., 3] = 1.0
    goal = np.broadcast_to(GOAL, (steps, count, 3))
    return FlightRecord(
        simulator=backend,
        rate_hz=rate_hz,
        position=goal + distance[..., None] * direction,
        orientation=upright,
        linear_velocity=np.zeros((steps, count, 3)),
        angular_velocity=np.zeros((steps, count, 3)),
        command=np.full((steps, count, 4), 1516.0),
        goal_position=goal,
        labels=np.array(labels if labels is not None else ["none"] * count),
        interventions=np.array(interventions if interventions is not None else [0] * count, dtype=np.int64),
        latency_s=np.array(latency_s, dtype=float),
        wall_s=1.25,
    )


@pytest.fixture(scope="session")
def flights() -> Callable[..., FlightRecord]:
    return _flights
