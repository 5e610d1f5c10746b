"""The training environment: the batch simulator with a task's starts, noise, rewards and resets, on one device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
import warp as wp
from torch import Tensor

from rlstack.errors import UserError
from rlstack.robots import RobotSpec
from rlstack.sim.batch import STATE, BatchSimulator, pack_parameters, pack_state
from rlstack.tasks.pipeline import Pipeline, TermInfo, rotation_matrix, to_body
from rlstack.tasks.privileged import Privileged, privileged_terms

POOL_SIZE = 65_536
"""Episodes drawn ahead; a reset picks one of them, so resets cost two gathers whatever is randomised."""


@dataclass(frozen=True)
class View:
    """The true state of N robots as reward terms see it; goal at the origin, heading 0."""

    state: Tensor  # (N, STATE_WIDTH)
    action: Tensor  # (N, actions) in -1..1
    last_action: Tensor  # (N, actions)

    @cached_property
    def position(self) -> Tensor:
        """(N, 3) m from the goal."""
        return self.state[:, STATE["position"]]

    @cached_property
    def orientation(self) -> Tensor:
        """(N, 4) xyzw."""
        return self.state[:, STATE["orientation"]]

    @cached_property
    def linear_velocity(self) -> Tensor:
        """(N, 3) m/s, world."""
        return self.state[:, STATE["linear_velocity"]]

    @cached_property
    def angular_velocity(self) -> Tensor:
        """(N, 3) rad/s, body."""
        return self.state[:, STATE["angular_velocity"]]

    @cached_property
    def distance(self) -> Tensor:
        """(N,) m."""
        return self.position.norm(dim=-1)

    @cached_property
    def up_z(self) -> Tensor:
        """(N,) cosine of the tilt."""
        x, y = self.orientation[:, 0], self.orientation[:, 1]
        return 1.0 - 2.0 * (x * x + y * y)

    @cached_property
    def heading_cos(self) -> Tensor:
        """(N,) world x component of the body's x axis."""
        y, z = self.orientation[:, 1], self.orientation[:, 2]
        return 1.0 - 2.0 * (y * y + z * z)


@dataclass(frozen=True)
class StepResult:
    """What one step gave; observations belong to the states after automatic resets."""

    actor: Tensor  # (N, pipeline.size)
    critic: Tensor  # (N, critic_size)
    reward: Tensor  # (N,)
    done: Tensor  # (N,) bool
    timed_out: Tensor  # (N,) bool: ended by time, not lost
    terms: dict[str, Tensor]  # weighted reward terms, (N,) each


class TrainingEnvironment:
    """N copies of a task in the batch simulator, reset automatically.

    Args:
        task: The task's configuration.
        robot: What flies.
        pipeline: Makes the actor's observation; moved to the device.
        count: N.
        device: ``"cpu"`` or a CUDA device.
        seed: Of starts, perturbations, noise and resets.

    Raises:
        UserError: The device is not there, or torch cannot use it.
    """

    def __init__(
        self, task: Any, robot: RobotSpec, pipeline: Pipeline, count: int, device: str = "cpu", seed: int = 0
    ) -> None:
        self.task, self.robot, self.count = task, robot, count
        self.max_delay_s = task.randomisation.delay_s[1]
        self.sim = BatchSimulator(robot, count, rate_hz=task.rate_hz, device=device, max_delay_s=self.max_delay_s)
        self.device = torch.device(self.sim.device)
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise UserError(f"This torch was built without CUDA, so it cannot learn on '{device}': use the device cpu.")
        self.pipeline = pipeline.to(self.device)
        self.max_steps = round(task.episode_s * task.rate_hz)
        self.generator = torch.Generator(device=self.device).manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.terms = task.reward_terms()
        self.start_scale = self.penalty_scale = 1.0
        self._states = [wp.to_torch(rows) for rows in self.sim.buffers]
        self._parameters = wp.to_torch(self.sim.parameters)
        self._commands = wp.to_torch(self.sim.commands)
        self._noise_scale = self._make_noise_scale()
        self._privileged = privileged_terms(task, robot)
        self._privileged_columns = torch.tensor(self._privileged.columns, dtype=torch.long, device=self.device)
        self._privileged_offset = torch.from_numpy(self._privileged.offset).to(self.device)
        self._privileged_scale = torch.from_numpy(self._privileged.scale).to(self.device)
        self._goal_position = torch.zeros(count, 3, device=self.device)
        self._goal_orientation = torch.tensor([0.0, 0.0, 0.0, 1.0], device=self.device).repeat(count, 1)
        actions = pipeline.action_size
        self.memory = pipeline.initial_memory(count)
        self.last_action = torch.zeros(count, actions, device=self.device)
        self.steps = torch.zeros(count, dtype=torch.long, device=self.device)
        self.refill_pool()
        self.reset_all()

    @property
    def state(self) -> Tensor:
        """(N, STATE_WIDTH) the simulator's rows, shared memory."""
        return self._states[self.sim.current]

    @property
    def critic_size(self) -> int:
        """Columns of the critic's observation: the actor's, then what the actor cannot see."""
        return sum(term.size for term in self.critic_table())

    def critic_table(self) -> list[TermInfo]:
        """Return one row for each term of the critic's observation, in order."""
        return critic_table(self.pipeline, self.robot, self._privileged)

    def set_progress(self, done: float) -> None:
        """Turn the curriculum to the share ``done`` of the training steps; new starts are drawn when it moves."""
        curriculum, progress = self.task.curriculum, self.task.curriculum.progress(done)
        self.penalty_scale = curriculum.penalty_scale + (1.0 - curriculum.penalty_scale) * progress
        scale = curriculum.start_scale + (1.0 - curriculum.start_scale) * round(progress * 10) / 10
        if scale != self.start_scale:
            self.start_scale = scale
            self.refill_pool()

    def refill_pool(self) -> None:
        """Draw a new pool of episodes at the present difficulty."""
        self._pool_random = self.rng.bit_generator.state
        scenario = self.task.sample(self.rng, POOL_SIZE, self.robot, self.start_scale)
        self._pool_state = torch.from_numpy(pack_state(scenario.state)).to(self.device)
        self._pool_parameters = torch.from_numpy(pack_parameters(self.robot, scenario.perturbation)).to(self.device)

    def reset_all(self) -> None:
        """Start every robot anew, spread over the episode so that they do not end together."""
        self._reset(torch.arange(self.count, device=self.device))
        self.steps = torch.randint(self.max_steps, (self.count,), generator=self.generator, device=self.device)

    def observe(self) -> tuple[Tensor, Tensor]:
        """Return the actor's (N, size) and the critic's (N, critic_size) observations of the present."""
        self._sensed = self.pipeline.prepare(self._noisy(self._inputs(self.state)), self.memory)
        actor = self.pipeline.observe(self._sensed, self.memory)
        speeds = self.state[:, STATE["rotor_speed"]] / self.pipeline.maximum * 2.0 - 1.0
        departures = self._parameters.index_select(1, self._privileged_columns) - self._privileged_offset
        return actor, torch.cat([actor, speeds, departures * self._privileged_scale], dim=-1)

    def step(self, action: Tensor) -> StepResult:
        """Apply actions (N, actions); they are clipped to -1..1. Call :meth:`observe` once before the first step."""
        action = self.pipeline.clip(action)
        self.memory = self.pipeline.remember(self._sensed, self.memory, action)
        self._commands[self.sim.next_slot] = self.pipeline.command(action)
        self.sim.step()
        self.steps += 1
        view = View(self.state, action, self.last_action)
        broken = ~torch.isfinite(self.state.sum(dim=-1) + action.sum(dim=-1))
        lost = self.task.lost(view) | broken
        terms = {}
        for name, (weight, term) in self.terms.items():
            scale = weight * (self.penalty_scale if weight < 0.0 else 1.0) / self.task.rate_hz
            terms[name] = scale * term(view)
        if broken.any():  # a robot that left the numbers is lost, and must not end the others' training
            terms = {name: value.masked_fill(broken, 0.0) for name, value in terms.items()}
        terms["lost"] = self.task.reward.lost * lost
        reward = torch.stack(list(terms.values())).sum(dim=0)
        timed_out = (self.steps >= self.max_steps) & ~lost
        done = lost | timed_out
        self.last_action = action
        ended = done.nonzero().squeeze(-1)
        if len(ended):
            self._reset(ended)
        actor, critic = self.observe()
        return StepResult(actor, critic, reward, done, timed_out, terms)

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes as the environment runs, so that it can go on exactly."""
        return {
            "state": self.state,
            "parameters": self._parameters,
            "commands": self._commands,
            "newest_command": self.sim.newest_command,
            "memory": dict(self.memory),
            "last_action": self.last_action,
            "steps": self.steps,
            "sensed": dict(self._sensed),
            "start_scale": self.start_scale,
            "penalty_scale": self.penalty_scale,
            "pool_random": self._pool_random,
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`."""
        self.start_scale, self.penalty_scale = state["start_scale"], state["penalty_scale"]
        self.rng.bit_generator.state = state["pool_random"]
        self.refill_pool()
        self.state.copy_(state["state"])
        self._parameters.copy_(state["parameters"])
        self._commands.copy_(state["commands"])
        self.sim.newest_command = state["newest_command"]
        self.memory = {name: array.to(self.device) for name, array in state["memory"].items()}
        self._sensed = {name: array.to(self.device) for name, array in state["sensed"].items()}
        self.last_action = state["last_action"].to(self.device)
        self.steps = state["steps"].to(self.device)
        self.generator.set_state(state["generator"].cpu())

    def _reset(self, index: Tensor) -> None:
        pick = torch.randint(POOL_SIZE, (len(index),), generator=self.generator, device=self.device)
        start = self._pool_state[pick]
        self.state[index] = start
        self._parameters[index] = self._pool_parameters[pick]
        self._commands[:, index] = start[:, STATE["rotor_speed"]]
        self.steps[index] = 0
        self.last_action[index] = 0.0
        for array in self.memory.values():
            array[index] = 0.0

    def _inputs(self, state: Tensor) -> dict[str, Tensor]:
        orientation = state[:, STATE["orientation"]]
        return {
            "position": state[:, STATE["position"]],
            "orientation": orientation,
            "linear_velocity": to_body(rotation_matrix(orientation), state[:, STATE["linear_velocity"]]),
            "angular_velocity": state[:, STATE["angular_velocity"]],
            "goal_position": self._goal_position,
            "goal_orientation": self._goal_orientation,
        }

    def _noisy(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        noise = torch.randn(self.count, 13, generator=self.generator, device=self.device) * self._noise_scale
        orientation = inputs["orientation"] + noise[:, 3:7]
        return {
            **inputs,
            "position": inputs["position"] + noise[:, 0:3],
            "orientation": orientation / orientation.norm(dim=-1, keepdim=True),
            "linear_velocity": inputs["linear_velocity"] + noise[:, 7:10],
            "angular_velocity": inputs["angular_velocity"] + noise[:, 10:13],
        }

    def _make_noise_scale(self) -> Tensor:
        noise = self.task.noise
        # a quaternion moves by half the rotation vector
        scales = (
            [noise.position_m] * 3
            + [noise.orientation_rad / 2] * 4
            + [noise.linear_velocity_m_s] * 3
            + [noise.angular_velocity_rad_s] * 3
        )
        return torch.tensor(scales, device=self.device)


def critic_table(pipeline: Pipeline, robot: RobotSpec, privileged: Privileged) -> list[TermInfo]:
    """Return one row for each term of the critic's observation: the policy's, then what only the critic sees."""
    rows = pipeline.table()
    rotors = ("rotor_speed", len(robot.rotors), "-1..1", "true rotor speeds, scaled as actions")
    others = [(n, size, "spread", m) for n, size, m in zip(privileged.names, privileged.sizes, privileged.meanings)]
    for name, size, unit, meaning in [rotors, *others]:
        rows.append(TermInfo(name, rows[-1].start + rows[-1].size, size, unit, meaning))
    return rows
