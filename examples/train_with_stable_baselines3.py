#!/usr/bin/env python3
"""Learn to hover with stable-baselines3's PPO, and say how often what it has learned succeeds.

    python examples/train_with_stable_baselines3.py [--seconds 60] [--backend batch] [--episodes 200]

It needs `pip install 'rlstack[gym]' 'stable-baselines3>=2.4'`.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecNormalize

import rlstack.environments  # noqa: F401  registers rlstack/QuadrotorHover-v0
from rlstack.environments.stable_baselines3 import TaskVecEnv

HOVER = "rlstack/QuadrotorHover-v0"
ROBOTS = 64
SUCCESS_M = 0.2
"""An episode succeeds that ends within this of the goal."""


class Until(BaseCallback):
    """Ends learning after so many seconds; the entropy bonus falls to nothing in a line."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def _on_training_start(self) -> None:
        self.begin = time.monotonic()

    def _on_rollout_start(self) -> None:
        self.model.ent_coef = 0.02 * max(0.0, 1.0 - (time.monotonic() - self.begin) / self.seconds)

    def _on_step(self) -> bool:
        return time.monotonic() - self.begin < self.seconds


def learn(
    seconds: float, backend: str = "batch", robots: int = ROBOTS, seed: int = 0, steps: int = 10**9
) -> tuple[Any, Any]:
    """Return the model after so many seconds or steps, and the environment with its statistics of observations."""
    torch.set_num_threads(1)
    made = gymnasium.make_vec(HOVER, num_envs=robots, backend=backend)
    environment = VecNormalize(TaskVecEnv(made), norm_reward=False)
    model = PPO(
        "MlpPolicy",
        environment,
        learning_rate=1e-3,
        n_steps=64,
        batch_size=1024,
        n_epochs=4,
        gamma=0.98,
        gae_lambda=0.95,
        policy_kwargs={"net_arch": [64, 64], "activation_fn": torch.nn.ReLU, "log_std_init": -1.0},
        seed=seed,
        device="cpu",
        verbose=0,
    )
    with torch.no_grad():  # begin near what holds the robot up, which is not the middle of the range
        model.policy.action_net.bias.fill_(0.3)
    model.learn(total_timesteps=steps, callback=Until(seconds))
    return model, environment


def evaluate(model: Any, environment: Any, episodes: int, backend: str = "batch", seed: int = 1000) -> dict[str, float]:
    """Return the share of episodes that succeed and that are lost, and the median distance at the end, m."""
    count = min(episodes, 100)
    made = gymnasium.make_vec(HOVER, num_envs=count, backend=backend)
    seen, _ = made.reset(seed=seed)
    lost, errors = [], []
    while len(lost) < episodes:
        action, _ = model.predict(environment.normalize_obs(seen), deterministic=True)
        seen, _, terminated, truncated, info = made.step(action)
        for k in np.flatnonzero(terminated | truncated):
            lost.append(bool(terminated[k]))
            # the observation begins with the goal minus the position
            errors.append(float(np.linalg.norm(info["final_obs"][k][:3])))
    made.close()
    ended = np.array(lost[:episodes]), np.array(errors[:episodes])
    success = ~ended[0] & (ended[1] < SUCCESS_M)
    return {
        "success": float(success.mean()),
        "lost": float(ended[0].mean()),
        "error_m": float(np.median(ended[1])),
    }


def main() -> None:
    """Learn, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--backend", default="batch", help="batch, mujoco or pybullet")
    parser.add_argument("--episodes", type=int, default=200)
    options = parser.parse_args()
    begin = time.monotonic()
    model, environment = learn(options.seconds, options.backend)
    took = time.monotonic() - begin
    print(f"{model.num_timesteps} steps in {took:.0f} s ({model.num_timesteps / took:.0f} a second)")
    found = evaluate(model, environment, options.episodes, options.backend)
    environment.close()
    print(
        f"success {100 * found['success']:.1f}%, lost {100 * found['lost']:.1f}%, median distance at the end"
        f" {found['error_m']:.3f} m, of {options.episodes} episodes"
    )


if __name__ == "__main__":
    main()
