"""Kinematics of differential and Ackermann drives: a twist as joint targets, and the twist that the wheels measure.

Arrays over joints (joints,) are in the order of ``robot.drives``; each value is the joint's commanded quantity: its
speed in rad/s in the mode ``velocity``, its position in rad or m in the mode ``position``, 0 for a free joint. A twist
(2,) is forward speed in m/s and turning rate in rad/s of the centre of the unsteered axle.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.wheeled_base.spec import Wheel, WheeledBase
from rlstack.robots import RobotSpec

_STANDING_M_S = 1e-6
_UNLIMITED = 1e9
_COME = 1e-9
"""m/s and rad/s: a ramp that is closer than this has reached the command."""


def limited_twist(robot: WheeledBase, twist: Array, previous: Array | None = None, period_s: float = 0.0) -> Array:
    """Return a twist (2,) within the robot's limits of speed, and of acceleration since ``previous``, if any.

    Args:
        robot: The robot with the limits.
        twist: The desired twist.
        previous: The command ``period_s`` ago.
        period_s: Time since then, s.
    """
    limits = robot.limits
    most = np.array([limits.linear_velocity_m_s, limits.angular_velocity_rad_s])
    wanted = np.clip(twist, -most, most)
    if previous is None:
        return wanted
    change = period_s * np.array([limits.linear_acceleration_m_s2, limits.angular_acceleration_rad_s2])
    return np.clip(wanted, previous - change, previous + change)


class TwistRamp:
    """Filters a base's commands step by step: delay, and limits of acceleration and jerk.

    As in :mod:`rlstack.sim.batch_wheeled_base.dynamics`; constant once it has reached the last command.

    Args:
        robot: The robot with the limits and ``command_delay_s``.
    """

    def __init__(self, robot: WheeledBase) -> None:
        limits = robot.limits
        self._robot, self._delay_s = robot, robot.response.command_delay_s
        self._most = np.array([limits.linear_acceleration_m_s2, limits.angular_acceleration_rad_s2])
        jerks = (limits.linear_jerk_m_s3, limits.angular_jerk_rad_s3)
        self._jerk = np.array([_UNLIMITED if jerk is None else jerk for jerk in jerks])
        self._waiting: deque[tuple[float, Array]] = deque()
        self.restart(np.zeros(2))

    def restart(self, twist: Array) -> None:
        """Drop all commands and start at a twist (2,)."""
        self._waiting.clear()
        self.twist, self._rate = np.array(twist, dtype=float), np.zeros(2)
        """(2,) m/s and rad/s, the present target of the wheels."""
        self._wanted = self.twist.copy()

    def command(self, twist: Array, time_s: float) -> None:
        """Add a twist (2,) within the limits of speed, commanded at ``time_s``."""
        self._waiting.append((time_s + self._delay_s, np.array(twist, dtype=float)))

    def step(self, begin_s: float, step_s: float) -> bool:
        """Advance the step that starts at ``begin_s``; return whether :attr:`twist` has changed."""
        while self._waiting and self._waiting[0][0] <= begin_s + 1e-9:
            self._wanted = self._waiting.popleft()[1]
        error = self._wanted - self.twist
        if not error.any() and not self._rate.any():
            return False
        distance = np.abs(error)
        half = 0.5 * self._jerk * step_s  # as a share of the change in one step
        rate = np.minimum(np.sqrt(2.0 * self._jerk * distance + half * half) - half, distance / step_s)
        rate = np.minimum(rate, self._most)
        change = self._jerk * step_s
        self._rate = np.clip(np.copysign(rate, error), self._rate - change, self._rate + change)
        self.twist = self.twist + self._rate * step_s
        if np.abs(self._wanted - self.twist).max() < _COME and np.abs(self._rate).max() * step_s < _COME:
            self.twist, self._rate = self._wanted.copy(), np.zeros(2)
        return True


def wheel_speeds(robot: WheeledBase, twist: Array) -> Array:
    """Return the joint targets (joints,) for a twist (2,), within the limits of base and joints.

    If a wheel would be too fast, all are slowed equally, so that the path stays the same. An Ackermann base cannot turn
    tighter than its steering allows; at rest, it only steers.
    """
    speed, turn = limited_twist(robot, twist).tolist()
    curvature = _curvature(robot, speed, turn)
    targets = np.zeros(len(robot.drives))
    fastest = 0.0
    for index, wheel, is_steering in _joints(robot):
        x, y = wheel.position_m[0] - robot.axle_m, wheel.position_m[1]
        if is_steering:
            assert robot.steering is not None
            limit = robot.steering.position_max_rad
            targets[index] = np.clip(math.atan2(curvature * x, 1.0 - curvature * y), -limit, limit)
        elif wheel.driven:
            if robot.drive == "differential":
                rolled = speed - turn * y * robot.track_scale
            elif wheel.steering:
                rolled = speed * math.hypot(1.0 - curvature * y, curvature * x)
            else:
                rolled = speed * (1.0 - curvature * y)
            targets[index] = rolled / wheel.radius_m
            fastest = max(fastest, abs(targets[index]))
    most = robot.wheel_drive.velocity_max_rad_s
    if fastest > most:
        rolling = [index for index, _, is_steering in _joints(robot) if not is_steering]
        targets[rolling] *= most / fastest
    return targets


def base_twist(robot: WheeledBase, joints: Array) -> Array:
    """Return the twist (2,) of measured joints (joints,), which wheel odometry integrates.

    It is the least-squares fit over the driven wheels, assuming no slip.
    """
    rows: list[tuple[float, float]] = []
    rolled: list[float] = []
    for index, wheel, is_steering in _joints(robot):
        if is_steering or not wheel.driven:
            continue
        x, y = wheel.position_m[0] - robot.axle_m, wheel.position_m[1]
        if robot.drive == "differential":
            rows.append((1.0, -y * robot.track_scale))
        else:
            # Speed of the wheel's centre along the wheel's direction.
            angle = joints[index - 1] if wheel.steering else 0.0
            rows.append((math.cos(angle), x * math.sin(angle) - y * math.cos(angle)))
        rolled.append(float(joints[index]) * wheel.radius_m)
    if robot.drive == "ackermann":
        # No wheel moves sideways: for each steered one, -sin (v - w y) + cos w x = 0.
        for index, wheel, is_steering in _joints(robot):
            if is_steering:
                x, y, angle = wheel.position_m[0] - robot.axle_m, wheel.position_m[1], float(joints[index])
                rows.append((-math.sin(angle), y * math.sin(angle) + x * math.cos(angle)))
                rolled.append(0.0)
    found: Array = np.linalg.lstsq(np.array(rows), np.array(rolled), rcond=None)[0]
    return found


def measured(robot: RobotSpec, position: Array, velocity: Array) -> Array:
    """Return each joint's velocity or position (joints,), whichever is commanded; 0 for a free joint."""
    chosen = [
        velocity[i] if joint.mode == "velocity" else position[i] if joint.mode == "position" else 0.0
        for i, joint in enumerate(robot.drives)
    ]
    return np.array(chosen, dtype=float)


def _joints(robot: WheeledBase) -> Iterator[tuple[int, Wheel, bool]]:
    """Yield index, wheel and whether it is the wheel's steering joint, in the order of ``robot.drives``."""
    index = 0
    for wheel in robot.wheels:
        if wheel.steering:
            yield index, wheel, True
            index += 1
        yield index, wheel, False
        index += 1


def _curvature(robot: WheeledBase, speed: float, turn: float) -> float:
    """Return the path curvature, 1/m, of an Ackermann base for a twist, as tight as the steering allows."""
    if robot.steering is None:
        return 0.0
    most = math.inf
    for wheel in robot.wheels:
        if wheel.steering:
            tangent = math.tan(robot.steering.position_max_rad)
            ahead, aside = abs(wheel.position_m[0] - robot.axle_m), abs(wheel.position_m[1])
            most = min(most, tangent / (ahead + aside * tangent))
    if turn == 0.0:
        return 0.0
    if abs(speed) < _STANDING_M_S:
        return math.copysign(most, turn)
    return min(max(turn / speed, -most), most)
