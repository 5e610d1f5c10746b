#!/usr/bin/env python3
"""Train any robot's task with stable-baselines3's PPO, and compare the policy with random actions.

    python examples/03_train_with_stable_baselines3.py [quadrotor_hover] [--seconds 60] [--backend batch]

Try quadrotor_hover, base_navigation or arm_reach. It needs `pip install 'rlstack[gym]' 'stable-baselines3>=2.4'`.
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

from rlstack.environments import environment_id  # importing it registers all tasks
from rlstack.environments.stable_baselines3 import TaskVecEnv

ROBOTS = 64
HOVER_M = 0.2
FIRST_ACTION = {"quadrotor_hover": 0.3}
"""Initial mean of every action if not the middle of the range: near the hover thrust."""


class Until(BaseCallback):
    """Stops training after a time budget; the entropy bonus decays linearly to zero."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def _on_training_start(self) -> None:
        self.begin = time.monotonic()

    def _on_rollout_start(self) -> None:
        self.model.ent_coef = 0.02 * max(0.0, 1.0 - (time.monotonic() - self.begin) / self.seconds)

    def _on_step(self) -> bool:
        return time.monotonic() - self.begin < self.seconds


def learn(task: str, seconds: float, robots: int = ROBOTS, seed: int = 0, steps: int = 10**9, **settings: Any) -> Any:
    """Return the model after a budget of seconds or steps, and the environment with its observation statistics."""
    torch.set_num_threads(1)
    made = gymnasium.make_vec(environment_id(task), num_envs=robots, **settings)
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
    with torch.no_grad():
        model.policy.action_net.bias.fill_(FIRST_ACTION.get(task, 0.0))
    model.learn(total_timesteps=steps, callback=Until(seconds))
    return model, environment


def evaluate(task: str, act: Any, episodes: int, seed: int = 1000, **settings: Any) -> dict[str, float]:
    """Return the mean return, and the shares of episodes that timed out and that succeeded.

    The task defines success; quadrotor_hover does not, so there it is being within :data:`HOVER_M` at the end.

    Args:
        task: The task's name.
        act: From observations (robots, columns) to actions (robots, actions).
        episodes: Number of episodes.
        seed: Seed of the episodes.
        settings: Settings of the environment.
    """
    made = gymnasium.make_vec(environment_id(task), num_envs=min(episodes, 100), **settings)
    seen, _ = made.reset(seed=seed)
    earned, earnings, in_time, won = np.zeros(made.num_envs), [], [], []
    while len(earnings) < episodes:
        seen, reward, terminated, truncated, info = made.step(act(seen))
        earned += reward
        ended = terminated | truncated
        earnings += earned[ended].tolist()
        in_time += truncated[ended].tolist()
        for k in np.flatnonzero(ended):
            if task == "quadrotor_hover":  # the observation begins with the goal minus the position
                won.append(truncated[k] and np.linalg.norm(info["final_obs"][k][:3]) < HOVER_M)
            elif "is_success" in info["final_info"]:
                won.append(info["final_info"]["is_success"][k])
        earned[ended] = 0.0
    made.close()
    shares = {"return": earnings, "timed_out": in_time, "success": won}
    return {name: float(np.mean(values[:episodes])) for name, values in shares.items() if values}


def main() -> None:
    """Learn, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", default="quadrotor_hover")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--backend", default="batch", help="batch; for quadrotors also mujoco or pybullet")
    parser.add_argument("--episodes", type=int, default=200)
    options = parser.parse_args()
    begin = time.monotonic()
    model, environment = learn(options.task, options.seconds, backend=options.backend)
    took = time.monotonic() - begin
    print(f"{model.num_timesteps} steps in {took:.0f} s ({model.num_timesteps / took:.0f} a second)")
    random = np.random.default_rng(0)
    policies = {
        "random": lambda seen: random.uniform(-1.0, 1.0, (len(seen), *environment.action_space.shape)),
        "learned": lambda seen: model.predict(environment.normalize_obs(seen), deterministic=True)[0],
    }
    for name, act in policies.items():
        found = evaluate(options.task, act, options.episodes, backend=options.backend)
        shares = ", ".join(f"{share} {100 * found[share]:.1f}%" for share in ("timed_out", "success") if share in found)
        print(f"{name}: return {found['return']:.2f}, {shares}, of {options.episodes} episodes")
    environment.close()


if __name__ == "__main__":
    main()
