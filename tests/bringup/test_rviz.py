"""RViz configurations have the structure that RViz 2 saves, and the topics and frames of the robot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from rlstack import cli
from rlstack.bringup.rviz import PLUGINS, rviz_config
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.robots import Camera, Lidar, RobotSpec, load_robot, robot_names
from tests.support.checkout import ROOT
from tests.support.robots import modelled

COMMON = {"Class", "Name", "Enabled", "Value"}
PROPERTIES = {
    "Grid": "Alpha, Cell Size, Color, Line Style, Normal Cell Count, Offset, Plane, Plane Cell Count, Reference Frame",
    "RobotModel": "Alpha, Collision Enabled, Description File, Description Source, Description Topic, Links,"
    " Mass Properties, TF Prefix, Update Interval, Visual Enabled",
    "TF": "Filter (blacklist), Filter (whitelist), Frame Timeout, Frames, Marker Scale, Show Arrows, Show Axes,"
    " Show Names, Tree, Update Interval",
    "Odometry": "Angle Tolerance, Covariance, Keep, Position Tolerance, Shape, Topic",
    "Pose": "Alpha, Axes Length, Axes Radius, Color, Head Length, Head Radius, Shaft Length, Shaft Radius, Shape,"
    " Topic",
    "Path": "Alpha, Buffer Length, Color, Head Diameter, Head Length, Length, Line Style, Line Width, Offset,"
    " Pose Color, Pose Style, Radius, Shaft Diameter, Shaft Length, Topic",
    "MarkerArray": "Namespaces, Topic",
    "Map": "Alpha, Binary representation, Binary threshold, Color Scheme, Draw Behind, Topic, Update Topic,"
    " Use Timestamp",
    "Image": "Max Value, Median window, Min Value, Normalize Range, Topic",
}
"""What each display of RViz 2 (Jazzy) saves beside COMMON; read in configurations that RViz has written."""
POINTS = (
    "Alpha, Autocompute Intensity Bounds, Autocompute Value Bounds, Axis, Channel Name, Color, Color Transformer,"
    " Decay Time, Invert Rainbow, Max Color, Max Intensity, Min Color, Min Intensity, Position Transformer, Selectable,"
    " Size (Pixels), Size (m), Style, Topic, Use Fixed Frame, Use rainbow"
)
PROPERTIES.update({"LaserScan": POINTS, "PointCloud2": POINTS})
TOPIC = {"Depth", "Durability Policy", "Filter size", "History Policy", "Reliability Policy", "Value"}

TOOLS = {f"{PLUGINS}/{tool}" for tool in ("MoveCamera", "Select", "FocusCamera", "Measure", "SetGoal")}


def displays(text: str) -> dict[str, dict[str, Any]]:
    return {shown["Name"]: shown for shown in yaml.safe_load(text)["Visualization Manager"]["Displays"]}


def equipped(robot: RobotSpec) -> RobotSpec:
    camera = Camera(width=64, height=48, rate_hz=10.0, horizontal_fov_rad=1.0, depth=True)
    flat = Lidar(rays=90, rate_hz=10.0, range_min_m=0.1, range_max_m=5.0)
    deep = replace(flat, elevations_rad=(-0.1, 0.0, 0.1))
    return replace(robot, cameras={"front": camera}, lidars={"scan": flat, "dome": deep})


@pytest.mark.parametrize("name", robot_names())
def test_structure_is_rvizs(name: str) -> None:
    config = yaml.safe_load(rviz_config(equipped(load_robot(name))))
    assert set(config) == {"Panels", "Visualization Manager", "Window Geometry"}
    manager = config["Visualization Manager"]
    assert manager["Global Options"]["Fixed Frame"] == "odom"
    assert {tool["Class"] for tool in manager["Tools"]} <= TOOLS
    for shown in manager["Displays"]:
        package, _, kind = shown["Class"].partition("/")
        assert package == PLUGINS and set(shown) >= COMMON
        assert set(shown) <= COMMON | set(PROPERTIES[kind].split(", ")), kind
        for key in (key for key in shown if key.endswith("Topic")):
            assert TOPIC - {"Filter size"} <= set(shown[key]) <= TOPIC
            assert shown[key]["Value"].startswith("/")
            assert shown[key]["Reliability Policy"] in ("Reliable", "Best Effort")
            assert shown[key]["Durability Policy"] in ("Volatile", "Transient Local")
    assert len({shown["Name"] for shown in manager["Displays"]}) == len(manager["Displays"])


def test_topics_are_the_robots_in_its_namespace() -> None:
    text = rviz_config(equipped(load_robot("crazyflie")), "fleet/cf2", "cf2/")
    shown = displays(text)
    found = {name: one.get("Topic", one.get("Description Topic", {})).get("Value") for name, one in shown.items()}
    within = "/fleet/cf2/"
    assert found == {
        "Grid": None,
        "Frames": None,
        "World": topics.WORLD_MARKERS,
        "Moved": topics.MOVED_MARKERS,
        "Robot": f"{within}robot_description",
        "Odometry": f"{within}odom",
        "Goal": f"{within}goal/active",
        "Path to follow": f"{within}goal_path",
        "Markers": f"{within}markers",
        "scan": f"{within}scan",
        "dome": f"{within}dome",
        "front": f"{within}front/image_raw",
        "front depth": f"{within}front/depth",
        "front points": f"{within}front/points",
    }
    assert shown["scan"]["Class"] == f"{PLUGINS}/LaserScan" and shown["dome"]["Class"] == f"{PLUGINS}/PointCloud2"
    for name in ("Robot", "World"):  # who comes later must hear what was said once
        topic = shown[name].get("Topic") or shown[name]["Description Topic"]
        assert topic["Durability Policy"] == "Transient Local"
    assert yaml.safe_load(text)["Visualization Manager"]["Views"]["Current"]["Target Frame"] == "cf2/base_link"
    assert displays(rviz_config(load_robot("crazyflie"), ""))["Odometry"]["Topic"]["Value"] == "/odom"


def test_a_goal_is_set_on_the_floor_only_for_what_drives() -> None:
    def tools(name: str) -> list[str]:
        manager = yaml.safe_load(rviz_config(load_robot(name)))["Visualization Manager"]
        return [tool["Class"].partition("/")[2] for tool in manager["Tools"]]

    assert "SetGoal" in tools("husky") and "SetGoal" not in tools("crazyflie")


def test_what_drives_has_a_map_and_people() -> None:
    shown = displays(rviz_config(load_robot("husky")))
    assert shown["Map"]["Topic"]["Value"] == "/husky/map" and shown["Map"]["Class"] == f"{PLUGINS}/Map"
    assert shown["Map"]["Topic"]["Durability Policy"] == "Transient Local"
    assert shown["People"]["Topic"]["Value"] == "/husky/people"
    assert "Map" not in displays(rviz_config(load_robot("crazyflie")))


@pytest.mark.parametrize("name", modelled())
def test_those_that_ship_are_what_is_written(name: str) -> None:
    path = ROOT / "config" / "rviz" / f"{name}.rviz"
    again = f"write it again: rlstack rviz {name} --out {path.relative_to(ROOT)}"
    assert path.is_file(), again
    assert path.read_text() == rviz_config(load_robot(name)), again


def test_none_ships_for_a_robot_that_does_not() -> None:
    assert {path.stem for path in (ROOT / "config" / "rviz").glob("*")} <= set(robot_names())


def test_the_command_writes_a_file_or_prints(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rviz", "racer", "--namespace", "r1"]) == 0
    printed = capsys.readouterr().out
    assert cli.main(["rviz", "racer", "--namespace", "r1", "--out", str(tmp_path / "r.rviz")]) == 0
    assert (tmp_path / "r.rviz").read_text() == printed
    assert "/r1/odom" in printed


def test_a_namespace_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match="namespace: 'cf 1' is not allowed"):
        rviz_config(load_robot("crazyflie"), "cf 1")
