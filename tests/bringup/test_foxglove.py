"""Foxglove layouts have the structure that it imports, and panels for what there is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlstack import cli
from rlstack.bringup.foxglove import foxglove_layout
from rlstack.robots import load_robot, robot_names
from tests.bringup.test_rviz import equipped
from tests.support.checkout import ROOT
from tests.support.robots import modelled


def panels(node: Any) -> list[str]:
    """Return the panels of a layout, each split of which has two parts and a share."""
    if isinstance(node, str):
        return [node]
    assert node["direction"] in ("row", "column") and 0 < node["splitPercentage"] < 100
    return [*panels(node["first"]), *panels(node["second"])]


@pytest.mark.parametrize("name", robot_names())
def test_every_panel_is_configured_and_placed_once(name: str) -> None:
    layout = json.loads(foxglove_layout(equipped(load_robot(name)), "fleet/a", "a/"))
    assert sorted(panels(layout["layout"])) == sorted(layout["configById"])
    scene = layout["configById"]["3D!scene"]
    assert scene["followTf"] == "a/base_link" and scene["layers"]["robot"]["topic"] == "/fleet/a/robot_description"
    assert {"/fleet/a/goal/active", "/fleet/a/goal_path", "/fleet/a/scan", "/markers/world"} <= scene["topics"].keys()
    assert layout["configById"]["Image!camera"]["imageMode"]["imageTopic"] == "/fleet/a/front/image_raw"


def test_curves_are_those_of_the_robots_command() -> None:
    def curves(name: str) -> list[str]:
        layout = json.loads(foxglove_layout(load_robot(name)))
        return [path["value"] for path in layout["configById"]["Plot!command"]["paths"]]

    assert curves("crazyflie") == [f"/crazyflie/cmd/rotors.velocity[{k}]" for k in range(4)]
    assert curves("husky") == ["/husky/cmd_vel.twist.linear.x", "/husky/cmd_vel.twist.angular.z"]
    assert curves("panda")[8] == "/panda/cmd/joints.points[0].positions[8]"


@pytest.mark.parametrize("name", modelled())
def test_those_that_ship_are_what_is_written(name: str) -> None:
    path = ROOT / "config" / "foxglove" / f"{name}.json"
    again = f"write it again: rlstack rviz {name} --foxglove --out {path.relative_to(ROOT)}"
    assert path.is_file(), again
    assert path.read_text() == foxglove_layout(load_robot(name)), again


def test_the_command_writes_it(tmp_path: Any) -> None:
    assert cli.main(["rviz", "racer", "--foxglove", "--out", str(tmp_path / "r.json")]) == 0
    assert (tmp_path / "r.json").read_text() == foxglove_layout(load_robot("racer"))
