"""The goal action: offers ``NavigateToPose`` for a robot that is driven through ``goal``, with feedback and a result.

It runs in a process of its own, so that actions cost the policy and the guard nothing. Only where nav2_msgs is
installed (:mod:`rlstack.interfaces.nav2_messages`); the topics work without it.
"""

from __future__ import annotations

import math
import time
from typing import Any, ClassVar

import numpy as np

from rlstack.interfaces import topics
from rlstack.nodes.goal_watch import GoalWatch
from rlstack.nodes.nav2 import navigate_to_pose
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.runtime import ManagedNode

_PERIOD_S = 0.05
_FEEDBACK_S = 0.2
_HELD_WITHIN_S = 1.0
"""How long a cancelled goal waits for the robot's confirmation that it holds its position."""
FAILED = 1
"""``error_code`` of a goal that was not reached; ``error_msg`` says why."""

PARAMETERS = (
    Parameter("action", "navigate_to_pose", "Name of the action, relative to the node's namespace or absolute."),
)


class GoalActionNode(ManagedNode):
    """Sends the goals of action clients on ``goal``, one at a time, and tells them what becomes of each.

    A goal is aborted, with the reason in ``error_msg``, when the robot is disarmed, the guard takes over, the policy
    does not take the goal, or another one replaces it, from the action or the topic. Cancelling holds the position.
    """

    NAME: ClassVar[str] = "goal_action"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def configure(self) -> None:
        """Create the action server.

        Raises:
            UserError: nav2_msgs is not installed.
        """
        from rclpy.action import ActionServer, CancelResponse
        from std_srvs.srv import Trigger

        self._action = navigate_to_pose()
        self._watch = GoalWatch(self)
        self._hold = self.client(Trigger, topics.GOAL_HOLD)
        self.subscriber(topics.type_of(topics.ODOM), topics.ODOM, self._on_odometry, "sensor_in")
        self._pose: Any = None
        self._handle: Any = None
        self._futures: dict[bytes, Any] = {}
        self._holding: Any = None
        self._count = 0
        self._last = "none yet"
        self._server: Any = ActionServer(
            self,
            self._action,
            self.parameters["action"],
            self._execute,
            goal_callback=self._judge,
            handle_accepted_callback=self._on_accepted,
            cancel_callback=lambda handle: CancelResponse.ACCEPT,
        )

    def activate(self) -> None:
        """Start to take goals."""
        if self.executor is not None and hasattr(self.executor, "general_period_s"):
            self.executor.general_period_s = _PERIOD_S  # actions are polled at this rate
        self.every(_PERIOD_S, self._follow)

    def deactivate(self) -> None:
        """Abort the present goal; the robot keeps it."""
        self._abort("the action's node was stopped")

    def cleanup(self) -> None:
        """Destroy the action server and the subscriptions."""
        server, self._server = getattr(self, "_server", None), None
        if server is not None:
            server.destroy()
        watch = getattr(self, "_watch", None)
        if watch is not None:
            watch.close()

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report the goals."""
        name = self.resolve_topic_name(self.parameters["action"])
        servers = self.count_services(f"{name}/_action/send_goal")
        warning = f"{name} has {servers} servers: give another name with -p action:=NAME" if servers > 1 else ""
        return warning, {"goals": self._count, "pursuing": self._handle is not None, "last result": self._last}

    # The action ----------------------------------------------------------------------------------------------

    def _judge(self, goal: Any) -> Any:
        from rclpy.action import GoalResponse

        p, q = goal.pose.pose.position, goal.pose.pose.orientation
        numbers = np.array([p.x, p.y, p.z, q.x, q.y, q.z, q.w])
        if not self.active:
            self.warn("A goal of the action was rejected: the node is not active.")
        elif not np.isfinite(numbers).all() or abs(float(np.linalg.norm(numbers[3:])) - 1.0) > 1e-3:
            self.warn(
                "A goal of the action was rejected: its position must be finite and its orientation a unit quaternion."
            )
        else:
            return GoalResponse.ACCEPT
        return GoalResponse.REJECT

    def _on_accepted(self, handle: Any) -> None:
        from rclpy.task import Future

        self._abort("a newer goal replaced it")
        self._handle, self._holding = handle, None
        self._futures[bytes(handle.goal_id.uuid)] = Future()
        self._begun = self._told_at = time.monotonic()
        self._begun_m = math.nan
        self._count += 1
        handle.execute()
        if handle.request.behavior_tree:
            self.warn("The behavior_tree of a goal is ignored: a policy or planner has none.", "behaviour tree")
        if not self._watch.heard:
            self._abort(f"no guard and policy say what they do ({topics.GUARD_MODE}, {topics.GOAL_ACTIVE})")
        elif self._watch.is_off:
            self._abort(f"refused: {self._watch.taken_over}: arm the robot first")
        else:
            self._watch.send(handle.request.pose)

    async def _execute(self, handle: Any) -> Any:
        key = bytes(handle.goal_id.uuid)
        result = await self._futures[key]
        del self._futures[key]
        return result

    def _follow(self) -> None:
        """Compare the robot with the present goal."""
        if self._handle is None:
            return
        if self._handle.is_cancel_requested:
            self._cancel()
            return
        outcome = self._watch.outcome()
        if outcome.state == "failed":
            self._abort(outcome.why)
        elif outcome.state == "reached":
            self._handle.succeed()
            self._end("reached", self._action.Result())
        elif time.monotonic() - self._told_at >= _FEEDBACK_S:
            self._told_at = time.monotonic()
            self._handle.publish_feedback(self._feedback())

    def _feedback(self) -> Any:
        from rclpy.duration import Duration

        feedback, elapsed_s, left_m = self._action.Feedback(), time.monotonic() - self._begun, self._watch.distance_m
        feedback.navigation_time = Duration(seconds=elapsed_s).to_msg()
        if self._pose is not None:
            feedback.current_pose.header, feedback.current_pose.pose = self._pose.header, self._pose.pose.pose
        if math.isfinite(left_m):
            self._begun_m = left_m if math.isnan(self._begun_m) else self._begun_m
            feedback.distance_remaining = left_m
            covered_m = self._begun_m - left_m
            if covered_m > 0.0:
                feedback.estimated_time_remaining = Duration(seconds=elapsed_s * left_m / covered_m).to_msg()
        return feedback

    def _cancel(self) -> None:
        """Hold the position, and then confirm the cancellation."""
        if self._holding is None:
            from std_srvs.srv import Trigger

            self._holding = (self._hold.call_async(Trigger.Request()), time.monotonic())
        held, since = self._holding
        if held.done() or time.monotonic() - since > _HELD_WITHIN_S:
            message = held.result().message if held.done() else "the policy did not confirm that it holds its position"
            self._handle.canceled()
            self._end("cancelled", self._action.Result(error_msg=message))

    def _abort(self, why: str) -> None:
        if self._handle is not None:
            self._handle.abort()
            self._end(f"aborted: {why}", self._action.Result(error_code=FAILED, error_msg=why))

    def _end(self, how: str, result: Any) -> None:
        handle, self._handle, self._last = self._handle, None, how
        self.get_logger().info(f"Goal {self._count}: {how}")
        self._futures[bytes(handle.goal_id.uuid)].set_result(result)

    def _on_odometry(self, message: Any) -> None:
        self._pose = message


main = GoalActionNode.main

if __name__ == "__main__":
    raise SystemExit(main())
