"""A path followed over real topics, and the same in the batch simulator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlstack.bringup.episode_runner import run_episodes
from rlstack.interfaces import topics
from rlstack.interfaces.messages import set_stamp, stamp_to_ns
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.kinds.quadrotor.verification_topics import FlightRecorder
from rlstack.policies import load_policy
from rlstack.robots import frames
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.verification.flight_score import score_flights
from rlstack.verification.flight_trials import rollout
from rlstack.verification.parallel import run_trials
from tests.support.paths import circles
from tests.support.policies import write_tracking_policy
from tests.support.ros import Listener, NodeProcess, nodes

pytestmark = pytest.mark.integration

ROBOT = load_quadrotor("crazyflie")
QUIET = replace(ROBOT, sensors={})
CRITERIA = SuccessCriteria(radius_m=0.3, from_s=1.0, to_s=4.0, duration_s=4.0)


@pytest.fixture(scope="module")
def policy(tmp_path_factory) -> Path:
    return write_tracking_policy(tmp_path_factory.mktemp("policy") / "policy.onnx", ROBOT)


def test_a_path_is_followed_over_topics_as_in_the_batch_simulator(policy):
    flights = circles(ROBOT, 3).shifted(np.array([0.0, 0.0, 2.5])).take(np.array([0, 1, 2, 0]))
    flown = run_episodes(FlightRecorder, policy, flights, ROBOT, duration_s=4.0, seed=None)
    np.testing.assert_array_equal(flown.position[:, 0], flown.position[:, 3])  # whatever was flown before
    batch = rollout(load_policy(policy), flights, QUIET, 4.0)
    np.testing.assert_array_equal(flown.goal_position, batch.goal_position)
    assert flown.moving
    over, inside = score_flights(flown, CRITERIA), score_flights(batch, CRITERIA)
    assert over["success"] == inside["success"] == 1.0 and over["lost"] == over["interventions"] == 0
    assert 0.01 < inside["rmse_m"] < 0.2  # it follows, and is no better than it can be
    assert over["rmse_m"] == pytest.approx(inside["rmse_m"], rel=0.02)
    assert np.linalg.norm(flown.position - batch.position, axis=-1).max() < 0.02
    # The first command is already on the new episode's path, at its beginning.
    np.testing.assert_allclose(flown.command[0], batch.command[0], rtol=1e-5, atol=1e-2)


def test_neither_paths_nor_noise_depend_on_the_workers(policy):
    flights = circles(ROBOT, 3).shifted(np.array([0.0, 0.0, 2.5]))
    one = run_episodes(FlightRecorder, policy, flights, ROBOT, duration_s=1.0, seed=3)
    told: list[tuple[int, int]] = []
    two = run_trials(
        run_episodes,
        flights,
        make_recorder=FlightRecorder,
        workers=2,
        on_progress=lambda *done: told.append(done),
        policy=policy,
        robot=ROBOT,
        duration_s=1.0,
        seed=3,
    )
    np.testing.assert_array_equal(one.position, two.position)
    np.testing.assert_array_equal(one.goal_position, two.goal_position)
    assert told[-1] == (3, 3)


def send_path(listener: Listener, times: list[float], xs: list[float], listeners: int = 2) -> None:
    """Send a path at 1 m height as a person does: without the time, unlatched, orientations left alone."""
    message = topics.type_of(topics.GOAL_PATH)()
    message.header.frame_id = "odom"
    for time_s, x in zip(times, xs):
        pose = topics.type_of(topics.GOAL)()
        set_stamp(pose.header.stamp, round(1e9 * time_s))
        pose.pose.position.x, pose.pose.position.z = x, 1.0
        message.poses.append(pose)
    sender = listener.node.create_publisher(type(message), topics.GOAL_PATH, topics.quality("command"))
    listener.until(lambda: sender.get_subscription_count() >= listeners, f"{listeners} listen")
    sender.publish(message)


def test_a_path_sent_by_hand_is_flown_from_where_it_holds_and_is_shown(policy, listener):
    with nodes(
        NodeProcess("robot", start_height_m=1.0, lock_step=True),
        NodeProcess("guard", lock_step=True, auto_arm=True),
        NodeProcess("policy", policy=policy, goal_position="[0.0, 0.0, 1.0]", lock_step=True),
    ):
        odometry, modes = listener.hear(topics.ODOM, depth=2000), listener.hear(topics.GUARD_MODE, "latched", depth=10)
        shown = listener.hear(topics.MARKERS, "event")
        listener.until(lambda: modes and modes[-1].data == "policy", "the policy flies")
        flown = len(odometry)
        listener.until(lambda: len(odometry) > flown + 200, "two seconds")
        assert max(abs(m.pose.pose.position.x) for m in odometry) < 0.1  # no path: it holds
        flown = len(odometry)
        send_path(listener, [0.5, 3.5], [0.0, 0.75])
        listener.until(lambda: odometry[-1].pose.pose.position.x > 0.7, "the end of the path")
        # How many simulated seconds pass until it is heard hangs on the machine; how fast it is flown does not.
        heard = [m for m in odometry[flown:] if 0.15 < m.pose.pose.position.x < 0.6]
        way_m = heard[-1].pose.pose.position.x - heard[0].pose.pose.position.x
        took_s = 1e-9 * (stamp_to_ns(heard[-1].header.stamp) - stamp_to_ns(heard[0].header.stamp))
        assert way_m > 0.3 and way_m / took_s == pytest.approx(0.25, rel=0.2)  # m/s
        flown = len(odometry)
        listener.until(lambda: len(odometry) > flown + 200, "two seconds")
        assert abs(odometry[-1].pose.pose.position.x - 0.75) < 0.05  # it rests at the end
        listener.until(lambda: shown and shown[-1].markers[-1].ns.endswith(topics.GOAL_PATH), "the path in the markers")
        assert [p.x for p in shown[-1].markers[-1].points] == [0.0, 0.75]
        assert {m.data for m in modes} <= {"disarmed", "takeoff", "policy"}


def send_goal(listener: Listener, x: float, yaw: float = 0.0) -> None:
    message = topics.type_of(topics.GOAL)()
    message.header.frame_id = "odom"
    message.pose.position.x, message.pose.position.z = x, 1.0
    turn = message.pose.orientation
    turn.x, turn.y, turn.z, turn.w = map(float, frames.from_yaw(np.array(yaw)))
    sender = listener.node.create_publisher(type(message), topics.GOAL, topics.quality("latched"))
    listener.until(lambda: sender.get_subscription_count() >= 1, "the policy listens")
    sender.publish(message)


def test_a_goal_is_a_path_that_rests_there_and_a_path_replaces_it(policy, listener):
    with nodes(
        NodeProcess("robot", start_height_m=1.0, lock_step=True),
        NodeProcess("guard", lock_step=True, auto_arm=True),
        NodeProcess("policy", policy=policy, goal_position="[0.0, 0.0, 1.0]", lock_step=True),
    ) as processes:
        odometry, modes = listener.hear(topics.ODOM, depth=2000), listener.hear(topics.GUARD_MODE, "latched", depth=10)
        listener.until(lambda: modes and modes[-1].data == "policy", "the policy flies")

        def rests_at(x: float) -> None:
            listener.until(lambda: abs(odometry[-1].pose.pose.position.x - x) < 0.05, f"it comes to {x}")
            flown = len(odometry)
            listener.until(lambda: len(odometry) > flown + 150, "a second and a half")
            assert abs(odometry[-1].pose.pose.position.x - x) < 0.1

        send_goal(listener, 0.5)
        rests_at(0.5)
        send_path(listener, [0.5, 2.5], [0.5, -0.25], listeners=1)  # nobody looks at the markers
        rests_at(-0.25)
        send_goal(listener, 0.25)
        rests_at(0.25)
        assert {m.data for m in modes} <= {"disarmed", "takeoff", "policy"}
        assert "refused" not in processes["policy"].output


def test_without_a_path_or_a_place_to_hold_it_is_said_what_is_missing(policy, listener):
    with nodes(
        NodeProcess("robot", start_height_m=1.0, lock_step=True),
        NodeProcess("policy", policy=policy, lock_step=True, topic_timeout_s=1.0),
    ) as processes:
        assert processes["policy"].wait() != 0
        said = processes["policy"].output
    assert "/goal_path (nav_msgs/msg/Path) did not come within 1 s" in said
    assert "publish it, or give -p goal_position:=[x, y, z]" in said
