from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from rclpy.serialization import serialize_message
from visualization_msgs.msg import Marker

from rlstack.interfaces.path_messages import path_message
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.nodes.markers import Markers, MovedMarkers, world_markers
from rlstack.robots import RobotSpec, frames, load_robot
from rlstack.sim.world import load_world
from tests.support.robots import modelled

ROBOT = load_quadrotor("crazyflie")
LEVEL = np.array([0.0, 0.0, 0.0, 1.0])


def path(*xs: float, frame: str = "odom") -> bytes:
    places = np.array([[x, 0.0, 1.0] for x in xs])
    message = path_message(np.arange(len(xs), dtype=float), places, np.tile(LEVEL, (len(xs), 1)), frame=frame)
    return bytes(serialize_message(message))


def where(marker: Marker) -> list[float]:
    p = marker.pose.position
    return [p.x, p.y, p.z]


def test_shapes_are_where_the_robot_is() -> None:
    place, turned = np.array([1.0, 2.0, 3.0]), frames.from_yaw(np.pi / 2)
    shown = Markers(ROBOT).at(1_500_000_000, place, turned).markers
    assert all(m.header.frame_id == "odom" and m.action == Marker.ADD for m in shown)
    assert (shown[0].header.stamp.sec, shown[0].header.stamp.nanosec) == (1, 500_000_000)
    assert where(shown[0]) == [1.0, 2.0, 3.0]
    assert len({(m.ns, m.id) for m in shown}) == len(shown)
    seen = np.array([where(m) for m in shown])
    for rotor in ROBOT.rotors:
        x, y, _ = rotor.position_m
        distance = np.hypot(*(seen[:, :2] - [1.0 - y, 2.0 + x]).T)
        across = [m.scale.x for m, d in zip(shown, distance) if d < 1e-9 and m.type == Marker.CYLINDER]
        assert max(across) == pytest.approx(2.0 * ROBOT.rotor_model.radius_m)


def test_joints_move_what_is_on_them() -> None:
    arm = Markers(load_robot("panda"))
    before = np.array([where(m) for m in arm.at(0, np.zeros(3), LEVEL).markers])
    after = np.array([where(m) for m in arm.at(0, np.zeros(3), LEVEL, {"panda_joint2": 0.5}).markers])
    moved = np.linalg.norm(after - before, axis=1)
    assert moved.max() > 0.1 and moved[0] == 0.0  # the hand, and not the foot


@pytest.mark.parametrize("name", modelled())
def test_every_robot_that_ships_is_seen(name: str) -> None:
    shown = Markers(load_robot(name)).at(0, np.zeros(3), LEVEL).markers
    assert len(shown) > 2
    for marker in shown:
        assert min(marker.scale.x, marker.scale.y, marker.scale.z) > 0.0 and marker.color.a > 0.0
        assert (marker.type == Marker.MESH_RESOURCE) == marker.mesh_resource.startswith(("file://", "package://"))


def test_robots_side_by_side_have_names_of_their_own() -> None:
    first, second = Markers(ROBOT, "cf1"), Markers(ROBOT, "cf2")
    for markers in (first, second):
        markers.take_path(path(0.0, 1.0))
    both = [m for markers in (first, second) for m in markers.at(0, np.zeros(3), LEVEL).markers]
    assert len({(m.ns, m.id) for m in both}) == len(both)
    assert Markers(ROBOT).name == "crazyflie"


def test_a_robot_without_a_model_is_a_ball() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Unknown(RobotSpec):
        """Of a kind that another package has brought."""

    robot = Unknown(name="u", kind="u", description="", control_rate_hz=10.0, sensors={})
    (ball,) = Markers(robot).at(0, np.ones(3), LEVEL).markers
    assert ball.type == Marker.SPHERE and where(ball) == [1.0, 1.0, 1.0]


def test_the_path_is_a_line_that_stays_until_another_comes() -> None:
    markers = Markers(ROBOT)
    assert all(m.type != Marker.LINE_STRIP for m in markers.at(0, np.zeros(3), LEVEL).markers)
    markers.take_path(path(0.0, 1.0, 2.0))
    for _ in range(2):
        *_, line = markers.at(0, np.zeros(3), LEVEL).markers
        assert line.type == Marker.LINE_STRIP and line.header.frame_id == "odom"
        assert [p.x for p in line.points] == [0.0, 1.0, 2.0] and line.points[0].z == 1.0
        assert line.pose.orientation.w == 1.0 and line.scale.x > 0.0
    markers.take_path(path(0.0, 5.0, frame="map"))
    *_, line = markers.at(0, np.zeros(3), LEVEL).markers
    assert line.header.frame_id == "map" and len(line.points) == 2
    markers.take_path(path(0.0, 1.0, 2.0))
    markers.at(0, np.zeros(3), LEVEL)
    markers.take_path(path(5.0))  # refused: the one before stays
    assert len(markers.at(0, np.zeros(3), LEVEL).markers[-1].points) == 3
    markers.take_path(path(0.0, 5.0))
    lines = [m for m in markers.at(0, np.zeros(3), LEVEL).markers if m.type == Marker.LINE_STRIP]
    assert [[p.x for p in line.points] for line in lines] == [[0.0, 5.0]]


def test_all_that_stands_in_a_world_is_shown() -> None:
    world = load_world("warehouse:7")
    clear, *shown = world_markers(world).markers
    assert clear.action == Marker.DELETEALL
    assert len(shown) == len(world.obstacles) > 3
    assert len({(m.ns, m.id) for m in shown}) == len(shown)
    kinds = {"box": Marker.CUBE, "cylinder": Marker.CYLINDER, "sphere": Marker.SPHERE}
    for marker, obstacle in zip(shown, world.obstacles):
        assert marker.type == kinds[obstacle.shape] and marker.header.frame_id == "odom"
        np.testing.assert_allclose(where(marker), obstacle.position_m)
        np.testing.assert_allclose([marker.scale.x, marker.scale.y, marker.scale.z], obstacle.size_m)
        q = marker.pose.orientation
        assert abs(frames.wrap_angle(frames.yaw([q.x, q.y, q.z, q.w]) - obstacle.yaw_rad)) < 1e-9
        np.testing.assert_allclose([marker.color.r, marker.color.g, marker.color.b], obstacle.colour, rtol=1e-6)
        assert marker.color.a == 1.0
    crate = replace(world.obstacles[0], mass_kg=2.0)
    assert world_markers(replace(world, obstacles=(crate,))).markers[1].color.a < 1.0


def test_what_can_move_keeps_its_number_and_is_shown_where_it_is() -> None:
    world = load_world("warehouse:7")
    crate = replace(world.obstacles[2], mass_kg=2.0)
    world = replace(world, obstacles=(*world.obstacles[:2], crate, *world.obstacles[3:]))
    moved = MovedMarkers(world)
    assert moved.names == [crate.name]
    (marker,) = moved.at(7, [(np.array([1.0, 2.0, 3.0]), LEVEL)]).markers
    there = world_markers(world).markers[3]
    assert (marker.ns, marker.id, marker.color.a) == (there.ns, there.id, 1.0)
    np.testing.assert_allclose(where(marker), [1, 2, 3])
    assert MovedMarkers(load_world("warehouse:7")).names == []
