"""RViz configurations, generated from the robot file so that topics and frames match the robot's.

Omitted settings keep RViz's defaults.
"""

from __future__ import annotations

from typing import Any

import yaml

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.kinds import find_kind
from rlstack.robots import RobotSpec

Display = dict[str, Any]

PLUGINS = "rviz_default_plugins"
"""The plugin package that RViz 2 ships; every display, tool and view comes from it."""

_ORANGE, _BLUE, _RED, _WHITE = "255; 110; 15", "25; 130; 230", "255; 25; 0", "255; 255; 255"


def rviz_config(robot: RobotSpec, namespace: str | None = None, frame_prefix: str = "") -> str:
    """Return the text of an ``.rviz`` file that displays all of a robot's topics.

    Args:
        robot: The robot.
        namespace: Namespace of its topics; None: the robot's name, as in `rlstack up deploy`; empty: none.
        frame_prefix: Prefix of its frames, if several robots share a world.

    Raises:
        UserError: The namespace is not a valid topic name.
    """
    within = checked_namespace(robot, namespace)
    deployment: Any = find_kind(robot.kind).load("deployment")(robot)
    size = deployment.extent_m
    odometry = {
        "Angle Tolerance": 0.3,
        "Covariance": {"Value": False},
        "Keep": 100,
        "Position Tolerance": round(size, 3),
        "Shape": {"Value": "Arrow", "Alpha": 0.6, "Color": _ORANGE, **_arrow(size)},
        "Topic": topic_property(within + topics.ODOM, sensor=True, filtered=True),
    }
    axes = {"Axes Length": round(size, 3), "Axes Radius": round(0.06 * size, 4), "Shape": "Axes"}
    goal = topic_property(within + topics.GOAL_ACTIVE, latched=True, filtered=True)
    path = topic_property(within + topics.GOAL_PATH, filtered=True)
    model = topic_property(within + topics.ROBOT_DESCRIPTION, latched=True)
    displays = [
        _display("Grid", "Grid", {"Cell Size": 1.0 if size > 0.3 else 0.5, "Plane Cell Count": 20}),
        _markers("World", topics.WORLD_MARKERS, latched=True),
        _markers("Moved", topics.MOVED_MARKERS),
        _display("RobotModel", "Robot", {"Description Source": "Topic", "Description Topic": model}),
        _display("TF", "Frames", {"Marker Scale": round(2.0 * size, 3), "Show Arrows": False, "Show Names": False}),
        *([] if robot.fixed_base else [_display("Odometry", "Odometry", odometry)]),
        _display("Pose", "Goal", {**axes, **_arrow(size), "Color": _RED, "Topic": goal}),
        _display("Path", "Path to follow", {"Color": _BLUE, "Topic": path}),
        _markers("Markers", within + topics.MARKERS, enabled=False),  # for viewers that cannot show the model
    ]
    displays += deployment.rviz_displays(within)
    for lidar, spec in robot.lidars.items():
        displays.append(points_display(lidar, within + lidar, "LaserScan" if spec.rings == 1 else "PointCloud2"))
    for camera, seen in robot.cameras.items():
        if seen.rgb:
            displays.append(_image(camera, within + topics.camera_topic(camera, topics.IMAGE)))
        if seen.depth:
            depth, points = (within + topics.camera_topic(camera, kind) for kind in (topics.DEPTH, topics.POINTS))
            displays.append(_image(f"{camera} depth", depth, enabled=not seen.rgb))
            displays.append(points_display(f"{camera} points", points, "PointCloud2", enabled=False))
    tools: list[dict[str, Any]] = [{"Class": f"{PLUGINS}/{tool}"} for tool in ("MoveCamera", "Select", "FocusCamera")]
    tools.append({"Class": f"{PLUGINS}/Measure", "Line color": "128; 128; 0"})
    tools += deployment.rviz_tools(within)
    config = {
        "Panels": [
            {"Class": "rviz_common/Displays", "Name": "Displays", "Help Height": 60, "Tree Height": 500},
            {"Class": "rviz_common/Views", "Name": "Views"},
            {"Class": "rviz_common/Time", "Name": "Time", "Experimental": False, "SyncMode": 0, "SyncSource": ""},
        ],
        "Visualization Manager": {
            "Class": "",
            "Displays": displays,
            "Enabled": True,
            "Global Options": {
                "Background Color": "48; 48; 48",
                "Fixed Frame": topics.WORLD_FRAME,
                "Frame Rate": 30,
            },
            "Name": "root",
            "Tools": tools,
            "Transformation": {"Current": {"Class": f"{PLUGINS}/TF"}},
            "Value": True,
            "Views": {"Current": _view(f"{frame_prefix}{topics.BODY_FRAME}", size), "Saved": None},
        },
        "Window Geometry": {"Height": 900, "Width": 1400, "X": 60, "Y": 60},
    }
    head = f"# RViz 2: rviz2 -d FILE. Written by `rlstack rviz {robot.name}`; for other namespaces write your own.\n"
    return head + yaml.safe_dump(config, sort_keys=True, default_flow_style=False, allow_unicode=True)


def checked_namespace(robot: RobotSpec, namespace: str | None) -> str:
    """Return what a robot's topics begin with, such as ``/crazyflie/``.

    Args:
        robot: The robot.
        namespace: Their namespace; None: the robot's name; empty: none.

    Raises:
        UserError: It is not a valid topic name.
    """
    name = robot.name if namespace is None else namespace.strip("/")
    if name and not all(word.isidentifier() and word.isascii() for word in name.split("/")):
        raise UserError(
            f"namespace: {namespace!r} is not allowed: words of letters, digits and underscores, with '/' between."
        )
    return f"/{name}/" if name else "/"


def _display(kind: str, name: str, options: dict[str, Any], enabled: bool = True) -> Display:
    return {"Class": f"{PLUGINS}/{kind}", "Name": name, "Enabled": enabled, "Value": enabled, **options}


def topic_property(name: str, *, latched: bool = False, sensor: bool = False, filtered: bool = False) -> Display:
    """Return a topic's subscription settings; ``filtered`` if messages wait for their transform."""
    return {
        "Value": name,
        "Depth": 5,
        "Durability Policy": "Transient Local" if latched else "Volatile",
        "History Policy": "Keep Last",
        "Reliability Policy": "Best Effort" if sensor else "Reliable",
        **({"Filter size": 10} if filtered else {}),
    }


def _arrow(size: float) -> dict[str, float]:
    return {
        "Head Length": round(0.3 * size, 4),
        "Head Radius": round(0.12 * size, 4),
        "Shaft Length": round(0.7 * size, 4),
        "Shaft Radius": round(0.05 * size, 4),
    }


def map_display(topic: str) -> Display:
    """Return a display of an occupancy grid; its topic is latched, so RViz may start at any time."""
    options = {
        "Draw Behind": True,
        "Topic": topic_property(topic, latched=True, filtered=True),
        "Update Topic": topic_property(f"{topic}_updates"),
    }
    return _display("Map", "Map", options)


def _markers(name: str, topic: str, *, enabled: bool = True, latched: bool = False) -> Display:
    return _display("MarkerArray", name, {"Namespaces": {}, "Topic": topic_property(topic, latched=latched)}, enabled)


def _image(name: str, topic: str, enabled: bool = True) -> Display:
    return _display("Image", name, {"Topic": topic_property(topic, sensor=True)}, enabled)


def points_display(name: str, topic: str, kind: str, enabled: bool = True) -> Display:
    """Return a display of a scan, in red, or of a cloud, coloured by height."""
    flat = kind == "LaserScan"
    options = {
        "Axis": "Z",
        "Color": _RED if flat else _WHITE,
        "Color Transformer": "FlatColor" if flat else "AxisColor",
        "Position Transformer": "XYZ",
        "Size (m)": 0.02,
        "Style": "Points",
        "Topic": topic_property(topic, sensor=True, filtered=True),
    }
    return _display(kind, name, options, enabled)


def _view(frame: str, size: float) -> dict[str, Any]:
    """Return the view from behind and above that follows the robot without tilting with it."""
    return {
        "Class": f"{PLUGINS}/ThirdPersonFollower",
        "Distance": round(min(max(12.0 * size, 2.0), 12.0), 2),
        "Enable Stereo Rendering": {"Value": False},
        "Name": "Current View",
        "Pitch": 0.4,
        "Target Frame": frame,
        "Value": f"ThirdPersonFollower ({PLUGINS})",
        "Yaw": 3.14159,
    }
