"""stable-baselines3's PPO on our hover task, in the environment of our own algorithms.

A minimal adapter: only the policy's observation (its PPO has no asymmetric critic), its own normalisation of
observations, and the settings of our PPO recipe where they exist.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from torch import Tensor

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.tasks.quadrotor.environment import QuadrotorEnvironment
from rlstack.training.algorithm import Actor
from rlstack.training.benchmarks.policy import held_out
from rlstack.training.export import PolicyGraph, TorchPolicy, make_contract
from rlstack.training.recipe import load_recipe

ENTROPY = 0.02
"""Initial weight of the entropy bonus: without one it gets stuck at a policy that drifts away slowly (seed 0)."""


class TaskVecEnv(VecEnv):  # type: ignore[misc]
    """A training environment as stable-baselines3's VecEnv: numpy in and out, one info dictionary per robot."""

    def __init__(self, environment: QuadrotorEnvironment) -> None:
        self.environment = environment
        size, actions = environment.pipeline.size, environment.pipeline.action_size
        super().__init__(
            environment.count,
            spaces.Box(-np.inf, np.inf, (size,), np.float32),
            spaces.Box(-1.0, 1.0, (actions,), np.float32),
        )
        self.seen = np.zeros((environment.count, size), np.float32)

    def reset(self) -> Any:
        """Return the first observations."""
        self.seen = self.environment.observe()[0].numpy().copy()
        return self.seen

    def step_async(self, actions: Any) -> None:
        """Keep the actions."""
        self.actions = torch.from_numpy(np.asarray(actions, np.float32))

    def step_wait(self) -> Any:
        """Step; time-outs are bootstrapped from the observation before them, as in our own PPO."""
        with torch.inference_mode():
            found = self.environment.step(self.actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for k in found.timed_out.nonzero().squeeze(-1).tolist():
            infos[k] = {"TimeLimit.truncated": True, "terminal_observation": self.seen[k]}
        for k in (found.done & ~found.timed_out).nonzero().squeeze(-1).tolist():
            infos[k] = {"terminal_observation": self.seen[k]}
        self.seen = found.actor.numpy().copy()
        return self.seen, found.reward.numpy().copy(), found.done.numpy().copy(), infos

    def close(self) -> None:
        """No-op."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute once for each robot."""
        return [getattr(self, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute for all."""
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Single robots have no methods."""
        return [None] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for each robot."""
        return [False] * self.num_envs


class Budget(BaseCallback):  # type: ignore[misc]
    """Stops learning after a CPU-time budget, and adapts the learning rate to the recipe's target divergence.

    rsl_rl adapts it after each minibatch; here it is once per iteration. The entropy bonus decays linearly to 0.
    """

    def __init__(self, cpu_s: float, settings: Any) -> None:
        super().__init__()
        self.cpu_s, self.settings, self.rate = cpu_s, settings, settings.learning_rate
        self.begin, self.over = time.process_time(), False

    def _on_rollout_start(self) -> None:
        done = (time.process_time() - self.begin) / self.cpu_s
        self.over = done >= 1.0
        self.model.ent_coef = ENTROPY * max(0.0, 1.0 - done)
        found = self.model.logger.name_to_value.get("train/approx_kl")
        if found is not None:
            wanted = self.settings.target_kl + (self.settings.final_kl - self.settings.target_kl) * min(done, 1.0)
            change = 1.5 if found < 0.5 * wanted else 1.0 / 1.5 if found > 2.0 * wanted else 1.0
            self.rate = min(max(self.rate * change, 1e-5), 1e-2)

    def _on_step(self) -> bool:
        return not self.over


class Learned(Actor):
    """Its policy and normalisation as an actor, for the same evaluation."""

    def __init__(self, policy: Any, mean: Any, variance: Any, clip: float) -> None:
        super().__init__()
        self.policy, self.clip = policy, clip
        self.mean = torch.as_tensor(mean, dtype=torch.float32)
        self.scale = torch.as_tensor(np.sqrt(variance + 1e-8), dtype=torch.float32)

    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean action."""
        normal = ((observation - self.mean) / self.scale).clamp(-self.clip, self.clip)
        return self.policy.get_distribution(normal).mode(), {}


def measure(recipe: str, budget_cpu_s: float, episodes: int, seed: int, envs: int | None = None) -> dict[str, Any]:
    """Return ``samples``, ``cpu_s``, ``samples_per_cpu_second`` and the policy's figures on held-out starts.

    Args:
        recipe: Our PPO recipe, for its task and settings.
        budget_cpu_s: CPU-seconds of learning.
        episodes: Number of held-out starts.
        seed: Seed of everything random.
        envs: Robots in parallel; None: the recipe's.
    """
    torch.set_num_threads(1)
    chosen = load_recipe(recipe)
    task, robot, settings = chosen.task_settings, load_quadrotor(chosen.robot), chosen.algorithm_settings
    count = envs or chosen.envs
    pipeline = task.pipeline(robot)
    environment = VecNormalize(
        TaskVecEnv(QuadrotorEnvironment(task, robot, pipeline, count, seed=seed)), norm_reward=False
    )
    budget = Budget(budget_cpu_s, settings)
    model = PPO(
        "MlpPolicy",
        environment,
        learning_rate=lambda _: budget.rate,
        n_steps=settings.rollout,
        batch_size=settings.rollout * count // settings.minibatches,
        n_epochs=settings.epochs,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        clip_range=settings.clip,
        ent_coef=ENTROPY,
        vf_coef=1.0,  # as in rsl_rl
        max_grad_norm=settings.max_gradient_norm,
        policy_kwargs={
            "net_arch": {"pi": list(settings.hidden), "vf": list(settings.critic_hidden)},
            "activation_fn": torch.nn.ReLU,
            "log_std_init": math.log(settings.initial_std),
        },
        seed=seed,
        device="cpu",
    )
    first = pipeline.resting_action if settings.initial_action is None else settings.initial_action
    with torch.no_grad():
        model.policy.action_net.bias.fill_(first)
    budget.begin = time.process_time()
    model.learn(total_timesteps=10**12, callback=budget)
    took = time.process_time() - budget.begin
    mean = environment.obs_rms
    actor = Learned(model.policy, mean.mean, mean.var, environment.clip_obs)
    graph = PolicyGraph(pipeline, actor, task.inputs)
    contract = make_contract("stable-baselines3", chosen.task, task, robot, graph)
    flown = held_out(TorchPolicy(graph, contract, robot), task, robot, episodes)
    return {
        "samples": int(model.num_timesteps),
        "cpu_s": took,
        "samples_per_cpu_second": model.num_timesteps / took,
        "held_out": flown,
    }
