"""stable-baselines3's SAC with its hindsight on a recipe's task, for arm_learning.py: same worlds, same observation."""

from __future__ import annotations

import json
import pickle
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from stable_baselines3 import SAC, HerReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from torch import Tensor

from rlstack import schema
from rlstack.environments.environment_core import GOAL
from rlstack.environments.learning_core import LearningCore
from rlstack.environments.stable_baselines3 import PolicyObservation, TaskVecEnv
from rlstack.environments.vector_environment import TaskVectorEnvironment
from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.robots import load_robot
from rlstack.training.algorithm import Actor
from rlstack.training.export import PolicyGraph, TorchPolicy, make_contract
from rlstack.verification.training_evaluation import Evaluator

PROGRESS, BUFFER = "progress.pt", "buffer.pickle"
BEGUN_WITH = "settings.json"


class Mean(Actor):
    """Its policy's mean action, as an actor of ours."""

    def __init__(self, actor: Any) -> None:
        super().__init__()
        self.layers, self.mean = actor.latent_pi, actor.mu

    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return torch.tanh(self.mean(self.layers(observation))), {}


class Run(BaseCallback):  # type: ignore[misc]
    """Learns, evaluates as a recipe's selection says, and can be left and gone on with.

    Args:
        recipe: Its task, robot, seed, number of robots, selection and discount are taken.
        settings: ``steps`` of the environment, ``cpu_s`` of learning after which it ends at the latest,
            ``demonstrations`` (episodes of the scripted expert that lie in the buffer before the first step),
            ``updates`` for each robot's step, ``future`` (goals of hindsight for each one that was asked, by default
            its 4), ``every`` and ``after`` (of evaluations, shares of the run); all others are arguments of its SAC.
            What is not given is the recipe's where that says it (networks' widths, batch, discount, rates,
            evaluations), else stable-baselines3's default.
        folder: Where everything is kept.
    """

    def __init__(self, recipe: Any, settings: Mapping[str, Any], folder: Path) -> None:
        super().__init__()
        torch.set_num_threads(1)
        torch.manual_seed(recipe.seed)
        self.recipe, self.folder, self.task = recipe, folder, recipe.task_settings
        self.asked = json.dumps({"recipe": schema.to_data(recipe), "settings": dict(settings)}, indent=1) + "\n"
        given = dict(settings)
        own, count = recipe.algorithm_settings, recipe.envs
        self.steps = int(given.pop("steps", recipe.steps))
        self.demonstrations, self.most_s = int(given.pop("demonstrations", 0)), float(given.pop("cpu_s", "inf"))
        updates, future = float(given.pop("updates", own.updates)), int(given.pop("future", 4))
        choose = recipe.selection
        every, after = float(given.pop("every", choose.every)), float(given.pop("after", choose.after))
        self.robot = self.task.reference(load_robot(recipe.robot))
        self.pipeline = self.task.pipeline(self.robot)
        self.environment = self.task.environment(self.robot, self.pipeline, count, device="cpu", seed=recipe.seed)
        vectors = TaskVectorEnvironment(LearningCore(self.environment, GOAL))
        # an episode must have ended before anything can be drawn
        begins = max(own.warm_up, count * (self.task.steps + 1))
        room = self.steps + count * self.task.steps * (2 + self.demonstrations // count)
        arguments = {
            "gamma": own.gamma,
            "tau": own.tau,
            "learning_rate": own.learning_rate,
            "batch_size": own.batch,
            "ent_coef": f"auto_{own.temperature}",
            "learning_starts": begins,
            "buffer_size": room,
            **given,
        }
        policy = {
            "net_arch": list(own.hidden),
            "features_extractor_class": PolicyObservation,
            "features_extractor_kwargs": {"environment": vectors},
            **arguments.pop("policy_kwargs", {}),
        }
        self.learner = SAC(
            "MultiInputPolicy",
            TaskVecEnv(vectors),
            train_freq=(1, "step"),
            gradient_steps=max(1, round(updates * count)),
            replay_buffer_class=HerReplayBuffer,
            replay_buffer_kwargs={"n_sampled_goal": future},
            policy_kwargs=policy,
            seed=recipe.seed,
            device="cpu",
            **arguments,
        )
        self.evaluator = Evaluator(self.task, self.robot, choose.episodes, choose.seed)
        self.next, self.every = max(1.0, after * self.steps), every * self.steps
        self.cpu_s = 0.0
        self.evaluations: list[dict[str, float]] = []
        self.best: dict[str, Any] = {}
        self.stop_at = float("inf")
        self.began = 0.0

    def learn(self, stop_at: float) -> bool:
        """Go on until the end, or until this process has used ``stop_at`` CPU-seconds; return whether it is the end.

        Raises:
            UserError: The folder holds a run with other settings.
        """
        begun = self.folder / BEGUN_WITH
        if begun.is_file() and begun.read_text() != self.asked:
            raise UserError(f"{self.folder} was begun with other settings: choose another --out.")
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(begun, self.asked)
        self.stop_at, learner = stop_at, self.learner
        self.began = time.process_time()
        if (self.folder / PROGRESS).is_file():
            self._load()
        else:
            self._demonstrate()
        if not self._over():
            learner.learn(10 * self.steps, callback=self, reset_num_timesteps=False, log_interval=None)
        if self._over():
            if not self.evaluations or self.evaluations[-1]["step"] < learner.num_timesteps:
                self._evaluate()
            self._save(False)
            return True
        self._save(True)
        return False

    def policy(self) -> TorchPolicy:
        """Return the best policy by evaluation."""
        actor = Mean(self.learner.policy.actor)
        actor.load_state_dict(self.best["actor"])
        return self._policy(actor)

    def _on_step(self) -> bool:
        if self.learner.num_timesteps >= self.next and not self._over():
            self._evaluate()
            self.next += self.every
        return not self._over() and time.process_time() < self.stop_at

    def _over(self) -> bool:
        used_s = self.cpu_s + time.process_time() - self.began
        return bool(self.learner.num_timesteps >= self.steps or used_s >= self.most_s)

    def _policy(self, actor: Actor) -> TorchPolicy:
        graph = PolicyGraph(self.pipeline, actor.eval(), self.task.inputs)
        contract = make_contract("stable-baselines3", self.recipe.task, self.task, self.robot, graph)
        return TorchPolicy(graph, contract, self.robot)

    def _evaluate(self) -> None:
        self.cpu_s += time.process_time() - self.began
        actor = Mean(self.learner.policy.actor)
        with torch.no_grad():
            marks = self.evaluator.evaluate(self._policy(actor))
        seen = {"step": self.learner.num_timesteps, "cpu_seconds": round(self.cpu_s, 2), **marks.figures}
        self.evaluations.append(seen)
        if not self.best or list(marks.rank) > self.best["rank"]:
            weights = {name: tensor.clone() for name, tensor in actor.state_dict().items()}
            self.best = {"actor": weights, "rank": list(marks.rank), "step": self.learner.num_timesteps}
        self.began = time.process_time()

    def _demonstrate(self) -> None:
        """Put at least so many episodes of the scripted expert into the buffer; all robots are led at once."""
        learner, environment, shown = self.learner, self.learner.env, 0
        if not self.demonstrations:
            return
        learner._last_obs = environment.reset()
        while shown < self.demonstrations:
            action = self.environment.expert_action().clamp(-1.0, 1.0).numpy()
            seen, reward, done, infos = environment.step(action)
            learner._store_transition(learner.replay_buffer, action, seen, reward, done, infos)
            shown += sum(info.get("is_success", False) for info in infos)
        self._cut()

    def _cut(self) -> None:
        """Let all episodes in the buffer end here; the robots start anew."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that it does so
            self.learner.replay_buffer.truncate_last_trajectory()
        self.learner._last_obs = None

    def _save(self, going: bool) -> None:
        self.cpu_s += time.process_time() - self.began
        self.began = time.process_time()
        kept = {
            "parameters": self.learner.get_parameters(),
            "steps": self.learner.num_timesteps,
            "cpu_s": self.cpu_s,
            "next": self.next,
            "evaluations": self.evaluations,
            "best": self.best,
            "environment": self.environment.state_dict(),
        }
        if going:
            (self.folder / BUFFER).write_bytes(pickle.dumps(self.learner.replay_buffer))
        else:
            (self.folder / BUFFER).unlink(missing_ok=True)
        torch.save(kept, self.folder / f"{PROGRESS}.tmp")
        (self.folder / f"{PROGRESS}.tmp").replace(self.folder / PROGRESS)
        write_atomically(self.folder / "evaluations.json", json.dumps(self.evaluations, indent=1) + "\n")

    def _load(self) -> None:
        kept = torch.load(self.folder / PROGRESS, weights_only=False)
        self.learner.set_parameters(kept["parameters"], device="cpu")
        self.learner.num_timesteps, self.cpu_s, self.next = kept["steps"], kept["cpu_s"], kept["next"]
        self.evaluations, self.best = kept["evaluations"], kept["best"]
        self.environment.load_state_dict(kept["environment"])
        if (self.folder / BUFFER).is_file():
            buffer = pickle.loads((self.folder / BUFFER).read_bytes())
            buffer.set_env(self.learner.env)
            self.learner.replay_buffer = buffer
            self._cut()
