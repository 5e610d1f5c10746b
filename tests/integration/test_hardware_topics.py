"""Drivers against emulated hardware, over real topics and behind the guard: an arm on a servo bus, a TurtleBot3."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack.interfaces import topics
from rlstack.interfaces.backend import BACKENDS
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.nodes.guard import GuardNode
from rlstack.nodes.policy import PolicyNode
from rlstack.nodes.robot import RobotNode
from rlstack.resources import find_resource
from rlstack.robots.kinematics import chain_of, tool_motion
from tests.support.arms import write_posture_policy
from tests.support.bases import turtlebot
from tests.support.peers import peer_of
from tests.support.peers._servos import Weighing
from tests.support.peers.feetech import FeetechPeer
from tests.support.peers.opencr import OpenCrPeer
from tests.support.peers.rplidar import RpLidarPeer
from tests.support.rolling import Box, cast
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

Start = Callable[..., Any]


@pytest.fixture
def start(listener: Listener) -> Iterator[Start]:
    """Return a function that starts a node in this process."""
    started: list[Any] = []

    def begin(kind: Any, **overrides: Any) -> Any:
        node = kind(overrides=overrides, context=listener.context)
        listener.executor.add_node(node)
        started.append(node)
        node.start()
        return node

    yield begin
    for node in reversed(started):
        node.stop()
        listener.executor.remove_node(node)
        node.destroy_node()


def test_an_arm_on_a_servo_bus_ends_where_it_ends_in_the_simulator(
    listener: Listener, start: Start, tmp_path: Path
) -> None:
    """Its servos carry its weight; the bus takes the time of its bytes, and is as late as it is said to be."""
    pytest.importorskip("scservo_sdk")
    robot = Manipulator.load("so100")
    posture = np.array([joint.rest for joint in robot.drives]) + np.array([0.4, 0.2, -0.2, 0.1, 0.2, 0.3])
    policy = write_posture_policy(tmp_path / "reach.onnx", robot, posture, speed=0.5)
    chain = chain_of(robot)

    def tool(joints: Any) -> Any:
        return tool_motion(chain.screws, np.asarray(joints)[None, list(chain.index)]).position[0]

    simulated: Any = BACKENDS.load("mujoco")(robot)
    simulated.connect()
    simulated.reset({"joint_position": posture})
    simulated.write({"joint_target": posture})
    simulated.step(2.0)
    wanted = tool(simulated.read().signals["joint_position"])
    simulated.close()
    with FeetechPeer(robot, move=Weighing(robot)) as peer:
        began = tool(robot_joints(peer, robot))
        assert math.dist(began, wanted) > 0.05
        driver = start(RobotNode, robot="so100", backend="feetech", uri=peer.uri)
        guard = start(GuardNode, robot="so100", auto_arm=True, staleness_s=1.0)
        start(PolicyNode, robot="so100", policy=str(policy), goal_position=tuple(wanted.tolist()))
        heard = listener.hear(topics.JOINT_STATES)
        listener.until(lambda: heard and math.dist(tool(heard[-1].position), wanted) < 2e-3, "the posture", 40.0)
        listener.until(lambda: guard.status()[1]["mode"] == "policy", "the policy's way", 20.0)
        listener.spin(0.3)
        assert math.dist(tool(heard[-1].position), wanted) < 2e-3
        assert math.dist(tool(robot_joints(peer, robot)), wanted) < 2e-3
        latencies = sorted(driver.robots[0].backend.bus.latencies_s)
        assert latencies[len(latencies) // 2] < 0.1  # what arm_reach is proven for


@pytest.mark.parametrize("backend", [pytest.param("franka", marks=pytest.mark.quiet), "ur", "ros2_control"])
def test_an_arm_reaches_its_goal_behind_the_guard(
    backend: str, listener: Listener, start: Start, tmp_path: Path
) -> None:
    """Franka's peer is franky-sim, which takes a core; the released policy moves it."""
    if backend == "franka":
        pytest.importorskip("franky")
        pytest.importorskip("franky_sim")
    peer: Any
    with peer_of(backend) as peer:
        robot = peer.robot
        assert isinstance(robot, Manipulator)
        chain = chain_of(robot)

        def tool(joints: Any) -> Any:
            return tool_motion(chain.screws, np.asarray(joints)[None, list(chain.index)]).position[0]

        rest = np.array([joint.rest for joint in robot.drives])
        if backend == "franka":
            goal, policy = np.array([0.45, 0.15, 0.45]), find_resource("policies/arm_reach/policy.onnx")
        else:
            posture = rest + np.array([0.2, 0.1, -0.2, 0.1, 0.2, 0.3, 0.0, 0.0])
            goal, policy = tool(posture), write_posture_policy(tmp_path / "reach.onnx", robot, posture, speed=0.3)
        assert math.dist(tool(rest), goal) > 0.05
        start(RobotNode, robot=robot.name, backend=backend, uri=peer.uri, command_timeout_periods=100.0)
        guard = start(GuardNode, robot=robot.name, auto_arm=True, staleness_s=1.0, observation_timeout_s=1.0)
        start(PolicyNode, robot=robot.name, policy=str(policy), goal_position=tuple(goal.tolist()))

        def there() -> bool:
            at = np.concatenate([np.asarray(peer.joints)[: len(chain.index)], rest[-2:]])
            return math.dist(tool(at), goal) < 0.01

        listener.until(there, "the goal", 60.0)
        assert guard.status()[1]["mode"] == "policy" and peer.powered


def test_a_dry_run_reads_and_commands_and_moves_nothing(listener: Listener, start: Start, tmp_path: Path) -> None:
    pytest.importorskip("scservo_sdk")
    robot = Manipulator.load("so100")
    posture = np.array([joint.rest for joint in robot.drives]) + 0.3
    policy = write_posture_policy(tmp_path / "reach.onnx", robot, posture, speed=0.5)
    with FeetechPeer(robot) as peer:
        began = robot_joints(peer, robot)
        driver = start(RobotNode, robot="so100", backend="feetech", uri=peer.uri, dry_run=True)
        guard = start(GuardNode, robot="so100", auto_arm=True, staleness_s=1.0, tether=0.3)
        start(PolicyNode, robot="so100", policy=str(policy), goal_position=(0.2, 0.0, 0.2))
        sent = listener.hear("cmd/joints")
        listener.until(lambda: guard.status()[1]["mode"] == "policy" and len(sent) > 20, "commands", 30.0)
        said, figures = driver.status()
        assert said.startswith("DRY RUN") and figures["would send"].startswith("joint_target [")
        assert not peer.powered and robot_joints(peer, robot) == began
        assert guard.get_parameter("joint_speed").value == pytest.approx(0.3)
    assert not peer.powered


def robot_joints(peer: FeetechPeer, robot: Manipulator) -> list[float]:
    """Return where the servos are, as joints, by their memory."""
    middles = [0.5 * (joint.lower + joint.upper) for joint in robot.drives]
    ticks = [servo.word(56) - 0.5 * (servo.word(9) + servo.word(11)) for servo in peer.servos]
    return [middle + 2.0 * math.pi * tick / 4096 for middle, tick in zip(middles, ticks)]


class Room:
    """What a scanner on a base sees of boxes, turn by turn."""

    def __init__(self, base: OpenCrPeer, boxes: list[Box]) -> None:
        self._base, self._boxes, self._ranges = base, boxes, np.zeros(360)

    def __call__(self, angle: float) -> float:
        if angle == 0.0:
            self._ranges = cast(turtlebot(), self._base.pose.tolist(), self._boxes)
        seen = float(self._ranges[round(math.degrees(-angle)) % 360])
        return seen if math.isfinite(seen) else 0.0


def test_a_turtlebot_drives_the_released_policy_to_its_goal(listener: Listener, start: Start) -> None:
    pytest.importorskip("dynamixel_sdk")
    walls = [(-1.5, -1.5, -1.4, 1.5), (1.9, -1.5, 2.0, 1.5), (-1.5, -1.5, 2.0, -1.4), (-1.5, 1.4, 2.0, 1.5)]
    robot = turtlebot()
    with OpenCrPeer() as peer, RpLidarPeer(Room(peer, walls)) as scanner:
        node = start(RobotNode, robot=robot.name, backend="opencr", uri=f"{peer.uri}&lidar={scanner.port}")
        guard = start(GuardNode, robot=robot.name, auto_arm=True, policy_timeout_s=1.0)
        goal = (0.6, 0.25, 0.0)
        policy = find_resource("policies/base_navigation/policy.onnx")
        start(PolicyNode, robot=robot.name, policy=str(policy), goal_position=goal)

        def there() -> bool:
            if guard.status()[1]["mode"] == "disarmed":  # where this machine was asleep, as an operator would
                guard.guard.arm(guard._now_s())
            return math.dist(peer.pose[:2], goal[:2]) < 0.2

        scans: list[Any] = []
        kind, quality = topics.message_type(topics.SCAN_TYPE), topics.quality("sensor_in_reliable")
        listener.node.create_subscription(kind, "scan", scans.append, quality)
        listener.until(there, "the goal", 40.0)
        stamps = [stamp_to_ns(scan.header.stamp) for scan in scans]
        assert len(stamps) > 3 and stamps == sorted(set(stamps)), "each turn is published once"
        odometry = node.robots[0].backend.read().signals
        assert math.dist(odometry["position"][:2], peer.pose[:2]) < 0.02
        assert guard.status()[1]["scans"] > 3
