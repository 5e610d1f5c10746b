"""A task's training step for one robot: sensing, observation, command, dynamics, reward; fused into kernels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from rlstack.fused import Kernel, clip, where
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.batch.dynamics import Model, advance
from rlstack.sim.batch.layout import PARAMETER_WIDTH, STATE, STATE_WIDTH
from rlstack.tasks.core import tracing
from rlstack.tasks.core.pipeline import Pipeline, Tensors, rotation_matrix, to_body
from rlstack.tasks.quadrotor.privileged import Privileged
from rlstack.tasks.quadrotor.rewards import View

Rows = np.ndarray[Any, Any]

NOISE_WIDTH = 13
"""Rows of unit normal noise: position, orientation, linear and angular velocity."""


class QuadrotorStep:
    """The step of one robot, as kernels over all of them.

    What goes in and out, as (rows, N) arrays:

    - ``state``, ``parameters``: as in :mod:`rlstack.sim.batch.layout`
    - ``memory``: the pipeline's memory, then the last action
    - ``noise``: :data:`NOISE_WIDTH` unit normals
    - ``goal``: for a task with a path, x of the points of its window, of the reference after the step and of that
      reference's velocity, then y, then z; otherwise none
    - ``action``: as the policy gives it, unclipped
    - ``past_k``: the command k periods ago, where commands may be late

    Args:
        task: The task's configuration.
        robot: What flies.
        pipeline: On the CPU.
        privileged: What the critic sees of the parameters.
        model: The physics.
        device: Where the kernels run.
    """

    noise_width = NOISE_WIDTH

    def __init__(
        self,
        task: Any,
        robot: Quadrotor,
        pipeline: Pipeline,
        privileged: Privileged,
        model: Model,
        device: str = "cpu",
    ) -> None:
        self.device = device
        self.task, self.robot, self.pipeline, self.privileged, self.model = task, robot, pipeline, privileged, model
        self.memory: dict[str, slice] = {}
        start = 0
        for name, shape in (*pipeline.memory.items(), ("last_action", (pipeline.action_size,))):
            self.memory[name] = slice(start, start + int(np.prod(shape)))
            start = self.memory[name].stop
        self.memory_width = start
        self.window: tuple[int, ...] = getattr(task, "path_window", ())
        """Steps ahead of the path points that a policy sees; empty for a task without a path."""
        self.goal_width = 3 * (len(self.window) + 2) if self.window else 0
        self.past = [f"past_{k}" for k in range(1, model.past_commands + 1)]
        self.terms = task.reward_terms()

    @cached_property
    def observe(self) -> Kernel:
        """The ``actor`` observation of the present, and what of it is ``privileged``: the critic's alone."""
        return Kernel(self._observe, self._seen(), device=self.device)

    @cached_property
    def act(self) -> Kernel:
        """``next_state``, ``next_memory``, ``command``, ``reward``, its ``terms`` and ``lost`` (1 or 0)."""
        return Kernel(self._act, self._done(), device=self.device)

    @cached_property
    def cycle(self) -> Kernel:
        """What ``act`` gives, and the ``actor`` observation after it, with ``next_noise`` and ``next_goal``."""
        return Kernel(self._cycle, self._cycled(), device=self.device)

    @cached_property
    def cycle_reverse(self) -> Kernel:
        """The reverse mode of ``cycle``, of all but ``terms`` and ``lost``."""
        kept = ("next_state", "next_memory", "reward", "actor", *(["command"] if self.past else []))
        return Kernel(
            lambda **rows: {name: value for name, value in self._cycle(**rows).items() if name in kept},
            self._cycled(),
            ("state", "memory", "action", *self.past),
            self.device,
        )

    def _seen(self) -> dict[str, int]:
        rows = {"state": STATE_WIDTH, "parameters": PARAMETER_WIDTH, "memory": self.memory_width, "noise": NOISE_WIDTH}
        return {**rows, "goal": self.goal_width} if self.window else rows

    def _done(self) -> dict[str, int]:
        rotors = len(self.robot.rotors)
        return {**self._seen(), "action": self.pipeline.action_size, **dict.fromkeys(self.past, rotors)}

    def _cycled(self) -> dict[str, int]:
        following = {"next_noise": NOISE_WIDTH, **({"next_goal": self.goal_width} if self.window else {})}
        return {**self._done(), **following}

    def _cycle(self, **rows: Rows) -> dict[str, Rows]:
        made = self._act(**rows)
        # a lost robot waits at rest for its restart: nothing that it could still do may overflow and spoil gradients
        made["next_state"] = where(made["lost"][0], self._rest(), made["next_state"])
        after = {"state": made["next_state"], "noise": rows["next_noise"]}
        after = {**after, "goal": rows["next_goal"]} if self.window else after
        memory = self._remembered(made["next_memory"])
        return {**made, "actor": tracing.call(self._actor_observation, self._sensed(after), memory)}

    def _rest(self) -> Rows:
        rest = np.zeros(STATE_WIDTH)
        rest[STATE["orientation"].stop - 1] = 1.0
        rest[STATE["rotor_speed"]] = self.robot.hover_speed_rad_s
        return _objects(rest)

    def _observe(self, **rows: Rows) -> dict[str, Rows]:
        memory = self._remembered(rows["memory"])
        actor = tracing.call(self._actor_observation, self._sensed(rows), memory)
        slowest, fastest = self.robot.rotor_model.speed_min_rad_s, self.robot.rotor_model.speed_max_rad_s
        speeds = (rows["state"][STATE["rotor_speed"]] - slowest) * (2.0 / (fastest - slowest)) - 1.0
        columns = list(self.privileged.columns)
        departures = (
            rows["parameters"][columns] - self.privileged.offset.astype(float)
        ) * self.privileged.scale.astype(float)
        extra = [self._points(rows["goal"])[1]] if self.window else []
        return {"actor": actor, "privileged": np.concatenate([speeds, departures, *extra])}

    def _act(self, **rows: Rows) -> dict[str, Rows]:
        memory, state, parameters = self._remembered(rows["memory"]), rows["state"], rows["parameters"]
        action = clip(rows["action"], -1.0, 1.0)
        after, command = tracing.call(self._actor_memory, self._sensed(rows), memory, action)
        past = [rows[name] for name in self.past]
        moved = advance(state, parameters, [command, *past], self.model)
        judged = self._judged(moved, action, memory["last_action"], rows.get("goal"), parameters)
        return {
            "next_state": moved,
            "next_memory": np.concatenate([*(after[n].reshape(-1) for n in self.pipeline.memory), action]),
            "command": command,
            **judged,
        }

    def _judged(self, moved: Rows, action: Rows, last: Rows, goal: Rows | None, parameters: Rows) -> dict[str, Rows]:
        """Return ``reward``, its ``terms`` and ``lost`` for the state that an action led to."""
        reference, velocity = (np.zeros(3), np.zeros(3)) if goal is None else self._points(goal)[1:]
        finite = np.abs(np.concatenate([moved, action])).sum() < 1e30
        terms, lost = tracing.call(
            self._judge, moved, action, last, _objects(reference), _objects(velocity), parameters
        )
        lost = np.asarray(lost, dtype=object).reshape(-1)[0] | ~finite
        # a robot that left the numbers is lost, and must not end the others' training
        values = [where(finite, np.asarray(v).reshape(-1)[0], 0.0) for v in terms.values()]
        values.append(where(lost, self.task.reward.lost, 0.0))
        return {
            "reward": np.array([sum(values)], dtype=object),
            "terms": np.array(values, dtype=object),
            "lost": np.array([lost], dtype=object),
        }

    def _sensed(self, rows: Mapping[str, Rows]) -> dict[str, Rows]:
        """Return what the policy senses, with noise, by the names of its inputs."""
        state, noise, sigma = rows["state"], rows["noise"], self.task.noise
        orientation = state[STATE["orientation"]]
        # a quaternion moves by half the rotation vector
        turned = orientation + noise[3:7] * (0.5 * sigma.orientation_rad)
        velocity = tracing.call(
            lambda q, v: to_body(rotation_matrix(q), v), orientation, state[STATE["linear_velocity"]]
        )
        signals = {
            "position": state[STATE["position"]] + noise[0:3] * sigma.position_m,
            "orientation": turned * (1.0 / np.sqrt((turned * turned).sum())),
            "linear_velocity": velocity + noise[7:10] * sigma.linear_velocity_m_s,
            "angular_velocity": state[STATE["angular_velocity"]] + noise[10:13] * sigma.angular_velocity_rad_s,
            "goal_position": _objects(np.zeros(3)),
            "goal_orientation": _objects(np.array([0.0, 0.0, 0.0, 1.0])),
            **self._robot_signals(),
        }
        if self.window:
            points = self._points(rows["goal"])[0]
            signals["path_position"] = points
            signals["path_time"] = _objects(np.array(self.window) / self.task.rate_hz)
            signals["path_orientation"] = _objects(np.tile([0.0, 0.0, 0.0, 1.0], (len(points), 1)))
        return {name: signals[name] for name in self.task.inputs}

    def _robot_signals(self) -> dict[str, Rows]:
        model = self.robot.rotor_model
        return {
            "rotor_position": _objects(self.robot.rotor_positions),
            "rotor_yaw_sign": _objects(self.robot.yaw_torque_signs),
            "rotor_speed_min": _objects(np.array([model.speed_min_rad_s])),
            "rotor_speed_max": _objects(np.array([model.speed_max_rad_s])),
        }

    def _points(self, goal: Rows) -> tuple[Rows, Rows, Rows]:
        """Return the window's points (K, 3), and the reference after the step, m, and its velocity, m/s."""
        columns = goal.reshape(3, len(self.window) + 2)
        return columns[:, :-2].T, columns[:, -2], columns[:, -1]

    def _remembered(self, rows: Rows) -> dict[str, Rows]:
        shapes = {**self.pipeline.memory, "last_action": (self.pipeline.action_size,)}
        return {name: rows[where_].reshape(shapes[name]) for name, where_ in self.memory.items()}

    def _actor_observation(self, inputs: Tensors, memory: Tensors) -> Any:
        return self.pipeline.observe(self.pipeline.prepare(inputs, memory), memory)

    def _actor_memory(self, inputs: Tensors, memory: Tensors, action: Any) -> Any:
        prepared = self.pipeline.prepare(inputs, memory)
        return self.pipeline.remember(prepared, memory, action), self.pipeline.command(action, prepared)

    def _judge(self, state: Any, action: Any, last: Any, position: Any, velocity: Any, parameters: Any) -> Any:
        view = View(state, action, last, position, velocity, parameters)
        weighted = {n: weight / self.task.rate_hz * term(view) for n, (weight, term) in self.terms.items()}
        return weighted, self.task.lost(view)


def _objects(array: Any) -> Rows:
    return np.asarray(array, dtype=object)
