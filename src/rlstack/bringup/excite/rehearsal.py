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
from rlstack.interfaces.signals import signal_named
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
        self._signals = find_kind(self._robot.kind).load("identification").signals
        self._flown = SimulatedRobot(Simulation(MujocoEngine, [self._robot]), noise_seed=seed)
        self._flown.connect()
        inputs = [port.name for port in self._policy.contract.inputs]
        if unknown := [name for name in inputs if name not in (*GOALS, *self._flown.sensed)]:
            raise UserError(
                f"{policy} needs {', '.join(unknown)}, and a rehearsal has the robot's measurements and a goal: name a"
                " policy that goes to goals."
            )
        self._inputs = [name for name in inputs if name not in GOALS]

    def run(self, steps: Sequence[GoalStep], seconds: float) -> Recorded | None:
        """Return what a recording of ``seconds`` would have; None: it went beyond what is safe."""
        flown, period_s = self._flown, 1.0 / self._policy.contract.rate_hz
        self._policy.reset()
        flown.reset(self._deployment.rehearsal_start())
        rows: list[dict[str, np.ndarray]] = []
        ahead = list(steps)
        for k in range(round(seconds / period_s)):
            while ahead and ahead[0].at_s <= k * period_s:
                goal = ahead.pop(0)
            read = flown.read().signals
            if not self._deployment.is_safe(read):
                return None
            aim = {"goal_position": np.array(goal.position), "goal_orientation": from_yaw(goal.yaw)}
            sent = self._policy.step({**{name: read[name] for name in self._inputs}, **aim})
            rows.append({name: {**read, **sent}[name] for name in self._signals if name in read or name in sent})
            flown.write(sent)
            flown.step(period_s)
        return _recorded(rows, period_s)

    def close(self) -> None:
        """Close the simulation."""
        self._flown.close()


def _recorded(rows: Sequence[dict[str, np.ndarray]], period_s: float) -> Recorded:
    at_s: Array = np.asarray(period_s * np.arange(len(rows)))
    topics: dict[str, dict[str, np.ndarray]] = {}
    for name in rows[0]:
        topics.setdefault(signal_named(name).topic, {})[name] = np.array([row[name] for row in rows])
    return Recorded(Path("rehearsal"), {topic: Track(topic, at_s, values) for topic, values in topics.items()})
