from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.orca import Orca, OrcaSettings, nearest_velocity
from rlstack.control.navigation.planner_interface import People
from rlstack.errors import UserError
from rlstack.robots import load_robot
from rlstack.sim.crowds import orca as walkers
from tests.control.navigation.floor import burger

pyrvo = pytest.importorskip("pyrvo")

GLIDER = BaseModel.of(load_robot("crowdnav_robot"))
PERIOD_S = 0.25


def rvo2(me: np.ndarray, others: np.ndarray, wanted: np.ndarray, radius: float, most: float) -> np.ndarray:
    """Return what RVO2 chooses for the first of some agents: rows x, y, vx, vy, radius."""
    simulator = pyrvo.RVOSimulator(PERIOD_S, 100.0, 50, 5.0, 5.0, radius, most)
    for x, y, vx, vy, size in np.concatenate((me[None], others)).tolist():
        simulator.add_agent((x, y), 100.0, 50, 5.0, 5.0, size, most, (vx, vy))
    simulator.set_agent_pref_velocity(0, (float(wanted[0]), float(wanted[1])))
    simulator.do_step()
    velocity = simulator.get_agent_velocity(0)
    return np.array([velocity.x, velocity.y])


def mine(orca: Orca, me: np.ndarray, others: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return what is chosen in the same place; the base's frame is the world's, moved."""
    orca.reset(1)
    orca.last = me[None, 2:4].copy()
    crowd = People(others[None, :, :2] - me[:2], others[None, :, 2:4], others[None, :, 4])
    target = 100.0 * wanted[None]
    command, _ = orca.choose(
        target,
        np.zeros((1, 0, 2)),
        np.zeros((1, 0), dtype=bool),
        fastest=np.array([np.linalg.norm(wanted)]),
        backing=np.zeros(1, dtype=bool),
        crowd=crowd,
    )
    return command[0, :2]


def test_among_people_it_chooses_what_rvo2_does() -> None:
    orca = Orca(GLIDER, OrcaSettings(margin_m=0.0), PERIOD_S)
    off = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        count = int(rng.integers(2, 10))
        ranges = ((-3.0, 3.0, 2), (-0.7, 0.7, 2), (0.2, 0.4, 1))
        rows = np.concatenate([rng.uniform(low, high, (count, width)) for low, high, width in ranges], axis=1)
        rows[0, 4] = orca.radius
        wanted = rng.uniform(-1.0, 1.0, 2)
        wanted *= GLIDER.speed_m_s * rng.uniform(0.3, 1.0) / np.linalg.norm(wanted)
        rows, wanted = (a.astype(np.float32).astype(float) for a in (rows, wanted))
        expected = rvo2(rows[0], rows[1:], wanted, orca.radius, GLIDER.speed_m_s)
        off.append(np.abs(mine(orca, rows[0], rows[1:], wanted) - expected).max())
    # RVO2 computes in single precision, which shows where lines are nearly parallel
    assert np.quantile(off, 0.98) < 1e-6
    assert np.max(off) < 5e-4


@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(1, 6))
@settings(deadline=None, max_examples=100)
def test_half_planes_are_solved_as_for_walkers_in_fused_kernels(seed: int, fixed: int, moving: int) -> None:
    rng = np.random.default_rng(seed)
    count = fixed + moving
    angle = rng.uniform(-np.pi, np.pi, (1, count))
    directions = np.stack((np.cos(angle), np.sin(angle)), axis=-1)
    points, wanted = rng.normal(0.0, 0.5, (1, count, 2)), rng.uniform(-0.6, 0.6, (1, 2))
    found = nearest_velocity(points, directions, fixed, wanted, np.ones(1))[0]
    lines = [walkers.Line(*points[0, k], *directions[0, k]) for k in range(count)]
    expected = walkers.velocity(lines[:fixed], lines[fixed:], wanted[0], 1.0)
    assert found == pytest.approx([float(v) for v in expected], abs=1e-6)


def test_a_wall_is_approached_slower_and_slower_and_not_entered() -> None:
    body = BaseModel.of(burger())
    orca = Orca(body, OrcaSettings(), 0.1)
    speeds = []
    for away in (2.0, 0.4, 0.3, 0.22):
        orca.reset(1)
        points = np.array([[(away, y) for y in np.linspace(-1.0, 1.0, 41)]])
        command, _ = orca.choose(
            np.array([[5.0, 0.0]]),
            points,
            np.ones((1, 41), dtype=bool),
            fastest=np.ones(1),
            backing=np.zeros(1, dtype=bool),
        )
        speeds.append(command[0, 0])
    assert speeds[0] == pytest.approx(body.speed_m_s)
    assert speeds == sorted(speeds, reverse=True) and speeds[-1] < 0.05


def test_two_that_avoid_each_other_pass() -> None:
    orca = Orca(GLIDER, OrcaSettings(), PERIOD_S)
    position = np.array([[-3.0, 0.0], [3.0, 0.05]])
    goal, velocity = -position, np.zeros((2, 2))
    nearest = np.inf
    for _ in range(60):
        other = position[::-1]
        crowd = People((other - position)[:, None], velocity[::-1][:, None], np.full((2, 1), orca.radius))
        orca.last = velocity
        if len(orca.last) != 2:
            orca.reset(2)
        command, _ = orca.choose(
            goal - position,
            np.zeros((2, 0, 2)),
            np.zeros((2, 0), dtype=bool),
            fastest=np.full(2, 1.0),
            backing=np.zeros(2, dtype=bool),
            crowd=crowd,
        )
        velocity = command[:, :2]
        position = position + velocity * PERIOD_S
        nearest = min(nearest, float(np.linalg.norm(position[0] - position[1])))
    assert np.linalg.norm(position - goal, axis=1).max() < 0.2
    assert nearest > 2.0 * GLIDER.radius_m - 1e-3


def test_a_differential_base_is_steered_by_a_point_ahead() -> None:
    body = BaseModel.of(burger())
    orca = Orca(body, OrcaSettings(), 0.1)
    command, _ = orca.choose(
        np.array([[1.0, 1.0]]),
        np.zeros((1, 0, 2)),
        np.zeros((1, 0), dtype=bool),
        fastest=np.ones(1),
        backing=np.zeros(1, dtype=bool),
    )
    assert command[0, 0] > 0.0 and 0.0 < command[0, 1] <= body.turning_rad_s
    assert orca.radius > body.radius_m, "the disc about the point holds the footprint"


def test_a_car_is_refused() -> None:
    with pytest.raises(UserError, match=r"racecar.*astar_dwa"):
        Orca(BaseModel.of(load_robot("racecar")), OrcaSettings(), 0.1)
