"""The recording node: records a robot's topics into a ROS 2 bag (MCAP), byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from rlstack.data.bags.reading import message_definitions
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.libraries import import_library
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.runtime import ManagedNode
from rlstack.robots import RobotSpec, load_robot

PARAMETERS = (
    Parameter("robot", "panda", "Name or file of the robot."),
    Parameter("out", "", "The bag's folder, which must not exist yet; configured again, the node adds -2."),
    Parameter("topics", (), "Topics to record; empty: all common topics of the robot.", each=str),
)

_LATCHED = frozenset(
    {
        topics.GOAL,
        topics.GOAL_PATH,
        topics.INSTRUCTION,
        topics.GUARD_MODE,
        topics.GUARD_INTERVENTIONS,
        topics.MAP,
        topics.INTERVENE,
    }
)


class RecordNode(ManagedNode):
    """Records while it is active; the bag is complete after deactivation or when a signal ends the process.

    A disk that fills ends the node with a ``UserError``; no other node waits for it.
    """

    NAME: ClassVar[str] = "record"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def __init__(self, overrides: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(overrides, **options)
        self._writer: Any = None
        self._counts: dict[str, int] = {}
        self._bags, self._out = 0, Path()

    def configure(self) -> None:
        """Open the bag and subscribe."""
        robot = load_robot(self.parameters["robot"])
        types = recorded_topics(robot)
        for name in self.parameters["topics"]:
            if name not in types:
                raise UserError(f"topics: '{name}' is not one of {robot.name}'s: {', '.join(types)}.")
        given = self.parameters["out"]
        out = Path(f"{given}-{self._bags + 1}" if self._bags else given)
        if not given or out.exists():
            raise UserError(f"out: '{out if given else given}' must be a folder that does not exist yet.")
        rosbag2, store = import_library("rosbags.rosbag2", "data"), message_definitions()
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            writer = rosbag2.Writer(out, version=9, storage_plugin=rosbag2.StoragePlugin.MCAP)
            writer.open()
        except OSError as error:
            raise UserError(
                f"out: cannot write the bag {out}: {error.strerror}. Check that its folder can be written and has room."
            ) from error
        self._writer, self._out = writer, out
        self._bags += 1
        for name in self.parameters["topics"] or types:
            connection = self._writer.add_connection(self.resolve_topic_name(name), types[name], typestore=store)
            use: topics.Quality = "latched" if name in _LATCHED else "sensor_in"
            self.subscriber(topics.message_type(types[name]), name, self._keeper(name, connection), use, raw=True)

    def cleanup(self) -> None:
        """Close the bag."""
        self._counts = {}
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            writer.close()
        except OSError as error:
            raise self._cut_short(error) from error

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report the number of recorded messages by topic."""
        return "" if self._counts else "no messages yet", dict(self._counts)

    def _keeper(self, name: str, connection: Any) -> Callable[[bytes], None]:
        def keep(data: bytes) -> None:
            if self.active and self._writer is not None:
                try:
                    self._writer.write(connection, self.get_clock().now().nanoseconds, data)
                except OSError as error:
                    self._writer = None  # closing it would write again
                    raise self._cut_short(error) from error
                self._counts[name] = self._counts.get(name, 0) + 1

        return keep

    def _cut_short(self, error: OSError) -> UserError:
        return UserError(
            f"The recording ended: cannot write to the bag {self._out}: {error.strerror}. What was written"
            " before lacks its index (`mcap recover` makes one). Make room there and record again; the robot is not"
            " affected."
        )


def recorded_topics(robot: RobotSpec) -> dict[str, str]:
    """Return the message type of each common topic with a robot's observations and commands, by relative name."""
    absolute = (topics.TF, topics.TF_STATIC, topics.CLOCK, topics.WORLD_MARKERS, topics.MOVED_MARKERS)
    shown = (topics.MARKERS, topics.ROBOT_DESCRIPTION, topics.DIAGNOSTICS)
    common = {name: kind for name, kind in topics.TYPES.items() if name not in (*absolute, *shown)}
    common |= {topics.POLICY_PREFIX + name: topics.TYPES[name] for name in topics.COMMANDS}
    for camera in robot.cameras:
        for what in (topics.IMAGE, topics.CAMERA_INFO):
            common[topics.camera_topic(camera, what)] = topics.CAMERA_TYPES[what]
    for name, lidar in robot.lidars.items():
        common[name] = topics.SCAN_TYPE if lidar.rings == 1 else topics.CLOUD_TYPE
    return {**common, **topics.TELEOP_TYPES}


main = RecordNode.main

if __name__ == "__main__":
    raise SystemExit(main())
