"""gym-hil's Panda pick task for rlstack's algorithms: what is seen and done, and a script that knows how.

The environment is `gym_hil/PandaPickCubeBase-v0` (PyPI gym-hil 0.1.14) as it is, state observations and sparse reward:
1 in the step in which the block is 0.1 m higher than it lay, which ends the episode; so does a block outside its area.
10 Hz, 100 steps. Around it are gym-hil's own wrapper of actions (x, y, z, at most 2.5 cm a step each, and the gripper),
and one that scales what is seen and seeds the place of the block, which gym-hil draws from NumPy's global generator.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("MUJOCO_GL", "egl")  # the environment makes a renderer, whether it is used or not

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlstack.tasks.gymnasium_learning_environment import (
    GymnasiumLearningEnvironment,
    ScriptedGymnasiumLearningEnvironment,
)

ENVIRONMENT = "gym_hil/PandaPickCubeBase-v0"
RATE_HZ = 10.0
STEP_M = 0.025
"""How far the tool's target goes in a step at most, along each axis: gym-hil's DEFAULT_EE_STEP_SIZE."""

_MIDDLE_M = (0.4, 0.0, 0.1)
"""What places are seen from: the middle of where blocks lie, 0.1 m above the floor."""
_HOME_RAD = (0.0, 0.195, 0.0, -2.43, 0.0, 2.62, 0.785)
_CLOSED = 255.0
"""What gym-hil says of the gripper when it was told to close."""

GRIPPER, TOOL, BLOCK, AWAY = 14, slice(15, 18), slice(18, 21), slice(21, 24)
"""Columns of what is seen: 7 joints' positions and speeds, what the gripper was told, tool, block, block from tool."""

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class GymHilPick:
    """The task, as a recipe names it; it has no settings."""

    differentiable = False


class Seen(gymnasium.ObservationWrapper):
    """All that gym-hil's state says, about 1 in size, and the block's place from the tool."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (24,), np.float64)

    def observation(self, observation: Any) -> Array:
        """Return (24,): joints rad and rad/s, gripper -1 open to 1 closed, places in decimetres from the middle.

        The block from the tool is in half decimetres.
        """
        arm, block = (np.asarray(observation[name], np.float64) for name in ("agent_pos", "environment_state"))
        joints, speeds, gripper, tool = arm[:7] - _HOME_RAD, arm[7:14], arm[14:15], arm[15:18]
        places = 10.0 * np.concatenate([tool - _MIDDLE_M, block - _MIDDLE_M, 2.0 * (block - tool)])
        return np.concatenate([joints, speeds, 2.0 * gripper / _CLOSED - 1.0, places])


class Seeded(gymnasium.Wrapper):
    """Lets the seed of a reset decide where the block lies, and leaves NumPy's global generator as it was."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start anew; without a seed, as gym-hil does."""
        if seed is None:
            return self.env.reset(options=options)
        before = np.random.get_state()  # noqa: NPY002 - it is gym-hil that draws from it
        np.random.seed(seed)  # noqa: NPY002
        try:
            return self.env.reset(seed=seed, options=options)
        finally:
            np.random.set_state(before)  # noqa: NPY002


def made() -> Any:
    """Return one of gym-hil's environments with the wrappers that the module names."""
    import gym_hil
    from gym_hil.wrappers.hil_wrappers import DEFAULT_EE_STEP_SIZE, EEActionWrapper

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of casts to float32
        environment = gymnasium.make(ENVIRONMENT, random_block_position=True, disable_env_checker=True)
        environment = EEActionWrapper(environment, DEFAULT_EE_STEP_SIZE, use_gripper=True)
    assert gym_hil is not None
    return Seen(Seeded(environment))


def environment(count: int, seed: int, shared: Sequence[Any] = ()) -> ScriptedGymnasiumLearningEnvironment:
    """Return N of them for rlstack's algorithms.

    Args:
        count: N.
        seed: Of where blocks lie.
        shared: Environments to take instead of new ones.
    """
    each = list(shared) or [made() for _ in range(count)]
    return ScriptedGymnasiumLearningEnvironment(each, expert, rate_hz=RATE_HZ, success="succeed", seed=seed)


ABOVE_M, NEAR_M, DEEP_M, HELD_STEPS = 0.05, 0.012, 0.004, 3
"""Of the script: how high over the block it comes, how near is over it, how near is around it."""


def expert(environment: Any, seen: Array) -> Array:
    """Return what to do (4,) in -1..1: over the block, down, close, up. It sees what a policy sees, and no more."""
    away = seen[AWAY] / 20.0
    side, drop = away[:2], away[2]
    aside = float(np.linalg.norm(side))
    grip, closed = 1.0, seen[GRIPPER] > 0.9
    move = np.zeros(3)
    move[:2] = side
    if closed and aside < 2.0 * NEAR_M and abs(drop) < 2.5 * NEAR_M:
        move = np.array([0.0, 0.0, STEP_M])
    elif aside > NEAR_M:
        move[2], grip = drop + ABOVE_M, -1.0
    elif abs(drop) > NEAR_M:
        move[2], grip = drop, -1.0
    return np.array([*np.clip(move / STEP_M, -1.0, 1.0), grip])


__all__ = ["ENVIRONMENT", "GymHilPick", "GymnasiumLearningEnvironment", "environment", "expert", "made"]
