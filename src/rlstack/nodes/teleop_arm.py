"""The arm's teleoperation node: converts a human's commands into joint targets, in place of a policy's.

It answers joint states like a policy, on ``policy/cmd/joints``, through the guard. Where a policy commands the arm, it
stands between the two: while nobody intervenes, it forwards the policy's commands unchanged.
"""

from __future__ import annotations

import re
import time
from typing import Any, ClassVar

import numpy as np

from rlstack.control.teleoperation import ArmTeleoperator, TeleopStep
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS, NameOrder, stamp_to_ns
from rlstack.interfaces.timing import Arrival, StampClock
from rlstack.interfaces.topics import INTERVENE, POLICY_ALONE, TELEOP_GRIPPER, TELEOP_JOINTS, TELEOP_TWIST, TELEOP_TYPES
from rlstack.interfaces.trajectory_messages import TrajectoryMessage
from rlstack.interfaces.transform_buffer import NoTransform
from rlstack.nodes.frames import FRAME_PARAMETERS, frames_of
from rlstack.nodes.kind_topics import teleoperated
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.runtime import ManagedNode
from rlstack.nodes.simulated_pace import follow_pace
from rlstack.nodes.transform_listener import TRANSFORM_TIMEOUT, TransformListener
from rlstack.robots import frames, load_robot

_NUMBER = re.compile(r"(?<![\w.])-?\d+(\.\d+)?")

_PASSING = ("policy", "hold")
"""The guard's modes in which nothing else moves the arm."""

_ALONE_S = 5.0
"""Log missing joint states after this time: they may be in another namespace."""

PARAMETERS = (
    Parameter("robot", "panda", "Name or file of the arm."),
    Parameter(
        "with_policy",
        False,
        f"Whether a policy commands the arm, on {POLICY_ALONE}, while nobody intervenes; otherwise the arm is held.",
    ),
    Parameter("speed_m_s", 0.0, "Largest tool speed, m/s; 0: the robot file's.", minimum=0.0, maximum=10.0),
    Parameter("turn_rad_s", 2.0, "Largest rotation rate of the tool, rad/s.", minimum=0.001, maximum=10.0),
    Parameter("timeout_s", 0.5, "Time without input after which the arm is held, s.", minimum=0.05, maximum=10.0),
    *FRAME_PARAMETERS,
    TRANSFORM_TIMEOUT,
)


class TeleopArmNode(ManagedNode):
    """Converts teleoperation topics into joint targets, and forwards a policy's while nobody intervenes."""

    NAME: ClassVar[str] = "teleop_arm"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def configure(self) -> None:
        """Read the arm's model and create the topics."""
        robot = teleoperated(load_robot(self.parameters["robot"]))
        names = [drive.name for drive in robot.drives]
        self._tool_link, self._names = robot.tool_link, names
        self._teleoperator = ArmTeleoperator(robot, self.parameters["speed_m_s"] or None, self.parameters["turn_rad_s"])
        self._order, self._policy_order = NameOrder(names), NameOrder(names)
        self._message = TrajectoryMessage(names)
        self._sender = self.publisher(self._message.type, topics.POLICY_PREFIX + topics.JOINT_COMMAND, "command")
        self._intervene, self._stamp_ns, self._stamps = False, 0, StampClock()
        follow_pace(self, self._stamps.set_rate)
        self._guard_leads = False
        self._base, self._refused_twist = frames_of(self.parameters).base, ""
        self._transforms = TransformListener(self, self._now_ns)
        self._twist: tuple[float, np.ndarray, np.ndarray, bool] = (-1e9, np.zeros(3), np.zeros(3), False)
        self._gripper: tuple[float, float] = (-1e9, 0.0)
        self._joints: tuple[float, dict[str, float]] | None = None
        self._policy_command: tuple[float, Any] = (-1e9, None)
        """Arrival time of the policy's last forwarded command, and that command."""
        self._clipped, self._steps, self._passed = "", 0, 0
        hears: list[tuple[str, Any, topics.Quality]] = [
            (INTERVENE, self._on_intervene, "latched"),
            (TELEOP_TWIST, self._on_twist, "command"),
            (TELEOP_GRIPPER, self._on_gripper, "command"),
            (TELEOP_JOINTS, self._on_joints, "command"),
        ]
        if self.parameters["with_policy"]:
            hears.append((POLICY_ALONE, self._on_policy, "command"))
        for topic, hear, use in hears:
            self.subscriber(topics.message_type(TELEOP_TYPES[topic]), topic, hear, use)
        self.subscriber(topics.type_of(topics.JOINT_STATES), topics.JOINT_STATES, self._on_state, "sensor_in_reliable")
        self.subscriber(topics.type_of(topics.GUARD_MODE), topics.GUARD_MODE, self._on_mode, "latched")

    def activate(self) -> None:
        """Start checking for joint states."""
        self._stated = time.monotonic()
        self.every(_ALONE_S, self._warn_if_silent)

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report who is in control, and what was last limited."""
        figures = {"the human leads": self._intervene, "steps": self._steps, "passed on": self._passed}
        return self._refused_twist, {**figures, "clipped last": self._clipped or "nothing"}

    def _on_intervene(self, message: Any) -> None:
        if message.data != self._intervene:
            self._intervene = bool(message.data)
            self._take_up()
            self.get_logger().info("the human leads" if self._intervene else "the human has handed back")

    def _take_up(self) -> None:
        """Continue from the arm's last targets: a held object stays held."""
        if not self.parameters["with_policy"]:
            return self._teleoperator.take_up()
        self._teleoperator.release()  # outdated targets
        at, message = self._policy_command
        if self._intervene and time.monotonic() - at < self.parameters["timeout_s"]:
            try:
                names, positions = list(message.joint_names), message.points[-1].positions
                target = self._policy_order.arrange(tuple(names), lambda: names, np.array(positions, dtype=float))
            except (ValueError, IndexError):
                return  # the guard refuses it, too
            if np.isfinite(target).all():
                self._teleoperator.take_up(target)

    def _warn_if_silent(self) -> None:
        if (silent_s := time.monotonic() - self._stated) > _ALONE_S:
            self.warn(
                f"No joint states have arrived on {self.resolve_topic_name(topics.JOINT_STATES)} for {silent_s:.0f} s:"
                " does the arm's node or driver run, and in this namespace?",
                key="alone",
            )

    def _now_ns(self) -> int | None:
        return self._stamps.now_ns(time.monotonic_ns(), time.time_ns())

    def _on_twist(self, message: Any) -> None:
        twist, frame = message.twist, message.header.frame_id.rpartition("/")[2]
        linear, angular = (np.array([v.x, v.y, v.z]) for v in (twist.linear, twist.angular))
        if not (np.isfinite(linear).all() and np.isfinite(angular).all()):
            self.warn("A non-finite twist was refused.")
            return
        if frame not in ("", topics.BODY_FRAME, self._tool_link):
            try:
                turn = self._transforms.lookup(self._base, message.header.frame_id.lstrip("/")).orientation
            except NoTransform as error:  # it does not wait for a transform: its motion would come too late
                self._refused_twist = (
                    f"a twist in the frame '{message.header.frame_id}' was refused: {error}: give it in"
                    f" {self._base} or {self._tool_link}, or publish the transform"
                )
                self.warn(f"A{self._refused_twist[1:]}.", "twist")
                return
            linear, angular = frames.rotate(turn, linear), frames.rotate(turn, angular)
        self._refused_twist = ""
        self._twist = (time.monotonic(), linear, angular, frame == self._tool_link)

    def _on_gripper(self, message: Any) -> None:
        if np.isfinite(message.data):
            self._gripper = (time.monotonic(), float(message.data))

    def _on_joints(self, message: Any) -> None:
        self._joints = (time.monotonic(), dict(zip(message.name, message.position)))

    def _on_mode(self, message: Any) -> None:
        self._guard_leads = message.data not in _PASSING

    def _on_policy(self, message: Any) -> None:
        if not self._intervene and self.active:
            self._passed += 1
            self._policy_command = (time.monotonic(), message)
            self._sender.publish(message)

    def _on_state(self, message: Any) -> None:
        if not self.active:
            return
        stamp_ns = stamp_to_ns(message.header.stamp)
        try:
            names = list(message.name)
            joints = self._order.arrange(tuple(names), lambda: names, np.array(message.position, dtype=float))
        except ValueError as error:
            self.warn(f"Joint states were refused: {error}.")
            return
        if not np.isfinite(joints).all():
            self.warn(f"Joint states were refused: the position of {self._unread(joints)} is not finite.")
            return
        arrival = self._stamps.observe(stamp_ns, time.monotonic_ns(), time.time_ns())
        if arrival is Arrival.DROPPED:
            return
        self._stated = time.monotonic()
        if arrival is Arrival.RESTARTED:  # the simulation was reset
            self._teleoperator.release()
        elif self._guard_leads:  # parked, or pushed: the last targets are outdated
            self._teleoperator.give_way(joints)
        period_s, self._stamp_ns = max(stamp_ns - self._stamp_ns, 0) / NANOSECONDS, stamp_ns
        if not self._intervene and self.parameters["with_policy"]:
            return  # the policy's own commands continue
        stepped = self._teleop_step(joints, period_s)
        for sentence in stepped.clipped:
            self._clipped = sentence
            self.warn(sentence, key=_NUMBER.sub("", sentence))  # log once those that differ only in their values
        self._steps += 1
        self._sender.publish(self._message.fill(stamp_ns, stepped.target))

    def _unread(self, joints: np.ndarray) -> str:
        return ", ".join(name for name, place in zip(self._names, joints) if not np.isfinite(place))

    def _teleop_step(self, joints: np.ndarray, period_s: float) -> TeleopStep:
        """Return the joint targets: from the human's input, or the present ones."""
        still, now, patience = np.zeros(3), time.monotonic(), self.parameters["timeout_s"]
        moves, grips = (now - at < patience for at in (self._twist[0], self._gripper[0]))
        if self._intervene:
            if self._joints is not None and now - self._joints[0] < patience:
                try:
                    return self._teleoperator.follow(joints, period_s, self._joints[1])
                except ValueError as error:
                    self.warn(f"{TELEOP_JOINTS} was refused: {error}.")
            elif moves or grips:
                _, linear, angular, in_tool = self._twist if moves else (now, still, still, False)
                grip = self._gripper[1] if grips else 0.0
                return self._teleoperator.step(joints, period_s, linear, angular, grip, in_tool=in_tool)
            else:
                self.warn(
                    f"The human leads, but no command has come for {patience:g} s: the arm is held.", key="silent"
                )
        return self._teleoperator.step(joints, period_s, still, still)


main = TeleopArmNode.main

if __name__ == "__main__":
    raise SystemExit(main())
