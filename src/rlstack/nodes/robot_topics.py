"""One robot on the common topics: publishes its sensors, receives its commands."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.backend import Backend, Monitored, Reading, Signals
from rlstack.interfaces.kind_signals import command_of
from rlstack.interfaces.messages import NANOSECONDS, BatteryMessage, ImuMessage, OdometryMessage, pose_message
from rlstack.nodes.command_source import CommandSource, full_source
from rlstack.nodes.dry_run import WOULD_SEND, DryRun
from rlstack.nodes.frames import Frames, checked_prefix
from rlstack.nodes.goal_subscriptions import QUALITIES
from rlstack.nodes.kind_topics import Filler, kind_topics
from rlstack.nodes.markers import Markers
from rlstack.nodes.topic_watch import type_name

ODOMETRY_NOISE = (
    "position_noise_m",
    "orientation_noise_rad",
    "linear_velocity_noise_m_s",
    "angular_velocity_noise_rad_s",
)

BATTERY_HZ = 1.0
"""Default rate of the battery state."""

_BATTERY = ("battery_voltage", "battery_current", "battery_percentage")

NOT_ANSWERING = "not answering the last observation"

BLIND_S = 0.2
"""Age of the observation that an "off" answers, from which it means that the guard sees nothing any more."""

_WAITING = 10
"""Commands that may wait to be read."""
_AHEAD_S = 1.0
"""How far ahead of the last observation a stamp may be before it counts as from another clock."""


class RobotTopics:
    """One robot's publishers and its subscription to commands, independent of timekeeping.

    Args:
        node: Creates publishers (:class:`rlstack.nodes.runtime.ManagedNode`); commands count while it is active.
        backend: The robot.
        name: Its namespace under the node's own, which follows the frame prefix; empty: the node's own.
        counts: Called with this and a command's stamp, ns: whether that command counts.
        on_command: Called with this and the command that was actually sent; empty if it was "off".

    Raises:
        UserError: The node has no topics for robots of this kind, or the backend does not take the robot's command.
    """

    def __init__(
        self,
        node: Any,
        backend: Backend,
        name: str,
        counts: Callable[[RobotTopics, int], bool],
        on_command: Callable[[RobotTopics, Signals], None],
    ) -> None:
        self.backend, self.robot, self.name = backend, backend.robot, name
        self.prefix = f"{name}/" if name else ""
        first = checked_prefix(node.parameters["frame_prefix"])
        self.frames = Frames(first + self.prefix, first + topics.WORLD_FRAME, shared=bool(name))
        if (takes := command_of(self.robot).name) not in backend.commanded:
            raise UserError(
                f"The robot {self.robot.name} takes the command {takes} by its file, but its backend"
                f" {type(backend).__name__} takes {', '.join(backend.commanded) or 'none'}: choose a robot file and a"
                " backend that agree."
            )
        self.dry_run = DryRun(backend.robot) if node.parameters["dry_run"] else None
        """What takes commands in the backend's place; None: the backend does."""
        self.actuators: Backend | DryRun = self.dry_run or backend
        """What commands go to."""
        self.kind = kind_topics(self.robot)(self.robot, node.parameters)
        self.observed = self.kind.observed
        """The topic that commands answer."""
        self._node, self._counts_now, self._on_answer = node, counts, on_command
        self.sent_ns = -1
        """Stamp of the last observation that a command can answer."""
        self.sent_at = time.perf_counter()
        self.epoch_ns = 0
        """Commands that answer an older observation are ignored."""
        self.flying = False
        """Whether the last command was not "off", and nothing has disarmed it since."""
        self.let_go_of = ""
        """What has become of the robot since its commands ended without an "off"; empty: they have not."""
        self.fed_s = time.monotonic()
        """Arrival time of the last command."""
        self.silent_s = 0.0
        """The robot's time since then."""
        self.overdue = False
        """Whether commands were missing for too long when last looked at."""
        self.last_latency_s = float("nan")
        """Latency from publishing the last answered observation to its command's arrival, s."""
        self.reading: Reading | None = None
        """The last reading published."""
        self.stamp_ns = 0
        """Its stamp."""
        self.counts = dict.fromkeys(("commands", "refused", NOT_ANSWERING, "watchdog"), 0)
        self.last_refusal = ""
        self._fillers = self._make_fillers()
        self.topics = tuple(self._fillers)
        """Names without the prefix, in the order of publication."""
        self._publishers = {
            topic: node.publisher(topics.type_of(topic), self.prefix + topic, "sensor_out") for topic in self.topics
        }
        self._wanted = dict.fromkeys(self.topics, True)
        self._markers = Markers(self.robot, name, self.frames.odom)
        self._marker_publisher = node.publisher(topics.type_of(topics.MARKERS), self.prefix + topics.MARKERS, "event")
        self._hears_paths = False
        self.command_topic = self.prefix + self.kind.command_topic
        self._commands: Any = None
        self._subscribe_to_commands()
        for topic in self.topics:
            node.watch.single(self.prefix + topic)

    @property
    def rates_hz(self) -> dict[str, float]:
        """Rate of each topic; those missing from the robot file are published with every command."""
        otherwise = {**dict.fromkeys(self.topics, self.robot.control_rate_hz), topics.BATTERY: BATTERY_HZ}
        sensors = self.robot.sensors
        return {t: sensors[t].rate_hz if t in sensors else otherwise[t] for t in self.topics}

    # Publishing ----------------------------------------------------------------------------------------------

    def wanted(self, due: Collection[str]) -> list[str]:
        """Return the due topics that have subscribers, in the order of publication."""
        return [topic for topic in self.topics if topic in due and self._wanted[topic]]

    def publish(self, reading: Reading, stamp_ns: int, which: Sequence[str]) -> None:
        """Publish a reading on some topics."""
        self.reading, self.stamp_ns = reading, stamp_ns
        for topic in which:
            self._publishers[topic].publish(self._fillers[topic](stamp_ns, reading.signals))
            if topic == self.observed:
                self.sent_ns, self.sent_at = stamp_ns, time.perf_counter()

    def update_wanted(self) -> None:
        """Update which topics have subscribers; call it periodically. The topic that commands answer always goes out.

        Filling and publishing messages without subscribers costs more than the physics.
        """
        for topic, publisher in self._publishers.items():
            self._wanted[topic] = topic == self.observed or publisher.get_subscription_count() > 0
        self._follow_commands()
        if not self._hears_paths and self._marker_publisher.get_subscription_count() > 0:
            self._hears_paths = True
            kind = topics.type_of(topics.GOAL_PATH)
            for use in QUALITIES:
                self._node.subscriber(kind, self.prefix + topics.GOAL_PATH, self._markers.take_path, use, raw=True)

    def publish_markers(self) -> None:
        """Publish the markers if there are subscribers."""
        if self.reading is None or self._marker_publisher.get_subscription_count() == 0:
            return
        signals = self.reading.signals
        self._marker_publisher.publish(
            self._markers.at(self.stamp_ns, *self.kind.pose(self.backend, signals), self.kind.joints(signals) or None)
        )

    def _make_fillers(self) -> dict[str, Filler]:
        always = (topics.BATTERY, topics.OBJECT, topics.ODOM, self.observed)
        joints, fill_joints = self.kind.joint_states()
        makers: tuple[tuple[str, str, Callable[[], Filler]], ...] = (
            (topics.IMU, "linear_acceleration", self._imu),
            (topics.JOINT_STATES, joints, lambda: fill_joints),
            (topics.BATTERY, "battery_voltage", self._battery),
            (topics.OBJECT, "object_position", self._object),
            (topics.ODOM, "position", self._odometry),
        )
        # the topic that commands answer goes last, so that its companions have arrived by then
        makers = tuple(sorted(makers, key=lambda one: one[0] == self.observed))
        return {
            topic: make()
            for topic, needed, make in makers
            if needed in self.backend.sensed and (topic in self.robot.sensors or topic in always)
        }

    def _odometry(self) -> Filler:
        sensor = self.robot.sensors.get(topics.ODOM)
        noise = {name: getattr(sensor, name) for name in ODOMETRY_NOISE} if sensor else {}
        odometry = OdometryMessage(topics.type_of(topics.ODOM)(), self.frames.odom, self.frames.base, **noise)
        return lambda stamp, s: odometry.fill(
            stamp, s["position"], s["orientation"], s["linear_velocity"], s["angular_velocity"]
        )

    def _imu(self) -> Filler:
        sensor = self.robot.sensors[topics.IMU]
        imu = ImuMessage(
            topics.type_of(topics.IMU)(),
            self.frames.base,
            angular_velocity_noise_rad_s=sensor.angular_velocity_noise_rad_s,
            linear_acceleration_noise_m_s2=sensor.linear_acceleration_noise_m_s2,
        )
        turning = "imu_angular_velocity" if "imu_angular_velocity" in self.backend.sensed else "angular_velocity"
        return lambda stamp, s: imu.fill(stamp, s[turning], s["linear_acceleration"])

    def _object(self) -> Filler:
        frame = self.frames.odom
        return lambda stamp, s: pose_message(s["object_position"], s["object_orientation"], stamp_ns=stamp, frame=frame)

    def _battery(self) -> Filler:
        battery = BatteryMessage(topics.type_of(topics.BATTERY)())

        def fill(stamp: int, s: Signals) -> Any:
            known = [float(s[name][0]) if name in s else math.nan for name in _BATTERY]
            return battery.fill(stamp, *known)

        return fill

    # Commands ------------------------------------------------------------------------------------------------

    def _follow_commands(self) -> None:
        """Subscribe to commands by the type that they have, if the robot may choose."""
        if self._commands is None:
            self._subscribe_to_commands()
            self._node.get_logger().info(f"{self.command_topic} is read as {type_name(self.kind.command_type)}.")
            return
        publishers = self._node.get_publishers_info_by_topic(self._commands.topic_name)
        if self.kind.follow({publisher.topic_type for publisher in publishers}):
            self._node.unsubscribe(self._commands)
            self._commands = None  # a topic has one type in a process until the executor has let go of it

    def _subscribe_to_commands(self) -> None:
        # several may wait, so that commands of another publisher do not push out those that count
        how: dict[str, Any] = {"raw": True, "identified": True, "depth": _WAITING}
        topic, on_command = self.command_topic, self._on_command
        self._commands = self._node.subscriber(self.kind.command_type, topic, on_command, "command", **how)
        wanted = full_source(self._node, self.name, self._node.parameters["command_source"])
        self.source = CommandSource(self._node, self.command_topic, wanted, self._commands, self._node.why_unknown)
        """Whose commands count."""

    def let_go(self, why: str, advice: str = "") -> None:
        """Act on commands that have ended, or that mean that nothing is seen: disarm, or leave it to its failsafe."""
        self.let_go_of = self.actuators.let_go()
        self.flying = False
        self.counts["watchdog"] += 1
        self._node.get_logger().warning(f"{why}: {self.let_go_of}.{advice}")

    def let_go_for_silence(self, waited: str) -> None:
        """Act on commands that are missing."""
        self.let_go(f"No command on {self.command_topic} for {waited}", " Is the guard running?")

    def end(self) -> None:
        """Leave the actuators as they should be without this node: one that flies is not disarmed in the air."""
        if self.flying and not self.backend.owns_time:
            self.let_go("The robot node ends while the robot is commanded")
        elif not self.let_go_of:  # its failsafe may still be landing it
            self.actuators.disarm()

    def status(self) -> dict[str, Any]:
        """Report the state of commands."""
        return {
            **self.counts,
            "dropped, of others": self.source.foreign,
            "flying": self.flying,
            "command latency, ms": round(1e3 * self.last_latency_s, 2),
            "last refusal": self.last_refusal or "none",
            **({WOULD_SEND: self.dry_run.text} if self.dry_run else {}),
            **(self.backend.health()[1] if isinstance(self.backend, Monitored) else {}),
        }

    def _on_command(self, data: bytes, publisher: bytes | None = None) -> None:
        if not self._node.active or not self.source.admits(publisher):
            return
        try:
            stamped, command = self.kind.read(data)
        except ValueError as error:
            self._refuse(str(error))
            return
        # an operator's "off"; a simulator in lock step begins with the stamp 0
        now = not command and not stamped and not self._node.parameters["lock_step"]
        stamp = self.sent_ns if stamped is None or now else stamped
        if not self._counts_now(self, stamp):
            self.counts[NOT_ANSWERING] += 1
            return
        if self.kind.timeout_s is not None and (reason := self._untimely(stamp, self.kind.timeout_s)):
            self._refuse(reason)
            return
        self.last_latency_s = time.perf_counter() - self.sent_at + max(self.sent_ns - stamp, 0) / NANOSECONDS
        sent: Signals = {}
        if not command:
            self._take_off_command(stamped or 0)
        else:
            try:
                sent = self.actuators.write(command)
            except ValueError as error:
                self._refuse(str(error))
                return
            self.flying, self.let_go_of = self.dry_run is None and self.kind.moves(command), ""
        self.counts["commands"] += 1
        self.silent_s, self.fed_s = 0.0, time.monotonic()
        if self.kind.timeout_s is not None:  # a command is as old as the observation that it answers
            self.silent_s = max(self.sent_ns - stamp, 0) / NANOSECONDS
            self.fed_s -= self.silent_s
        self._on_answer(self, sent)

    def _take_off_command(self, stamp_ns: int) -> None:
        """Disarm; but an "off" from a guard that sees nothing, as on a lost link, is no reason to fall from the air.

        Without a stamp (0) it is meant now, as of an operator: then it counts whatever is seen.
        """
        now = self.backend.owns_time or stamp_ns == 0
        blind_s = 0.0 if now else time.time() - stamp_ns / NANOSECONDS
        if self.flying and blind_s > BLIND_S:
            self.let_go(f'The "off" on {self.command_topic} answers an observation from {blind_s:.2f} s ago')
        elif not self.let_go_of or blind_s <= BLIND_S:
            self.actuators.disarm()
            self.flying, self.let_go_of = False, ""

    def _untimely(self, stamp_ns: int, timeout_s: float) -> str:
        """Return why a stamp is not from this robot's present; empty if it is."""
        age_s = (self.sent_ns - stamp_ns) / NANOSECONDS
        if age_s > timeout_s:
            return f"it answers an observation from {age_s:.2f} s ago; at most {timeout_s:g} s are allowed"
        if age_s < -_AHEAD_S:
            return (
                f"its stamp is {-age_s:.1f} s ahead of the last observation: stamp it by {topics.CLOCK}"
                " (use_sim_time), with the observation's own stamp, or with 0 for now"
            )
        return ""

    def _refuse(self, reason: str) -> None:
        self.counts["refused"] += 1
        self.last_refusal = reason
        self._node.warn(f"A command on {self.command_topic} was refused: {reason}.", f"{self.prefix}refused")
