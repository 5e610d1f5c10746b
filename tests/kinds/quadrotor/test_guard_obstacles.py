"""What a quadrotor's lidar and depth cameras see is placed in odom, and braked for in time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlstack.guard import CommonMode
from rlstack.guard.observation import Observation, parse
from rlstack.kinds.quadrotor.guard import QuadrotorGuard, QuadrotorMode
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.quadrotor.guard_obstacles import SCAN, ObstacleMonitor
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import Camera, Lidar, frames, load_robot
from tests.kinds.quadrotor.guard_loop import Loop, good_policy

LIDAR = Lidar(position_m=(0.0, 0.0, 0.03), rays=360, rate_hz=10.0, range_min_m=0.1, range_max_m=8.0)
FRONT = Camera(
    position_m=(0.03, 0.0, 0.0), width=64, height=48, rate_hz=15.0, horizontal_fov_rad=1.2, depth=True, far_m=10.0
)


def quadrotor(**sensors: Any) -> Quadrotor:
    robot = load_robot("crazyflie")
    assert isinstance(robot, Quadrotor)
    return replace(robot, **sensors)


def monitor(**sensors: Any) -> ObstacleMonitor:
    robot = quadrotor(**sensors)
    return ObstacleMonitor(robot, QuadrotorGuardConfig.from_robot(robot))


def seen(
    stamp_s: float = 0.0, *, z: float = 1.0, yaw: float = 0.0, pitch: float = 0.0, **velocity: float
) -> Observation:
    """Return a state; velocities ``vx``, ``vy``, ``vz`` are in odom."""
    orientation = frames.multiply(frames.from_yaw(yaw), frames.from_rotation_vector(np.array([0.0, pitch, 0.0])))
    along = np.array([velocity.get(name, 0.0) for name in ("vx", "vy", "vz")])
    signals = {
        "position": np.array([0.0, 0.0, z]),
        "orientation": orientation,
        "linear_velocity": frames.rotate_inverse(orientation, along),
        "angular_velocity": np.zeros(3),
    }
    found = parse(stamp_s, signals)
    assert isinstance(found, Observation)
    return found


def wall(lidar: Lidar, x: float, yaw: float = 0.0) -> np.ndarray:
    """Return the scan of a level lidar at the origin before an endless wall at ``x`` of odom."""
    across = np.cos(lidar.angles_rad + yaw)
    with np.errstate(divide="ignore"):
        ranges = np.where(across > 1e-9, x / across, np.inf)
    return np.clip(ranges, lidar.range_min_m, lidar.range_max_m)


def test_without_sensors_nothing_is_ever_too_close() -> None:
    blind = monitor()
    blind.add_pose(seen())
    assert blind.sensors == () and blind.too_close(seen(vx=3.0)) == "" and blind.missing == ""


@pytest.mark.parametrize("yaw", [0.0, 1.0, -2.0])
def test_a_scan_is_placed_in_odom_and_the_way_to_a_wall_is_what_is_free(yaw: float) -> None:
    obstacles = monitor(lidars={SCAN: LIDAR})
    obstacles.add_pose(seen(yaw=yaw))
    assert obstacles.receive_scan(0.0, wall(LIDAR, 2.0, yaw)) == ""
    keeps = 0.05 + 0.15
    assert obstacles.nearest_obstacle_m(seen(), (1.0, 0.0, 0.0)) == pytest.approx(2.0 - keeps, abs=0.02)
    aslant = obstacles.nearest_obstacle_m(seen(), (1.0, 1.0, 0.0))
    assert 2.0 * math.sqrt(2.0) - 2.0 * keeps < aslant < 2.0 * math.sqrt(2.0)
    assert obstacles.nearest_obstacle_m(seen(), (-1.0, 0.0, 0.0)) == math.inf
    assert obstacles.nearest_obstacle_m(seen(), (0.0, 0.0, 0.0)) == math.inf


def test_it_is_braked_for_when_the_way_is_as_short_as_the_stop_and_only_towards_it() -> None:
    obstacles = monitor(lidars={SCAN: LIDAR})
    obstacles.add_pose(seen())
    obstacles.receive_scan(0.0, wall(LIDAR, 1.0))
    assert obstacles.too_close(seen(vx=1.0)) == ""  # 0.28 m are enough
    why = obstacles.too_close(seen(vx=2.2))
    assert why.startswith("an obstacle is 0.79 m ahead, 0.4 s at 2.20 m/s; stopping takes 0.84 m")
    assert obstacles.too_close(seen(vx=1.8)) == "" != obstacles.too_close(seen(vx=1.8), 1.0, (8.0, 0.0, 0.0))
    assert obstacles.too_close(seen(vx=-2.2)) == obstacles.too_close(seen(vy=2.2)) == ""
    assert obstacles.too_close(seen()) == ""


@pytest.mark.parametrize("pitch", [0.0, 0.3])
def test_a_depth_image_shows_what_is_in_the_cameras_view(pitch: float) -> None:
    obstacles = monitor(cameras={"front": FRONT})
    obstacles.add_pose(seen(pitch=pitch, z=2.0))
    depth = np.full((48, 64), np.nan, dtype=np.float32)
    depth[:, 30:34] = 1.5  # a pole
    assert obstacles.receive_depth(0.0, "front", depth) == ""
    ahead = frames.rotate(seen(pitch=pitch).orientation, np.array([1.0, 0.0, 0.0]))
    assert obstacles.nearest_obstacle_m(seen(z=2.0), ahead) == pytest.approx(1.53 - 0.2, abs=0.06)
    assert obstacles.nearest_obstacle_m(seen(z=2.0), (1.0, 1.0, 0.0)) == math.inf


def test_one_near_pixel_among_many_far_ones_counts() -> None:
    obstacles = monitor(cameras={"front": FRONT})
    obstacles.add_pose(seen())
    depth = np.full((48, 64), 9.0)
    depth[24, 32] = 0.5
    obstacles.receive_depth(0.0, "front", depth)
    assert obstacles.nearest_obstacle_m(seen(), (1.0, 0.0, 0.0)) < 0.5


def test_the_floor_is_no_obstacle() -> None:
    obstacles = monitor(cameras={"front": FRONT})
    obstacles.add_pose(seen(z=0.4, pitch=1.5))  # it looks down
    obstacles.receive_depth(0.0, "front", np.full((48, 64), 0.4))
    assert obstacles.too_close(seen(z=0.4, vz=-2.0)) == ""


def test_measurements_expire_and_what_is_missing_is_said() -> None:
    obstacles = monitor(lidars={SCAN: LIDAR}, cameras={"front": FRONT})
    obstacles.add_pose(seen())
    obstacles.receive_scan(0.0, wall(LIDAR, 1.0))
    assert obstacles.too_close(seen(0.2, vx=2.5)) and not obstacles.too_close(seen(0.3, vx=2.5))
    assert obstacles.missing == "nothing new from front, so obstacles are not seen there"
    obstacles.forget()
    assert obstacles.receive_scan(0.0, wall(LIDAR, 1.0)) == "no odometry has arrived yet to locate it"


def test_a_measurement_is_placed_at_the_pose_of_its_stamp() -> None:
    obstacles = monitor(lidars={SCAN: LIDAR})
    for k in range(11):
        obstacles.add_pose(seen(0.01 * k, yaw=0.1 * k))  # it turns by 10 rad/s
    obstacles.receive_scan(0.05, wall(LIDAR, 2.0, 0.5))
    assert obstacles.nearest_obstacle_m(seen(0.1, yaw=1.0), (1.0, 0.0, 0.0)) == pytest.approx(1.8, abs=0.02)


@pytest.mark.parametrize(
    ("ranges", "words"), [(np.ones(3), "is not 360 finite"), (np.full(360, np.nan), "is not 360 finite")]
)
def test_a_scan_of_another_lidar_is_refused(ranges: np.ndarray, words: str) -> None:
    obstacles = monitor(lidars={SCAN: LIDAR})
    obstacles.add_pose(seen())
    assert words in obstacles.receive_scan(0.0, ranges)
    assert words not in obstacles.receive_scan(0.0, wall(LIDAR, 1.0))
    assert "goes back" in obstacles.receive_scan(-0.05, wall(LIDAR, 1.0))
    assert "older than that of odometry" in obstacles.receive_scan(5.0, wall(LIDAR, 1.0))


def test_a_depth_image_of_another_size_or_camera_is_refused() -> None:
    obstacles = monitor(cameras={"front": FRONT})
    obstacles.add_pose(seen())
    assert "not of the camera's size" in obstacles.receive_depth(0.0, "front", np.ones((3, 4)))
    assert "no depth camera called rear" in obstacles.receive_depth(0.0, "rear", np.ones((48, 64)))


def test_turned_off_it_uses_no_sensor() -> None:
    robot = quadrotor(lidars={SCAN: LIDAR})
    assert ObstacleMonitor(robot, QuadrotorGuardConfig.from_robot(robot, protective_stop=False)).sensors == ()


def test_a_policy_that_does_not_leave_a_wall_alone_is_stopped_with_advice_on_the_obstacle() -> None:
    robot = quadrotor(lidars={SCAN: LIDAR})
    config = QuadrotorGuardConfig.from_robot(robot, turn_backs=0)
    loop = Loop(QuadrotorGuard(robot, config), (0.0, 0.0, 1.0))
    loop.run(0.1, None)
    assert loop.guard.arm(loop.time_s)[0]
    for _ in range(30):
        loop.guard.obstacles.receive_scan(loop.time_s, wall(LIDAR, 1.5 - float(loop.quad.state["position"][0])))
        loop.run(0.1, good_policy(robot, (2.5, 0.0, 1.0), speed_m_s=2.0), until=QuadrotorMode.HOVER)
    assert "an obstacle is" in loop.guard.reason and "free of the obstacle" in loop.guard.advice


def test_the_guard_turns_back_from_a_wall_and_hands_over_again() -> None:
    robot = quadrotor(lidars={SCAN: LIDAR})
    loop = Loop(QuadrotorGuard(robot), (0.0, 0.0, 1.0))
    loop.run(0.1, None)
    assert loop.guard.arm(loop.time_s)[0]
    at, beyond = good_policy(robot, (0.0, 0.0, 1.0)), good_policy(robot, (2.5, 0.0, 1.0), speed_m_s=2.0)

    def fly(seconds: float, policy: Any) -> None:
        for _ in range(round(seconds * 10)):
            x = float(loop.quad.state["position"][0])
            loop.guard.obstacles.receive_scan(loop.time_s, wall(LIDAR, 1.5 - x))
            loop.run(0.1, policy)

    fly(1.0, at)
    assert loop.guard.warning == ""
    fly(1.5, beyond)
    assert QuadrotorMode.RETURN in loop.transitions()
    fly(3.0, at)
    assert loop.transitions()[-1] is CommonMode.POLICY
    assert max(p[0] for p in loop.positions) < 1.5 - 0.2
    loop.run(1.0, at)
    assert "nothing new from scan" in loop.guard.warning
