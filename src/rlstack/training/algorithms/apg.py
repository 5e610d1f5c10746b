"""Analytic policy gradient: the return of a short rollout, differentiated through the simulator.

Smooth dynamics allow backpropagation through time: the chain rule through the network, observation, dynamics and reward
of every step of a rollout (as in SHAC, Xu et al., arXiv 2204.07137, which adds a learned value for the time after the
rollout).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from rlstack.errors import UserError
from rlstack.schema import value
from rlstack.tasks.core.learning_environment import LearningEnvironment
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.training.algorithm import Actor, IterationResult, NotFinite, check_finite, check_widths, cosine_decay
from rlstack.training.autograd_bptt import AutogradBPTT
from rlstack.training.gradient_averaging import Averaged
from rlstack.training.gradient_processes import GradientProcesses
from rlstack.training.network_bptt import NetworkBPTT
from rlstack.training.networks import AttentionNetwork, Network, members_of
from rlstack.training.optimisers import Adam


@dataclass(frozen=True, kw_only=True)
class APGSettings:
    """Settings of the analytic policy gradient."""

    window: int = value(100, at_least=1)
    """Steps of a rollout."""
    tail: int = value(0, at_least=0)
    """Last steps of a rollout whose actions are not learned from: most of their effects come after it."""
    learning_rate: float = value(4e-3, above=0.0)
    """Learning rate of Adam at the first rollout."""
    final_learning_rate: float = value(2e-4, above=0.0)
    """Learning rate at the last rollout; it decays along a cosine."""
    max_gradient_norm: float = value(1.0, above=0.0)
    """Largest gradient norm."""
    steepest: float = value(20.0, above=0.0)
    """Bound on one robot's gradient on its way back; see :class:`rlstack.tasks.core.rollout.DifferentiableRollout`."""
    final_steepest: float | None = value(None, above=0.0)
    """The same at the last rollout, if different; it changes by a constant factor per rollout."""
    restart: float = value(0.4, at_least=0.0, at_most=1.0)
    """Share of the robots that are reset after a rollout, beside those that were lost or timed out."""
    initial_action: float | None = value(None, at_least=-1.0, at_most=1.0)
    """Action of the untrained policy; None: the task's for the robot, such as the command that hovers."""
    network: Literal["mlp", "gru", "attention"] = "mlp"
    """A feed-forward or a recurrent policy; ``attention`` for observations with a set, such as pedestrians."""
    hidden: tuple[int, ...] = value((64, 64), at_least=1)
    """Widths of the policy's hidden layers."""
    gru_width: int = value(16, at_least=1)
    """Width of the recurrent layer after them, if any."""
    member_width: int = value(48, at_least=1)
    """Width of the shared layers for members of a set, with ``attention``."""
    memory: bool = False
    """Whether a policy with ``attention`` also has the recurrent layer."""
    activation: Literal["tanh", "relu"] = "relu"
    """Activation of the hidden layers."""
    processes: int = value(1, at_least=1)
    """Processes that learn together, by the mean of their gradients, each with as many robots, and with a GPU of its
    own if the recipe's device is cuda; `changes` are not allowed then."""

    def __post_init__(self) -> None:
        check_widths(self, "hidden")
        if self.tail >= self.window:
            raise ValueError(f"tail: {self.tail} is not allowed: must be less than window ({self.window}).")


class APG:
    """Learns a task by its analytic gradient; see :class:`rlstack.training.algorithm.Algorithm`."""

    Settings = APGSettings
    needs_gradients = True
    fine_tunes = "policy"
    changeable = ("learning_rate", "final_learning_rate", "max_gradient_norm", "steepest", "final_steepest", "restart")

    def __init__(self, settings: APGSettings, environment: LearningEnvironment) -> None:
        self.settings, self.environment = settings, environment
        self.steps_per_iteration = settings.window * environment.count * settings.processes
        self.averaged: Averaged | None = None
        """Group of the processes that learn together; see :mod:`rlstack.training.gradient_processes`."""
        self._others: GradientProcesses | None = None
        self._iterations = 0
        pipeline = environment.pipeline
        self.window = environment.rollout(settings.window, settings.steepest)
        self.policy, self.tape = self._network(pipeline)
        self.optimiser = Adam(self.policy.parameters(), lr=settings.learning_rate, betas=(0.9, 0.95), fused=True)
        self._learn_normalisation()

    def _network(self, pipeline: Pipeline) -> tuple[Network | AttentionNetwork, NetworkBPTT | AutogradBPTT]:
        settings, device = self.settings, self.environment.device
        columns, actions = pipeline.size, pipeline.action_size
        first = pipeline.resting_action if settings.initial_action is None else settings.initial_action
        if settings.network == "attention":
            attending = AttentionNetwork(
                columns,
                actions,
                members_of(pipeline),
                settings.member_width,
                settings.hidden,
                gru_width=settings.gru_width if settings.memory else 0,
                initial_action=first,
                action_scale=getattr(pipeline, "action_scale", 1.0),
            ).to(device)
            return attending, AutogradBPTT(attending, self.window, settings.window - settings.tail)
        width = settings.gru_width if settings.network == "gru" else 0
        policy = Network(columns, actions, settings.hidden, width, settings.activation, first)
        policy.to(device)
        return policy, NetworkBPTT(policy, self.window)

    def open(self, folder: Path) -> None:
        """Start the other processes, if it learns with some."""
        if self.settings.processes > 1:
            state = {"policy": self.policy.state_dict(), "optimiser": self.optimiser.state_dict()}
            self._others = GradientProcesses(folder, self.settings.processes, state, self._iterations)
            self.averaged = self._others.group

    def close(self) -> None:
        """End the other processes."""
        if self._others is not None:
            self._others.close()
            self._others = self.averaged = None

    def join(self, state: Mapping[str, Any]) -> None:
        """Take over networks and optimiser; see :class:`rlstack.training.gradient_processes.AveragesGradients`."""
        self.policy.load_state_dict(state["policy"])
        self.optimiser.load_state_dict(state["optimiser"])

    @torch.no_grad()
    def iterate(self, done: float) -> IterationResult:
        """Run one rollout and differentiate its return; raise ``NotFinite`` naming the term that is not finite."""
        if self._others is not None:
            self._others.begin(done)
        env, settings, window, tape = self.environment, self.settings, self.window, self.tape
        env.set_progress(done)
        rate = cosine_decay(settings.learning_rate, settings.final_learning_rate, done)
        self.optimiser.param_groups[0]["lr"] = rate
        final_steepest = settings.final_steepest or settings.steepest
        window.steepest = settings.steepest ** (1.0 - done) * final_steepest**done

        self._roll_out()
        window.end()

        # returns: a lost robot has its penalty, and no reward after it
        lost = window.at_all(window.lost)[0]
        alive = 1.0 - (lost.cumsum(dim=0) - lost).clamp(max=1.0)
        steps = settings.window * env.count
        terms = (window.at_all(window.terms) * alive).sum(dim=(1, 2)) * (env.task.rate_hz / steps)

        # backward: the objective is the mean reward per second
        window.at_all(window.seed).copy_(alive * (-env.task.rate_hz / steps))
        window.begin_reverse()
        tape.begin_reverse()
        for t in reversed(range(settings.window)):
            window.reverse(t)
            tape.reverse(t)
        tape.weight_gradients(settings.window - settings.tail)
        fell = lost.amax(dim=0) > 0.5
        share = fell.float().mean()
        self._average([*(one.grad for one in self.policy.parameters() if one.grad is not None), terms, share])
        named = dict(zip(env.term_names(), terms))
        check_finite(named, "The reward term '{}' is not finite")
        norm = nn.utils.clip_grad_norm_(self.policy.parameters(), settings.max_gradient_norm)
        if not torch.isfinite(norm):
            raise NotFinite(f"The gradient of {window.not_finite()} is not finite")
        self.optimiser.step()
        self._iterations += 1

        # resets
        again = torch.rand(env.count, generator=env.generator, device=env.device) < settings.restart
        self._restart((fell | self.window.environment.ended(fell) | again).nonzero().squeeze(-1))
        earned = {f"reward/{name}": float(term) for name, term in named.items()}
        scalars = {"train/learning_rate": rate, "train/gradient_norm": float(norm), **earned}
        return IterationResult(float(terms.sum()), float(share), scalars)

    def actor(self) -> Actor:
        """Return a copy of the current actor on the CPU."""
        actor = copy.deepcopy(self.policy).cpu().eval().requires_grad_(False)
        actor.fold()
        return actor

    def change(self, settings: APGSettings) -> None:
        """Go on with other settings; see :class:`rlstack.training.algorithm.ChangesInRun`."""
        self.settings = settings

    def start_from(self, actor: Mapping[str, Tensor], state: Mapping[str, Any] | None) -> None:
        """Take over a policy's weights; see :class:`rlstack.training.algorithm.FineTunes`."""
        self.policy.take_over(actor)

    def state_dict(self) -> dict[str, Any]:
        """Return network, optimiser and environment."""
        state = {
            "policy": self.policy.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "environment": self.environment.state_dict(),
            "hidden": self.tape.hidden[:, 0] if self.policy.gru_width else None,
            "iterations": self._iterations,
        }
        return copy.deepcopy(state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that :meth:`state_dict` returned."""
        self.policy.load_state_dict(state["policy"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.environment.load_state_dict(state["environment"])
        if self.policy.gru_width:
            self.tape.hidden[:, 0] = state["hidden"].to(self.environment.device)
        self._iterations = state.get("iterations", 0)  # older runs lack it

    def _average(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their means over the processes, if there are several; not finite in one is so in all."""
        if self.averaged is None:
            return
        try:
            self.averaged.average(tensors)
        except RuntimeError as error:
            raise (UserError(str(error)) if self._others is None else self._others.ended()) from error

    def _roll_out(self) -> None:
        self.window.begin()
        self.tape.begin()
        for t in range(self.settings.window):
            self.tape.forward(t)
            self.window.advance(t)

    def _restart(self, index: Tensor) -> None:
        if self.policy.gru_width:
            self.tape.hidden[:, 0] = self.tape.hidden[:, self.settings.window]
            self.tape.hidden[:, 0, index] = 0.0
        if len(index):
            self.environment.restart(index)

    @torch.no_grad()
    def _learn_normalisation(self) -> None:
        self._roll_out()
        seen = self.window.at_all(self.window.observation).flatten(1).T
        self.policy.normalise_by(seen.nan_to_num(0.0).clamp(-20.0, 20.0))
        self.environment.reset_all()


ALGORITHM = APG
