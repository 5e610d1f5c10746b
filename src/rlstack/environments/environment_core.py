"""Common core of all Gymnasium environments: N robots in a task's episodes, as arrays, in any simulator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from gymnasium import spaces
from numpy.typing import ArrayLike

from rlstack.arrays import Array32, Index, Mask
from rlstack.errors import UserError

POLICY, SIGNALS, GOAL = OBSERVATIONS = ("policy", "signals", "goal")
"""Kind of observation: the policy network's; the policy's inputs by name; the first as a goal dictionary."""


class EnvironmentCore(ABC):
    """N robots. Its arrays hold the results of :meth:`begin` and :meth:`step` until the next call."""

    task: Any
    """The task's configuration."""
    count: int
    """N."""
    goals: bool = False
    """Whether observations have goals; then it has ``compute_reward(achieved_goal, desired_goal, info)``."""
    renders: bool = False
    """Whether :meth:`render` is available."""
    action_space: spaces.Box
    """Space of one robot."""
    observation_space: spaces.Space
    """Space of one robot."""
    reward: Array32
    """(N,) reward of the last step."""
    terms: dict[str, Array32]
    """(N,) weighted reward terms of the last step, by name."""
    terminated: Mask
    """(N,) whether the last step terminated the episode, by failure or success."""
    truncated: Mask
    """(N,) whether the episode timed out without termination."""
    success: Mask | None = None
    """(N,) whether the task is done; None if the task does not report it."""

    @abstractmethod
    def seed(self, seeds: Sequence[int]) -> None:
        """Seed all random draws, with N seeds."""

    @abstractmethod
    def begin(self, index: Index, state: Mapping[str, ArrayLike] | None = None, *, after_step: bool = False) -> None:
        """Start the next episodes of some robots.

        Args:
            index: Indices of the robots.
            state: Start state instead of a random one, (width,) or (robots, width) by name.
            after_step: Whether a step came just before, which drew the noise.

        Raises:
            UserError: The state is not allowed, or the task does not accept one.
        """

    @abstractmethod
    def step(self, actions: ArrayLike) -> None:
        """Advance one control period with actions (N, actions), which are clipped to -1..1.

        Raises:
            ValueError: An action is not finite, or the shape is wrong.
        """

    @abstractmethod
    def observation(self) -> Any:
        """Return a copy of the observation: (N, columns), or arrays (N, ...) by name."""

    def render(self) -> Any:
        """Return the image (height, width, 3) uint8 of a camera that follows the first robot.

        Raises:
            UserError: This simulator has no renderer.
        """
        raise UserError("Training simulators do not render images.")

    @abstractmethod
    def close(self) -> None:
        """Release the simulator."""
