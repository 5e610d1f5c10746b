"""Arms under ros2_control: ``ros:///joint_trajectory_controller``."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.hardware.captures import OPTIONS, Captures
from rlstack.hardware.joint_limits import check_limits
from rlstack.hardware.linked_robot import LinkedRobot, checked_options
from rlstack.hardware.ros2_control.controller import FORWARD, Controller, spin_until
from rlstack.hardware.serial_port import LinkLost
from rlstack.hardware.uri import parse_uri
from rlstack.interfaces import topics
from rlstack.interfaces.backend import Reading
from rlstack.interfaces.messages import NANOSECONDS, stamp_to_ns
from rlstack.interfaces.trajectory_messages import TrajectoryMessage
from rlstack.libraries import import_library
from rlstack.robots.joints import clip_targets
from rlstack.robots.model import read_urdf

_FIRST_S, _DESCRIPTION_S = 2.0, 0.5
_OTHER_CLOCK_S = 0.5
_EXAMPLE = "ros:///joint_trajectory_controller"


class Ros2ControlArm(LinkedRobot):
    """One arm, whose controller takes positions. The arm is always held: what ends is only being led.

    Args:
        robot: The robot.
        uri: The controller's full name, and options.

    Raises:
        UserError: The URI or an option is refused, or the robot is not an arm.
    """

    NAME = "ros2_control"
    LET_GO = "at rest, where it holds itself"
    sensed = ("joint_position", "joint_velocity")
    commanded = ("joint_target",)

    def __init__(self, robot: Any, *, uri: str = "") -> None:
        options: dict[str, Any] = {
            "joint_states": "/joint_states",
            "manager": "/controller_manager",
            "description": "/robot_description",
            "reach": 0.06,
            "domain": -1,
            "gripper": "",
            **OPTIONS,
        }
        given = parse_uri(uri, self.NAME, {"ros": _EXAMPLE}, options)
        checked_options(self.NAME, given.options, {"reach": (0.005, 1.0), "domain": (-1, 232)})
        name = given.path.rstrip("/")
        if given.host or not name:
            raise UserError(f"The URI '{uri}' names no controller: the driver '{self.NAME}' takes {_EXAMPLE}.")
        if not robot.end_effector:
            raise UserError(f"{robot.name} is not an arm: the driver '{self.NAME}' moves those.")
        if given.options["gripper"] not in ("", "fixed"):
            raise UserError(f"The URI '{uri}' has gripper={given.options['gripper']}: must be fixed, or left out.")
        super().__init__(robot, 500.0, Captures(robot, given.options))
        self._name, self._options = name, given.options
        fixed = bool(given.options["gripper"])
        self._led = [joint for joint in robot.drives if not (fixed and joint.type == "prismatic")]
        self._rows = [robot.drives.index(joint) for joint in self._led]
        self._resting = np.array([joint.rest for joint in robot.drives])
        self._context: Any = None
        self._node: Any = None
        self._executor: Any = None
        self._controller: Controller | None = None
        self._publisher: Any = None
        self._message: Any = None
        self._halt: Any = None
        self._order: list[int] = []
        self._leads = False
        """Whether a target has gone out since the joints were last sent to where they are."""
        self._new: Reading | None = None
        self._lacking = ""
        self._described = ""

    # Before anything moves ------------------------------------------------------------------------------------

    def _open(self) -> None:
        rclpy = import_library("rclpy", "ros")
        executors, signals = import_library("rclpy.executors", "ros"), import_library("rclpy.signals", "ros")
        options = self._options
        self._context = rclpy.Context()
        rclpy.init(
            context=self._context,
            domain_id=None if options["domain"] < 0 else options["domain"],
            signal_handler_options=signals.SignalHandlerOptions.NO,
        )
        self._node = node = rclpy.create_node("rlstack_ros2_control", context=self._context, use_global_arguments=False)
        self._executor = executors.SingleThreadedExecutor(context=self._context)
        self._executor.add_node(node)
        self._new, self._lacking, self._described = None, "no message", ""
        states, text = topics.type_of(topics.JOINT_STATES), topics.message_type("std_msgs/msg/String")
        node.create_subscription(states, options["joint_states"], self._hear, topics.quality("sensor_in"))
        node.create_subscription(text, options["description"], self._describe, topics.quality("latched"))
        spin = partial(spin_until, self._executor)
        self._controller = controller = Controller(node, self._name, spin)
        controller.check_joints([joint.name for joint in self._led], self.robot.name)
        controller.check_active(options["manager"])
        controller.check_free()
        if not spin(lambda: self._new is not None, _FIRST_S):
            raise UserError(f"{options['joint_states']} does not tell how {self.robot.name} stands: {self._lacking}.")
        spin(lambda: bool(self._described), _DESCRIPTION_S)
        self._same_limits()
        names = [joint.name for joint in self._led]
        self._order = [names.index(name) for name in controller.joints]
        plain = controller.kind == FORWARD
        self._message = TrajectoryMessage(controller.joints, plain=plain, reach_s=options["reach"])
        self._halt = TrajectoryMessage(controller.joints, plain=plain)
        topic = f"{self._name}/{controller.kind}"
        self._publisher = node.create_publisher(self._message.type, topic, topics.quality("command"))
        spin(lambda: self._publisher.get_subscription_count() > 0, _FIRST_S)

    def _describe(self, message: Any) -> None:
        self._described = message.data

    def _same_limits(self) -> None:
        if not self._described:
            return
        where = self._options["description"]
        found = {joint.name: joint for joint in read_urdf(self._described, where).joints}
        for joint in self._led:
            if joint.name in found:
                said = found[joint.name]
                check_limits(self.robot.name, joint, said.lower, said.upper, said.velocity, where)

    # Every period ---------------------------------------------------------------------------------------------

    def _hear(self, message: Any) -> None:
        """Note joint states; a message that does not have all joints, or is not finite, says nothing."""
        arrived_s = time.time()
        rows = {name: k for k, name in enumerate(message.name)}
        missing = [joint.name for joint in self._led if joint.name not in rows]
        if missing or len(rows) != len(message.name) or len(message.position) != len(rows):
            self._lacking = (
                f"its joints are {', '.join(message.name) or 'none'}, without {', '.join(missing) or 'values'}"
            )
            return
        places = [rows[joint.name] for joint in self._led]
        position, velocity = self._resting.copy(), np.zeros(len(self._resting))
        position[self._rows] = np.asarray(message.position, dtype=float)[places]
        if len(message.velocity) == len(rows):
            velocity[self._rows] = np.asarray(message.velocity, dtype=float)[places]
        if not (np.isfinite(position).all() and np.isfinite(velocity).all()):
            self._lacking = "values that are not finite"
            return
        measured_s = stamp_to_ns(message.header.stamp) / NANOSECONDS or arrived_s
        if abs(arrived_s - measured_s) > _OTHER_CLOCK_S:
            self._lacking = (
                f"its stamps are {arrived_s - measured_s:.1f} s old: synchronise the clocks (chrony), and use no"
                " simulated time"
            )
            return
        self._new = Reading(min(measured_s, arrived_s), {"joint_position": position, "joint_velocity": velocity})

    def _poll(self) -> Reading | None:
        if self._executor is None:
            raise LinkLost("it is not open")
        self._executor.spin_once(timeout_sec=self._period_s)
        new, self._new = self._new, None
        return new

    # Moving ---------------------------------------------------------------------------------------------------

    def _limited(self, command: Array) -> Array:
        targets = self._resting.copy()
        targets[self._rows] = clip_targets(self._led, command[self._rows])
        return targets

    def _power(self) -> None:
        if not self._publisher.get_subscription_count():
            raise UserError(f"The controller {self._name} is gone: start it again.")

    def _send(self, command: Array) -> None:
        self._leads = True
        self._publisher.publish(self._message.fill(0, command[self._rows][self._order]))

    def _unpower(self) -> None:
        """Send the joints to where they are, at once and once.

        Where they sag, the arm would sink by as much with each repetition of an "off".
        """
        if self._publisher is None or self._reading is None or not self._leads:
            return
        self._leads = False
        there = self._reading.signals["joint_position"][self._rows][self._order]
        self._publisher.publish(self._halt.fill(0, there))

    def _shut(self) -> None:
        node, executor, context = self._node, self._executor, self._context
        self._node = self._executor = self._context = self._publisher = self._controller = None
        if executor is not None:
            executor.shutdown()
        if node is not None:
            node.destroy_node()
        if context is not None:
            context.try_shutdown()


BACKEND = Ros2ControlArm
