"""The batch simulator that is driven from outside: where robots get, what they see, how near they come."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import load_robot
from rlstack.sim.batch_wheeled_base.simulator import WheeledBaseSimulator
from rlstack.sim.maps.generate import draw_map
from rlstack.sim.maps.pool import pool_of

RATE = 10.0


@pytest.fixture(scope="module")
def robot() -> WheeledBase:
    robot = load_robot("turtlebot3_burger")
    assert isinstance(robot, WheeledBase)
    return robot


@pytest.fixture(scope="module")
def simulator(robot: WheeledBase) -> WheeledBaseSimulator:
    maps = [draw_map("clutter", seed, 0.5, robot.radius_m) for seed in (1, 2, 3)]
    pool = pool_of(maps, fields=False)
    made = WheeledBaseSimulator(robot, pool.boxes, pool.circles, rate_hz=RATE)
    made.place(pool.starts.astype(float))
    return made


def test_robots_are_where_they_were_put_and_clear(simulator: WheeledBaseSimulator) -> None:
    start = simulator.pose()
    simulator.place(start)
    assert simulator.pose() == pytest.approx(start, abs=1e-5)
    assert (simulator.clearance() > 0.0).all()
    assert (simulator.twist() == 0.0).all()


def test_a_robot_turns_on_the_spot_and_sees_the_same_ranges_turned(simulator: WheeledBaseSimulator) -> None:
    start = simulator.pose()
    first = simulator.scan()
    assert first.shape == (3, simulator.robot.lidars["scan"].rays) and np.isfinite(first).all()
    for _ in range(20):
        simulator.step(np.tile([0.0, 1.0], (3, 1)))
    turned = simulator.pose()
    assert turned[:, :2] == pytest.approx(start[:, :2], abs=1e-4)
    assert ((turned[:, 2] - start[:, 2] + np.pi) % (2 * np.pi) - np.pi > 1.0).all()
    assert np.median(first, axis=1) == pytest.approx(np.median(simulator.scan(), axis=1), abs=0.1)
    simulator.place(start)


def test_driving_into_something_is_negative_clearance(simulator: WheeledBaseSimulator) -> None:
    start, low = simulator.pose(), np.full(3, np.inf)
    for _ in range(600):
        simulator.step(np.tile([0.22, 0.0], (3, 1)))
        low = np.minimum(low, simulator.clearance())
    assert (low < 0.0).all()
    simulator.place(start)


def test_circles_move_where_they_are_told(robot: WheeledBase) -> None:
    pool = pool_of([draw_map("clutter", 5, 0.0, robot.radius_m)], circles=9, fields=False)
    made = WheeledBaseSimulator(robot, pool.boxes, pool.circles, rate_hz=RATE)
    made.place(pool.starts.astype(float))
    before, pose = made.clearance()[0], made.pose()[0]
    made.set_circles(8, np.array([[[pose[0] + 0.4, pose[1], 0.2, 0.0, 0.0]]]))
    assert made.clearance()[0] < min(before, 0.15)
