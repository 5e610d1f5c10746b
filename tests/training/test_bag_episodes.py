"""Bags of bases as the episodes that learners from recordings take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rclpy.serialization import serialize_message

from rlstack import cli
from rlstack.arrays import Array
from rlstack.data.bags.bag_writer import BagTopic, BagWriter
from rlstack.data.lerobot import Dataset
from rlstack.interfaces import topics
from rlstack.interfaces.messages import OdometryMessage, pose_message, set_stamp
from rlstack.interfaces.scan_messages import ScanMessage
from rlstack.kinds.wheeled_base.simulation_vector import race_vector, wheeled_base_vector
from rlstack.robots import frames, load_robot
from rlstack.sim.maps.pool import pool_of
from rlstack.sim.maps.tracks import draw_track
from rlstack.sim.world import load_world
from rlstack.tasks.catalog.base_racing import RacingTask
from rlstack.training.recorded_episodes import recorded_episodes

SECOND = 10**9


def drive(
    folder: Path,
    robot: Any,
    cars: Any,
    rate_hz: float,
    steps: int,
    act: Callable[[int, Array, Array], Array],
    goal: Any = None,
) -> Array:
    """Record a simulated base as its nodes and a recorder would; return its poses (steps, 3)."""
    writer, space, poses = BagWriter(folder), f"/{robot.name}", []
    kinds = {name: topics.TYPES[name] for name in (topics.ODOM, topics.TWIST_COMMAND, topics.GOAL_ACTIVE)}
    kinds[topics.SCAN] = topics.SCAN_TYPE
    for name, kind in kinds.items():
        writer.add_topic(BagTopic(f"{space}/{name}", kind))
    odom = OdometryMessage(topics.type_of(topics.ODOM)(), "odom", "base_link")
    scan = ScanMessage(topics.message_type(topics.SCAN_TYPE)(), "scan_link", robot.lidars["scan"])
    for k in range(steps):
        pose, twist = cars.pose()[0], cars.twist()[0]
        stamp = SECOND + round(k * SECOND / rate_hz)
        place, turn = np.array([*pose[:2], 0.0]), frames.from_yaw(pose[2:])[0]
        odom.fill(stamp, place, turn, np.array([*twist[:2], 0.0]), np.array([0.0, 0.0, twist[2]]))
        sent = act(k, pose, twist)
        command = topics.type_of(topics.TWIST_COMMAND)()
        set_stamp(command.header.stamp, stamp)
        command.twist.linear.x, command.twist.angular.z = map(float, sent)
        said = {topics.ODOM: odom.message, topics.SCAN: scan.fill(stamp, cars.scan()[0]), topics.TWIST_COMMAND: command}
        if k == 0 and goal is not None:
            said = {
                topics.GOAL_ACTIVE: pose_message(
                    np.array([*goal[:2], 0.0]), frames.from_yaw(goal[2:])[0], stamp_ns=0, frame="odom"
                ),
                **said,
            }
        for number, (name, message) in enumerate(said.items()):
            writer.write(f"{space}/{name}", stamp + number, stamp + number, k, serialize_message(message))
        poses.append(pose.copy())
        cars.step(sent[None])
    writer.close()
    return np.array(poses)


def imported(dataset: Path, task: Any, robot: Any) -> list[Any]:
    """Return the episodes of a dataset as a learner reads them."""
    environment = SimpleNamespace(task=task, robot=robot, pipeline=task.pipeline(robot))
    return recorded_episodes(dataset, environment, lambda held: range(len(held)))


def test_a_race_has_the_rewards_of_its_track(tmp_path: Path, capsys: Any) -> None:
    robot: Any = load_robot("racecar")
    track = draw_track(7)
    cars = race_vector("batch", robot, [track], 20.0)
    commanded = []

    def act(k: int, pose: Array, twist: Array) -> Array:
        """Follow the middle of the track for 4 s, then go straight on, into a wall."""
        speed, bend = 0.5 + min(k, 20) * 0.05, 0.0
        if k < 80:
            along, _ = track.place(pose[:2])
            ahead = track.pose(float(along[0]) + 0.8)
            x, y = ahead[:2] - pose[:2]
            left = y * np.cos(pose[2]) - x * np.sin(pose[2])
            bend = float(np.clip(2.0 * left / (x * x + y * y), -1.0, 1.0))
        commanded.append((speed, speed * bend))
        return np.array(commanded[-1])

    poses = drive(tmp_path / "bag", robot, cars, 20.0, 160, act)
    out = tmp_path / "demos"
    assert cli.main(["demo", "import", str(tmp_path / "bag"), "--robot", "racecar", "--task", "base_racing", "--world",
                     "track:7", "--out", str(out)]) == 0  # fmt: skip
    assert "1 episodes of" in capsys.readouterr().out
    task = RacingTask()
    (steps,) = imported(out, task, robot)
    first, *taken = steps
    count = len(taken)
    assert 85 < count < 160 and taken[-1]["goes_on"] == 0.0 and all(step["goes_on"] == 1.0 for step in taken[:-1])
    assert taken[-1]["reward"] < task.reward.lost + 0.5
    assert track.half_width_m - abs(track.place(poses[count - 1 : count, :2])[1][0]) > 0.1 > 0.0
    # away from walls and within the grip the reward is progress along the middle, but for what changes of commands cost
    along = track.place(poses[:81, :2])[0]
    progress = np.diff(along)
    rewards = np.array([step["reward"] for step in taken])[: len(progress)]
    assert np.abs(rewards - progress).max() < 0.01 and np.abs(rewards - progress).mean() < 0.002
    # the action is what the command asks: the curvature, and a change of speed
    pipeline = task.pipeline(robot)
    bends = np.array([step["action"][1] for step in taken]) * pipeline.driving.bend_1_m
    wanted = np.array([turn / speed for speed, turn in commanded[:count]])
    assert np.abs(bends - wanted).max() < 1e-4
    ranges = cars.scan().shape[1]
    assert ranges == robot.lidars["scan"].rays and len(first["observation"]) == pipeline.size


def test_a_drive_to_a_goal_ends_there(tmp_path: Path) -> None:
    robot: Any = load_robot("turtlebot3_burger")
    drawn = load_world("clutter:3").floor_map
    assert drawn is not None
    cars = wheeled_base_vector("batch", robot, 1, 10.0, pool=pool_of([drawn], fields=False))
    start = cars.pose()[0]
    goal = np.array([*start[:2] + 0.5 * np.array([np.cos(start[2]), np.sin(start[2])]), start[2]])
    drive(tmp_path / "bag", robot, cars, 10.0, 60, lambda k, pose, twist: np.array([0.12, 0.0]), goal)
    out = tmp_path / "demos"
    given = ["demo", "import", str(tmp_path / "bag"), "--robot", "turtlebot3_burger", "--task", "base_navigation"]
    assert cli.main([*given, "--world", "clutter:3", "--out", str(out)]) == 0
    held = Dataset(out)
    assert len(held) == 1  # what follows the arrival is no episode
    frames_ = held.read(0, ["next.success", "next.reward", "action"])
    assert bool(frames_["next.success"][-1].any()) and not frames_["next.success"][:-1].any()
    # 0.3 m at 0.12 m/s, of 0.22 m/s at most, with a weight of 1 a second
    assert 22 <= len(frames_["action"]) <= 32
    assert np.median(frames_["next.reward"]) == pytest.approx(0.1 * 0.12 / robot.limits.linear_velocity_m_s, rel=0.05)


def test_what_cannot_be_judged_is_refused(tmp_path: Path, capsys: Any) -> None:
    robot: Any = load_robot("racecar")
    drive(tmp_path / "bag", robot, race_vector("batch", robot, [draw_track(7)], 5.0), 5.0, 30,
          lambda k, pose, twist: np.array([0.5, 0.0]))  # fmt: skip
    given = ["demo", "import", str(tmp_path / "bag"), "--robot", "racecar", "--out", str(tmp_path / "demos")]

    def refused(*more: str) -> str:
        assert cli.main([*given, *more]) == 2
        return capsys.readouterr().err

    racing = ("--task", "base_racing")
    assert "give --world, the one that the robot moved in" in refused(*racing)
    assert "The world clutter:3 is no race track" in refused(*racing, "--world", "clutter:3")
    assert "come 5 times a second, and base_racing acts 20 times" in refused(*racing, "--world", "track:7")
    assert "Recordings of base_exploration have no rewards" in refused(
        "--task", "base_exploration", "--world", "track:7"
    )
