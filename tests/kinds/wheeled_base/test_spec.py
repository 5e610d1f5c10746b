"""Files of wheeled bases: what they say, and what is refused by key."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import load_robot, robot_names
from rlstack.robots.mjcf import to_mjcf
from rlstack.robots.spec import robot_files
from rlstack.robots.urdf import to_urdf
from rlstack.sim.backends.mujoco import MujocoEngine
from rlstack.sim.simulation import Simulation
from tests.support.robots import car

WHEELED = [name for name in robot_names("wheeled_base") if load_robot(name).drives]
"""Those with wheels: holonomic ones have none."""


@pytest.mark.parametrize("name", WHEELED)
def test_every_base_that_ships_is_read_and_every_number_has_a_source(name: str) -> None:
    robot = load_robot(name)
    assert isinstance(robot, WheeledBase) and robot.name == name
    text = robot_files()[name].read_text()
    for section in ("wheel_drive", "limits", "sensors", "contact"):
        (block,) = re.findall(rf"^{section}:.*\n((?:  .*\n)+)", text, re.MULTILINE)
        unsourced = [line for line in block.splitlines() if "#" not in line and "geofence_max" not in line]
        assert not unsourced
    # It can do what its limits allow.
    top = robot.wheel_drive.velocity_max_rad_s * robot.wheels[0].radius_m
    assert top >= robot.limits.linear_velocity_m_s


def test_joints_come_in_the_order_of_the_wheels_each_steering_joint_before_its_wheel() -> None:
    assert [(j.name, j.mode) for j in car().drives] == [
        ("steer_left", "position"),
        ("front_left", "free"),
        ("steer_right", "position"),
        ("front_right", "free"),
        ("rear_left", "velocity"),
        ("rear_right", "velocity"),
    ]
    assert car().axle_m == 0.0 and car().rest_height_m == 0.05


def test_the_turtlebot_is_what_robotis_says() -> None:
    robot = load_robot("turtlebot3_burger")
    assert isinstance(robot, WheeledBase)
    assert robot.rest_height_m == pytest.approx(0.010)
    left, right = robot.wheels
    assert left.position_m[1] - right.position_m[1] == pytest.approx(0.160)
    # Body and lidar of the two sources, put together.
    from rlstack.robots.inertia import inertial, together

    body = [[2.2124416e-3, -1.2294101e-5, 3.4938785e-5], [-1.2294101e-5, 2.1193702e-3, -5.0120904e-6]]
    body.append([3.4938785e-5, -5.0120904e-6, 2.0064271e-3])
    mass, radius, height = 0.114, 0.055, 0.0315
    across = mass * (3.0 * radius**2 + height**2) / 12.0
    lidar = inertial(mass, (-0.017, 0.0, 0.1655), (across, across, mass * radius**2 / 2.0))
    whole = together((inertial(0.82573504, (-0.032, 0.0, 0.070), np.array(body)), lidar))
    assert robot.chassis.mass_kg == pytest.approx(whole.mass_kg)
    np.testing.assert_allclose(robot.chassis.centre_of_mass_m, whole.centre_m, atol=1e-8)
    np.testing.assert_allclose(robot.chassis.inertia, whole.inertia_kg_m2, atol=1e-11)


def test_footprints_are_what_the_makers_say() -> None:
    turtlebot, husky = load_robot("turtlebot3_burger"), load_robot("husky")
    assert isinstance(turtlebot, WheeledBase) and isinstance(husky, WheeledBase)
    ((x, y, radius),) = turtlebot.footprint
    assert radius == pytest.approx(0.105, abs=0.001)  # ROBOTIS e-Manual: 105 mm
    assert (x, y) == pytest.approx((-0.023, 0.0), abs=0.001) and turtlebot.radius_m < 0.105 + 0.023
    assert np.ptp(husky.corners_m, axis=0) == pytest.approx((0.990, 0.670), abs=0.02)  # its data sheet
    assert len(husky.footprint) == 2 and husky.radius_m == pytest.approx(np.hypot(0.5037, 0.28545), abs=1e-6)


GLIDER = {
    "name": "glider",
    "kind": "wheeled_base",
    "description": "a disc",
    "control_rate_hz": 4.0,
    "drive": "holonomic",
    "outline": {"radius_m": 0.3},
    "limits": {
        "linear_velocity_m_s": 1.0,
        "angular_velocity_rad_s": 3.0,
        "linear_acceleration_m_s2": 100.0,
        "angular_acceleration_rad_s2": 100.0,
        "geofence_min_m": [-10.0, -10.0],
        "geofence_max_m": [10.0, 10.0],
    },
    "sensors": {"odom": {"rate_hz": 4.0}},
}


def test_a_holonomic_base_is_a_disc_without_wheels_that_no_engine_takes(tmp_path: Path) -> None:
    path = tmp_path / "glider.yaml"
    path.write_text(yaml.safe_dump(GLIDER))
    robot = load_robot(path)
    assert isinstance(robot, WheeledBase)
    assert robot.footprint == ((0.0, 0.0, 0.3),) and robot.radius_m == 0.3 and robot.drives == ()
    assert np.hypot(*robot.corners_m.T).min() >= 0.3  # the polygon goes around the disc
    for use in (to_urdf, to_mjcf, lambda robot: Simulation(MujocoEngine, [robot])):
        with pytest.raises(UserError, match=r"glider is holonomic and has no wheels.*batch simulator"):
            use(robot)
    for change, said in (({"wheels": turtle()["wheels"]}, "with wheels"), ({"outline": None}, "'outline' is missing")):
        path.write_text(yaml.safe_dump({**GLIDER, **change}))
        with pytest.raises(UserError, match=said):
            load_robot(path)


def turtle() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(robot_files()["turtlebot3_burger"].read_text())
    return data


REFUSED: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("no body has it", lambda d: d["chassis"].update(inertia_kg_m2=[1.0, 1.0, 3.0]), r"chassis: inertia_kg_m2: \[1.0"),
    ("wheel inertia", lambda d: d["wheels"][0].update(spin_inertia_kg_m2=1.0), r"wheels\[0\]: spin_inertia_kg_m2: 1.0"),
    ("same names", lambda d: d["wheels"][0].update(name="caster_back"), "every wheel, steering joint and caster"),
    ("no motor", lambda d: [w.update(driven=False) for w in d["wheels"]], "none is driven"),
    ("one side", lambda d: d["wheels"][0].update(position_m=[0.0, -0.05, 0.023]), r"left \(y above 0\) and right"),
    ("uneven", lambda d: d["wheels"][0].update(position_m=[0.0, 0.09, 0.023]), "one radius and one distance"),
    (
        "off the floor",
        lambda d: d["wheels"].append({**d["wheels"][0], "name": "x", "driven": False, "radius_m": 0.03}),
        "lowest points",
    ),
    ("caster", lambda d: d["casters"][0].update(position_m=[0.0, 0.0, -0.1]), "caster_back reaches below"),
    ("steered", lambda d: d["wheels"][0].update(steering="s"), "'differential' is not allowed with steered wheels"),
    ("ackermann", lambda d: d.update(drive="ackermann"), "'ackermann' is not allowed without steered wheels"),
    (
        "drive",
        lambda d: d.update(drive="tank"),
        "drive: 'tank' is not allowed: one of differential, ackermann, holonomic",
    ),
    (
        "unit",
        lambda d: d["wheel_drive"].pop("effort_max_n_m"),
        r"'wheel_drive.effort_max_n_m' is missing \(unit: N m\)",
    ),
    ("fence", lambda d: d["limits"].update(geofence_max_m=[-11.0, 1.0]), r"geofence_max_m: \[-11.0, 1.0\]"),
    ("no chassis", lambda d: d.pop("chassis"), "the key 'chassis' is missing"),
    ("outline", lambda d: d.update(outline={}), "outline: radius_m and corners_m: give one of the two"),
    ("lag", lambda d: d.update(response={"linear_slip": 0.3, "linear_slip_range": [0, 0.1]}), r"response: linear_slip"),
    ("slippery", lambda d: d["contact"].update(wheel_friction=0.0), "contact.wheel_friction: 0.0 is not allowed"),
]


@pytest.mark.parametrize(("change", "said"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_cannot_be_is_refused_by_key(change: Callable[[dict], Any], said: str, tmp_path: Path) -> None:
    data = copy.deepcopy(turtle())
    change(data)
    path = tmp_path / "base.yaml"
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(UserError, match=said) as refused:
        load_robot(path)
    assert str(path) in str(refused.value)
