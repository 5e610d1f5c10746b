"""A guard in this process that guards a robot which hangs in the air, and policies that command it."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import rclpy
from rclpy.parameter import Parameter
from rclpy.time import Time

from rlstack.interfaces import topics
from rlstack.interfaces.messages import OdometryMessage
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.nodes.guard import GuardNode
from rlstack.nodes.shutdown import shut_down
from tests.support.ros import Listener

ROBOT = load_quadrotor("crazyflie")
COMMANDS = topics.POLICY_PREFIX + topics.ROTOR_COMMAND


class Flight:
    """A guard, and two policies of which one commands.

    Args:
        listener: Has the executor.
        simulated: The guard has ``use_sim_time``, and stamps and ``/clock`` are of a simulation's time.
    """

    def __init__(self, listener: Listener, *, simulated: bool = False) -> None:
        self.listener = listener
        self.flies = True
        patient = {"staleness_periods": 100.0, "observation_timeout_s": 2.0, "frozen_observations": 0}  # one process
        clock = [Parameter("use_sim_time", value=simulated)]
        self.guard = GuardNode(patient, context=listener.context, parameter_overrides=clock)
        self._clock: Any = None
        if simulated:
            kind = topics.type_of(topics.CLOCK)
            self._clock = listener.node.create_publisher(kind, topics.CLOCK, topics.quality("sensor_out"))
        self._began_ns = time.monotonic_ns()
        listener.executor.add_node(self.guard)
        self.guard.start()
        kind = topics.type_of(topics.ODOM)
        self.odometry = OdometryMessage(kind(), topics.WORLD_FRAME, topics.BODY_FRAME)
        self.sender = listener.node.create_publisher(kind, topics.ODOM, topics.quality("sensor_out"))
        self.tilt_rad = 0.0
        self.policies: list[Any] = []
        self.nodes: list[Any] = []
        self.add("policy")
        listener.node.create_timer(0.01, self.fly)

    def add(self, name: str) -> None:
        """Let one more policy command."""
        self.publish_from(self.make(name))

    def make(self, name: str) -> Any:
        """Return a new node, which takes a second on a slow machine: too long for a guard in flight."""
        context = rclpy.Context()
        rclpy.init(context=context)
        self.nodes.append(rclpy.create_node(name, context=context, enable_rosout=False))
        return self.nodes[-1]

    def publish_from(self, node: Any) -> None:
        """Let a node command."""
        kind = topics.type_of(COMMANDS)
        self.policies.append(node.create_publisher(kind, COMMANDS, topics.quality("command")))

    def fly(self) -> None:
        if not self.flies:
            return
        still, stamp = np.zeros(3), self.listener.node.get_clock().now()
        if self._clock is not None:
            stamp = Time(nanoseconds=10**11 + time.monotonic_ns() - self._began_ns)
            self._clock.publish(topics.type_of(topics.CLOCK)(clock=stamp.to_msg()))
        half = 0.5 * self.tilt_rad
        at, tilted = np.array([0.0, 0.0, 1.0]), np.array([math.sin(half), 0.0, 0.0, math.cos(half)])
        self.sender.publish(self.odometry.fill(stamp.nanoseconds, at, tilted, still, still))
        command = topics.type_of(COMMANDS)(name=list(ROBOT.rotor_names), velocity=[ROBOT.hover_speed_rad_s] * 4)
        command.header.stamp = stamp.to_msg()
        self.policies[0].publish(command)

    def pass_over(self, gap_ns: int) -> None:
        """Leave time out of the simulation's."""
        self._began_ns += gap_ns

    def close(self) -> None:
        self.guard.stop()
        self.listener.executor.remove_node(self.guard)
        self.guard.destroy_node()
        for node in self.nodes:
            shut_down(node)
