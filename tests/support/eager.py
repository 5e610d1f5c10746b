"""The training step as its documentation says it, robots first, in double precision: torch and numpy, nothing fused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlstack.robots import frames
from rlstack.sim.batch_quadrotor.dynamics import advance
from rlstack.sim.batch_quadrotor.layout import STATE
from rlstack.tasks.core.rollout import DifferentiableRollout
from rlstack.tasks.quadrotor.environment import QuadrotorEnvironment
from rlstack.tasks.quadrotor.rewards import QuadrotorTransition

Rows = NDArray[np.float64]
"""(rows, N), as the kernels have them."""


class EagerStep:
    """One step of every robot.

    Args:
        env: Whose task, robot, pipeline and model of the physics.
    """

    def __init__(self, env: QuadrotorEnvironment) -> None:
        self.env, self.task, self.step = env, env.task, env.task_step
        self.pipeline = copy.deepcopy(env.pipeline).double()
        self.shapes = {**self.pipeline.memory, "last_action": (self.pipeline.action_size,)}

    def memory(self, rows: Rows) -> dict[str, Tensor]:
        """Return the memory by name, robots first."""
        memory, start, count = {}, 0, rows.shape[1]
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            memory[name] = torch.from_numpy(rows[start : start + size].T.reshape(count, *shape).copy())
            start += size
        return memory

    def memory_rows(self, memory: dict[str, Tensor]) -> Rows:
        """Return the memory as rows."""
        return np.concatenate([memory[name].flatten(1).numpy().T for name in self.shapes])

    def goal(self, rows: Rows, count: int) -> Rows:
        """Return (N, points + 2, 3): the window's points, the reference after the step and its velocity."""
        return rows.reshape(3, -1, count).transpose(2, 1, 0)

    def sensed(self, state: Rows, noise: Rows, goal: Rows | None) -> dict[str, Tensor]:
        """Return what the policy senses, by name."""
        count = state.shape[1]
        s = {name: state[rows].T for name, rows in STATE.items()}
        sigma, robot = self.task.noise, self.env.robot
        turned = s["orientation"] + 0.5 * sigma.orientation_rad * noise[3:7].T
        points = np.zeros((count, 1, 3)) if goal is None else self.goal(goal, count)[:, :-2]
        model = robot.rotor_model
        signals = {
            "position": s["position"] + sigma.position_m * noise[0:3].T,
            "orientation": frames.normalise(turned),
            "linear_velocity": frames.rotate_inverse(s["orientation"], s["linear_velocity"])
            + sigma.linear_velocity_m_s * noise[7:10].T,
            "angular_velocity": s["angular_velocity"] + sigma.angular_velocity_rad_s * noise[10:13].T,
            "goal_position": np.zeros((count, 3)),
            "goal_orientation": np.tile([0.0, 0.0, 0.0, 1.0], (count, 1)),
            "path_position": points,
            "path_time": np.tile(np.array(self.step.window or (0,)) / self.task.rate_hz, (count, 1)),
            "path_orientation": np.tile([0.0, 0.0, 0.0, 1.0], (count, points.shape[1], 1)),
            "rotor_position": np.tile(robot.rotor_positions, (count, 1, 1)),
            "rotor_yaw_sign": np.tile(robot.yaw_torque_signs.astype(float), (count, 1)),
            "rotor_speed_min": np.full((count, 1), model.speed_min_rad_s),
            "rotor_speed_max": np.full((count, 1), model.speed_max_rad_s),
            "rotor_thrust_coefficients": np.tile(model.thrust_coefficients, (count, 1)),
        }
        return {name: torch.from_numpy(np.ascontiguousarray(signals[name])) for name in self.task.inputs}

    def observe(self, state: Rows, memory: dict[str, Tensor], noise: Rows, goal: Rows | None) -> Tensor:
        """Return the actor's observation (N, size)."""
        return self.pipeline.observe(self.pipeline.prepare(self.sensed(state, noise, goal), memory), memory)

    def act(
        self,
        state: Rows,
        parameters: Rows,
        memory: dict[str, Tensor],
        past: list[Rows],
        noise: Rows,
        goal: Rows | None,
        action: Tensor,
    ) -> dict[str, Any]:
        """Return state, memory, command, weighted terms (k, N), reward (N,) and lost (N,) after an action (N, k)."""
        count = state.shape[1]
        action = action.clamp(-1.0, 1.0)
        prepared = self.pipeline.prepare(self.sensed(state, noise, goal), memory)
        command = self.pipeline.command(action, prepared).numpy().T
        moved = advance(state, parameters, [command, *past], self.step.model)
        reference = np.zeros((count, 2, 3)) if goal is None else self.goal(goal, count)[:, -2:]
        view = QuadrotorTransition(
            state=torch.from_numpy(moved.T.copy()),
            action=action,
            last_action=memory["last_action"],
            goal_position=torch.from_numpy(reference[:, 0].copy()),
            goal_velocity=torch.from_numpy(reference[:, 1].copy()),
            parameters=torch.from_numpy(parameters.T.copy()),
            limits=self.env.robot.limits,
        )
        weighted = [
            weight / self.task.rate_hz * term(view).numpy() for weight, term in self.task.reward_terms().values()
        ]
        lost = self.task.lost(view).numpy()
        terms = np.stack([*weighted, np.where(lost, self.task.reward.lost, 0.0)])
        after = {**self.pipeline.remember(prepared, memory, action), "last_action": action}
        return {
            "state": moved,
            "memory": after,
            "command": command,
            "terms": terms,
            "reward": terms.sum(axis=0),
            "lost": lost,
        }


class Start:
    """Where a rollout begins, in double precision: taken after :meth:`DifferentiableRollout.begin`.

    Args:
        window: Has begun.
        copies: Each robot this many times: robot r's are r * copies and those after it.
    """

    def __init__(self, window: DifferentiableRollout, copies: int = 1) -> None:
        env, steps = window.environment, window.steps

        def wide(array: Tensor, slots: int) -> Rows:
            return np.repeat(array[:, :slots, : env.count].double().numpy(), copies, axis=2)

        self.env, self.steps = env, steps
        self.state, self.memory = wide(window.state, 1)[:, 0], wide(window.memory, 1)[:, 0]
        self.parameters = np.repeat(env.parameters.double().numpy(), copies, axis=1)
        self.past = [np.repeat(past.double().numpy(), copies, axis=1) for past in env.past]
        self.noise = wide(window.noise, steps + 1)
        self.goals = wide(window.inputs["goal"], steps + 1) if env.task_step.window else None

    def fly(self, choose: Callable[[int, Tensor], Tensor]) -> dict[str, Any]:
        """Return states, observations, terms, rewards and who is lost, step by step; each observation is seen first.

        Args:
            choose: Gives the action (N, k) of a step from the observation (N, size) before it.
        """
        step = EagerStep(self.env)
        state, memory, past = self.state, step.memory(self.memory), list(self.past)
        made: dict[str, Any] = {name: [] for name in ("state", "observation", "terms", "reward", "lost", "command")}
        for t in range(self.steps):
            goal = None if self.goals is None else self.goals[:, t]
            made["state"].append(state)
            made["observation"].append(step.observe(state, memory, self.noise[:, t], goal))
            action = choose(t, made["observation"][-1])
            after = step.act(state, self.parameters, memory, past, self.noise[:, t], goal, action)
            state, memory = after["state"], after["memory"]
            if past:
                past = [after["command"], *past[:-1]]
            for name in ("terms", "reward", "lost", "command"):
                made[name].append(after[name])
        made["state"].append(state)
        return made
