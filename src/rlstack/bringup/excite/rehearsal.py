"""A policy's flight to goals that step, rehearsed in MuJoCo: what a recording of it would have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rlstack.arrays import Array
from rlstack.bringup.goal_steps import GoalStep
from rlstack.bringup.kind_deployment import KindDeployment
from rlstack.errors import UserError
from rlstack.identification.recorded import Recorded, Track
from rlstack.interfaces.scan_messages import finite_ranges
from rlstack.interfaces.signals import COMMANDED, signal_named
from rlstack.kinds import find_kind
from rlstack.policies import load_policy
from rlstack.robots.frames import from_yaw
from rlstack.sim.backends.mujoco import MujocoEngine
from rlstack.sim.simulated_robot import SimulatedRobot
from rlstack.sim.simulation import Simulation

GOALS = ("goal_position", "goal_orientation")


class Rehearsal:
    """Rehearses a policy's motions on a robot file's model, with the file's sensor noise.

    Args:
        deployment: The robot's kind of deployment.
        policy: The policy file.
        seed: Of the noise.

    Raises:
        UserError: The policy does not fit the robot, or needs more than its measurements and a goal.
    """

    def __init__(self, deployment: KindDeployment, policy: Path, seed: int) -> None:
        self._deployment, self._robot = deployment, deployment.robot
        self._policy = load_policy(policy, robot=self._robot)
        kind = find_kind(self._robot.kind).load("identification")
        self._commands = set(kind.signals) & set(COMMANDED)
        self._measured = set(kind.signals) - self._commands
        topic = signal_named(kind.signals[0]).topic
        self._rate_hz = self._robot.sensors[topic].rate_hz if topic in self._robot.sensors else 0.0
        self._flown = SimulatedRobot(Simulation(MujocoEngine, [self._robot]), noise_seed=seed)
        self._flown.connect()
        inputs = [port.name for port in self._policy.contract.inputs]
        scans = {"scan"} & set(self._robot.lidars)
        if unknown := [name for name in inputs if name not in (*GOALS, *self._flown.sensed, *scans)]:
            raise UserError(
                f"{policy} needs {', '.join(unknown)}, and a rehearsal has the robot's measurements and a goal: name a"
                " policy that goes to goals."
            )
        self._inputs = inputs

    def run(self, steps: Sequence[GoalStep], seconds: float) -> Recorded | None:
        """Return what a recording of ``seconds`` would have; None: it went beyond what is safe."""
        flown, period_s = self._flown, 1.0 / self._policy.contract.rate_hz
        readings = max(round(self._rate_hz * period_s), 1)  # in a period of the policy
        self._policy.reset()
        flown.reset(self._deployment.rehearsal_start())
        seen: list[dict[str, np.ndarray]] = []
        sent: list[dict[str, np.ndarray]] = []
        ahead = list(steps)
        for k in range(round(seconds / period_s)):
            while ahead and ahead[0].at_s <= k * period_s:
                goal = ahead.pop(0)
            for part in range(readings):
                read = dict(flown.read().signals)
                if not self._deployment.is_safe(read):
                    return None
                seen.append({name: read[name] for name in self._measured if name in read})
                if part == 0:
                    read |= {"goal_position": np.array(goal.position), "goal_orientation": from_yaw(goal.yaw)}
                    if "scan" in self._inputs:
                        read["scan"] = self._scan()
                    command = self._policy.step({name: read[name] for name in self._inputs})
                    sent.append({name: command[name] for name in self._commands if name in command})
                    flown.write(command)
                flown.step(period_s / readings)
        tracks = _tracks(seen, period_s / readings) | _tracks(sent, period_s)
        return Recorded(Path("rehearsal"), tracks)

    def _scan(self) -> Array:
        """Return the scan, as a policy senses it."""
        lidar = self._robot.lidars["scan"]
        around = lidar.angle_increment_rad * lidar.rays > 2.0 * np.pi - 1e-3
        limits = {"range_min_m": lidar.range_min_m, "range_max_m": lidar.range_max_m}
        ranges = self._flown.capture("scan").arrays["ranges"]
        return finite_ranges(ranges, increment_rad=lidar.angle_increment_rad, turns=around, **limits)

    def close(self) -> None:
        """Close the simulation."""
        self._flown.close()


def _tracks(rows: Sequence[dict[str, np.ndarray]], period_s: float) -> dict[str, Track]:
    """Return the rows' signals by topic."""
    at_s: Array = np.asarray(period_s * np.arange(len(rows)))
    found: dict[str, dict[str, np.ndarray]] = {}
    for name in rows[0]:
        found.setdefault(signal_named(name).topic, {})[name] = np.array([row[name] for row in rows])
    return {topic: Track(topic, at_s, values) for topic, values in found.items()}
