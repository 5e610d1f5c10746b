from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlstack.interfaces import topics
from rlstack.interfaces.messages import pose_message
from rlstack.nodes import goal_watch
from rlstack.nodes.goal_watch import GoalWatch


class Robot:
    """In place of a node: what a robot says reaches the watch at once."""

    def __init__(self) -> None:
        self.callbacks: dict[str, Callable[[Any], None]] = {}
        self.goals: list[Any] = []

    def create_subscription(self, kind: Any, topic: str, callback: Any, quality: Any) -> None:
        self.callbacks[topic] = callback

    def create_publisher(self, kind: Any, topic: str, quality: Any) -> Any:
        robot = self

        class Publisher:
            def publish(self, message: Any) -> None:
                robot.goals.append(message)

            def get_subscription_count(self) -> int:
                return 1

        return Publisher()

    def says(self, topic: str, value: Any) -> None:
        self.callbacks["/cf1/" + topic](topics.type_of(topic)(data=value))

    def pursues(self, x: float) -> None:
        self.callbacks["/cf1/" + topics.GOAL_ACTIVE](goal(x))


def goal(x: float) -> Any:
    return pose_message(np.array([x, 0.0, 1.0]))


@pytest.fixture
def robot() -> Robot:
    return Robot()


@pytest.fixture
def watch(robot: Robot) -> GoalWatch:
    made = GoalWatch(robot, "/cf1/")
    assert not made.heard
    robot.says(topics.GUARD_REASON, "at the take-off height")
    robot.says(topics.GUARD_MODE, "policy")
    robot.says(topics.GUARD_INTERVENTIONS, 3)
    robot.pursues(0.0)
    robot.says(topics.GOAL_REACHED, True)
    assert made.heard and not made.is_off
    return made


def test_a_goal_is_sent_then_pursued_then_reached(robot: Robot, watch: GoalWatch) -> None:
    watch.send(goal(1.0))
    assert robot.goals[-1].pose.position.x == 1.0 and watch.outcome().state == "sent"
    robot.pursues(1.0)
    assert watch.outcome().state == "pursued", "the goal before was reached, not this one"
    robot.says(topics.GOAL_DISTANCE, 0.05)
    robot.says(topics.GOAL_REACHED, True)
    assert watch.outcome().state == "reached" and watch.distance_m == 0.05


def test_a_guard_that_turns_the_robot_back_and_hands_over_again_does_not_end_the_goal(
    robot: Robot, watch: GoalWatch
) -> None:
    watch.send(goal(1.0))
    robot.pursues(1.0)
    robot.says(topics.GUARD_INTERVENTIONS, 4)
    robot.says(topics.GUARD_MODE, "return")
    assert watch.outcome().state == "pursued"
    robot.says(topics.GUARD_MODE, "policy")
    assert watch.outcome().state == "pursued"


def test_a_takeover_that_lasts_is_told_with_the_guards_reason(
    robot: Robot, watch: GoalWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(goal_watch, "HANDED_BACK_WITHIN_S", 0.0)
    watch.send(goal(1.0))
    robot.pursues(1.0)
    robot.says(topics.GUARD_INTERVENTIONS, 4)
    robot.says(topics.GUARD_REASON, "tilt over the limit")
    robot.says(topics.GUARD_MODE, "hover")
    outcome = watch.outcome()
    assert outcome.state == "failed" and outcome.cause == "taken over"
    assert outcome.why == "the guard is in the mode hover (tilt over the limit)"


def test_a_robot_that_is_disarmed_goes_nowhere(robot: Robot, watch: GoalWatch) -> None:
    watch.send(goal(1.0))
    robot.says(topics.GUARD_MODE, "disarmed")
    assert watch.is_off and (watch.outcome().state, watch.outcome().cause) == ("failed", "off")


def test_another_goal_a_refusal_and_silence_are_told(
    robot: Robot, watch: GoalWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.send(goal(1.0))
    robot.pursues(1.0)
    robot.pursues(1.0)
    assert watch.outcome().state == "pursued"
    robot.pursues(2.0)
    assert (watch.outcome().why, watch.outcome().cause) == ("another goal replaced it", "replaced")
    watch.send(goal(9.0))
    robot.says(topics.GOAL_REFUSED, "A goal was refused: it is outside the geofence.")
    assert (watch.outcome().state, watch.outcome().cause) == ("failed", "refused")
    assert watch.outcome().why == "A goal was refused: it is outside the geofence"
    monkeypatch.setattr(goal_watch, "TAKEN_WITHIN_S", 0.0)
    monkeypatch.setattr(goal_watch, "SILENT_S", 0.0)
    watch.send(goal(3.0))
    assert "was not taken" in watch.outcome().why and watch.outcome().cause == "not taken"
    robot.pursues(3.0)
    assert "no longer reports" in watch.outcome().why and watch.outcome().cause == "silent"
