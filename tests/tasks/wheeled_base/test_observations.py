"""Of :mod:`rlstack.tasks.wheeled_base.observations`."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from rlstack.robots import frames
from rlstack.tasks.core.pipeline import rotation_matrix
from rlstack.tasks.wheeled_base.observations import PedestrianEncounters

TERM = PedestrianEncounters(slots=3, reach_m=6.0, radius_m=0.2)


def observed(people: list[tuple[float, float, float, float]], yaw: float = 0.0, speed: float = 0.0) -> Tensor:
    """Return the members (3, 12) of people x, y, vx, vy around a robot at (1, 2)."""
    rows = np.array(people, dtype=np.float32).reshape(1, -1, 4)
    level = np.zeros((1, len(people), 1), dtype=np.float32)
    orientation = torch.from_numpy(frames.from_yaw(np.array([yaw]))).float()
    inputs = {
        "position": torch.tensor([[1.0, 2.0, 0.0]]),
        "rotation": rotation_matrix(orientation),
        "linear_velocity": torch.tensor([[speed, 0.0, 0.0]]),
        "people_position": torch.from_numpy(np.concatenate([rows[..., :2] + [1.0, 2.0], level], -1)).float(),
        "people_velocity": torch.from_numpy(np.concatenate([rows[..., 2:], level], -1)),
        "people_radius": torch.full((1, len(people)), 0.25),
    }
    return TERM.observe(inputs, {}).reshape(3, 12)


def test_who_comes_straight_will_be_met() -> None:
    member = observed([(2.0, 0.0, -0.5, 0.0)])[0]
    assert member[:2].tolist() == pytest.approx([0.5, 0.0]) and member[-1] == 1.0
    nearest, near, when = member[7:9], member[9], member[10]
    assert 4.0 * when == pytest.approx(2.0 * 0.5 / (0.25 + 0.04), rel=1e-5)
    assert (4.0 * nearest).tolist() == pytest.approx([2.0 - 0.5 * 4.0 * float(when), 0.0], abs=1e-5)
    assert near == 1.0


def test_who_passes_is_no_danger_and_driving_away_makes_it_none() -> None:
    passing = observed([(2.0, 1.5, -0.5, 0.0)])[0]
    gap = math.hypot(*(4.0 * passing[7:9]).tolist()) - 0.45
    assert gap > 1.0 and passing[9] == pytest.approx(0.3 / (gap + 0.3), rel=1e-4)
    behind = (-1.0, 0.0, 0.5, 0.0)
    assert observed([behind])[0, 9] > observed([behind], speed=0.5)[0, 9]
    assert observed([behind], speed=0.5)[0, 10] == 0.0


def test_a_turn_of_the_world_changes_nothing_and_whoever_is_not_there_is_nothing() -> None:
    yaw, people = 0.7, [(1.0, 1.0, -0.3, 0.1), (-2.0, 0.5, 0.4, 0.0)]
    cos, sin = math.cos(yaw), math.sin(yaw)
    turned = [
        (x * cos - y * sin, x * sin + y * cos, vx * cos - vy * sin, vx * sin + vy * cos) for x, y, vx, vy in people
    ]
    there = observed([*people, (50.0, 0.0, 0.5, 0.0)], speed=0.3)
    assert torch.allclose(there, observed([*turned, (0.0, 50.0, 0.5, 0.0)], yaw, 0.3), atol=1e-5)
    assert not there[2].any() and there[:2, -1].all()
