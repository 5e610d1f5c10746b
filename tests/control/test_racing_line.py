"""The fastest line keeps the car's limits and is as fast as geometry says; pure pursuit stays on it."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("casadi", reason="the reference line is a nonlinear programme")

from rlstack.control.racing_line import NODES, CarLimits, PursuitGains, RacingLine, RacingLineController, fastest_line
from rlstack.sim.maps.tracks import draw_track
from tests.support.track_walls import wall_distance

LIMITS = CarLimits(
    speed_m_s=5.0,
    acceleration_m_s2=5.0,
    grip_m_s2=9.0,
    bend_1_m=1.2,
    bend_rate_1_m_s=9.0,
    outline_m=((-0.05, -0.13), (-0.05, 0.13), (0.37, -0.13), (0.37, 0.13)),
)


def test_around_a_ring_it_is_fastest_where_grip_and_length_say() -> None:
    radius, half_width = 2.0, 0.6
    angle = 2.0 * np.pi * np.arange(256) / 256
    middle = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    tangent = np.stack([-np.sin(angle), np.cos(angle)], axis=1)
    bend = np.full(256, 1.0 / radius)
    line = fastest_line(middle, tangent, bend, 2.0 * math.pi * radius, half_width, LIMITS)
    # at the limit of grip a lap of radius r takes 2 pi sqrt(r / grip): as far inside as the car's side lets it
    inside = np.linalg.norm(line.points, axis=1)
    assert inside.max() - inside.min() < 0.05
    assert radius - half_width + 0.12 < inside.mean() < radius - half_width + 0.2
    assert line.lap_s == pytest.approx(2.0 * math.pi * math.sqrt(inside.mean() / LIMITS.grip_m_s2), rel=0.02)


def test_on_a_track_it_keeps_to_the_limits_and_beats_the_middle() -> None:
    track = draw_track(0)
    shape = (track.middle, track.tangent, track.curvature, track.length_m, track.half_width_m)
    line = fastest_line(*shape, LIMITS, margin_m=0.05)
    assert line.points.shape == (NODES, 2) and line.speed_m_s.max() <= 5.0 + 1e-6
    assert wall_distance(track, line.points).min() > 0.05
    step = np.linalg.norm(np.roll(line.points, -1, axis=0) - line.points, axis=1)
    assert (step / line.speed_m_s).sum() == pytest.approx(line.lap_s, rel=0.01)
    change = np.abs(np.roll(line.speed_m_s, -1) ** 2 - line.speed_m_s**2) / (2.0 * step)
    assert change.max() < 1.15 * LIMITS.acceleration_m_s2
    assert line.lap_s < track.length_m / 5.0, "cutting bends must be worth more than braking costs here"


def test_pure_pursuit_steers_to_the_line_and_takes_its_speed() -> None:
    angle = 2.0 * np.pi * np.arange(NODES) / NODES
    ring = RacingLine(3.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1), np.full(NODES, 2.0), 9.4)
    driver = RacingLineController([ring, ring], PursuitGains(speed_share=0.5))
    pose = np.array([[3.0, 0.0, math.pi / 2.0], [3.2, 0.0, math.pi / 2.0]])
    for _ in range(200):
        command = driver.step(
            {
                "position": np.column_stack([pose[:, :2], np.zeros(2)]),
                "orientation": np.stack(
                    [np.zeros(2), np.zeros(2), np.sin(pose[:, 2] / 2), np.cos(pose[:, 2] / 2)], axis=1
                ),
                "linear_velocity": np.array([[1.0, 0.0, 0.0]] * 2),
                "angular_velocity": np.zeros((2, 3)),
            }
        )["twist"]
        np.testing.assert_allclose(command[:, 0], 1.0)
        pose[:, 2] += 0.05 * command[:, 1]
        pose[:, :2] += 0.05 * np.stack([np.cos(pose[:, 2]), np.sin(pose[:, 2])], axis=1)
    np.testing.assert_allclose(np.linalg.norm(pose[:, :2], axis=1), 3.0, atol=0.05)
    np.testing.assert_allclose(command[:, 1], 1.0 / 3.0, atol=0.03)
