"""Sensors that tell a simulated quadrotor's odometry node where it is: a motion capture, or flow and range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces import topics
from rlstack.interfaces.messages import pose_message, seconds_to_ns, set_stamp
from rlstack.interfaces.sensor_queue import SensorQueue
from rlstack.interfaces.timing import JUMP_NS
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.robot_topics import RobotTopics
from rlstack.perception.odometry_filter import FLOW, POSE
from rlstack.robots.frames import from_rotation_vector, multiply, rotate_inverse, tilt
from rlstack.sim.simulated_robot import SimulatedRobot

SIMULATED_TRACKING = Parameter(
    "simulated_tracking",
    "",
    "Sensors for the odometry node that a simulator publishes, too: pose (external_pose), flow (flow and range).",
    choices=("", POSE, FLOW),
)

_SEED = 0x0D0


@dataclass(frozen=True)
class TrackingNoise:
    """One standard deviation of each sensor, rates and delays.

    A motion capture of some cameras (OptiTrack, Vicon) is within a millimetre, and a few tens of ms late over WiFi;
    the Crazyflie's Flow deck v2 has a PMW3901 and a VL53L1x, of about a centimetre.

    Args:
        position_m: Position of the motion capture.
        orientation_rad: Its orientation.
        pose_delay_s: From its exposure to the message.
        flow_m_s: Velocity by optical flow.
        range_m: Distance to the floor.
        range_most_m: Greatest distance that is measured.
        flow_delay_s: Of flow and range.
        rate_hz: Rate of all.
    """

    position_m: float = 0.001
    orientation_rad: float = 0.005
    pose_delay_s: float = 0.02
    flow_m_s: float = 0.05
    range_m: float = 0.01
    range_most_m: float = 4.0
    flow_delay_s: float = 0.01
    rate_hz: float = 100.0


class TrackingSensors:
    """Measures one simulated robot's true motion.

    Args:
        noise: Noise and delays.
        seed: Seed of the noise.
    """

    def __init__(self, noise: TrackingNoise, seed: int) -> None:
        self._noise, self._random = noise, np.random.default_rng([abs(seed), _SEED])

    def pose(self, position: Array, orientation: Array) -> tuple[Array, Array]:
        """Return what a motion capture sees."""
        turn = self._noise.orientation_rad * self._random.standard_normal(3)
        place = position + self._noise.position_m * self._random.standard_normal(3)
        return place, multiply(orientation, from_rotation_vector(turn))

    def flow(self, orientation: Array, velocity: Array) -> Array:
        """Return the velocity (2,) m/s that optical flow measures; ``velocity``: (3,) in the world."""
        return rotate_inverse(orientation, velocity)[:2] + self._noise.flow_m_s * self._random.standard_normal(2)

    def range(self, position: Array, orientation: Array) -> float | None:
        """Return the distance, m, to a floor at height 0 along the body's downward axis; None: out of reach."""
        upright = float(np.cos(tilt(orientation)))
        far = float(position[2]) / max(upright, 1e-3)
        measured = far + self._noise.range_m * float(self._random.standard_normal())
        return max(measured, 0.0) if far < self._noise.range_most_m and upright > 0.5 else None


class SimulatedTracking:
    """Publishes these sensors after odometry, late as they are.

    Args:
        node: The robot node, with :data:`SIMULATED_TRACKING`.
        robots: Its robots; those of real hardware have sensors of their own.
    """

    def __init__(self, node: Any, robots: Sequence[RobotTopics]) -> None:
        source = node.parameters[SIMULATED_TRACKING.name]
        simulated = [robot for robot in robots if isinstance(robot.backend, SimulatedRobot)] if source else []
        noise, seed = TrackingNoise(), int(node.parameters["noise_seed"])
        self._robots = {robot: _Published(node, robot, source, noise, seed + k) for k, robot in enumerate(simulated)}

    def sent(self, robots: Sequence[RobotTopics]) -> None:
        """Measure and publish what is due for robots whose odometry was just published."""
        for robot in robots:
            if robot in self._robots:
                self._robots[robot].sent()


class _Published:
    """The topics of one robot."""

    def __init__(self, node: Any, robot: RobotTopics, source: str, noise: TrackingNoise, seed: int) -> None:
        self._robot, self._poses = robot, source == POSE
        self._sensors, self._most_m = TrackingSensors(noise, seed), noise.range_most_m
        delay_s = noise.pose_delay_s if self._poses else noise.flow_delay_s
        self._queue: SensorQueue[dict[str, Any]] = SensorQueue(noise.rate_hz, seconds_to_ns(delay_s))
        names = (topics.EXTERNAL_POSE,) if self._poses else (topics.FLOW, topics.RANGE)
        self._publishers = {
            name: node.publisher(topics.type_of(name), robot.prefix + name, "sensor_out") for name in names
        }
        self._stamp_ns = -1

    def sent(self) -> None:
        stamp_ns, before_ns = self._robot.stamp_ns, self._stamp_ns
        self._stamp_ns = stamp_ns
        if before_ns < 0 or not 0 <= stamp_ns - before_ns < JUMP_NS:
            self._queue.restart(stamp_ns)
        if self._queue.is_due(stamp_ns):
            self._queue.push(stamp_ns, stamp_ns, self._measured(stamp_ns))
        for _, messages in self._queue.pop_arrived(stamp_ns):
            for name, message in messages.items():
                self._publishers[name].publish(message)

    def _measured(self, stamp_ns: int) -> dict[str, Any]:
        backend, frames = self._robot.backend, self._robot.frames
        assert isinstance(backend, SimulatedRobot)
        motion = backend.simulation.motion(backend.index)
        place, turn = motion["position"], motion["orientation"]
        if self._poses:
            pose = self._sensors.pose(place, turn)
            return {topics.EXTERNAL_POSE: pose_message(*pose, stamp_ns=stamp_ns, frame=frames.odom)}
        flow = topics.type_of(topics.FLOW)()
        set_stamp(flow.header.stamp, stamp_ns)
        flow.header.frame_id = frames.base
        flow.twist.twist.linear.x, flow.twist.twist.linear.y = map(
            float, self._sensors.flow(turn, motion["linear_velocity"])
        )
        found = {topics.FLOW: flow}
        if (distance := self._sensors.range(place, turn)) is not None:
            far = topics.type_of(topics.RANGE)()
            set_stamp(far.header.stamp, stamp_ns)
            far.header.frame_id, far.max_range, far.range = frames.base, self._most_m, distance
            found[topics.RANGE] = far
        return found
