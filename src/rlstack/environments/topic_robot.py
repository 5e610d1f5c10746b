"""A robot on the topics for a loop of another program, such as LeRobot's: read what it senses, send an action.

Actions go to the guard, as a policy's do, and never to the robot itself.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.image_reader import IMAGE_TYPE, ImageReader, image_geometry
from rlstack.interfaces.kind_signals import element_names
from rlstack.interfaces.lerobot_features import LerobotFeatures
from rlstack.interfaces.signal_reader import topic_reader
from rlstack.interfaces.signals import COMMANDED, SENSED
from rlstack.nodes.command_messages import command_message
from rlstack.nodes.kind_topics import kind_topics
from rlstack.nodes.runtime import prepare_environment, require_ros
from rlstack.nodes.shutdown import shut_down
from rlstack.robots import load_robot

IMAGE_AGE_S = 1.0
"""Age from which an image counts as missing."""
DISCOVERY_S = 3.5
"""Time for which another program that commands the robot is looked for: it may be found later than the robot is. On a
busy machine the first announcements of Fast DDS may be lost; from then on it announces every 3 s."""


class TopicRobot:
    """One robot by its topics, with features named as LeRobot names them.

    Args:
        robot: A robot's name or file.
        namespace: Namespace of its topics; empty: the robot's name.
        units: See :data:`rlstack.interfaces.lerobot_features.Units`.
        reverse: Joints that count the other way in LeRobot than in the robot file.
        cameras: Names of the robot file's cameras whose images are observed.
        max_age_s: Age from which an observation is too old to act on, s.
        timeout_s: Time limit for the first message of every topic, s.

    Raises:
        UserError: A name is unknown, or what the robot takes does not suit.
    """

    def __init__(
        self,
        robot: str,
        namespace: str = "",
        *,
        units: str = "rad",
        reverse: Collection[str] = (),
        cameras: Collection[str] = (),
        max_age_s: float = 0.3,
        timeout_s: float = 15.0,
    ) -> None:
        self._spec = spec = load_robot(robot)
        self._namespace = f"/{(namespace or spec.name).strip('/')}"
        self._features = LerobotFeatures(spec, units, reverse)
        self._max_age_s, self._timeout_s = max_age_s, timeout_s
        self.image_shapes: dict[str, tuple[int, int, int]] = {}
        """Rows, columns and 3, by camera."""
        for name in cameras:
            camera = spec.cameras.get(name)
            if camera is None or not camera.rgb:
                known = ", ".join(one for one, has in spec.cameras.items() if has.rgb) or "none"
                raise UserError(f"cameras: {spec.name} has no colour camera '{name}'; it has: {known}.")
            self.image_shapes[name] = camera.height, camera.width, 3
        self._observed = kind_topics(spec).observed
        self._lock = threading.Lock()
        self._signals: dict[str, NDArray[Any]] = {}
        self._came: dict[str, float] = {}
        """Monotonic time of the newest message by topic, s."""
        self._refused: dict[str, str] = {}
        self._stamp_ns, self._mode = -1, ""
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of an observation's numbers."""
        return self._features.state_names

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of an action's numbers."""
        return self._features.action_names

    @property
    def connected(self) -> bool:
        """Whether the topics are open."""
        return self._thread is not None

    @property
    def mode(self) -> str:
        """The guard's mode; empty: not known."""
        return self._mode

    def connect(self) -> None:
        """Open the topics and wait for a first message on each.

        Raises:
            UserError: One does not come, or another program commands the robot.
        """
        if self.connected:
            raise UserError(f"{self._spec.name} is connected already.")
        require_ros()
        prepare_environment()
        import rclpy

        from rlstack.nodes.executor import ControlExecutor

        self._error = None
        self._came.clear()
        self._refused.clear()
        context = rclpy.Context()
        rclpy.init(args=[], context=context)
        self._node = rclpy.create_node("lerobot", context=context, namespace=self._namespace, enable_rosout=False)
        self._executor = ControlExecutor(context=context)
        self._executor.add_node(self._node)
        self._subscribe()
        signal = COMMANDED[self._features.command]
        names = element_names(self._spec).get(str(signal.shape[0]), ())
        self._message = command_message(signal.name, names)
        self._topic = topics.POLICY_PREFIX + signal.topic
        self._publisher = self._node.create_publisher(
            topics.message_type(signal.type), self._topic, topics.quality("command")
        )
        self._ends = False
        self._thread = threading.Thread(target=self._spin, name="topics", daemon=True)
        self._thread.start()
        atexit.register(self.disconnect)  # otherwise Fast DDS ends a program that forgets it with an abort
        try:
            self._wait_for_all()
            self._check_alone()
        except BaseException:
            self.disconnect()
            raise

    def observation(self) -> dict[str, Any]:
        """Return the newest state by feature, and the images (rows, columns, 3) uint8 by camera.

        Raises:
            UserError: It is too old: the robot, or a camera, is silent.
        """
        with self._lock:
            self._check_fresh()
            state: dict[str, Any] = self._features.state(self._signals)
            return {**state, **{name: self._signals[_signal(name)].copy() for name in self.image_shapes}}

    def send(self, action: Mapping[str, float]) -> dict[str, float]:
        """Send an action to the guard, as an answer to the newest observation; return it.

        Raises:
            UserError: It has other features than the robot takes, or values that are not finite, or what it would
                answer is too old. Nothing is sent then, and the guard takes over.
        """
        names = self.action_names
        if set(action) != set(names):
            raise UserError(f"An action has {', '.join(sorted(action))}, and the robot takes {', '.join(names)}.")
        values = np.array([action[name] for name in names], dtype=float)
        if not np.isfinite(values).all():
            bad = ", ".join(name for name, value in zip(names, values) if not np.isfinite(value))
            raise UserError(f"An action was refused: {bad} is not finite.")
        with self._lock:
            self._check_fresh(images=False)
            message = self._message.fill(self._stamp_ns, self._features.command_values(values))
            self._publisher.publish(message)
        return dict(zip(names, values.tolist()))

    def disconnect(self) -> None:
        """Close the topics; the guard notices the silence and takes over."""
        if self._thread is None:
            return
        atexit.unregister(self.disconnect)
        self._ends = True
        self._thread.join()
        self._thread = None
        self._executor.shutdown()
        shut_down(self._node)

    def _subscribe(self) -> None:
        signals = [SENSED[name] for name in self._features.inputs]
        named = element_names(self._spec)
        for topic in dict.fromkeys(signal.topic for signal in signals):
            of_topic = [signal for signal in signals if signal.topic == topic]
            elements = {s.name: named.get(str(s.shape[0]), ()) for s in of_topic}
            read = topic_reader(of_topic[0].type, {s.name: s.field for s in of_topic}, elements)
            self._hear(topic, of_topic[0].type, read)
        for name in self.image_shapes:
            camera = self._spec.cameras[name]
            reader = ImageReader(image_geometry(camera, name), _signal(name), camera.frames)
            self._hear(topics.camera_topic(name, topics.IMAGE), IMAGE_TYPE, reader)
        self._node.create_subscription(
            topics.type_of(topics.GUARD_MODE), topics.GUARD_MODE, self._on_mode, topics.quality("latched")
        )

    def _hear(self, topic: str, kind: str, read: Callable[[bytes], tuple[int, Mapping[str, Any]]]) -> None:
        self._came[topic] = -np.inf

        def receive(data: bytes) -> None:
            try:
                stamp_ns, values = read(data)
                if not all(np.isfinite(value).all() for value in values.values()):
                    raise ValueError("a value is not finite")
            except ValueError as error:
                self._refused[topic] = str(error)
                return
            with self._lock:
                self._signals.update(values)
                self._came[topic] = time.monotonic()
                self._refused.pop(topic, None)
                if topic == self._observed:
                    self._stamp_ns = stamp_ns

        self._node.create_subscription(topics.message_type(kind), topic, receive, topics.quality("sensor_in"), raw=True)

    def _on_mode(self, message: Any) -> None:
        self._mode = message.data

    def _spin(self) -> None:
        try:
            self._executor.spin_while(lambda: not self._ends)
        except BaseException as error:  # raised again where observations are asked for
            self._error = error

    def _wait_for_all(self) -> None:
        end = time.monotonic() + self._timeout_s
        while missing := [topic for topic, at in self._came.items() if at < 0.0]:
            if self._error is not None or time.monotonic() > end:
                why = f" ({self._refused[missing[0]]})" if missing[0] in self._refused else ""
                raise UserError(
                    f"Nothing came on {self._node.resolve_topic_name(missing[0])} within {self._timeout_s:g} s{why}:"
                    f" start the robot and its guard first, with `rlstack up deploy --commander external --robot"
                    f" {self._spec.name}`, this namespace and ROS_DOMAIN_ID."
                )
            time.sleep(0.01)

    def _check_alone(self) -> None:
        topic, end = self._node.resolve_topic_name(self._topic), time.monotonic() + DISCOVERY_S
        while time.monotonic() < end:
            if len(self._node.get_publishers_info_by_topic(topic)) > 1:  # its own is one
                raise UserError(f"Another program commands {topic} already: end it first.")
            time.sleep(0.05)

    def _check_fresh(self, *, images: bool = True) -> None:
        """Raise ``UserError`` if a message is missing that observations or commands need."""
        if not self.connected:
            raise UserError(f"{self._spec.name} is not connected: call connect() first.")
        if self._error is not None:
            raise UserError(f"The topics of {self._spec.name} were lost: {self._error}.") from self._error
        now = time.monotonic()
        for topic, at in self._came.items():
            is_image = topic.endswith(f"/{topics.IMAGE}")
            if now - at > (IMAGE_AGE_S if is_image else self._max_age_s) and (images or not is_image):
                raise UserError(
                    f"{self._namespace}/{topic} has been silent for {now - at:.2f} s:"
                    f" {self._refused.get(topic, 'does the robot or its driver still run?')}"
                )


def _signal(camera: str) -> str:
    return f"{camera}_image"
