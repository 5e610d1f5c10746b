from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlstack.interfaces import topics
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.kinds.quadrotor.spec import load_quadrotor
from tests.support.policies import write_counting_policy
from tests.support.ros import Listener, NodeProcess, nodes, trajectory

pytestmark = pytest.mark.integration

SECONDS, PERIOD_NS = 4, 10_000_000
GOAL = "[0.3, -0.2, 1.2]"


def waiting_nodes() -> tuple[NodeProcess, NodeProcess]:
    """Start a robot and a guard: time stands until a policy answers, which a listener that must hear all waits for."""
    return NodeProcess("robot", lock_step=True), NodeProcess("guard", lock_step=True, auto_arm=True)


def fly(policy: Path) -> dict[int, tuple[float, ...]]:
    """Fly from the ground for some seconds of simulated time and return the observations by stamp."""
    listener = Listener()
    try:
        odometry = listener.hear(topics.ODOM, depth=2000)
        with nodes(*waiting_nodes()):
            listener.until(lambda: odometry, "the first observation")
            with nodes(NodeProcess("policy", policy=policy, goal_position=GOAL, goal_yaw=0.0, lock_step=True)):
                listener.until(lambda: odometry[-1].header.stamp.sec >= SECONDS, "the flight")
        return {stamp: values for stamp, values in trajectory(odometry).items() if stamp < SECONDS * 10**9}
    finally:
        listener.close()


def test_three_processes_fly_to_the_goal_and_do_the_same_every_time(hover_policy: Path) -> None:
    first, second = fly(hover_policy), fly(hover_policy)
    last = first[max(first)]
    assert np.linalg.norm(np.array(last[:3]) - [0.3, -0.2, 1.2]) < 0.1
    common = sorted(first.keys() & second.keys())
    assert len(common) == 100 * SECONDS
    differing = [stamp for stamp in common if first[stamp] != second[stamp]]
    assert not differing, f"the flights part at {1e-9 * differing[0]:.2f} s"


def take_off(policy: Path) -> dict[int, float]:
    """Return the policy's commands by stamp, from the take-off until it has flown."""
    listener = Listener()
    try:
        topic = topics.POLICY_PREFIX + topics.ROTOR_COMMAND
        said, modes = listener.hear(topic, "command", depth=2000), listener.hear(topics.GUARD_MODE, "latched", depth=10)
        with nodes(*waiting_nodes()):
            listener.until(lambda: modes, "the guard's first mode")
            with nodes(NodeProcess("policy", policy=policy, lock_step=True)):
                listener.until(lambda: "return" in [mode.data for mode in modes], "the flight")
        assert [mode.data for mode in modes][-3:] == ["takeoff", "policy", "return"]
        return {stamp_to_ns(message.header.stamp): message.velocity[0] for message in said}
    finally:
        listener.close()


def begun(commands: dict[int, float]) -> set[int]:
    """Return the stamps at which a counting policy began anew; commands that the listener has missed do not matter."""
    return {stamp - round(speed - 100.0) * PERIOD_NS for stamp, speed in commands.items()}


def test_the_policy_starts_anew_where_the_guard_hands_over_at_the_same_stamp_every_time(tmp_path: Path) -> None:
    policy = write_counting_policy(tmp_path / "policy.onnx", load_quadrotor("crazyflie"))  # it falls, and is caught
    first, second = take_off(policy), take_off(policy)
    anew = [{began for began in begun(run) if began > 10**9} for run in (first, second)]
    assert len(anew[0]) == 1, "it starts anew once, at the hand-over"
    assert anew[0] == anew[1]
