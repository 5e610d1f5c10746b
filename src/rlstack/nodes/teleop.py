"""The teleoperation node: publishes a human's input device on the teleoperation topics."""

from __future__ import annotations

import signal
import time
from collections.abc import Collection
from dataclasses import replace
from typing import Any, ClassVar

from rlstack.errors import UserError
from rlstack.guard.decision import CommonMode
from rlstack.hardware.devices import STOP, TeleopInput, device_called
from rlstack.hardware.intervention import InterventionDetector, LeaderArmMotion
from rlstack.interfaces import topics
from rlstack.interfaces.messages import set_stamp
from rlstack.interfaces.topics import INTERVENE, TELEOP_GRIPPER, TELEOP_JOINTS, TELEOP_TWIST, TELEOP_TYPES
from rlstack.nodes.kind_topics import teleoperated
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.runtime import ManagedNode
from rlstack.robots import load_robot

PARAMETERS = (
    Parameter("device", "keyboard", "Input device: keyboard, gamepad, joy, spacemouse, leader:FILE, ..."),
    Parameter("robot", "panda", "Name or file of the arm."),
    Parameter("rate_hz", 50.0, "Rate at which the device is read, Hz.", minimum=1.0, maximum=1000.0),
    Parameter("speed_m_s", 0.2, "The tool's speed at full stroke, m/s.", minimum=0.001, maximum=3.0, live=True),
    Parameter(
        "turn_rad_s", 0.8, "The tool's rotation rate at full stroke, rad/s.", minimum=0.001, maximum=6.0, live=True
    ),
)

_UNHEARD_S = 2.0
"""How long nodes may take to discover each other."""


class TeleopNode(ManagedNode):
    """Publishes a human's input: continuously while the human is in control, and once when control ends.

    Args:
        overrides: Parameter values.
        ends_process: Whether the process exits, as by Ctrl-C, once the human ends the session.
        beside: Names of the nodes that are started with it. A script, which does not wait for subscribers, starts
            once it has one, and once a guard among these nodes forwards commands.
        options: For ``rclpy.node.Node``.
    """

    NAME: ClassVar[str] = "teleop"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def __init__(
        self,
        overrides: dict[str, Any] | None = None,
        *,
        ends_process: bool = True,
        beside: Collection[str] = (),
        **options: Any,
    ) -> None:
        super().__init__(overrides, **options)
        self._ends_process, self._beside = ends_process, beside
        self.stopped = False
        """Whether the human has ended the session."""
        self._device: Any = None

    def configure(self) -> None:
        """Find the device and create the topics."""
        robot = teleoperated(load_robot(self.parameters["robot"]))
        self._device = device_called(self.parameters["device"], robot)
        sent = (TELEOP_TWIST, TELEOP_GRIPPER, TELEOP_JOINTS, INTERVENE)
        self._messages = {topic: topics.message_type(TELEOP_TYPES[topic])() for topic in sent}
        self._messages[TELEOP_TWIST].header.frame_id = topics.BODY_FRAME
        self._senders = {
            topic: self.publisher(type(message), topic, "latched" if topic == INTERVENE else "command")
            for topic, message in self._messages.items()
        }
        if (heard := getattr(self._device, "topic", None)) is not None:
            self.subscriber(topics.message_type(heard[1]), heard[0], self._device.hear, "sensor_in")
        self._started = self._device.live or not self._beside
        self._guard_passes = "guard" not in self._beside
        if not self._guard_passes:
            self.subscriber(topics.type_of(topics.GUARD_MODE), topics.GUARD_MODE, self._on_mode, "latched")
        self._device.open()
        # where a policy may be moving the arm, opening the device does not take over control
        corrects = self._device.live and (not self._beside or "policy" in self._beside)
        self._takeover = InterventionDetector() if corrects else None
        self._robot, self._moved = robot, LeaderArmMotion()
        self._intervening: bool | None = None
        self._device_lost, self._heard = False, time.monotonic()

    def activate(self) -> None:
        """Start reading the device."""
        self.get_logger().info(f"{self.parameters['device']}:\n{self._device.keys}")
        self.every(1.0 / self.parameters["rate_hz"], self._read)

    def deactivate(self) -> None:
        """Stop and hand back control; if the device is gone, the arm is held instead."""
        self._publish_input(TeleopInput(intervene=self._device_lost and bool(self._intervening)))
        from rclpy.duration import Duration

        # a subscriber that misses this waits for the human, and the publisher may be gone a moment later
        self._senders[INTERVENE].wait_for_all_acked(Duration(seconds=1.0))

    def cleanup(self) -> None:
        """Release the device."""
        if self._device is not None:
            self._device.close()

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report who is in control."""
        return "", {"device": self.parameters["device"], "the human leads": bool(self._intervening)}

    def _on_mode(self, message: Any) -> None:
        self._guard_passes = message.data == CommonMode.POLICY

    def _read(self) -> None:
        if not self._started:
            heard = all(self._senders[topic].get_subscription_count() for topic in (INTERVENE, TELEOP_TWIST))
            if not (heard and self._guard_passes):
                self.warn("The script starts once the arm's nodes run and the guard is armed.", key="wait")
                return
            self._started = True
        try:
            user_input = self._device.read()
        except UserError as error:
            self._device_lost = True
            if not self._intervening:
                raise
            raise UserError(f"{error} The arm is held: start this again to lead it, or to hand it back.") from error
        if self._takeover is not None:
            if user_input.joints is None:
                leads = self._takeover.leads(user_input, begins=False)
            else:
                leads = user_input.intervene and self._moved.moved(self._robot, user_input.joints)
            user_input = replace(user_input, intervene=leads)
        self._publish_input(user_input)
        self._warn_if_unheard()
        if STOP in user_input.events and not self.stopped:
            self.stopped = True
            if self._ends_process:
                signal.raise_signal(signal.SIGINT)

    def _warn_if_unheard(self) -> None:
        """Warn if the human is in control and nothing subscribes."""
        now = time.monotonic()
        if not self._intervening or all(
            self._senders[topic].get_subscription_count() for topic in (INTERVENE, TELEOP_TWIST)
        ):
            self._heard = now
        elif now - self._heard > _UNHEARD_S:
            self.warn(
                f"The human leads, but nothing subscribes to {self.resolve_topic_name(INTERVENE)}: does teleop_arm"
                " run, and in this namespace?",
                key="unheard",
            )

    def _publish_input(self, user_input: TeleopInput) -> None:
        stamp_ns = self.get_clock().now().nanoseconds
        if user_input.intervene != self._intervening:
            self._intervening = user_input.intervene
            self._messages[INTERVENE].data = user_input.intervene
            self._senders[INTERVENE].publish(self._messages[INTERVENE])
            self.get_logger().info("the human leads" if user_input.intervene else "the human has handed back")
        if user_input.joints is not None:
            joints = self._messages[TELEOP_JOINTS]
            set_stamp(joints.header.stamp, stamp_ns)
            joints.name, joints.position = list(user_input.joints), list(user_input.joints.values())
            self._senders[TELEOP_JOINTS].publish(joints)
            return
        twist = self._messages[TELEOP_TWIST]
        set_stamp(twist.header.stamp, stamp_ns)
        for axis, linear, angular in zip("xyz", user_input.linear.tolist(), user_input.angular.tolist()):
            setattr(twist.twist.linear, axis, linear * self.parameters["speed_m_s"])
            setattr(twist.twist.angular, axis, angular * self.parameters["turn_rad_s"])
        self._messages[TELEOP_GRIPPER].data = float(user_input.gripper)
        self._senders[TELEOP_GRIPPER].publish(self._messages[TELEOP_GRIPPER])
        self._senders[TELEOP_TWIST].publish(twist)


main = TeleopNode.main

if __name__ == "__main__":
    raise SystemExit(main())
