"""A robot on its topics and services, as the agent uses it."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from rlstack.agent.abilities import Abilities
from rlstack.agent.checks import Situation, Target
from rlstack.agent.executive import Service
from rlstack.arrays import Array
from rlstack.guard import CommonMode
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS, pose_message, stamp_to_ns
from rlstack.nodes.goal_watch import GoalWatch, Outcome
from rlstack.nodes.service_call import ServiceCall
from rlstack.robots import frames

_SEEN_S = 1.0
"""Age, of the machine's time, from which an object's pose is no longer known."""


class _Answer:
    """The answer of a service with ``success`` and ``message``."""

    def __init__(self, call: ServiceCall) -> None:
        self._call = call

    def poll(self) -> tuple[bool, str] | None:
        """Return success and message; None while they are awaited."""
        return (self._call.response.success, self._call.response.message) if self._call.poll() else None


class RobotLink:
    """One robot's topics and services; see :class:`rlstack.agent.executive.Robot`.

    Args:
        node: A node, whose executor serves the subscriptions.
        abilities: The robot's.
        observed: The topic of its observations, ``odom`` or ``joint_states``.
        within: What precedes its topics: its namespace and a slash; empty: the node's own namespace.
    """

    def __init__(self, node: Any, abilities: Abilities, observed: str, within: str = "") -> None:
        from std_srvs.srv import SetBool, Trigger

        self._node, self._abilities = node, abilities
        self.watch = GoalWatch(node, within)
        self._pose: Any = None
        self._object: tuple[float, Any] = (-math.inf, None)
        self._battery: float | None = None
        self._stamp_ns = 0
        self.observed = False
        """Whether an observation has come."""
        self._requests = {
            "arm": (node.create_client(SetBool, within + topics.ARM), SetBool.Request(data=True)),
            "disarm": (node.create_client(SetBool, within + topics.ARM), SetBool.Request(data=False)),
            "estop": (node.create_client(Trigger, within + topics.ESTOP), Trigger.Request()),
            "rest": (node.create_client(Trigger, within + topics.REST), Trigger.Request()),
            "hold": (node.create_client(Trigger, within + topics.GOAL_HOLD), Trigger.Request()),
        }

        self._subscriptions: list[Any] = []

        def subscribe(topic: str, callback: Any) -> None:
            kind, quality = topics.type_of(topic), topics.quality("sensor_in")
            self._subscriptions.append(node.create_subscription(kind, within + topic, callback, quality))

        subscribe(observed, self._on_observation)
        subscribe(topics.BATTERY, self._on_battery)
        if abilities.carries:
            subscribe(topics.OBJECT, self._on_object)
        self._instructions: Any = None
        if abilities.text is not None:
            kind = topics.type_of(topics.INSTRUCTION)
            self._instructions = node.create_publisher(kind, within + topics.INSTRUCTION, topics.quality("latched"))

    def close(self) -> None:
        """Leave its topics and services."""
        self.watch.close()
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        for client, _ in self._requests.values():
            self._node.destroy_client(client)
        if self._instructions is not None:
            self._node.destroy_publisher(self._instructions)

    @property
    def ready(self) -> bool:
        """Whether enough is known of the robot to plan: the guard's mode, and the goal, if it goes to any."""
        return self.watch.heard if self._abilities.has_goal else bool(self.watch.mode)

    @property
    def situation(self) -> Situation:
        """What is known of it."""
        watch, active = self.watch, self.watch.active
        carried = time.monotonic() - self._object[0] < _SEEN_S
        position, heading = None, 0.0
        if self._abilities.carries and carried:
            position = _place(self._object[1].pose)
        elif self._pose is not None and not self._abilities.fixed:
            position, heading = _place(self._pose), _heading(self._pose)
        return Situation(
            mode=watch.mode,
            reason=watch.reason,
            off=watch.is_off or not watch.mode,
            stopped=watch.mode == CommonMode.ESTOP,
            interventions=watch.interventions,
            position=position,
            heading_rad=heading,
            goal=None if active is None else _place(active.pose),
            goal_heading_rad=0.0 if active is None else _heading(active.pose),
            battery=self._battery,
            object_seen=carried,
            hears_goals=self._abilities.has_goal and watch.heard,
            instruction=watch.instruction,
            hears_instructions=self._instructions is not None and self._instructions.get_subscription_count() > 0,
        )

    @property
    def seconds(self) -> float:
        """Its own time by the newest observation's stamp, s."""
        return self._stamp_ns / NANOSECONDS

    def call(self, service: Service) -> _Answer:
        """Call one of its services."""
        return _Answer(ServiceCall(*self._requests[service]))

    def send_goal(self, target: Target) -> None:
        """Send a goal, in the frame of the present one."""
        active = self.watch.active
        frame = topics.WORLD_FRAME if active is None else active.header.frame_id
        self.watch.send(pose_message(target.position, frames.from_yaw(target.heading_rad), frame=frame))

    def outcome(self) -> Outcome:
        """Return what has become of the last goal."""
        return self.watch.outcome()

    def instruct(self, text: str) -> None:
        """Send an instruction."""
        self._instructions.publish(topics.type_of(topics.INSTRUCTION)(data=text))

    def _on_observation(self, message: Any) -> None:
        self.observed, self._stamp_ns = True, stamp_to_ns(message.header.stamp)
        if hasattr(message, "pose"):
            self._pose = message.pose.pose

    def _on_object(self, message: Any) -> None:
        self._object = time.monotonic(), message

    def _on_battery(self, message: Any) -> None:
        self._battery = float(message.percentage) if math.isfinite(message.percentage) else None


def _place(pose: Any) -> Array:
    return np.array([pose.position.x, pose.position.y, pose.position.z])


def _heading(pose: Any) -> float:
    q = pose.orientation
    return float(frames.yaw(np.array([q.x, q.y, q.z, q.w])))
