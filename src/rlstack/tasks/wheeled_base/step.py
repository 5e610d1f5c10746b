"""A base task's training step for one robot: sensing, observation, command, dynamics, reward; fused into kernels.

What a robot cannot compute from its own rows, the scan and the way to its goal, is measured between two kernels: one
moves the robot and judges it, the other observes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from rlstack.fused import Kernel, clip, where
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.bases.clearance import clearance
from rlstack.sim.bases.dynamics import advance
from rlstack.sim.bases.layout import BOX_ROWS, CIRCLE_ROWS, PARAMETER_WIDTH, STATE, STATE_WIDTH
from rlstack.sim.bases.parameters import base_model, longest_delay_s
from rlstack.tasks.core import tracing
from rlstack.tasks.core.pipeline import Pipeline, Tensors
from rlstack.tasks.wheeled_base.rewards import BaseView

Rows = np.ndarray[Any, Any]

NOISE_WIDTH = 6
"""Rows of unit normal noise: position 2, heading 1, velocity 2, yaw rate 1."""

GUIDE_WIDTH = 3
"""Rows of the way to the goal: a unit vector in the map's frame, and how far it is, m."""

GOAL_WIDTH = 4
"""Rows of a goal: place, m; z and w of its heading's quaternion."""


class BaseStep:
    """The step of one robot, as kernels over all of them.

    What goes in and out, as (rows, N) arrays:

    - ``state``, ``parameters``, ``boxes``, ``circles``: as in :mod:`rlstack.sim.bases.layout`
    - ``memory``: the pipeline's memory, then the last action
    - ``noise``: :data:`NOISE_WIDTH` unit normals
    - ``goal``, ``guide``: :data:`GOAL_WIDTH`, :data:`GUIDE_WIDTH`
    - ``scan``: m, of the rays that the policy looks at
    - ``action``: as the policy gives it, unclipped
    - ``past_k``: the command k periods ago, where commands may be late

    Args:
        task: The task's configuration.
        robot: What drives.
        pipeline: On the CPU.
        boxes: Obstacles of each robot that are boxes.
        circles: Those that are circles, people among them.
        device: Where the kernels run.
    """

    def __init__(
        self, task: Any, robot: WheeledBase, pipeline: Pipeline, boxes: int, circles: int, device: str = "cpu"
    ) -> None:
        self.task, self.robot, self.pipeline, self.device = task, robot, pipeline, device
        self.model = base_model(robot, task.rate_hz, longest_delay_s(robot))
        self.memory: dict[str, slice] = {}
        start = 0
        for name, shape in (*pipeline.memory.items(), ("last_action", (pipeline.action_size,))):
            self.memory[name] = slice(start, start + int(np.prod(shape)))
            start = self.memory[name].stop
        self.memory_width = start
        self.rays: tuple[int, ...] = task.rays(robot)
        """Indices of the rays of the robot's scan that the policy looks at."""
        self.scan_rays = robot.lidars["scan"].rays if self.rays else 0
        self.box_rows, self.circle_rows = BOX_ROWS * boxes, CIRCLE_ROWS * circles
        self.past = [f"past_{k}" for k in range(1, self.model.past_commands + 1)]
        self.terms = task.reward_terms()

    @cached_property
    def observe(self) -> Kernel:
        """The ``actor`` observation of the present, and what is ``privileged``: the critic's alone."""
        return Kernel(self._observe, self._seen(), device=self.device)

    @cached_property
    def act(self) -> Kernel:
        """``next_state``, ``next_memory``, ``command``, ``reward``, its ``terms`` and ``lost`` (1 or 0)."""
        return Kernel(self._act, self._done(), device=self.device)

    @cached_property
    def reverse(self) -> Kernel:
        """The reverse mode of acting and then observing with ``next_scan``, ``next_guide`` and ``next_noise``."""
        following = {f"next_{name}": self._seen()[name] for name in self._between()}
        kept = ("next_state", "next_memory", "reward", "actor", *(["command"] if self.past else []))
        return Kernel(
            lambda **rows: {name: value for name, value in self._cycle(**rows).items() if name in kept},
            {**self._done(), **following},
            ("state", "memory", "action", *self.past),
            self.device,
        )

    @property
    def privileged_width(self) -> int:
        """Rows of ``privileged``."""
        return GUIDE_WIDTH + 1

    def _between(self) -> tuple[str, ...]:
        return ("noise", "guide", "circles", *(["scan"] if self.rays else []))

    def _seen(self) -> dict[str, int]:
        rows = {
            "state": STATE_WIDTH,
            "memory": self.memory_width,
            "noise": NOISE_WIDTH,
            "goal": GOAL_WIDTH,
            "guide": GUIDE_WIDTH,
            "boxes": self.box_rows,
            "circles": self.circle_rows,
        }
        return {**rows, "scan": len(self.rays)} if self.rays else rows

    def _done(self) -> dict[str, int]:
        width = self.model.command_width
        return {
            **self._seen(),
            "parameters": PARAMETER_WIDTH,
            "action": self.pipeline.action_size,
            **dict.fromkeys(self.past, width),
        }

    def _cycle(self, **rows: Rows) -> dict[str, Rows]:
        made = self._act(**rows)
        after = {**rows, **{name: rows[f"next_{name}"] for name in self._between()}}
        after = {**after, "state": made["next_state"], "memory": made["next_memory"]}
        return {**made, "actor": self._actor(after)}

    def _observe(self, **rows: Rows) -> dict[str, Rows]:
        free = self._clearance(rows["state"], rows)
        return {"actor": self._actor(rows), "privileged": np.concatenate([rows["guide"], [free]])}

    def _actor(self, rows: Mapping[str, Rows]) -> Rows:
        memory = self._remembered(rows["memory"])
        return np.asarray(tracing.call(self._actor_observation, self._sensed(rows), memory), dtype=object)

    def _act(self, **rows: Rows) -> dict[str, Rows]:
        memory, state = self._remembered(rows["memory"]), rows["state"]
        action = clip(rows["action"], -1.0, 1.0)
        after, command = tracing.call(self._actor_memory, self._sensed(rows), memory, action)
        moved = advance(state, rows["parameters"], [command, *(rows[name] for name in self.past)], self.model)
        view = BaseView(
            moved,
            action,
            memory["last_action"],
            rows["goal"],
            rows["guide"],
            self._clearance(moved, rows),
            self.task.fastest_m_s(self.robot),
            rows,
            self.robot.footprint,
        )
        values = [weight / self.task.rate_hz * term(view) for weight, term in self.terms.values()]
        finite = np.abs(np.concatenate([moved, action])).sum() < 1e30
        lost = self.task.lost(view) | ~finite
        # a robot that left the numbers is lost, and must not end the others' training
        values = [where(finite, entry, 0.0) for entry in values]
        values.append(where(lost, self.task.reward.lost, 0.0))
        return {
            # a lost robot stands still where it was until it starts anew
            "next_state": where(lost, self._stopped(state), moved),
            "next_memory": np.concatenate([*(after[n].reshape(-1) for n in self.pipeline.memory), action]),
            "command": command,
            "reward": np.array([sum(values)], dtype=object),
            "terms": np.array(values, dtype=object),
            "lost": np.array([lost], dtype=object),
        }

    def _stopped(self, state: Rows) -> Rows:
        still = np.zeros(STATE_WIDTH, dtype=object)
        for name in ("position", "turn"):
            still[STATE[name]] = state[STATE[name]]
        return still

    def _clearance(self, state: Rows, rows: Mapping[str, Rows]) -> Any:
        position, turn = state[STATE["position"]], state[STATE["turn"]]
        return clearance(position, turn, self.robot.footprint, rows["boxes"], rows["circles"])

    def _sensed(self, rows: Mapping[str, Rows]) -> dict[str, Rows]:
        """Return what the policy senses, with noise, by the names of its inputs."""
        state, noise, sigma = rows["state"], rows["noise"], self.task.noise
        x, y = state[STATE["position"]]
        z, w = state[STATE["turn"]]
        tilt = noise[2] * (0.5 * sigma.heading_rad)
        scale = 1.0 / np.sqrt(1.0 + tilt * tilt)
        z, w = (z + w * tilt) * scale, (w - z * tilt) * scale
        ahead, side = state[STATE["velocity"]]
        goal = rows["goal"]
        signals: dict[str, list[Any]] = {
            "position": [x + noise[0] * sigma.position_m, y + noise[1] * sigma.position_m, 0.0],
            "orientation": [0.0, 0.0, z, w],
            "linear_velocity": [
                ahead + noise[3] * sigma.linear_velocity_m_s,
                side + (noise[4] * sigma.linear_velocity_m_s if self.model.drive == "holonomic" else 0.0),
                0.0,
            ],
            "angular_velocity": [0.0, 0.0, state[STATE["yaw_rate"]][0] + noise[5] * sigma.angular_velocity_rad_s],
            "goal_position": [goal[0], goal[1], 0.0],
            "goal_orientation": [0.0, 0.0, goal[2], goal[3]],
        }
        if self.rays:
            scan: list[Any] = [0.0] * self.scan_rays  # what is not looked at is not measured either
            for ray, measured in zip(self.rays, rows["scan"]):
                scan[ray] = measured
            signals["scan"] = scan
        signals.update(self.task.more_signals(rows))
        return {name: np.array(signals[name], dtype=object) for name in self.task.inputs}

    def _remembered(self, rows: Rows) -> dict[str, Rows]:
        shapes = {**self.pipeline.memory, "last_action": (self.pipeline.action_size,)}
        return {name: rows[where_].reshape(shapes[name]) for name, where_ in self.memory.items()}

    def _actor_observation(self, inputs: Tensors, memory: Tensors) -> Any:
        return self.pipeline.observe(self.pipeline.prepare(inputs, memory), memory)

    def _actor_memory(self, inputs: Tensors, memory: Tensors, action: Any) -> Any:
        prepared = self.pipeline.prepare(inputs, memory)
        return self.pipeline.remember(prepared, memory, action), self.pipeline.command(action, prepared)
