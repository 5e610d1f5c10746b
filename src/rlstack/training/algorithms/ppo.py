"""Proximal policy optimisation with rsl_rl and an asymmetric critic.

rsl_rl has the networks, the rollout storage and the update (Schulman et al., arXiv 1707.06347); this module adds the
environment, checks and the export of the actor.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from rsl_rl.algorithms import PPO as RslPPO
from rsl_rl.models import MLPModel, RNNModel
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict
from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.training.algorithm import (
    Actor,
    IterationResult,
    NotFinite,
    RolloutTotals,
    check_finite,
    check_observation,
    check_widths,
)


@dataclass(frozen=True, kw_only=True)
class PPOSettings:
    """Settings of proximal policy optimisation."""

    rollout: int = value(32, at_least=2)
    """Steps per robot in an iteration."""
    epochs: int = value(5, at_least=1)
    """Epochs over an iteration's experience."""
    minibatches: int = value(4, at_least=1)
    """Minibatches in an epoch."""
    gamma: float = value(0.985, above=0.0, at_most=1.0)
    """Discount per step."""
    gae_lambda: float = value(0.95, at_least=0.0, at_most=1.0)
    """Lambda of generalised advantage estimation."""
    clip: float = value(0.2, above=0.0)
    """Bound on the change of an action's probability ratio."""
    learning_rate: float = value(1e-3, above=0.0)
    """Initial learning rate; it is adapted to the target divergence."""
    target_kl: float = value(0.02, above=0.0)
    """Target KL divergence between successive policies at the first step."""
    final_kl: float = value(0.004, above=0.0)
    """The same at the last step; it changes linearly in between."""
    entropy: float = value(0.0, at_least=0.0)
    """Weight of the entropy bonus."""
    max_gradient_norm: float = value(1.0, above=0.0)
    """Largest gradient norm."""
    initial_std: float = value(0.5, above=0.0)
    """Initial standard deviation of actions."""
    initial_action: float | None = value(None, at_least=-1.0, at_most=1.0)
    """Initial mean of actions; None: the task's for the robot, such as the command that hovers."""
    network: Literal["mlp", "gru"] = "mlp"
    """A feed-forward or a recurrent policy."""
    hidden: tuple[int, ...] = value((64, 64), at_least=1)
    """Widths of the policy's hidden layers."""
    critic_hidden: tuple[int, ...] = value((64, 64), at_least=1)
    """Widths of the critic's hidden layers."""
    gru_width: int = value(32, at_least=1)
    """Width of the recurrent layer, if any."""
    activation: Literal["tanh", "elu", "relu"] = "relu"
    """Activation of all hidden layers."""

    def __post_init__(self) -> None:
        check_widths(self, "hidden", "critic_hidden")


class PPO:
    """Learns a task with PPO; see :class:`rlstack.training.algorithm.Algorithm`.

    Raises:
        UserError: There is too little experience in an iteration for the number of minibatches.
    """

    Settings = PPOSettings
    needs_gradients = False
    fine_tunes = "run"
    changeable = (
        *("learning_rate", "entropy", "clip", "gamma", "gae_lambda"),
        *("target_kl", "final_kl", "epochs", "max_gradient_norm"),
    )

    def __init__(self, settings: PPOSettings, environment: LearningEnvironment) -> None:
        self.settings, self.environment = settings, environment
        self.steps_per_iteration = settings.rollout * environment.count
        # a recurrent minibatch consists of whole robots
        pieces = environment.count if settings.network == "gru" else self.steps_per_iteration
        if settings.minibatches > pieces:
            raise UserError(
                f"algorithm_settings: minibatches: {settings.minibatches} is not allowed: {environment.count} robots"
                f" make at most {pieces} minibatches. Simulate more (envs), or use fewer."
            )
        self._observations = self._grouped(*environment.observe())
        groups = {"actor": ["actor"], "critic": ["critic"]}
        device = str(environment.device)
        kind: type[MLPModel] = RNNModel if settings.network == "gru" else MLPModel
        recurrent = {"rnn_type": "gru", "rnn_hidden_dim": settings.gru_width} if settings.network == "gru" else {}
        actions = environment.pipeline.action_size
        actor = kind(
            self._observations,
            groups,
            "actor",
            actions,
            settings.hidden,
            settings.activation,
            True,
            {"class_name": "GaussianDistribution", "init_std": settings.initial_std},
            **recurrent,
        )
        critic = kind(
            self._observations, groups, "critic", 1, settings.critic_hidden, settings.activation, True, **recurrent
        )
        resting = environment.pipeline.resting_action
        _start_near(actor, resting if settings.initial_action is None else settings.initial_action)
        self.learner = RslPPO(
            actor,
            critic,
            RolloutStorage("rl", environment.count, settings.rollout, self._observations, [actions], device),
            num_learning_epochs=settings.epochs,
            num_mini_batches=settings.minibatches,
            clip_param=settings.clip,
            gamma=settings.gamma,
            lam=settings.gae_lambda,
            entropy_coef=settings.entropy,
            learning_rate=settings.learning_rate,
            max_grad_norm=settings.max_gradient_norm,
            desired_kl=settings.target_kl,
            device=device,
        )
        self.learner.train_mode()

    def iterate(self, done: float) -> IterationResult:
        """Roll out, update; raise ``NotFinite`` naming the term that is not finite."""
        self.environment.set_progress(done)
        start, end = self.settings.target_kl, self.settings.final_kl
        self.learner.desired_kl = start + (end - start) * done
        totals = RolloutTotals()
        with torch.inference_mode():
            for _ in range(self.settings.rollout):
                actions = self.learner.act(self._observations)
                result = self.environment.step(actions)
                self._observations = self._grouped(result.actor, result.critic)
                self.learner.process_env_step(
                    self._observations, result.reward, result.done, {"time_outs": result.timed_out.float()}
                )
                totals.add(result)
            self._check(totals.terms)
            self.learner.compute_returns(self._observations)
            if not torch.isfinite(self.learner.storage.returns.sum()):
                raise NotFinite("The critic's value is not finite")
        losses = self._update()
        scalars = {
            "train/action_std": float(self.learner.actor.output_std.detach().mean()),
            "train/learning_rate": self.learner.learning_rate,
            **{f"loss/{name}": loss for name, loss in losses.items()},
        }
        return totals.result(self.environment.task.rate_hz / self.settings.rollout, scalars)

    def actor(self) -> Actor:
        """Return a copy of the current actor on the CPU."""
        return RslActor(self.learner.get_policy())

    def change(self, settings: PPOSettings) -> None:
        """Go on with other settings; see :class:`rlstack.training.algorithm.ChangesInRun`."""
        learner, before = self.learner, self.settings
        self.settings = settings
        learner.num_learning_epochs, learner.clip_param = settings.epochs, settings.clip
        learner.gamma, learner.lam = settings.gamma, settings.gae_lambda
        learner.entropy_coef, learner.max_grad_norm = settings.entropy, settings.max_gradient_norm
        if settings.learning_rate != before.learning_rate:  # otherwise keep the adapted rate
            self._learn_at(settings.learning_rate)

    def start_from(self, actor: Mapping[str, Tensor], state: Mapping[str, Any] | None) -> None:
        """Take over the policy and critic of a run's end; see :class:`rlstack.training.algorithm.FineTunes`."""
        assert state is not None
        networks = {"actor": True, "critic": True, "optimizer": False, "iteration": False, "rnd": False}
        self.learner.load(state["learner"], networks, strict=True)

    def state_dict(self) -> dict[str, Any]:
        """Return networks, optimiser, environment and random state."""
        state = {
            "learner": self.learner.save(),
            "learning_rate": self.settings.learning_rate,
            "environment": self.environment.state_dict(),
            "observations": {name: self._observations[name] for name in ("actor", "critic")},
            "torch_random": torch.get_rng_state(),
        }
        if self.environment.device.type == "cuda":
            state["cuda_random"] = torch.cuda.get_rng_state(self.environment.device)
        if self.settings.network == "gru":
            state["hidden"] = [self.learner.actor.get_hidden_state(), self.learner.critic.get_hidden_state()]
        return copy.deepcopy(state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`, with the settings' learning rate if that has changed."""
        self.learner.load(state["learner"], None, strict=True)
        rate = self.settings.learning_rate
        if state.get("learning_rate", rate) != rate:  # the settings changed; otherwise keep the adapted rate
            self._learn_at(rate)
        self.environment.load_state_dict(state["environment"])
        device = self.environment.device
        self._observations = self._grouped(*(state["observations"][name].to(device) for name in ("actor", "critic")))
        torch.set_rng_state(state["torch_random"].cpu())
        if device.type == "cuda" and "cuda_random" in state:
            torch.cuda.set_rng_state(state["cuda_random"].cpu(), device)
        if self.settings.network == "gru":
            for model, hidden in zip((self.learner.actor, self.learner.critic), state["hidden"]):
                model.reset(hidden_state=None if hidden is None else hidden.to(device))

    def _learn_at(self, rate: float) -> None:
        self.learner.learning_rate = rate
        for group in self.learner.optimizer.param_groups:
            group["lr"] = rate

    def _grouped(self, actor: Tensor, critic: Tensor) -> TensorDict:
        return TensorDict({"actor": actor, "critic": critic}, batch_size=[self.environment.count])

    def _check(self, totals: Mapping[str, Tensor]) -> None:
        # check the whole rollout, causes before effects; a sum is not finite if one of its terms is not
        storage = self.learner.storage
        tables = {"actor": self.environment.pipeline.table(), "critic": self.environment.critic_table()}
        for group, table in tables.items():
            seen = storage.observations[group].sum(dim=(0, 1)) + self._observations[group].sum(dim=0)
            check_observation(seen, table, f"The {group}'s observation term '{{}}' is not finite")
        check_finite(totals, "The reward term '{}' is not finite")
        if not torch.isfinite(storage.actions.sum()):
            raise NotFinite("The policy's action is not finite")

    def _update(self) -> dict[str, float]:
        try:
            losses: dict[str, float] = self.learner.update()
        except (RuntimeError, ValueError):  # torch refuses to sample from an invalid distribution
            self._check_weights()
            raise
        check_finite(losses, "The {} loss is not finite")
        self._check_weights()
        return losses

    def _check_weights(self) -> None:
        for name, model in (("policy", self.learner.actor), ("critic", self.learner.critic)):
            if not all(torch.isfinite(parameter).all() for parameter in model.parameters()):
                raise NotFinite(f"An update left weights of the {name} that are not finite")


class RslActor(Actor):
    """rsl_rl's actor as a pure function of observation and hidden state, including its normaliser."""

    def __init__(self, model: MLPModel) -> None:
        super().__init__()
        self.normaliser = copy.deepcopy(model.obs_normalizer)
        self.mlp = copy.deepcopy(model.mlp)
        self.rnn: nn.Module | None = None
        if isinstance(model, RNNModel):
            self.rnn = copy.deepcopy(model.rnn.rnn)
            self.memory: Mapping[str, tuple[int, ...]] = {"hidden": (model.rnn.rnn.hidden_size,)}
        self.cpu().eval().requires_grad_(False)

    def forward(self, observation: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean action and the next hidden state."""
        features = self.normaliser(observation)
        if self.rnn is None:
            return self.mlp(features), {}
        features, hidden = self.rnn(features.unsqueeze(0), memory["hidden"].unsqueeze(0))
        return self.mlp(features.squeeze(0)), {"hidden": hidden.squeeze(0)}


def _start_near(actor: MLPModel, action: float) -> None:
    # small last-layer weights: the initial policy is constant, so that exploration starts from hovering
    last = [layer for layer in actor.mlp.modules() if isinstance(layer, nn.Linear)][-1]
    with torch.no_grad():
        last.weight.mul_(0.1)
        last.bias.fill_(action)


ALGORITHM = PPO
