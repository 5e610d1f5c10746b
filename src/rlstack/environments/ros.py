"""Gymnasium environment over ROS 2 topics, for a simulated or real robot."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rlstack.environments.environment_core import GOAL
from rlstack.environments.factory import configured
from rlstack.environments.quadrotor_core import QuadrotorCore
from rlstack.environments.single_environment import TaskEnvironment
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.kind_signals import command_of
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import SENSED
from rlstack.kinds.quadrotor.simulation_vector import EpisodeStart
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.nodes.command_messages import command_message
from rlstack.nodes.runtime import prepare_environment, require_ros
from rlstack.nodes.shutdown import shut_down
from rlstack.nodes.timekeeping import RESET_JUMP_NS
from rlstack.robots import frames
from rlstack.sim.batch_quadrotor.layout import STATE, pack_parameters
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.quadrotor.task import MOTION, Noise, QuadrotorTask

_NO_NOISE = {field.name: 0.0 for field in fields(Noise)}


class RosEnvironment(TaskEnvironment):
    """One robot over the common topics; spaces, rewards and endings are those of the task's other environments.

    Each step publishes a command with the stamp of the observation that it answers, and waits for the next one. With a
    robot node in lock step exactly one control period passes in between, so episodes are reproducible.
    An episode begins where the robot is after its ``reset`` service, with the path, if any, that the task draws; no
    noise is added to the topics' values.

    Args:
        task: The task's name.
        robot: A quadrotor's name or file.
        namespace: Namespace of the robot's topics.
        through: ``"robot"``: commands go to the robot itself; ``"guard"``: to the guard, as a policy's do, which
            first takes off.
        goal_m: Position of the task's origin, its goal or the start of its path, in ``odom``.
        lock_step: Whether the robot node waits for commands.
        timeout_s: Seconds to wait for an observation or a service.
        on_reset: Called for a robot without a reset service: returns when the robot is ready for the next episode.
            None: such a robot is an error.
        observation: ``"policy"`` or ``"signals"``; see :func:`rlstack.environments.factory.make_core`.
        settings: The task's settings; ``rate_hz`` defaults to the robot's control rate.

    Raises:
        UserError: Something is unknown or not allowed, ROS is not installed, or nothing arrives within ``timeout_s``.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(
        self,
        task: str,
        robot: str | Quadrotor = "crazyflie",
        namespace: str = "",
        *,
        through: Literal["robot", "guard"] = "robot",
        goal_m: Sequence[float] = (0.0, 0.0, 1.0),
        lock_step: bool = False,
        timeout_s: float = 10.0,
        on_reset: Callable[[], None] | None = None,
        observation: str | Mapping[str, Any] = "policy",
        **settings: Any,
    ) -> None:
        spec = load_quadrotor(robot) if isinstance(robot, str) else robot
        settings = {"rate_hz": spec.control_rate_hz, "noise": _NO_NOISE, **settings}
        config, spec, observation_kind = configured(task, spec, observation, settings)
        if not isinstance(config, QuadrotorTask) or observation_kind == GOAL:
            raise UserError(
                f"Only quadrotor tasks have environments over topics: {task}, '{observation_kind}' does not."
            )
        if lock_step and config.rate_hz != spec.control_rate_hz:
            raise UserError(
                f"rate_hz: {config.rate_hz:g} is not allowed in lock step: must be the control rate of"
                f" {spec.name}, {spec.control_rate_hz:g} Hz."
            )
        self.render_mode = None
        simulator = TopicQuadrotor(
            spec,
            namespace,
            rate_hz=config.rate_hz,
            through=through,
            origin=np.array(goal_m, dtype=float),
            lock_step=lock_step,
            timeout_s=timeout_s,
            on_reset=on_reset,
        )
        self._use(QuadrotorCore(config, spec, observation_kind, simulator, 1), [])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the robot and start the next episode; ``seed`` seeds the task's paths."""
        if (options or {}).get("state") is not None:
            raise UserError("options: state: not supported over topics, where the robot's reset decides the start.")
        return super().reset(seed=seed)


class TopicQuadrotor:
    """The robot of a :class:`RosEnvironment`; see :class:`.simulation_vector.EpisodicQuadrotors`.

    Args:
        origin: (3,) m in ``odom``, origin of positions; the others are as for the environment.

    Raises:
        UserError: ROS is not installed, or another node commands the robot.
    """

    renders = False

    def __init__(
        self,
        robot: Quadrotor,
        namespace: str,
        *,
        rate_hz: float,
        through: Literal["robot", "guard"],
        origin: NDArray[np.float64],
        lock_step: bool,
        timeout_s: float,
        on_reset: Callable[[], None] | None,
    ) -> None:
        if through not in ("robot", "guard"):
            raise UserError(f"through: '{through}' is not allowed: must be robot or guard.")
        if origin.shape != (3,) or not np.isfinite(origin).all():
            raise UserError(f"goal_m: {origin.tolist()} is not allowed: must be x, y and z in m.")
        require_ros()
        prepare_environment()
        import rclpy
        from std_srvs.srv import SetBool, Trigger

        from rlstack.nodes.executor import ControlExecutor

        self._robot, self._origin = robot, origin
        self._lock_step, self._timeout_s, self._on_reset = lock_step, timeout_s, on_reset
        # at higher rates, use the first message a control period later, with half a period of tolerance for jitter
        self._least_ns = 1 if lock_step else round(0.75 * NANOSECONDS / rate_hz)
        self._through_guard = through == "guard"
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self._node = node = rclpy.create_node(
            "environment", context=self._context, namespace=namespace, enable_rosout=False
        )
        self._executor = ControlExecutor(context=self._context)
        self._executor.add_node(node)
        odometry = topics.type_of(topics.ODOM)
        self._read = SignalReader(odometry, {name: SENSED[name].field for name in MOTION})
        use: topics.Quality = "sensor_in_reliable" if lock_step else "sensor_in"
        node.create_subscription(odometry, topics.ODOM, self._on_odometry, topics.quality(use), raw=True)
        command = command_of(robot)
        self._topic = (topics.POLICY_PREFIX if self._through_guard else "") + command.topic
        self._answered_ns = -1
        kind = topics.message_type(command.type)
        self._publisher = node.create_publisher(kind, self._topic, topics.quality("command"))
        self._message = command_message(command.name, robot.rotor_names)
        self._reset_client = node.create_client(Trigger, topics.RESET)
        self._arm_client: Any = node.create_client(SetBool, topics.ARM)
        self._mode = ""
        if self._through_guard:
            mode = topics.type_of(topics.GUARD_MODE)
            node.create_subscription(mode, topics.GUARD_MODE, self._on_mode, topics.quality("latched"))
        self._stamp_ns = -1
        self._signals: dict[str, NDArray[np.float64]] = {}
        self._hover = robot.hover_command
        self._sent = np.zeros(len(robot.rotors))
        self._error = ""
        self._closed = False

    def place(self, number: int, start: EpisodeStart) -> None:
        """Reset the robot to its own start; the episode's start and disturbances do not apply."""
        self._wait(lambda: self._stamp_ns >= 0, self._timeout_error(topics.ODOM))
        self._check_sole_publisher()
        # A robot node marks a reset by a jump of its stamps, which separates earlier messages from later ones.
        before = self._stamp_ns
        if self._through_guard and self._arm_client.service_is_ready():
            self._call(self._arm_client, self._arm_client.srv_type.Request(data=False))
            self._wait(lambda: self._mode in ("disarmed", "estop"), self._timeout_error(topics.GUARD_MODE))
        if self._has_reset_service():
            answer = self._call(self._reset_client, self._reset_client.srv_type.Request())
            if answer.success:
                self._wait(
                    lambda: self._stamp_ns >= before + RESET_JUMP_NS // 2,
                    self._timeout_error(topics.ODOM, "after the reset"),
                )
            else:
                self._manual_reset(answer.message)
        else:
            self._manual_reset(f"{self._name(topics.RESET)} is not there.")
        self._sent = np.zeros(len(self._robot.rotors))
        if self._through_guard:
            self._take_off()

    def step(self, command: NDArray[np.floating]) -> None:
        """Command rotor speeds (1, rotors) rad/s, or rates and thrust (1, 4), and wait for the next observation."""
        self._send(command[0].astype(float))

    def write_state(self, rows: NDArray[np.float32]) -> None:
        """Write the last sensed state; rotor speeds are assumed to follow commands, or to be those of hover."""
        signals = self._signals
        rows[STATE["position"], 0] = signals["position"] - self._origin
        rows[STATE["orientation"], 0] = signals["orientation"]
        rows[STATE["linear_velocity"], 0] = frames.rotate(signals["orientation"], signals["linear_velocity"])
        rows[STATE["angular_velocity"], 0] = signals["angular_velocity"]
        by_rotors = self._robot.rate_loop is None
        rows[STATE["rotor_speed"], 0] = self._sent if by_rotors else self._robot.hover_speed_rad_s

    def write_parameters(self, rows: NDArray[np.float32]) -> None:
        """Write the robot file's parameters."""
        rows[:] = pack_parameters(self._robot, Perturbation.none(1, len(self._robot.rotors))).T

    def render(self) -> NDArray[np.uint8]:
        """Raise an error: RViz shows the robot."""
        raise UserError("A robot over topics is not rendered: view it in RViz.")

    def close(self) -> None:
        """Stop the motors, unless the guard has them, and shut ROS down; a second call is a no-op."""
        if self._closed:
            return
        self._closed = True
        if not self._through_guard and self._stamp_ns >= 0:
            self._publisher.publish(self._message.fill_off(self._stamp_ns))
            end = time.monotonic() + 0.05  # let the last message be sent
            self._executor.spin_while(lambda: time.monotonic() < end)
        self._executor.shutdown()
        shut_down(self._node)

    def _send(self, speed: NDArray[np.float64]) -> None:
        answered = self._answered_ns = self._stamp_ns
        self._sent = speed
        self._publisher.publish(self._message.fill(answered, speed))
        self._wait(
            lambda: self._stamp_ns >= answered + self._least_ns, self._timeout_error(topics.ODOM, "after a command")
        )

    def _take_off(self) -> None:
        """Let the guard arm and take off, while answering every observation as a policy does, until it hands over."""
        client = self._arm_client
        request = client.srv_type.Request(data=True)
        end, asked, future = time.monotonic() + 3.0 * self._timeout_s, 0.0, None
        while self._mode != "policy":
            if time.monotonic() > end:
                answer = f": {future.result().message}" if future is not None and future.done() else ""
                raise UserError(
                    f"The guard did not hand over within {3.0 * self._timeout_s:g} s; it is in the mode"
                    f" '{self._mode or 'unknown'}'{answer}"
                )
            if self._mode in ("", "disarmed") and client.service_is_ready() and time.monotonic() - asked > 0.5:
                asked, future = time.monotonic(), client.call_async(request)
            self._send(self._hover)

    def _manual_reset(self, why: str) -> None:
        if self._on_reset is None:
            raise UserError(
                f"The robot was not reset ({why.rstrip('.')}): give on_reset, which returns it to its start."
            )
        self._on_reset()
        before = self._stamp_ns
        self._wait(lambda: self._stamp_ns != before, self._timeout_error(topics.ODOM, "after on_reset"))

    def _has_reset_service(self) -> bool:
        return self._executor.spin_until(self._reset_client.service_is_ready, min(self._timeout_s, 2.0))

    def _call(self, client: Any, request: Any) -> Any:
        future = client.call_async(request)
        self._wait(future.done, f"The service {client.srv_name} did not answer within {self._timeout_s:g} s.")
        return future.result()

    def _check_sole_publisher(self) -> None:
        others = [
            info.node_name
            for info in self._node.get_publishers_info_by_topic(self._name(self._topic))
            if info.node_name != self._node.get_name()
        ]
        if others:
            remedy = "stop it" if self._through_guard else "stop it, or fly through='guard'"
            raise UserError(f"{self._name(self._topic)} is commanded by '{others[0]}' already: {remedy}.")

    def _wait(self, condition: Callable[[], bool], message: str) -> None:
        if self._closed:
            raise UserError("The environment was closed: make a new one.")
        held = self._executor.spin_until(lambda: self._error or condition(), self._timeout_s)
        if self._error:
            raise UserError(self._error)
        if not held:
            raise UserError(message)

    def _timeout_error(self, topic: str, when: str = "") -> str:
        waits = " Is it in lock step, and lock_step=True here?" if when == "after a command" else ""
        return (
            f"Nothing came on {self._name(topic)} {when + ' ' if when else ''}within {self._timeout_s:g} s: check that"
            f" the robot node runs, with this namespace and ROS_DOMAIN_ID.{waits}"
        )

    def _name(self, topic: str) -> str:
        return str(self._node.resolve_topic_name(topic))

    def _on_odometry(self, data: bytes) -> None:
        stamp, signals = self._read(data)
        if not all(np.isfinite(array).all() for array in signals.values()):
            self._error = f"{self._name(topics.ODOM)}: an observation is not finite."
            return
        if stamp == self._answered_ns:  # repeated: the answer was lost, as before a subscriber was connected
            self._publisher.publish(self._message.fill(stamp, self._sent))
        self._stamp_ns, self._signals = stamp, signals

    def _on_mode(self, message: Any) -> None:
        self._mode = message.data
