from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlstack.interfaces import topics
from tests.support.ros import Listener, NodeProcess, nodes, trajectory

pytestmark = pytest.mark.integration

SECONDS = 6
GOAL = "[0.3, -0.2, 1.2]"


def fly(policy: Path) -> dict[int, tuple[float, ...]]:
    """Fly from the ground for some seconds of simulated time and return the observations by stamp."""
    listener = Listener()
    try:
        odometry = listener.hear(topics.ODOM, depth=2000)
        with nodes(
            NodeProcess("robot", lock_step=True),
            NodeProcess("guard", lock_step=True, auto_arm=True),
            NodeProcess("policy", policy=policy, goal_position=GOAL, goal_yaw=0.0, lock_step=True),
        ):
            listener.until(lambda: odometry and odometry[-1].header.stamp.sec >= SECONDS, "the flight")
        return {stamp: values for stamp, values in trajectory(odometry).items() if stamp < SECONDS * 10**9}
    finally:
        listener.close()


def test_three_processes_fly_to_the_goal_and_do_the_same_every_time(hover_policy: Path) -> None:
    first, second = fly(hover_policy), fly(hover_policy)
    last = first[max(first)]
    assert np.linalg.norm(np.array(last[:3]) - [0.3, -0.2, 1.2]) < 0.1
    common = sorted(first.keys() & second.keys())
    assert len(common) > 95 * SECONDS  # of 100 a second; the listener may have come late
    differing = [stamp for stamp in common if first[stamp] != second[stamp]]
    assert not differing, f"the flights part at {1e-9 * differing[0]:.2f} s"
