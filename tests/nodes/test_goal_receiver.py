"""Goals and paths in other frames, over real messages: transformed, followed, waited for, refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from rlstack.interfaces import topics
from rlstack.interfaces.messages import pose_message
from rlstack.interfaces.path_messages import GoalPath, path_message
from rlstack.interfaces.tf_messages import TfMessage, Transform
from rlstack.interfaces.tf_type import tf_type
from rlstack.nodes.frames import FRAME_PARAMETERS, Frames, frames_of
from rlstack.nodes.goal_subscriptions import GOAL_PARAMETERS, GoalReceiver, goal_limits
from rlstack.nodes.runtime import ManagedNode
from rlstack.nodes.transform_listener import TRANSFORM_TIMEOUT, TransformListener
from rlstack.robots import frames, load_robot
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

S = 10**9


class Receiving(ManagedNode):
    """A node that only takes goals."""

    NAME = "receiving"
    PARAMETERS = (*FRAME_PARAMETERS, *GOAL_PARAMETERS, TRANSFORM_TIMEOUT)

    now_ns = 100 * S

    def configure(self) -> None:
        self.goals: list[tuple[np.ndarray, np.ndarray, bool]] = []
        self.paths: list[tuple[GoalPath, bool, bool]] = []
        limits = goal_limits(load_robot("crazyflie"), self.parameters)
        listener = TransformListener(self, lambda: self.now_ns)
        self.receiver = GoalReceiver(self, listener, frames_of(self.parameters), limits, self.on_goal, self.on_path)

    def activate(self) -> None:
        self.receiver.start()

    def on_goal(self, position: np.ndarray, orientation: np.ndarray, *, moved: bool) -> None:
        self.goals.append((position, orientation, moved))

    def on_path(self, path: GoalPath, *, from_now: bool, moved: bool) -> None:
        self.paths.append((path, from_now, moved))


Start = Callable[..., Receiving]


@pytest.fixture
def start(listener: Listener) -> Iterator[Start]:
    started: list[Receiving] = []

    def begin(**overrides: Any) -> Receiving:
        node = Receiving({"transform_timeout_s": 0.3, **overrides}, context=listener.context)
        listener.executor.add_node(node)
        started.append(node)
        node.start()
        return node

    yield begin
    for node in started:
        node.stop()
        listener.executor.remove_node(node)
        node.destroy_node()


@pytest.fixture
def say(listener: Listener) -> Callable[..., None]:
    """Send a message on a topic whose subscribers are there."""
    made: dict[str, Any] = {}

    def send(topic: str, message: Any, subscribers: int = 1) -> None:
        kind = tf_type() if isinstance(message, bytes) else type(message)
        use: topics.Quality = {topics.TF: "tf"}.get(topic, "latched")  # type: ignore[assignment]
        if topic not in made:
            made[topic] = listener.node.create_publisher(kind, topic, topics.quality(use))
        if subscribers:
            listener.until(lambda: made[topic].get_subscription_count() >= subscribers, f"a subscriber of {topic}")
        made[topic].publish(message)

    return send


def goal(x: float, y: float, z: float, frame: str, stamp_ns: int = 0) -> Any:
    return pose_message(np.array([x, y, z]), frame=frame, stamp_ns=stamp_ns)


def moved(x: float, yaw: float = 0.0) -> Any:
    return (x, 0.0, 0.0, *frames.from_yaw(yaw).tolist())


def test_a_goal_in_map_is_taken_to_odom_and_follows_it_when_localization_corrects_it(
    listener: Listener, start: Start, say: Callable[..., None]
) -> None:
    node = start()
    say(topics.TF_STATIC, TfMessage([Transform("map", "odom", moved(1.0, np.pi / 2))]).data, subscribers=0)
    say(topics.GOAL, goal(1.0, 2.0, 1.0, "map"), 2)
    listener.until(lambda: node.goals, "the goal")
    place, turn, again = node.goals[-1]
    np.testing.assert_allclose(place, [2.0, 0.0, 1.0], atol=1e-9)
    np.testing.assert_allclose(turn, frames.from_yaw(-np.pi / 2), atol=1e-9)
    assert not again
    say(topics.TF_STATIC, TfMessage([Transform("map", "odom", moved(0.5))]).data)
    listener.until(lambda: len(node.goals) > 1, "the corrected goal")
    assert node.goals[-1][2]
    np.testing.assert_allclose(node.goals[-1][0], [0.5, 2.0, 1.0], atol=1e-9)
    say(topics.TF_STATIC, TfMessage([Transform("map", "odom", moved(10.0))]).data)
    listener.until(lambda: node.receiver.warning, "a warning that the goal left the fence")
    assert "stays where it was: it is outside the geofence" in node.receiver.warning and len(node.goals) == 2


def test_a_goal_in_base_link_is_where_the_robot_was_and_stays_there(
    listener: Listener, start: Start, say: Callable[..., None]
) -> None:
    node = start(transform_timeout_s=5.0)
    say(topics.GOAL, goal(0.5, 0.0, 1.0, "base_link", 99 * S + S // 2), 2)
    say(topics.TF, TfMessage([Transform("odom", "base_link", moved(1.0), 99 * S)]).data)
    say(topics.TF, TfMessage([Transform("odom", "base_link", moved(2.0), 100 * S)]).data)
    listener.until(lambda: node.goals, "the goal")
    np.testing.assert_allclose(node.goals[-1][0], [2.0, 0.0, 1.0])
    say(topics.TF, TfMessage([Transform("odom", "base_link", moved(-1.0), 101 * S)]).data)
    listener.spin(0.3)
    assert len(node.goals) == 1


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            goal,
            "'map' was refused: there is no frame odom on /tf; nothing publishes transforms.*Give it in odom, or",
        ),
        ((3.5, 0.0, 1.0), r"outside the geofence from \[-3, -3, -0.2\].*nearest goal inside is \[3, 0, 1\]"),
        ((0.0, 0.0, -0.1), r"below the floor, which is at 0 m; the nearest goal inside is \[0, 0, 0\]"),
        ((float("nan"), 0.0, 1.0), "must be finite"),
    ],
)
def test_refused_goals_leave_the_one_before_and_are_in_diagnostics(
    listener: Listener, start: Start, say: Callable[..., None], message: Any, said: str
) -> None:
    node = start()
    say(topics.GOAL, goal(1.0, 0.0, 1.0, ""), 2)
    listener.until(lambda: node.goals, "the first goal")
    say(topics.GOAL, goal(1.0, 0.0, 1.0, "map") if message is goal else goal(*message, "odom"))
    listener.until(lambda: node.receiver.warning, "a refusal")
    assert re.search(said, node.receiver.warning), node.receiver.warning
    assert len(node.goals) == 1


def test_an_old_transform_between_moving_frames_is_refused(
    listener: Listener, start: Start, say: Callable[..., None]
) -> None:
    node = start()
    say(topics.GOAL, goal(1.0, 0.0, 1.0, "map"), 2)
    say(topics.TF, TfMessage([Transform("map", "odom", moved(1.0), 97 * S)]).data)
    listener.until(lambda: node.receiver.warning, "a refusal")
    assert "the transform from odom to map is 3.0 s old" in node.receiver.warning


def test_paths_are_transformed_pose_by_pose_and_keep_their_times(
    listener: Listener, start: Start, say: Callable[..., None]
) -> None:
    node = start()
    say(topics.TF_STATIC, TfMessage([Transform("map", "odom", moved(1.0))]).data, subscribers=0)
    path = path_message(
        np.array([0.0, 1.0]), np.array([[1.0, 0.0, 1.0]] * 2), np.array([[0.0, 0.0, 0.0, 1.0]] * 2), frame="odom"
    )
    path.poses[1].header.frame_id = "map"
    say(topics.GOAL_PATH, path, 2)
    listener.until(lambda: node.paths, "the path")
    found, from_now, again = node.paths[-1]
    np.testing.assert_allclose(found.position, [[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]], atol=1e-9)
    assert (found.stamp_ns.tolist(), from_now, again) == ([0, S], True, False)
    path.poses[1].pose.position.x = 9.0
    say(topics.GOAL_PATH, path)
    listener.until(lambda: node.receiver.warning, "a refusal")
    assert "at pose 1 (of 0 to 1), it is outside the geofence" in node.receiver.warning and len(node.paths) == 1


def test_frames_of_robots_with_and_without_prefix() -> None:
    alone, first = Frames(), Frames("cf1/", "cf1/odom")
    assert alone.is_world("") and alone.is_world("/odom") and not alone.is_world("map")
    assert (
        first.is_world("cf1/odom")
        and not first.is_world("odom")
        and (first.base, first.map)
        == (
            "cf1/base_link",
            "cf1/map",
        )
    )
    arm, one_of_several = Frames(fixed_base=True), Frames("p1/", "odom", fixed_base=True, shared=True)
    assert arm.is_world("odom") and arm.is_world("base_link")
    assert one_of_several.is_world("p1/base_link") and not one_of_several.is_world("odom")
