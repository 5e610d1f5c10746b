"""The Nav2 adapter: forwards goals on ``goal`` to Nav2's action, and reports their progress.

Nav2 commands the robot itself. With its ``cmd_vel`` remapped to ``policy/cmd_vel``, and stamped by
``enable_stamped_cmd_vel``, the guard checks it like a policy: all drivers are scored under the same rules.
"""

from __future__ import annotations

import importlib
import math
import time
from typing import Any, ClassVar

import numpy as np

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.messages import field_reader
from rlstack.interfaces.nav2_messages import PACKAGE
from rlstack.interfaces.signals import SENSED
from rlstack.nodes.frames import FRAME_PARAMETERS, frames_of
from rlstack.nodes.goal_subscriptions import BAD_GOAL, QUALITIES, TWICE_WITHIN_S, is_goal
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.runtime import ManagedNode
from rlstack.robots.frames import from_yaw

_NAN = math.nan
_PERIOD_S = 0.05
_SUCCEEDED, _CANCELED, _ABORTED = 4, 5, 6
"""Of action_msgs/GoalStatus."""

PARAMETERS = (
    Parameter("action", "navigate_to_pose", "Name of Nav2's action, relative to the node's namespace or absolute."),
    Parameter("behavior_tree", "", "Path of a behaviour tree for Nav2; empty: its own."),
    Parameter(
        "goal_position",
        (_NAN, _NAN, _NAN),
        "First goal, until one arrives on the topic, m in goal_frame; NaN: wait for the topic.",
        nan=True,
    ),
    Parameter("goal_yaw", _NAN, "Heading at goal_position, rad; NaN: 0.", nan=True),
    Parameter("goal_frame", "", "Frame of goal_position, and of goals without a frame; empty: the robot's odom."),
    *FRAME_PARAMETERS,
    Parameter("server_timeout_s", 30.0, "Time limit for Nav2's action server, s.", minimum=0.1, maximum=3600.0),
)


def navigate_to_pose() -> Any:
    """Return Nav2's action.

    Raises:
        UserError: nav2_msgs is not installed, or lacks the action.
    """
    try:
        return importlib.import_module("nav2_msgs.action").NavigateToPose
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"Nav2's messages are not installed ({error}): sudo apt install ros-jazzy-nav2-msgs with a system ROS 2, or"
            f" `{PACKAGE.command}` where ROS comes as wheels."
        ) from error


class Nav2Node(ManagedNode):
    """Forwards goals to Nav2, each replacing the one before.

    Diagnostics have the status ``no goal``, ``waiting for Nav2``, ``driving``, ``arrived``, ``unreachable`` (Nav2 gave
    up), ``refused`` or ``cancelled``, and Nav2's distance, time and recoveries.
    """

    NAME: ClassVar[str] = "nav2"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def configure(self) -> None:
        """Create the action client.

        Raises:
            UserError: nav2_msgs is not installed.
        """
        from rclpy.action import ActionClient

        self._action = navigate_to_pose()
        self._client = ActionClient(self, self._action, self.parameters["action"])
        kind = topics.type_of(topics.GOAL)
        self._readers = {n: field_reader(kind, SENSED[n].field) for n in ("goal_position", "goal_orientation")}
        for use in QUALITIES:
            self.subscriber(kind, topics.GOAL, self._on_goal, use)
        self._frames = frames_of(self.parameters)
        self._pending: Any = None
        self._handle: Any = None
        self._number = 0
        self._last: tuple[Any, ...] = ()
        self._last_at = 0.0
        self._state, self._why = "no goal", ""
        self._figures: dict[str, Any] = {}
        self._since = time.monotonic()

    def activate(self) -> None:
        """Send the first goal, if any."""
        if self.executor is not None and hasattr(self.executor, "general_period_s"):
            self.executor.general_period_s = _PERIOD_S  # actions are polled at this rate
        position, yaw = np.array(self.parameters["goal_position"]), self.parameters["goal_yaw"]
        if np.isfinite(position).all():
            message = topics.type_of(topics.GOAL)()
            p, q = message.pose.position, message.pose.orientation
            p.x, p.y, p.z = position.tolist()
            q.x, q.y, q.z, q.w = from_yaw(0.0 if math.isnan(yaw) else yaw).tolist()
            self._on_goal(message)
        self.every(_PERIOD_S, self._try)

    def deactivate(self) -> None:
        """Cancel Nav2's present goal."""
        self._pending = None
        if self._handle is not None:
            self._handle.cancel_goal_async()

    def cleanup(self) -> None:
        """Destroy the action client."""
        client, self._client = getattr(self, "_client", None), None
        if client is not None:
            client.destroy()

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report the state of the goal."""
        bad = self._state in ("unreachable", "refused", "cancelled", "waiting for Nav2")
        warning = f"{self._state}{': ' if self._why else ''}{self._why}" if bad else ""
        for_s = round(time.monotonic() - self._since, 1)
        return warning, {"status": self._state, "for s": for_s, **self._figures}

    def _on_goal(self, message: Any) -> None:
        values = {name: read(message) for name, read in self._readers.items()}
        if not is_goal(values):
            self.warn(BAD_GOAL)
            return
        goal, now = (
            (message.header.frame_id, *(x for value in values.values() for x in value.tolist())),
            time.monotonic(),
        )
        again = goal == self._last and now - self._last_at < TWICE_WITHIN_S
        self._last, self._last_at = goal, now
        if again:
            return
        message.header.frame_id = message.header.frame_id or self.parameters["goal_frame"] or self._frames.odom
        self._pending = self._action.Goal(pose=message, behavior_tree=self.parameters["behavior_tree"])
        self._become("waiting for Nav2")
        self._waiting_since = time.monotonic()
        if self.active:
            self._try()

    def _try(self) -> None:
        """Send the newest goal as soon as Nav2 is available."""
        if self._pending is None:
            return
        if not self._client.server_is_ready():
            if time.monotonic() - self._waiting_since > self.parameters["server_timeout_s"]:
                raise UserError(
                    f"Nav2's action {self.resolve_topic_name(self.parameters['action'])} did not come within"
                    f" {self.parameters['server_timeout_s']:g} s: check that Nav2 runs and is active, in the same"
                    " ROS_DOMAIN_ID, or give its name with -p action:=NAME."
                )
            return
        self._number += 1
        goal, number, self._pending = self._pending, self._number, None
        future = self._client.send_goal_async(goal, feedback_callback=lambda m: self._on_feedback(number, m.feedback))
        future.add_done_callback(lambda done: self._on_answer(number, done.result()))

    def _on_answer(self, number: int, handle: Any) -> None:
        if not handle.accepted:
            if number == self._number:
                self._become("refused", "Nav2 does not take the goal; is it active and localised?")
            return
        if number == self._number:
            self._handle = handle
            self._become("driving")
        handle.get_result_async().add_done_callback(lambda done: self._on_result(number, done.result()))

    def _on_feedback(self, number: int, feedback: Any) -> None:
        if number != self._number:
            return
        self._figures = {
            "distance remaining m": round(float(feedback.distance_remaining), 2),
            "recoveries": int(feedback.number_of_recoveries),
            "navigation time s": feedback.navigation_time.sec,
        }

    def _on_result(self, number: int, answer: Any) -> None:
        if number != self._number:
            return  # a newer goal replaced it
        self._handle = None
        if answer.status == _SUCCEEDED:
            self._become("arrived")
        elif answer.status == _CANCELED:
            self._become("cancelled")
        else:
            code, text = getattr(answer.result, "error_code", 0), getattr(answer.result, "error_msg", "")
            self._become("unreachable", text or (f"Nav2's error {code}" if code else "Nav2 gave up"))

    def _become(self, state: str, why: str = "") -> None:
        if (state, why) != (self._state, self._why):
            self._state, self._why, self._since = state, why, time.monotonic()
            self.get_logger().info(f"{state}{': ' if why else ''}{why}")


main = Nav2Node.main

if __name__ == "__main__":
    raise SystemExit(main())
