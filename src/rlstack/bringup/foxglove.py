"""Layouts of Foxglove, generated from the robot file so that topics and frames match the robot's."""

from __future__ import annotations

import json
from typing import Any

from rlstack.bringup.rviz import checked_namespace
from rlstack.interfaces import topics
from rlstack.interfaces.kind_signals import command_of, element_names
from rlstack.kinds import find_kind
from rlstack.robots import RobotSpec

_MOST_CURVES = 12
_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#b07aa1")


def foxglove_layout(robot: RobotSpec, namespace: str | None = None, frame_prefix: str = "") -> str:
    """Return the text of a layout file with a robot's model, goal, path, sensors, commands, guard and diagnostics.

    Args:
        robot: The robot.
        namespace: Namespace of its topics; None: the robot's name, as in `rlstack up deploy`; empty: none.
        frame_prefix: Prefix of its frames, if several robots share a world.

    Raises:
        UserError: The namespace is not a valid topic name.
    """
    within = checked_namespace(robot, namespace)
    configs: dict[str, dict[str, Any]] = {"3D!scene": _scene(robot, within, frame_prefix + topics.BODY_FRAME)}
    left: Any = "3D!scene"
    if cameras := [name for name, camera in robot.cameras.items() if camera.rgb]:
        shown = within + topics.camera_topic(cameras[0], topics.IMAGE)
        configs["Image!camera"] = {"imageMode": {"imageTopic": shown}}
        left = _split("column", left, "Image!camera", 65)
    configs |= {
        "StateTransitions!mode": {"paths": [_path(within + topics.GUARD_MODE, "data")]},
        "RawMessages!reason": {"topicPath": f"{within}{topics.GUARD_REASON}.data"},
        "Plot!distance": _plot("Distance from the goal, m", [_path(within + topics.GOAL_DISTANCE, "data")]),
        "Plot!command": _plot("Command", _commands(robot, within)),
        "DiagnosticSummary!nodes": {"minLevel": 0, "topicToRender": topics.DIAGNOSTICS},
    }
    guard = _split("column", "StateTransitions!mode", "RawMessages!reason", 60)
    plots = _split("column", "Plot!distance", "Plot!command", 40)
    right = _split("column", guard, _split("column", plots, "DiagnosticSummary!nodes", 70), 22)
    layout = {
        "configById": configs,
        "globalVariables": {},
        "userNodes": {},
        "playbackConfig": {"speed": 1},
        "layout": _split("row", left, right, 65),
    }
    return json.dumps(layout, indent=2) + "\n"


def _scene(robot: RobotSpec, within: str, base: str) -> dict[str, Any]:
    deployment: Any = find_kind(robot.kind).load("deployment")(robot)
    shown = [topics.WORLD_MARKERS, topics.MOVED_MARKERS]
    shown += [within + topic for topic in (topics.GOAL_ACTIVE, topics.GOAL_PATH, *robot.lidars)]
    shown += [display["Topic"]["Value"] for display in deployment.rviz_displays(within)]
    model = {
        "layerId": "foxglove.Urdf",
        "instanceId": "robot",
        "label": robot.name,
        "visible": True,
        "sourceType": "topic",
        "topic": within + topics.ROBOT_DESCRIPTION,
        "order": 1,
    }
    grid = {"layerId": "foxglove.Grid", "instanceId": "grid", "label": "Grid", "visible": True, "size": 20, "order": 2}
    return {
        "followMode": "follow-position",
        "followTf": base,
        "cameraState": {"distance": round(min(max(12.0 * deployment.extent_m, 2.0), 12.0), 2), "perspective": True},
        "scene": {},
        "topics": {topic: {"visible": True} for topic in shown},
        "layers": {"robot": model, "grid": {**grid, "divisions": 20}},
        "publish": {"type": "pose", "poseTopic": within + topics.GOAL},
    }


def _commands(robot: RobotSpec, within: str) -> list[dict[str, Any]]:
    """Return the curves of the command that goes to the robot."""
    signal = command_of(robot)
    (size,) = signal.shape
    if isinstance(size, int):
        fields = signal.field.split(", ")
    else:
        names = element_names(robot)[size][:_MOST_CURVES]
        fields = [f"{signal.field.replace('[]', '[0]')}[{k}]" for k in range(len(names))]
    return [_path(within + signal.topic, field, k) for k, field in enumerate(fields)]


def _path(topic: str, field: str, number: int = 0) -> dict[str, Any]:
    colour = _COLOURS[number % len(_COLOURS)]
    return {"value": f"{topic}.{field}", "enabled": True, "timestampMethod": "receiveTime", "color": colour}


def _plot(title: str, paths: list[dict[str, Any]]) -> dict[str, Any]:
    axes = {"xAxisVal": "timestamp", "showXAxisLabels": True, "showYAxisLabels": True, "isSynced": True}
    return {"title": title, "paths": paths, "followingViewWidth": 20, "showLegend": True, **axes}


def _split(direction: str, first: Any, second: Any, percentage: int) -> dict[str, Any]:
    return {"direction": direction, "first": first, "second": second, "splitPercentage": percentage}
