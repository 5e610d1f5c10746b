"""N robots at a task's episodes, as arrays: what every environment is made of, whatever simulates the robots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from gymnasium import spaces
from numpy.typing import ArrayLike

from rlstack.arrays import Array32, Index, Mask
from rlstack.errors import UserError

BATCH = "batch"
"""The simulator that the task is learned in."""

POLICY, SIGNALS, GOAL = OBSERVATIONS = ("policy", "signals", "goal")
"""What an environment shows: what the policy's network sees; the policy's inputs by name; the first with its goals."""


class EnvironmentCore(ABC):
    """N robots. What :meth:`begin` and :meth:`step` led to is in its arrays until the next call."""

    task: Any
    """Its configuration."""
    count: int
    """N."""
    goals: bool = False
    """Whether it shows goals; then it has ``compute_reward(achieved_goal, desired_goal, info)``."""
    renders: bool = False
    """Whether :meth:`picture` can give one."""
    action_space: spaces.Box
    """Of one robot."""
    observation_space: spaces.Space
    """Of one robot."""
    reward: Array32
    """(N,) of the last step."""
    terms: dict[str, Array32]
    """(N,) of the last step: the reward's weighted terms by name."""
    terminated: Mask
    """(N,) whose episode the last step ended, by loss or by success."""
    truncated: Mask
    """(N,) whose time is over, of the others."""
    success: Mask | None = None
    """(N,) who has done the task; None where a step does not say."""

    @abstractmethod
    def seed(self, seeds: Sequence[int]) -> None:
        """Seed everything that is drawn; N seeds."""

    @abstractmethod
    def begin(self, index: Index, state: Mapping[str, ArrayLike] | None = None, *, after_step: bool = False) -> None:
        """Start the next episodes of some robots.

        Args:
            index: Which robots.
            state: Where they start instead of where the task draws it, (width,) or (robots, width) by name.
            after_step: Whether a step came just before, which has drawn the noise.

        Raises:
            UserError: The state is not allowed, or the task does not take one.
        """

    @abstractmethod
    def step(self, actions: ArrayLike) -> None:
        """Let one control period pass under actions (N, actions), which are clipped to -1..1.

        Raises:
            ValueError: An action is not finite, or the shape is wrong.
        """

    @abstractmethod
    def observation(self) -> Any:
        """Return a copy of what is seen now: (N, columns), or arrays (N, ...) by name."""

    def picture(self) -> Any:
        """Return what a camera that follows the first robot sees, (height, width, 3) uint8.

        Raises:
            UserError: Nothing draws this simulator.
        """
        raise UserError("The simulator that a task is learned in draws no pictures.")

    @abstractmethod
    def close(self) -> None:
        """Release the simulator."""
