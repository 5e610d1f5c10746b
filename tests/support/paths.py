"""Scenarios with paths to follow."""

from __future__ import annotations

import numpy as np

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.quadrotor.paths import Paths
from rlstack.tasks.quadrotor.scenario import Scenario


def circles(robot: Quadrotor, count: int, seconds: float = 8.0, points: int = 81) -> Scenario:
    """Return tilted circles of up to 1 m radius, each begun at its first pose at rest, the robot as in its file."""
    time = np.linspace(0.0, seconds, points)
    turn = 2.0 * np.pi * time / seconds
    circle = np.stack([np.cos(turn) - 1.0, np.sin(turn), 0.2 * np.sin(turn)], axis=-1)
    path = Paths(
        time_s=np.tile(time, (count, 1)),
        position=np.linspace(1.0, 0.5, count)[:, None, None] * circle,
        yaw=np.zeros((count, points)),
    )
    state = {
        "position": np.zeros((count, 3)),
        "orientation": np.tile([0.0, 0.0, 0.0, 1.0], (count, 1)),
        "linear_velocity": np.zeros((count, 3)),
        "angular_velocity": np.zeros((count, 3)),
        "rotor_speed": np.full((count, len(robot.rotors)), robot.hover_speed_rad_s),
    }
    labels = np.full(count, "none")
    return Scenario(state, np.zeros((count, 3)), np.zeros(count), Perturbation.none(count), labels, path)
