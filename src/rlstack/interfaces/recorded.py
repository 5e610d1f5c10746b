"""Which topics a recording has."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from rlstack.interfaces import topics

PICTURES = frozenset({topics.CAMERA_TYPES[topics.IMAGE], "sensor_msgs/msg/CompressedImage"})
"""Types of pictures, of which a camera sends 30 MB a second."""

ALWAYS = frozenset(
    {
        *topics.COMMANDS,
        *(topics.POLICY_PREFIX + command for command in topics.COMMANDS),
        topics.POLICY_STEPS,
        topics.POLICY_HELD,
        topics.POLICY_FILE,
        topics.ADAPTATION,
        topics.GUARD_MODE,
        topics.GUARD_REASON,
        topics.GUARD_INTERVENTIONS,
        topics.ROBOT_DESCRIPTION,
    }
)
"""Topics of a robot that explain what it did, in every recording."""

SHARED = frozenset(
    {
        topics.CLOCK,
        topics.TF,
        topics.TF_STATIC,
        topics.DIAGNOSTICS,
        topics.WORLD_MARKERS,
        topics.MOVED_MARKERS,
        "/rosout",
    }
)
"""Topics that all robots share."""

MOVING = frozenset(
    {
        *topics.COMMANDS,
        *(topics.POLICY_PREFIX + command for command in topics.COMMANDS),
        topics.GOAL,
        topics.GOAL_PATH,
        topics.INSTRUCTION,
        topics.EXTERNAL_POSE,
        topics.AGENT_SENTENCE,
        *topics.TELEOP_TYPES,
    }
)
"""Topics that make a live robot move, or tell it where it is."""

SHOWING = ("view", "record", "play", "rviz", "rqt", "foxglove", "_ros2cli", "plotjuggler")
"""Beginnings of the names of nodes that only look at what they hear."""

COMMANDERS = frozenset({"policy", "remote_policy", "planner", "nav2"})
"""Names of the nodes whose inputs are in every recording."""


class Selection:
    """Says which topics are recorded.

    Args:
        spaces: Absolute namespaces of the robots; ``/``: all.
        chosen: Topics to record besides :data:`ALWAYS` and what policies see: absolute, or within a robot's namespace,
            with wildcards ``*``; none: everything of the robots and :data:`SHARED`, but no pictures.
        pictures: Record pictures, too.
    """

    def __init__(self, spaces: Collection[str], chosen: Iterable[str] = (), *, pictures: bool = False) -> None:
        self.spaces = tuple("/" + space.strip("/") for space in spaces)
        self._pictures = pictures
        self.patterns = {name: self._patterns(name) for name in chosen}
        """The absolute patterns that each of the chosen stands for."""
        self.inputs: set[str] = set()
        """What policies see, absolute; the graph tells."""

    def has(self, topic: str) -> bool:
        """Return whether a topic, or a namespace, is a robot's."""
        return any(space == "/" or topic == space or topic.startswith(f"{space}/") for space in self.spaces)

    def wants(self, topic: str, kind: str) -> bool:
        """Return whether a topic of a type is recorded."""
        if topic in self.inputs:
            return True
        if any(self.is_chosen(topic, name) for name in self.patterns):
            return True
        if any(part.startswith("_") for part in topic.split("/")):  # ROS hides them: actions and the like
            return False
        if self._always(topic):
            return True
        if self.patterns:
            return topic in (topics.CLOCK, topics.TF, topics.TF_STATIC, topics.DIAGNOSTICS)
        if topic not in SHARED and (not self.has(topic) or topic == "/parameter_events"):
            return False
        pictures = kind in PICTURES or (kind == topics.CLOUD_TYPE and topic.endswith(f"/{topics.POINTS}"))
        return self._pictures or not pictures

    def is_chosen(self, topic: str, chosen: str) -> bool:
        """Return whether a topic is meant by one of the chosen."""
        return any(fnmatchcase(topic, pattern) for pattern in self.patterns[chosen])

    def _always(self, topic: str) -> bool:
        if "/" in self.spaces:
            return any(topic.endswith(f"/{name}") for name in ALWAYS)
        return any(topic == f"{space}/{name}" for space in self.spaces for name in ALWAYS)

    def _patterns(self, name: str) -> list[str]:
        if name.startswith("/"):
            return [name]
        return [f"*/{name}" if space == "/" else f"{space}/{name}" for space in self.spaces]
