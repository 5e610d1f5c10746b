"""What RViz configurations and Foxglove layouts name is what nodes publish: topics, types, qualities and frames."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from rlstack.bringup.foxglove import foxglove_layout
from rlstack.bringup.rviz import rviz_config
from rlstack.interfaces import topics
from rlstack.interfaces.tf_messages import read_tf
from rlstack.interfaces.tf_type import tf_type
from rlstack.nodes.guard import GuardNode
from rlstack.nodes.policy import PolicyNode
from rlstack.nodes.robot import RobotNode
from rlstack.policies import find_policy
from rlstack.robots import load_robot
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

DISPLAYED = {
    "RobotModel": "std_msgs/msg/String",
    "Odometry": "nav_msgs/msg/Odometry",
    "Pose": "geometry_msgs/msg/PoseStamped",
    "Path": "nav_msgs/msg/Path",
    "MarkerArray": "visualization_msgs/msg/MarkerArray",
    "LaserScan": "sensor_msgs/msg/LaserScan",
    "PointCloud2": "sensor_msgs/msg/PointCloud2",
    "Image": "sensor_msgs/msg/Image",
    "Map": "nav_msgs/msg/OccupancyGrid",
}
"""What each display of RViz subscribes to."""
IN_3D = set(DISPLAYED.values()) - {"std_msgs/msg/String"}
"""What the 3D panel of Foxglove draws of it."""
OTHERS = {topics.GOAL, topics.GOAL_PATH, topics.MAP, topics.PEOPLE, topics.POINTS, topics.MOVED_MARKERS}
"""What people send, other nodes than robot, guard and policy publish, or a world without movable obstacles lacks."""


def displayed(text: str) -> dict[str, tuple[str, bool]]:
    """Return the type of each topic of an RViz configuration, and whether it must be latched."""
    found = {}
    for shown in yaml.safe_load(text)["Visualization Manager"]["Displays"]:
        topic = shown.get("Topic") or shown.get("Description Topic")
        if topic is not None:
            kind = DISPLAYED[shown["Class"].partition("/")[2]]
            found[topic["Value"]] = (kind, topic["Durability Policy"] == "Transient Local")
    return found


def has_field(kind: str, path: str) -> bool:
    """Return whether a message type has a field such as ``points[0].positions[2]``."""
    at: Any = topics.message_type(kind)
    for word in path.split("."):
        name, index = word.partition("[")[::2]
        fields = at.get_fields_and_field_types()
        if name not in fields or bool(index) != fields[name].startswith("sequence<"):
            return False
        inner = re.sub(r"sequence<(.*)>", r"\1", fields[name])
        at = topics.message_type(inner.replace("/", "/msg/", 1)) if "/" in inner else None
    return True


@pytest.mark.parametrize(
    ("name", "policy"),
    [("crazyflie", "quadrotor_hover"), ("turtlebot3_burger", "base_navigation"), ("panda", "arm_reach"), ("go1", "")],
)
def test_layouts_name_what_is_published(listener: Listener, name: str, policy: str) -> None:
    robot, started = load_robot(name), []
    heard: list[Any] = []
    within = f"/{name}/"
    world = {"world": "room:3"} if policy == "base_navigation" else {}
    flown = {"policy": str(find_policy(policy)), "goal_position": (0.3, 0.0, 0.5)} if policy else {}
    nodes: list[tuple[Any, dict[str, Any]]] = [(RobotNode, {"robot": name, **world}), (GuardNode, {"robot": name})]
    nodes += [(PolicyNode, flown)] if policy else []
    for topic, use in ((topics.TF, "tf"), (topics.TF_STATIC, "tf_static")):
        quality = topics.quality(use)  # type: ignore[arg-type]
        listener.node.create_subscription(tf_type(), topic, heard.append, quality, raw=True)
    try:
        for kind, overrides in nodes:
            node = kind(overrides=overrides, context=listener.context, namespace=f"/{name}")
            listener.executor.add_node(node)
            started.append(node)
            node.start()
        there = {one: kinds for one, kinds in listener.node.get_topic_names_and_types()}
        missing = set(OTHERS) | (set() if world else {topics.WORLD_MARKERS})
        missing |= set() if policy else {topics.GOAL_ACTIVE, topics.GOAL_DISTANCE}

        def check(topic: str, kinds: set[str], latched: bool) -> None:
            short = topic.removeprefix(within)
            if topic not in there or not listener.node.get_publishers_info_by_topic(topic):
                assert short in missing or short.rpartition("/")[2] in missing, topic
                assert {topics.TYPES.get(short, topics.CLOUD_TYPE)} & kinds
                return
            assert set(there[topic]) <= kinds, topic
            offered = listener.node.get_publishers_info_by_topic(topic)
            assert not latched or all(one.qos_profile.durability.name == "TRANSIENT_LOCAL" for one in offered), topic

        for topic, (kind, latched) in displayed(rviz_config(robot)).items():
            check(topic, {kind}, latched)
        layout = json.loads(foxglove_layout(robot))["configById"]
        for topic in layout["3D!scene"]["topics"]:
            check(topic, IN_3D, False)
        check(layout["3D!scene"]["layers"]["robot"]["topic"], {"std_msgs/msg/String"}, False)
        check(layout["DiagnosticSummary!nodes"]["topicToRender"], {topics.TYPES[topics.DIAGNOSTICS]}, False)
        paths = [one["value"] for panel in layout.values() for one in panel.get("paths", ())]
        for path in [*paths, layout["RawMessages!reason"]["topicPath"]]:
            topic, _, field = path.partition(".")
            kind = there.get(topic, [topics.TYPES[topic.removeprefix(within)]])[0]
            assert has_field(kind, field), path
            check(topic, {kind}, False)
        frames = {"odom", "base_link"}

        def known() -> set[str]:
            transforms = [one for data in heard for one in read_tf(bytes(data))]
            return {frame for one in transforms for frame in (one.parent, one.child)}

        listener.until(lambda: frames <= known(), "the frames that layouts name")
    finally:
        for node in started:
            node.stop()
            listener.executor.remove_node(node)
            node.destroy_node()
