"""The robot node: puts any backend, simulated or real, behind the common topics."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.backend import BACKENDS, Backend, Reading, Signals
from rlstack.interfaces.messages import (
    NANOSECONDS,
    ImuMessage,
    OdometryMessage,
    RotorMessage,
    seconds_to_ns,
    set_stamp,
)
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import COMMANDED
from rlstack.interfaces.timing import Schedule
from rlstack.nodes.goal_path import QUALITIES
from rlstack.nodes.markers import Markers
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.runtime import ManagedNode, run_nodes
from rlstack.robots import Quadrotor, load_quadrotor

RESET_JUMP_NS = NANOSECONDS
"""A reset makes the stamps jump ahead by this much; whoever keeps a state over time starts afresh when stamps jump."""

_RESEND_S, _RESEND_MOST_S = 0.05, 1.0
_MAX_CATCH_UP = 5

PARAMETERS = (
    Parameter("robot", "crazyflie", "Name of the robot, or the path of its YAML file."),
    Parameter("backend", "mujoco", "What stands behind the topics: a simulator or a driver of a real robot."),
    Parameter("lock_step", False, "Simulated time waits for the command that answers each observation."),
    Parameter("real_time_factor", 1.0, "Simulated seconds per second.", minimum=0.01, maximum=100.0),
    Parameter("noise_seed", 0, "Seed of the simulated sensors' noise; -1 for none.", minimum=-1, maximum=2**31),
    Parameter("start_height_m", 0.0, "Start in the air at this height, m; 0 is on the ground.", minimum=0, maximum=100),
    Parameter(
        "command_timeout_periods",
        5.0,
        "Control periods without a command after which the robot is disarmed.",
        minimum=1.0,
        maximum=100.0,
        live=True,
    ),
    Parameter(
        "lock_step_timeout_s",
        3.0,
        "In lock step, seconds of real time without a command after which the robot is disarmed.",
        minimum=0.1,
        maximum=600.0,
        live=True,
    ),
)

ODOMETRY_NOISE = (
    "position_noise_m",
    "orientation_noise_rad",
    "linear_velocity_noise_m_s",
    "angular_velocity_noise_rad_s",
)

StepHook = Callable[[Reading, Signals], None]


class RobotNode(ManagedNode):
    """One robot on the common topics.

    In real time a timer lets the simulation go on and the newest command acts. In lock step exactly one control period
    passes for each command that bears the stamp of the last observation; every sensor is then sampled once a period.

    Args:
        backend: A constructed backend to host, connected or not; None takes the parameters ``robot`` and ``backend``.
        on_step: Called in lock step after every period with the new reading and the command that was really sent
            (without ``rotor_speed`` if it was "off"). It may reset the backend and call :meth:`publish_now`.
        overrides: Parameter values.
        options: For ``rclpy.node.Node``.
    """

    def __init__(
        self,
        backend: Backend | None = None,
        on_step: StepHook | None = None,
        overrides: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__("robot", PARAMETERS, overrides, **options)
        self._hosted = backend
        self.on_step = on_step
        self.backend: Backend | None = None
        self.last_latency_s = float("nan")
        """From sending the last answered observation to its command's arrival, s."""

    # Lifecycle -----------------------------------------------------------------------------------------------

    def configure(self) -> None:
        """Make the backend and the topics."""
        self.backend = self._hosted or self._make_backend()
        robot = self.backend.robot
        self._lock_step = self.parameters["lock_step"]
        if self._lock_step and not self.backend.owns_time:
            raise UserError(f"lock_step: a {type(self.backend).__name__} does not own time, so it cannot wait.")
        self._period_s = 1.0 / robot.control_rate_hz
        self._create_topics(robot)
        self._offset_ns = 0
        self._sent_ns = -1
        self._epoch_ns = 0
        self._counts = dict.fromkeys(("commands", "refused", "not answering the last observation", "watchdog"), 0)
        self._last_refusal = ""
        self._flying = False

    def activate(self) -> None:
        """Connect and begin to sense and step."""
        backend = self.backend
        assert backend is not None
        backend.connect()
        if self._hosted is None and backend.owns_time:
            backend.reset(self._start_state())
        self._flying = False
        self._fed_s = time.monotonic()
        self._patience_s = _RESEND_S
        self.every(0.5, self._look_for_listeners)
        self.every(0.1, self._publish_markers)
        if self._lock_step:
            self.every(_RESEND_S, self._wait_for_command)
        else:
            rates = {t: s.rate_hz for t, s in backend.robot.sensors.items() if t in self._fillers}
            tick_hz = max(backend.robot.control_rate_hz, *rates.values())
            self._schedule = Schedule({**rates, topics.CLOCK: backend.robot.control_rate_hz}, tick_hz)
            self._tick_s = 1.0 / tick_hz
            self._factor = self.parameters["real_time_factor"] if backend.owns_time else 1.0
            self._next_tick = time.monotonic()
            self._silent_s = 0.0
            self.every(self._tick_s / self._factor, self._tick)
        self._publish(backend.read(), self._all_topics)

    def deactivate(self) -> None:
        """Disarm."""
        if self.backend is not None:
            self.backend.disarm()

    def cleanup(self) -> None:
        """Release the backend, unless it came from outside."""
        if self.backend is not None and self._hosted is None:
            self.backend.close()
        self.backend = None

    def status(self) -> tuple[str, dict[str, Any]]:
        """Say how commands have fared."""
        figures = {**self._counts, "flying": self._flying, "last refusal": self._last_refusal or "none"}
        warning = "disarmed: no command came" if self._counts["watchdog"] and not self._flying else ""
        return warning, figures

    # For Python ----------------------------------------------------------------------------------------------

    def publish_now(self, announce: Callable[[int], None] | None = None) -> None:
        """Publish the backend's present state after a reset, on a time that has jumped by :data:`RESET_JUMP_NS`.

        Commands that answer an earlier observation no longer count.

        Args:
            announce: Called before with the stamp that the state will bear, ns.
        """
        assert self.backend is not None
        self._offset_ns += RESET_JUMP_NS
        self._flying = False
        self._patience_s = _RESEND_S
        reading = self.backend.read()
        self._epoch_ns = self._stamp(reading)
        if announce is not None:
            announce(self._epoch_ns)
        self._publish(reading, self._all_topics)

    # Topics --------------------------------------------------------------------------------------------------

    def _create_topics(self, robot: Quadrotor) -> None:
        from std_srvs.srv import Trigger

        backend = self.backend
        assert backend is not None
        makers = {topics.IMU: self._imu_filler, topics.JOINT_STATES: self._joint_filler, topics.ODOM: self._odom_filler}
        needs = {
            topics.IMU: "linear_acceleration",
            topics.JOINT_STATES: "measured_rotor_speed",
            topics.ODOM: "position",
        }
        self._fillers: dict[str, Callable[[int, Signals], Any]] = {}
        self._publishers_by_topic: dict[str, Any] = {}
        if backend.owns_time:
            self._fillers[topics.CLOCK] = self._clock_filler()
        for topic, make in makers.items():  # odometry last: what comes with it is there when it comes
            if needs[topic] in backend.sensed and (topic in robot.sensors or topic == topics.ODOM):
                self._fillers[topic] = make(robot)
        for topic in self._fillers:
            self._publishers_by_topic[topic] = self.publisher(topics.type_of(topic), topic, "sensor_out")
        self._all_topics = list(self._fillers)
        self._wanted = dict.fromkeys(self._fillers, True)
        self._markers = Markers(robot)
        self._marker_publisher = self.publisher(topics.type_of(topics.MARKERS), topics.MARKERS, "event")
        self._hears_paths = False
        command = topics.type_of(topics.ROTOR_COMMAND)
        names = {"rotor_speed": robot.rotor_names}
        self._read_command = SignalReader(command, {"rotor_speed": COMMANDED["rotor_speed"].field}, names)
        self.subscriber(command, topics.ROTOR_COMMAND, self._on_command, "command", raw=True)
        self.server(Trigger, topics.RESET, self._on_reset)

    def _clock_filler(self) -> Callable[[int, Signals], Any]:
        clock = topics.type_of(topics.CLOCK)()

        def fill(stamp: int, signals: Signals) -> Any:
            set_stamp(clock.clock, stamp)
            return clock

        return fill

    def _odom_filler(self, robot: Quadrotor) -> Callable[[int, Signals], Any]:
        sensor = robot.sensors.get(topics.ODOM)
        noise = {name: getattr(sensor, name) for name in ODOMETRY_NOISE} if sensor else {}
        odometry = OdometryMessage(topics.type_of(topics.ODOM)(), topics.WORLD_FRAME, topics.BODY_FRAME, **noise)
        return lambda stamp, s: odometry.fill(
            stamp, s["position"], s["orientation"], s["linear_velocity"], s["angular_velocity"]
        )

    def _imu_filler(self, robot: Quadrotor) -> Callable[[int, Signals], Any]:
        sensor = robot.sensors[topics.IMU]
        imu = ImuMessage(
            topics.type_of(topics.IMU)(),
            topics.BODY_FRAME,
            angular_velocity_noise_rad_s=sensor.angular_velocity_noise_rad_s,
            linear_acceleration_noise_m_s2=sensor.linear_acceleration_noise_m_s2,
        )
        return lambda stamp, s: imu.fill(stamp, s["angular_velocity"], s["linear_acceleration"])

    def _joint_filler(self, robot: Quadrotor) -> Callable[[int, Signals], Any]:
        joints = RotorMessage(topics.type_of(topics.JOINT_STATES)(), robot.rotor_names)
        return lambda stamp, s: joints.fill(stamp, s["measured_rotor_speed"])

    def _stamp(self, reading: Reading) -> int:
        return seconds_to_ns(reading.time_s) + self._offset_ns

    def _publish(self, reading: Reading, which: Sequence[str]) -> None:
        stamp = self._stamp(reading)
        self._reading = reading
        for topic in which:
            if self._wanted[topic]:
                self._publishers_by_topic[topic].publish(self._fillers[topic](stamp, reading.signals))
        if topics.ODOM in which:
            self._sent_ns, self._sent_at = stamp, time.perf_counter()

    def _look_for_listeners(self) -> None:
        # Filling and sending what nobody hears costs more than the physics. Odometry always goes out.
        for topic, publisher in self._publishers_by_topic.items():
            self._wanted[topic] = topic == topics.ODOM or publisher.get_subscription_count() > 0
        if not self._hears_paths and self._marker_publisher.get_subscription_count() > 0:
            self._hears_paths = True
            for use in QUALITIES:
                kind = topics.type_of(topics.GOAL_PATH)
                self.subscriber(kind, topics.GOAL_PATH, self._markers.take_path, use, raw=True)

    def _publish_markers(self) -> None:
        if self._marker_publisher.get_subscription_count() == 0:
            return
        signals = self._reading.signals
        self._marker_publisher.publish(
            self._markers.at(self._stamp(self._reading), signals["position"], signals["orientation"])
        )

    # Commands and time ---------------------------------------------------------------------------------------

    def _on_command(self, data: bytes) -> None:
        if not self.active:
            return
        assert self.backend is not None
        try:
            stamp, command = self._read_command(data)
        except ValueError as error:
            self._refuse(str(error))
            return
        if stamp != self._sent_ns if self._lock_step else stamp < self._epoch_ns:
            self._counts["not answering the last observation"] += 1
            return
        self.last_latency_s = time.perf_counter() - self._sent_at
        sent: Signals = {}
        if not len(command["rotor_speed"]):  # names no rotor: off
            self.backend.disarm()
            self._flying = False
        else:
            try:
                sent = self.backend.write(command)
            except ValueError as error:
                self._refuse(str(error))
                return
            self._flying = True
        self._counts["commands"] += 1
        self._silent_s, self._fed_s = 0.0, time.monotonic()
        if self._lock_step:
            self._step_once(sent)

    def _refuse(self, reason: str) -> None:
        self._counts["refused"] += 1
        self._last_refusal = reason
        self.warn(f"A command on {topics.ROTOR_COMMAND} was refused: {reason}.", "refused")

    def _step_once(self, sent: Signals) -> None:
        assert self.backend is not None
        self._patience_s = _RESEND_S
        self.backend.step(self._period_s)
        reading = self.backend.read()
        if self.on_step is not None:
            answered = self._sent_ns
            self.on_step(reading, sent)
            if self._sent_ns != answered or not self.active:  # the hook has published, or ended the flight
                return
        self._publish(reading, self._all_topics)

    def _wait_for_command(self) -> None:
        """Lock step: say the observation again, as a reader may have come late, and never hold the last command."""
        waited_s = time.monotonic() - self._fed_s
        if self._flying and waited_s > self.parameters["lock_step_timeout_s"]:
            self._disarm_for_silence(f"{waited_s:.1f} s of real time")
        if time.perf_counter() - self._sent_at >= self._patience_s:
            self._patience_s = min(2.0 * self._patience_s, _RESEND_MOST_S)  # never a burden where all are slow
            self._publish(self._reading, self._all_topics)

    def _tick(self) -> None:
        backend = self.backend
        assert backend is not None
        now = time.monotonic()
        late = int((now - self._next_tick) * self._factor / self._tick_s)
        if late > _MAX_CATCH_UP:  # this process was not given the time: the simulation falls behind, it never leaps
            self._next_tick, late = now, 0
        for _ in range(late + 1):
            self._next_tick += self._tick_s / self._factor
            if backend.owns_time:
                backend.step(self._tick_s)
            due = [topic for topic in self._schedule.due() if topic in self._wanted]
            if any(self._wanted[topic] for topic in due):
                self._publish(backend.read(), [topic for topic in self._all_topics if topic in due])
            self._silent_s += self._tick_s
        # a robot's own time goes on while this process stalls, a simulator's does not
        silent_s = self._silent_s if backend.owns_time else now - self._fed_s
        if self._flying and silent_s > self.parameters["command_timeout_periods"] * self._period_s:
            self._disarm_for_silence(f"{1e3 * silent_s:.0f} ms")

    def _disarm_for_silence(self, waited: str) -> None:
        assert self.backend is not None
        self.backend.disarm()
        self._flying = False
        self._counts["watchdog"] += 1
        self.warn(f"No command on {topics.ROTOR_COMMAND} for {waited}: disarmed. Is the guard running?", "watchdog")

    def _on_reset(self, request: Any, response: Any) -> Any:
        if not self.active or self.backend is None:
            response.message = "The robot node is not active."
        elif not self.backend.owns_time:
            response.message = "A real robot cannot be reset: carry it back."
        else:
            self.backend.reset(self._start_state())
            self.publish_now()
            response.success, response.message = True, "The robot is back at its start."
        return response

    def _start_state(self) -> Signals | None:
        assert self.backend is not None
        height, robot = self.parameters["start_height_m"], self.backend.robot
        if height == 0.0:
            return None
        hover = np.full(len(robot.rotors), robot.hover_speed_rad_s)
        return {"position": np.array([0.0, 0.0, height]), "rotor_speed": hover}

    def _make_backend(self) -> Backend:
        factory = BACKENDS.load(self.parameters["backend"])
        robot = load_quadrotor(self.parameters["robot"])
        options = {}
        if "noise_seed" in inspect.signature(factory).parameters:
            seed = self.parameters["noise_seed"]
            options["noise_seed"] = None if seed < 0 else seed
        backend: Backend = factory(robot, **options)
        return backend


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the robot node; return the exit status."""
    return run_nodes(RobotNode, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
