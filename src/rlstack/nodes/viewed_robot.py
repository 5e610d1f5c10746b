"""One robot in the browser view: what its topics say, drawn in a viser scene."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.cloud_messages import cloud_points
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.interfaces.path_messages import read_path
from rlstack.interfaces.people_messages import read_people
from rlstack.nodes.polled_topics import PolledTopics
from rlstack.view.lines import Line, Trail
from rlstack.view.robot_model import RobotModel

_GOAL = (242, 142, 43)
_PATH = (78, 121, 167)
_TRAIL = (89, 161, 79)
_SCAN = (225, 87, 89)
_PEOPLE = (176, 122, 161)
_SLOW_S = 0.2
"""Period of what need not move smoothly."""
_PERSON_M = 1.7
_ROTORS_S = 0.1
"""Rotors whose speed comes less often than this are not drawn as turning."""
_NOBODY_M = 900.0
"""Where nobody is there, somebody is 1 km away."""


class ViewedRobot:
    """Draws a robot that a ``robot_description`` describes, and what is around it.

    Args:
        scene: viser's ``SceneApi``.
        polled: Its subscriptions.
        space: The robot's absolute namespace; ``/`` is one, too.
    """

    def __init__(self, scene: Any, polled: PolledTopics, space: str) -> None:
        self.space, self.name = space, space.strip("/") or "robot"
        self.node = f"/robots/{self.name.replace('/', '_')}"
        self.mode, self.reason = "", ""
        self.goal: Any = None
        """The active goal, a ``geometry_msgs/PoseStamped``; None: none yet."""
        self.goals = 0
        """How many active goals have come, or were refused."""
        self.distance_m = float("nan")
        self.reached = False
        self.refused: list[str] = []
        """Why goals were refused, and not said yet."""
        self.position: Array | None = None
        """(3,) m, in ``odom``; None: not known yet."""
        self.command: dict[str, float] = {}
        """The last command that went out, by element."""
        self.cameras: list[str] = []
        """Cameras whose images somebody publishes; empty: the one whose topics have no name before them."""
        self.model_name = ""
        """The name in its description."""
        self.teleoperated = False
        """Whether somebody hears its topic ``teleop/twist``."""
        self.instructed = False
        """Whether somebody hears its topic ``instruction``."""
        self.pushable = False
        """Whether a simulator hears its topic ``disturbance``."""
        self.delays: dict[str, float] = {}
        """What its nodes report of their delays, ms by name."""
        self.stamp_ns = 0
        """Stamp of its newest odometry or joint states."""
        self.place_asked = False
        """Whether its place is being looked for."""
        self.seen_at = 0.0
        """When the robot was last heard, by ``time.monotonic``."""
        self._scene, self._polled = scene, polled
        self._model: RobotModel | None = None
        self._described = self._shown = ""
        self._builder: threading.Thread | None = None
        self._built: RobotModel | Exception | None = None
        self._joints: dict[str, float] = {}
        self._standing, self._turned = False, np.array([0.0, 0.0, 0.0, 1.0])
        self._rotors_at = 0.0
        self._trail = Trail(scene, f"{self.node}_trail", _TRAIL)
        self._path = Line(scene, f"{self.node}_path", _PATH)
        self._clouds: dict[str, Any] = {}
        self._people: dict[int, Any] = {}
        self._slow_at = 0.0
        self._optional: set[str] = set()
        self._subscribe(topics.ROBOT_DESCRIPTION, self._on_description, "latched")
        self._subscribe(topics.GUARD_REASON, self._on_reason, "latched")
        self._subscribe(topics.GUARD_MODE, self._on_mode, "latched")
        self._subscribe(topics.GOAL_ACTIVE, self._on_goal, "latched")
        self._subscribe(topics.GOAL_DISTANCE, self._on_distance, "event")
        self._subscribe(topics.GOAL_REACHED, self._on_reached, "latched")
        self._subscribe(topics.GOAL_REFUSED, self._on_refused, "event")

    @property
    def missing(self) -> list[str]:
        """Sentences about meshes that are not shown."""
        return [] if self._model is None else self._model.missing

    @property
    def reach_m(self) -> float:
        """How far its shapes extend, m."""
        return 0.1 if self._model is None else self._model.reach_m

    @property
    def root(self) -> str:
        """Its frame that has no parent; empty: not known yet."""
        return "" if self._model is None else self._model.root

    @property
    def mass_kg(self) -> float:
        """Its mass by its description, kg."""
        return 0.0 if self._model is None else self._model.mass_kg

    @property
    def unplaced(self) -> bool:
        """Whether it stands at the origin because nobody has told its place."""
        return self._standing

    def put(self, position: Array, orientation: Array) -> None:
        """Put a robot without odometry at its place, (3,) m and xyzw in ``odom``."""
        if self._standing and self._model is not None:
            self._standing, self.position, self._turned = False, position, orientation
            self._model.place(position, orientation)

    def joint_ranges(self) -> list[tuple[str, float, float, float]]:
        """Return each limited joint's name, position, least and greatest position, rad or m."""
        if self._model is None:
            return []
        at = {name.rpartition("/")[2]: value for name, value in self._joints.items()}
        return [(name, at[name], *limits) for name, limits in self._model.limits.items() if name in at]

    def pose_of(self, frame: str) -> tuple[Array, Array] | None:
        """Return where one of its frames is, m and xyzw; None: not known yet."""
        return None if self._model is None or self.position is None else self._model.pose(frame)

    def discover(self, there: dict[str, list[str]]) -> None:
        """Subscribe to those of its topics that somebody publishes.

        Args:
            there: Types by absolute topic of the whole graph.
        """
        before = "/" if self.space == "/" else f"{self.space}/"
        wanted = {
            topics.ODOM: (self._on_odom, "sensor_in"),
            topics.JOINT_STATES: (self._on_joints, "sensor_in"),
            topics.GOAL_PATH: (self._on_path, "latched"),
            topics.PEOPLE: (self._on_people, "sensor_in"),
            topics.ROTOR_COMMAND: (self._on_rotors, "command"),
        }
        for topic, kinds in there.items():
            name = topic.removeprefix(before)
            if not topic.startswith(before) or name in self._optional:
                continue
            camera, _, kind = name.rpartition("/")
            if kind == topics.IMAGE and "/" not in camera and topics.CAMERA_TYPES[kind] in kinds:
                self.cameras.append(camera)
            self.instructed = self.instructed or name == topics.INSTRUCTION
            self.teleoperated = self.teleoperated or name == topics.TELEOP_TWIST
            self.pushable = self.pushable or name == topics.DISTURBANCE
            if name in wanted and topics.TYPES[name] in kinds:
                callback, use = wanted[name]
                self._subscribe(name, callback, use)  # type: ignore[arg-type]
            elif "/" not in name and topics.SCAN_TYPE in kinds:
                self._follow(name, topics.SCAN_TYPE, self._on_scan)
            elif "/" not in name and topics.CLOUD_TYPE in kinds and name != topics.PEOPLE:
                self._follow(name, topics.CLOUD_TYPE, self._on_cloud)
            self._optional.add(name)

    def watch(self, camera: str, callback: Callable[[Any], None]) -> Callable[[], None]:
        """Call back with each image of a camera, which is sent to those alone who watch; return what ends that."""
        kind = topics.message_type(topics.CAMERA_TYPES[topics.IMAGE])
        name = topics.camera_topic(camera, topics.IMAGE) if camera else topics.IMAGE
        where = f"{self.space.rstrip('/')}/{name}"
        made = self._polled.subscribe(kind, where, callback, "sensor_in")
        return lambda: self._polled.unsubscribe(made)

    def build(self) -> None:
        """Begin to build its model in a thread, if a description has come, and show it once that is done.

        Raises:
            UserError: The description is not a URDF.
        """
        if self._builder is not None:
            if not self._builder.is_alive():
                self._builder = None
                self._take_built()
            return
        described, self._described = self._described, ""
        if not described or described == self._shown:  # a robot that starts again describes itself again
            return
        if self._model is not None:
            self._model.remove()
        self._model, self._shown = None, described
        self._clouds.clear()  # they were in its frames

        def make() -> None:
            try:
                self._built = RobotModel(self._scene, self.node, described)
            except Exception as error:  # told in the node's thread
                self._built = error

        self._builder = threading.Thread(target=make, daemon=True)  # meshes may take seconds
        self._builder.start()

    def _take_built(self) -> None:
        built, self._built = self._built, None
        if isinstance(built, ValueError) and not isinstance(built, UserError):
            raise UserError(f"The robot description has a number that is none: {built}.") from built
        if isinstance(built, Exception):
            raise built
        self._model = built
        if built is not None:
            self.model_name = built.name
            self.place_asked = False
            if self.position is not None:
                built.place(self.position, self._turned)
            self._move_joints()

    def draw(self) -> None:
        """Draw what changes slowly, if it is time to; the rest was drawn when it came."""
        now = time.monotonic()
        if now - self._slow_at >= _SLOW_S:
            self._slow_at = now
            self._trail.draw()

    # Topics --------------------------------------------------------------------------------------------------

    def _subscribe(self, topic: str, callback: Any, use: topics.Quality) -> None:
        self._polled.subscribe(topics.type_of(topic), f"{self.space.rstrip('/')}/{topic}", callback, use)

    def _follow(self, name: str, kind: str, callback: Any) -> None:
        where = f"{self.space.rstrip('/')}/{name}"
        self._polled.subscribe(topics.message_type(kind), where, lambda message: callback(name, message), "sensor_in")

    def _on_description(self, message: Any) -> None:
        self._described = message.data

    def _on_odom(self, message: Any) -> None:
        pose = message.pose.pose
        p, q = pose.position, pose.orientation
        at, turned = np.array([p.x, p.y, p.z]), np.array([q.x, q.y, q.z, q.w])
        if not (np.isfinite(at).all() and np.isfinite(turned).all()):
            return
        self.seen_at, self.position, self._standing = time.monotonic(), at, False
        self.stamp_ns, self._turned = stamp_to_ns(message.header.stamp), turned
        self._trail.add(at)
        if self._model is None:
            return
        self._model.place(at, turned)
        if self._model.spinning.move(at, turned):
            self._move_joints()

    def _on_joints(self, message: Any) -> None:
        if len(message.position) == len(message.name):
            self.seen_at, self.stamp_ns = time.monotonic(), stamp_to_ns(message.header.stamp)
            if self.position is None:
                self.position, self._standing = np.zeros(3), True  # a fixed base publishes no odometry
            # a gripper's driver may publish its joints apart from the arm's
            self._joints |= {name: place for name, place in zip(message.name, message.position) if np.isfinite(place)}
            self._move_joints()
        elif len(message.velocity) == len(message.name):
            self._turn_rotors(message)

    def _on_rotors(self, message: Any) -> None:
        self.command = dict(zip(message.name, message.velocity))
        self._turn_rotors(message)

    def _turn_rotors(self, message: Any) -> None:
        """Turn rotors, by measured or commanded speeds."""
        before, self._rotors_at = self._rotors_at, time.monotonic()
        if self._model is not None and self._rotors_at - before < _ROTORS_S:
            rotors = self._model.spinning.rotors
            speeds = {name: speed for name, speed in zip(message.name, message.velocity) if name in rotors}
            self._model.spinning.turn_rotors(speeds, self._rotors_at - before)
            self._move_joints()

    def _move_joints(self) -> None:
        if self._model is not None:
            self._model.move_joints({**self._model.spinning.angles, **self._joints})

    def _on_path(self, message: Any) -> None:
        self._path.show(read_path(message).position)

    def _on_mode(self, message: Any) -> None:
        self.mode = message.data

    def _on_reason(self, message: Any) -> None:
        self.reason = message.data

    def _on_goal(self, message: Any) -> None:
        self.goal, self.goals = message, self.goals + 1

    def _on_distance(self, message: Any) -> None:
        self.distance_m = message.data

    def _on_reached(self, message: Any) -> None:
        self.reached = message.data

    def _on_refused(self, message: Any) -> None:
        self.refused.append(message.data)
        self.goals += self.goal is not None

    def _on_scan(self, name: str, message: Any) -> None:
        ranges = np.asarray(message.ranges, dtype=float)
        angles = message.angle_min + message.angle_increment * np.arange(len(ranges))
        good = np.isfinite(ranges) & (ranges >= message.range_min) & (ranges < message.range_max)
        ranges, angles = ranges[good], angles[good]
        points = np.stack([ranges * np.cos(angles), ranges * np.sin(angles), np.zeros_like(ranges)], axis=1)
        self._show_cloud(name, message.header.frame_id, points)

    def _on_cloud(self, name: str, message: Any) -> None:
        self._show_cloud(name, message.header.frame_id, cloud_points(message))

    def _on_people(self, message: Any) -> None:
        found = read_people(message)
        both = zip(found["people_position"], found["people_radius"])
        there = [(place, radius) for place, radius in both if np.abs(place).max() < _NOBODY_M]
        for number, (place, radius) in enumerate(there):
            handle, at = self._people.get(number), (place[0], place[1], 0.5 * _PERSON_M)
            if handle is None:
                shape: dict[str, Any] = {"radius": float(radius), "height": _PERSON_M, "color": _PEOPLE, "opacity": 0.7}
                name = f"{self.node}_people/{number}"
                self._people[number] = self._scene.add_cylinder(name, position=at, **shape)
            else:
                handle.position, handle.visible = at, True
        for number, handle in self._people.items():
            if number >= len(there):
                handle.visible = False

    def _show_cloud(self, name: str, frame: str, points: NDArray[Any]) -> None:
        """Draw points (n, 3), m, in one of the robot's frames."""
        node = None if self._model is None else self._model.frame(frame)
        if node is None:
            return
        points = points.astype(np.float32)
        colours = np.broadcast_to(np.array(_SCAN, np.uint8), points.shape)
        handle = self._clouds.get(name)
        if handle is None:
            self._clouds[name] = self._scene.add_point_cloud(f"{node}/{name}", points, colours, point_size=0.02)
        else:
            handle.points, handle.colors = points, colours
