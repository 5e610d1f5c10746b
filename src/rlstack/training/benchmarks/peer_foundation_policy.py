"""Latency of RAPTOR's published policy (the package foundation-policy)."""

from __future__ import annotations

from typing import Any

import foundation_policy
import numpy as np

from rlstack.training.benchmarks.timing import latency


def measure(calls: int) -> dict[str, Any]:
    """Return the ``latency`` of one step of its numpy implementation for one robot.

    Args:
        calls: Number of timed steps.
    """
    policy = foundation_policy.QuadrotorPolicy()
    policy.reset()
    observation = np.zeros((1, 22))
    observation[0, 3:12] = np.eye(3).ravel()
    return {"latency": latency(lambda: policy.evaluate_step(observation), calls)}
