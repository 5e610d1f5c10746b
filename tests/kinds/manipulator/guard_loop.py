"""An arm that follows its targets, and the guard between it and a policy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rlstack.guard import CommonMode, Decision
from rlstack.kinds.manipulator.guard import ManipulatorGuard
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot

Array = NDArray[np.float64]


def panda() -> Manipulator:
    robot = load_robot("panda")
    assert isinstance(robot, Manipulator)
    return robot


class Following:
    """Runs period by period: joint states, policy, tick, motion; the joints come to their targets with a lag of 60 ms.

    Args:
        guard: The guard.
        position: (joints,) at first; None: at rest.
        every: Periods of the guard in one of the policy, which says the same in between.
    """

    def __init__(self, guard: ManipulatorGuard, position: Array | None = None, every: int = 1) -> None:
        self.guard, self.every = guard, every
        self.period_s = guard.config.period_s
        rest = np.array([drive.rest for drive in guard.robot.drives])
        self.position = rest.copy() if position is None else np.array(position, dtype=float)
        self.velocity = np.zeros_like(self.position)
        self.target = self.position.copy()
        self.periods = 0
        self.decisions: list[Decision] = []
        self.sent: list[Array] = []
        self.mute = False

    @property
    def time_s(self) -> float:
        return self.periods * self.period_s

    @property
    def seen(self) -> dict[str, Array]:
        return {"joint_position": self.position.copy(), "joint_velocity": self.velocity.copy()}

    def arm(self) -> None:
        self.guard.on_observation(self.time_s, self.time_s, self.seen)
        armed, why = self.guard.arm(self.time_s)
        assert armed, why

    def run(self, seconds: float, policy: Callable[[dict[str, Array]], object] | None) -> None:
        """Let time pass under a policy; None: it is silent."""
        command: object = None
        for k in range(round(seconds / self.period_s)):
            self.periods += 1
            answers = []
            if not self.mute:
                answers.append(self.guard.on_observation(self.time_s, self.time_s, self.seen))
            if policy is not None:
                command = policy(self.seen) if k % self.every == 0 else command
                answers.append(self.guard.on_policy_command(self.time_s, self.time_s, command))  # type: ignore[arg-type]
            answers.append(self.guard.on_tick(self.time_s))
            for answer in answers:
                self.decisions.append(answer)
                if answer.command is not None and answer.mode not in (CommonMode.DISARMED, CommonMode.ESTOP):
                    self.target = np.array(answer.command)
                    self.sent.append(self.target)
            change = (self.target - self.position) * (1.0 - np.exp(-self.period_s / 0.06))
            self.position, self.velocity = self.position + change, change / self.period_s
