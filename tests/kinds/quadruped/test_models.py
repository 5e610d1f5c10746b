"""The Go1 of its file: what it weighs, how it stands, and how it moves in every engine."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack.interfaces.backend import BACKENDS
from rlstack.kinds.quadruped.models import lowest_foot
from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.robots import load_robot
from rlstack.robots.kind_models import check_file, mass_properties, rest_height
from rlstack.robots.mjcf import to_mjcf
from rlstack.robots.urdf import to_urdf

HEIGHT_M = 2 * 0.213 * np.cos(0.9) + 0.023
"""Thigh and calf at 0.9 rad to either side of the vertical, and a foot."""


@pytest.fixture
def go1() -> Quadruped:
    robot = load_robot("go1")
    assert isinstance(robot, Quadruped)
    return robot


def test_it_is_the_published_one(go1: Quadruped) -> None:
    assert mass_properties(go1).mass_kg == pytest.approx(12.74, abs=0.01)
    assert [drive.name for drive in go1.drives[:3]] == ["FR_hip_joint", "FR_thigh_joint", "FR_calf_joint"]
    np.testing.assert_allclose(go1.standing, np.tile([0.0, 0.9, -1.8], 4))
    assert rest_height(go1) == pytest.approx(HEIGHT_M, abs=1e-3)
    left, right = (np.array(go1.links[k].position_m) for k in (5, 1))
    np.testing.assert_allclose(left, right * [1.0, -1.0, 1.0])


def test_the_lowest_foot_decides_on_the_height(go1: Quadruped) -> None:
    bent = go1.standing
    bent[1:3] = 1.5, -2.75
    heights = lowest_foot(go1, np.stack([go1.standing, bent, go1.crouching]))
    assert heights[0] == pytest.approx(heights[1]) and heights[2] < 0.11


def test_its_models_are_it(go1: Quadruped, tmp_path: Path) -> None:
    (tmp_path / "go1.urdf").write_text(to_urdf(go1))
    (tmp_path / "go1.xml").write_text(to_mjcf(go1))
    for name in ("go1.urdf", "go1.xml"):
        assert [joint.name for joint in check_file(go1, tmp_path / name).moving] == [d.name for d in go1.drives]
    assert (tmp_path / "go1.urdf").read_text().count("sphere") == 8


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_it_stands_crouches_and_stops(go1: Quadruped, engine: str) -> None:
    pytest.importorskip(engine)
    robot: Any = BACKENDS.load(engine)(go1)
    robot.connect()
    robot.step(1.0)
    signals = robot.read().signals
    assert signals["position"][2] == pytest.approx(go1.standing_height_m, abs=0.012)
    assert abs(signals["linear_velocity"]).max() < 0.02
    np.testing.assert_allclose(signals["linear_acceleration"], [0.0, 0.0, 9.81], atol=0.5)
    robot.write({"joint_target": go1.crouching})
    robot.step(1.5)
    assert robot.read().signals["position"][2] < 0.12
    robot.disarm()
    held = robot.read().signals["joint_position"]
    robot.step(0.5)
    np.testing.assert_allclose(robot.read().signals["joint_position"], held, atol=0.1)
    robot.close()


@pytest.mark.parametrize(
    ("changed", "refused"),
    [
        ({"crouching_rad": (0.0,)}, "1 numbers for 12 joints"),
        ({"crouching_rad": (0.0, 0.9, 1.8) * 4}, "1.8 of FR_calf_joint is not allowed"),
    ],
)
def test_postures_out_of_reach_are_refused(go1: Quadruped, changed: dict[str, Any], refused: str) -> None:
    with pytest.raises(ValueError, match=refused):
        dataclasses.replace(go1, **changed)


def test_feet_are_links(go1: Quadruped) -> None:
    with pytest.raises(ValueError, match="'paw' is not one of the links"):
        dataclasses.replace(go1, feet=dataclasses.replace(go1.feet, links=("paw",)))
