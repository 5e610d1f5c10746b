"""The action of the train node: start training, with feedback; cancelling saves a checkpoint."""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from rlstack.interfaces.training_messages import PACKAGE

NAME = "train/run"
POLL_S = 0.05
"""Period at which the executor polls actions: the train node has no control path to delay."""
_DELIVERED_S = 0.5
"""How long the node stays for its clients after the result."""


class TrainAction:
    """Serves one goal at a time.

    Args:
        node: The train node.
        begin: Begins the training that a goal asks for, or attaches it to the running one; returns why not, or nothing.
        stop: Makes training save and stop.
    """

    def __init__(self, node: Any, begin: Callable[[Any], str], stop: Callable[[], Any]) -> None:
        from rclpy.action import ActionServer, CancelResponse

        self._node, self._begin, self._stop = node, begin, stop
        self._type = importlib.import_module("rlstack_msgs.action").Train
        self._handle: Any = None
        self._future: Any = None
        self._stopping = False
        self._ended_at = -math.inf
        self._server = ActionServer(
            node,
            self._type,
            NAME,
            self._execute,
            goal_callback=self._judge,
            handle_accepted_callback=self._on_accepted,
            cancel_callback=lambda handle: CancelResponse.ACCEPT,
        )

    @property
    def delivered(self) -> bool:
        """Whether the result, if any, has had the time to reach its client."""
        return time.monotonic() - self._ended_at > _DELIVERED_S

    def poll(self) -> None:
        """Stop training if the goal was cancelled; call it often."""
        if self._handle is not None and self._handle.is_cancel_requested and not self._stopping:
            self._stopping = True
            self._stop()

    def progress(self, progress: Mapping[str, Any]) -> None:
        """Send the progress of training as feedback."""
        if self._handle is None:
            return
        known = {name: math.nan if progress[name] is None else progress[name] for name in ("success", "seconds_left")}
        steps, total = int(progress["steps"]), int(progress["total_steps"])
        self._handle.publish_feedback(self._type.Feedback(steps=steps, total_steps=total, **known))

    def end(self, finished: bool, policy: str, message: str) -> None:
        """Send the result: whether training has finished, the policy file, and a sentence."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        if finished:
            handle.succeed()
        elif handle.is_cancel_requested:
            handle.canceled()
        else:
            handle.abort()
        self._ended_at = time.monotonic()
        self._future.set_result(self._type.Result(finished=finished, policy=policy, message=message))

    def close(self) -> None:
        """Leave the ROS graph."""
        self._server.destroy()

    def _judge(self, goal: Any) -> Any:
        from rclpy.action import GoalResponse

        refusal = "another goal is being served" if self._handle is not None else self._begin(goal)
        if refusal:
            self._node.warn(f"A goal of {NAME} was rejected: {refusal}.")
        return GoalResponse.REJECT if refusal else GoalResponse.ACCEPT

    def _on_accepted(self, handle: Any) -> None:
        from rclpy.task import Future

        self._handle, self._future, self._stopping = handle, Future(), False
        handle.execute()

    async def _execute(self, handle: Any) -> Any:
        return await self._future


def missing() -> str:
    """Return how to get the action's type; empty if it is installed."""
    if PACKAGE.is_installed():
        return ""
    return f"the action {NAME} needs {PACKAGE.name}: run `{PACKAGE.command}`"
