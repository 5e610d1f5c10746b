"""The generated URDF says what the robot file says, to readers other than ours too."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.kinds.quadrotor.urdf import rotor_inertial
from rlstack.robots import Camera, Lidar, RobotSpec, load_robot, robot_names
from rlstack.robots.kind_models import check_model, mass_properties
from rlstack.robots.model import read_urdf
from rlstack.robots.urdf import to_urdf
from tests.support.robots import car, crazyflie, large, modelled

GENERATED = [*map(load_robot, (*robot_names("quadrotor"), *modelled("wheeled_base"))), large(), car()]
EACH_ROBOT = pytest.mark.parametrize("robot", GENERATED, ids=lambda r: r.name)


def panda() -> Manipulator:
    pytest.importorskip("pybullet_data")
    robot = load_robot("panda")
    assert isinstance(robot, Manipulator)
    return robot


def assert_whole(robot: RobotSpec, urdf: str) -> None:
    """The links together are the file's robot to the last digits."""
    found, said = read_urdf(urdf, robot.name).inertial, mass_properties(robot)
    np.testing.assert_allclose(found.mass_kg, said.mass_kg, rtol=1e-13)
    np.testing.assert_allclose(found.centre_m, said.centre_m, atol=1e-13)
    largest = np.abs(said.inertia_kg_m2).max()
    np.testing.assert_allclose(found.inertia_kg_m2, said.inertia_kg_m2, atol=1e-12 * largest)


@EACH_ROBOT
def test_links_together_have_exactly_the_files_mass_and_inertia(robot: RobotSpec) -> None:
    for rotors in ("continuous", "fixed", "none"):
        assert_whole(robot, to_urdf(robot, rotors=rotors))


@EACH_ROBOT
def test_joints_come_in_the_files_order_with_its_limits(robot: RobotSpec) -> None:
    model = read_urdf(to_urdf(robot), robot.name)
    check_model(robot, model)
    if isinstance(robot, Quadrotor):
        assert tuple(joint.name for joint in model.moving) == robot.rotor_names
        for joint, rotor in zip(model.moving, robot.rotors):
            np.testing.assert_allclose(joint.position, rotor.position_m)
            # The rotor turns against its torque on the body.
            np.testing.assert_array_equal(joint.axis, [0.0, 0.0, -rotor.yaw_torque_sign])
            assert joint.velocity == robot.rotor_model.speed_max_rad_s
        return
    assert [joint.name for joint in model.moving] == [joint.name for joint in robot.drives]
    for joint, own in zip(model.moving, robot.drives):
        assert (joint.type, joint.lower, joint.upper) == (own.type, own.lower, own.upper)
        assert (joint.velocity, joint.effort) == (own.velocity_max, own.effort_max or math.inf)


@pytest.mark.parametrize("name", robot_names("quadrotor"))
def test_a_rotor_spins_with_the_files_inertia_and_weighs_little(name: str) -> None:
    robot = load_robot(name)
    assert isinstance(robot, Quadrotor)
    rotor = rotor_inertial(robot)
    if robot.rotor_model.spin_inertia_kg_m2:
        assert rotor.inertia_kg_m2[2, 2] == robot.rotor_model.spin_inertia_kg_m2
    assert 0.0 < 4.0 * rotor.mass_kg < 0.05 * robot.body.mass_kg


@settings(deadline=None, max_examples=60)
@given(
    st.floats(0.01, 10.0),
    st.tuples(st.floats(0.6, 1.0), st.floats(0.6, 1.0), st.floats(0.6, 1.0)),
    st.floats(0.0, 0.01),
    st.floats(-0.3, 0.3),
)
def test_any_quadrotor_whose_rotors_can_be_taken_out_is_whole_again(
    mass: float, moments: tuple[float, float, float], spin: float, height: float
) -> None:
    base = large()
    inertia = tuple(0.02 * mass * m for m in moments)
    robot = replace(
        base,
        body=replace(base.body, mass_kg=min(mass, 3.0), inertia_kg_m2=inertia),
        rotors=tuple(replace(r, position_m=(*r.position_m[:2], height)) for r in base.rotors),
        rotor_model=replace(base.rotor_model, spin_inertia_kg_m2=spin * inertia[2]),
    )
    try:
        text = to_urdf(robot)
    except UserError as error:
        assert "the remaining body is physically impossible" in str(error)
        return
    assert_whole(robot, text)


def test_rotors_that_are_heavier_than_the_body_allows_are_refused_by_name() -> None:
    heavy = replace(large(), rotor_model=replace(large().rotor_model, spin_inertia_kg_m2=0.01))
    with pytest.raises(UserError, match=r"large: with rotors of .* taken out .* spin_inertia_kg_m2"):
        to_urdf(heavy)
    to_urdf(heavy, rotors="fixed")


def test_cameras_and_lidars_have_their_frames() -> None:
    robot = replace(
        crazyflie(),
        cameras={
            "front": Camera(
                position_m=(0.03, 0.0, 0.01),
                rpy_rad=(0.0, 0.2, 0.1),
                width=32,
                height=24,
                rate_hz=10.0,
                horizontal_fov_rad=1.0,
            )
        },
        lidars={"scan": Lidar(position_m=(0.0, 0.0, 0.05), rays=8, rate_hz=5.0, range_min_m=0.1, range_max_m=3.0)},
    )
    model = read_urdf(to_urdf(robot, prefix="cf1/"), "robot")
    assert_whole(robot, to_urdf(robot))  # they weigh nothing
    turn, at = model.poses["cf1/front_optical_frame"]
    np.testing.assert_allclose(turn, robot.cameras["front"].optical_rotation, atol=1e-12)
    np.testing.assert_allclose(at, [0.03, 0.0, 0.01])
    np.testing.assert_allclose(model.poses["cf1/scan_link"][1], [0.0, 0.0, 0.05])
    assert model.root == "cf1/base_link"
    assert all(name.startswith("cf1/") for name in (*model.links, *(joint.name for joint in model.joints)))
    assert "front_link" not in to_urdf(robot, frames=False)


def test_every_link_says_what_it_weighs() -> None:
    for robot in (*GENERATED, panda()):
        root = ET.fromstring(to_urdf(robot, rotors="fixed"))
        for link in root.findall("link"):  # PyBullet takes one that does not for 1 kg
            assert link.find("inertial/mass") is not None, link.get("name")


def test_a_manipulators_urdf_is_its_model_with_the_files_limits() -> None:
    robot = panda()
    model = read_urdf(to_urdf(robot, prefix="arm/"), "panda")
    assert model.root == "arm/base_link" and f"arm/{robot.tool_link}" in model.links
    assert model.inertial.mass_kg == pytest.approx(robot.mass_kg)
    for joint, own in zip(model.moving, robot.drives, strict=True):
        assert joint.name == f"arm/{own.name}"  # also the finger that mimics the other in the model
        assert (joint.lower, joint.upper, joint.velocity, joint.effort) == (
            own.lower,
            own.upper,
            own.velocity_max,
            own.effort_max,
        )


def test_meshes_are_found_and_named_for_who_reads_them() -> None:
    from pathlib import Path

    def named(meshes: str) -> list[str]:
        root = ET.fromstring(to_urdf(panda(), meshes=meshes))  # type: ignore[arg-type]
        return [mesh.get("filename", "") for mesh in root.iter("mesh")]

    assert len(named("path")) > 10 and all(Path(name).is_file() for name in named("path"))
    assert named("uri") == [Path(name).as_uri() for name in named("path")]
    assert named("none") == []
