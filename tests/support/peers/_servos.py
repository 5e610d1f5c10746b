"""Servos of an arm as their bus shows them, whatever its protocol: where they are and how they move."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces.backend import BACKENDS
from rlstack.kinds.manipulator.spec import Manipulator
from tests.support.peers._terminal import TerminalPeer

TURN = 4096
STEP_S = 0.004

Move = Callable[[list[float], list[bool], float], list[tuple[float, float]]]
"""Goals (ticks), torques and a time (s) to each servo's position (ticks) and speed (ticks/s)."""


class ServoArmPeer(TerminalPeer):
    """An arm of servos on one bus; a subclass has the servos and their protocol. ``baud`` as for its base."""

    robot: Manipulator
    servos: list[Any]
    calibration: Path

    @property
    def uri(self) -> str:
        return f"serial://{self.port}?calibration={self.calibration}&answer_ms=30"

    @property
    def powered(self) -> bool:
        return any(servo.torque for servo in self.servos)

    def rest(self) -> dict[str, Array]:
        middle = [0.5 * (joint.lower + joint.upper) for joint in self.robot.drives]
        return {"joint_target": np.array(middle)}


class Lag:
    """Servos that follow their goals with a time constant, no faster than they can; without torque they stay."""

    def __init__(self, at: list[float], constant_s: float = 0.05, fastest: float = 3000.0) -> None:
        self.at, self._constant_s, self._fastest = list(at), constant_s, fastest

    def __call__(self, goals: list[float], torques: list[bool], passed_s: float) -> list[tuple[float, float]]:
        found = []
        for k, (goal, torque) in enumerate(zip(goals, torques)):
            share = 1.0 - math.exp(-passed_s / self._constant_s)
            step = (goal - self.at[k]) * share if torque else 0.0
            most = self._fastest * passed_s
            step = min(max(step, -most), most)
            self.at[k] += step
            found.append((self.at[k], step / passed_s if passed_s > 0.0 else 0.0))
        return found


def ranges(robot: Manipulator) -> list[tuple[int, int]]:
    """Return the ticks at the ends of each joint, with the middle at 2047 as LeRobot places it."""
    found = []
    for joint in robot.drives:
        half = 0.5 * (joint.upper - joint.lower) * TURN / (2.0 * math.pi)
        found.append((max(round(2047 - half), 0), min(round(2047 + half), TURN - 1)))
    return found


def calibration(robot: Manipulator, offsets: list[int], path: Path) -> Path:
    """Write the file that LeRobot writes for such an arm."""
    file = {
        joint.name: {"id": k + 1, "drive_mode": 0, "homing_offset": offset, "range_min": low, "range_max": high}
        for k, (joint, offset, (low, high)) in enumerate(zip(robot.drives, offsets, ranges(robot)))
    }
    path.write_text(json.dumps(file, indent=4))
    return path


class Weighing:
    """Servos that move an arm with its weight: the robot file's arm in MuJoCo, in the time that passes.

    Args:
        robot: The arm.
    """

    def __init__(self, robot: Manipulator) -> None:
        self._arm: Any = BACKENDS.load("mujoco")(robot)
        self._arm.connect()
        self._arm.reset({"joint_position": np.array([joint.rest for joint in robot.drives])})
        self._middle = np.array([0.5 * (joint.lower + joint.upper) for joint in robot.drives])
        self._ticks = np.array([0.5 * (low + high) for low, high in ranges(robot)])
        self._joints = self._arm.read().signals["joint_position"]
        self._left_s = 0.0

    def __call__(self, goals: list[float], torques: list[bool], passed_s: float) -> list[tuple[float, float]]:
        wanted = self._middle + (np.array(goals) - self._ticks) * 2.0 * math.pi / TURN
        self._arm.write({"joint_target": np.where(torques, wanted, self._joints)})
        self._left_s = min(self._left_s + passed_s, 0.2)  # a machine that was asleep makes no leap
        while self._left_s >= STEP_S:
            self._arm.step(STEP_S)
            self._left_s -= STEP_S
        signals = self._arm.read().signals
        self._joints = signals["joint_position"]
        ticks = self._ticks + (self._joints - self._middle) * TURN / (2.0 * math.pi)
        return list(zip(ticks.tolist(), (signals["joint_velocity"] * TURN / (2.0 * math.pi)).tolist()))
