"""What a guard node tells of its state: latched topics, log and diagnostics."""

from __future__ import annotations

import time
from typing import Any

from rlstack.guard import CommonMode, Decision, Mode
from rlstack.guard.guard import Guard
from rlstack.interfaces import topics

_BLOCKED_S = 1.0
"""How long diagnostics report an obstacle."""


class ModePublisher:
    """Publishes a guard's mode, its reason and its number of interventions when they change, and logs each mode.

    Args:
        node: The guard node (:class:`rlstack.nodes.runtime.ManagedNode`).
        guard: The guard.
    """

    def __init__(self, node: Any, guard: Guard[Any]) -> None:
        self._node, self._guard = node, guard
        names = (topics.GUARD_INTERVENTIONS, topics.GUARD_REASON, topics.GUARD_MODE)
        self._publishers = {name: node.publisher(topics.type_of(name), name, "latched") for name in names}
        self._last: dict[str, Any] = {}
        self._blocked, self._blocked_at = "", 0.0
        self.mode: Mode | None = None
        """The mode that was shown last."""
        self._reason = ""

    def restart(self) -> None:
        """Publish the present mode again, without a log entry."""
        self.mode, self._reason = None, ""
        self._last.clear()
        self.show(self._guard)

    def show(self, state: Decision | Guard[Any]) -> None:
        """Log and publish the mode of the guard or of its decision, if it has changed."""
        mode, reason = state.mode, state.reason
        if mode == self.mode:
            return
        if mode.role != "normal" and self._guard.advice:
            reason = f"{reason}. {self._guard.advice}"
        if self.mode is not None:
            sentence = f"{self.mode} -> {mode}: {reason}"
            if mode.role == "normal":
                self._node.get_logger().info(sentence)
            else:
                self._node.get_logger().warning(sentence)
        self.mode, self._reason = mode, reason
        # the mode last, so that its reason is there when it comes
        told = (self._guard.interventions, reason, str(mode))
        for (name, publisher), value in zip(self._publishers.items(), told):
            if self._last.get(name) != value:
                self._last[name] = value
                publisher.publish(topics.type_of(name)(data=value))

    def blocked(self, obstacle: str) -> None:
        """Report an obstacle that slows the robot down, for a while."""
        self._blocked, self._blocked_at = obstacle, time.monotonic()

    @property
    def warning(self) -> str:
        """What diagnostics warn of; empty when all is well."""
        mode = self.mode
        if mode is not None and (mode.role == "intervention" or mode is CommonMode.ESTOP):
            return self._reason
        if self._blocked and time.monotonic() - self._blocked_at < _BLOCKED_S:
            return f"slowed down: {self._blocked}"
        return ""

    @property
    def figures(self) -> dict[str, Any]:
        """The values of diagnostics."""
        robot = self._guard.robot
        return {
            "robot": robot.name,
            "kind": robot.kind,
            "mode": str(self.mode),
            "reason": self._reason,
            "interventions": self._guard.interventions,
        }
