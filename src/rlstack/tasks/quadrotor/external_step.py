"""A task's step around an external physics engine: commands before it, rewards and observations after it.

:class:`rlstack.tasks.quadrotor.step.QuadrotorStep` split at the physics, so that an environment in any engine or over
topics has the observations and rewards of training.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlstack.fused import Kernel, clip, where
from rlstack.interfaces.signals import fed
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.batch_quadrotor.dynamics import QuadrotorModel
from rlstack.sim.batch_quadrotor.layout import PARAMETER_WIDTH, STATE_WIDTH
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.tasks.core.torch_tracing import trace_call
from rlstack.tasks.quadrotor.privileged import Privileged
from rlstack.tasks.quadrotor.step import NOISE_WIDTH, QuadrotorStep, Rows

ObservationKind = Literal["policy", "signals"]
"""Kind of observation: the pipeline's observation for the policy network, or the policy's inputs by name, SI."""

_NO_BOUND = 1e6
"""Bound of a column whose unit implies none."""

_NO_PRIVILEGED_TERMS = Privileged((), (), (), np.zeros(0, np.float32), np.zeros(0, np.float32))


class ExternalStep(QuadrotorStep):
    """The step of one robot whose next state is given, as kernels over N robots.

    Arrays are those of :class:`QuadrotorStep`; ``observation`` is (:attr:`width`, N).

    Args as for :class:`QuadrotorStep`; ``kind`` is the kind of observation.
    """

    def __init__(self, task: Any, robot: Quadrotor, pipeline: Pipeline, kind: ObservationKind = "policy") -> None:
        super().__init__(task, robot, pipeline, _NO_PRIVILEGED_TERMS, QuadrotorModel.of(robot, 1.0 / task.rate_hz))
        self.kind = kind
        self.shapes: dict[str, tuple[int, ...]] = {}
        """Size of each observed signal, in order; empty for the policy's observation."""
        if kind == "signals":
            sizes = {"rotors": len(robot.rotors), "points": len(self.window)}
            for name in task.inputs:
                self.shapes[name] = tuple(size if isinstance(size, int) else sizes[size] for size in fed(name).shape)
        self.width = sum(math.prod(shape) for shape in self.shapes.values()) or pipeline.size
        """Number of rows of ``observation``."""
        self.bounds = self._bounds()
        """(width,) bounds on the absolute value of each row of ``observation``."""

    @cached_property
    def command_kernel(self) -> Kernel:
        """``command`` and ``next_memory`` for an ``action`` in a state."""
        return Kernel(self._commanded, {**self._sensing(), "action": self.pipeline.action_size})

    @cached_property
    def reward_kernel(self) -> Kernel:
        """``reward``, its ``terms``, ``lost`` (1 or 0) and ``observation`` of the ``state`` that an ``action`` led to.

        ``memory`` and ``goal`` are those before the action, ``next_memory``, ``noise`` and ``next_goal`` those after.
        """
        rows = {**self._sensing(), "parameters": PARAMETER_WIDTH, "action": self.pipeline.action_size}
        rows["next_memory"] = self.memory_width
        return Kernel(self._rewarded_and_observed, {**rows, "next_goal": self.goal_width} if self.window else rows)

    @cached_property
    def observation_kernel(self) -> Kernel:
        """``observation`` for a state."""
        return Kernel(lambda **rows: {"observation": self._observed(rows, rows["memory"])}, self._sensing())

    def _sensing(self) -> dict[str, int]:
        rows = {"state": STATE_WIDTH, "memory": self.memory_width, "noise": NOISE_WIDTH}
        return {**rows, "goal": self.goal_width} if self.window else rows

    def _commanded(self, **rows: Rows) -> dict[str, Rows]:
        memory, action = self.unpack_memory(rows["memory"]), clip(rows["action"], -1.0, 1.0)
        after, command = trace_call(self._actor_memory, self._sensed(rows), memory, action)
        return {"command": command, "next_memory": self._memory_rows(after, action)}

    def _rewarded_and_observed(self, **rows: Rows) -> dict[str, Rows]:
        action, memory = clip(rows["action"], -1.0, 1.0), self.unpack_memory(rows["memory"])
        scored = self._scored(rows["state"], action, memory, {}, rows)
        after = {name: rows[name] for name in ("state", "noise")}
        after = {**after, "goal": rows["next_goal"]} if self.window else after
        return {**scored, "observation": self._observed(after, rows["next_memory"])}

    def _observed(self, rows: dict[str, Rows], memory: Rows) -> Rows:
        sensed = self._sensed(rows)
        if self.kind == "signals":
            observation = np.concatenate([np.asarray(sensed[name], dtype=object).reshape(-1) for name in self.shapes])
        else:
            observation = trace_call(self._actor_observation, sensed, self.unpack_memory(memory))
        finite = np.abs(rows["state"]).sum() < 1e30
        limits = self.bounds.astype(float)
        return np.stack([where(finite, clip(value, -most, most), 0.0) for value, most in zip(observation, limits)])

    def _bounds(self) -> NDArray[np.float32]:
        """Return bounds that no robot exceeds before it is lost, from the units of terms and signals."""
        task, robot = self.task, self.robot
        # top speed of a robot that falls across the allowed region at full thrust
        across = 2.0 * math.sqrt(3.0) * task.lost_m
        c0, c1, c2 = robot.rotor_model.thrust_coefficients
        fastest = robot.rotor_model.speed_max_rad_s
        thrust = len(robot.rotors) * (c0 + fastest * (c1 + fastest * c2))
        speed = 2.0 * math.sqrt(2.0 * (thrust / robot.body.mass_kg + STANDARD_GRAVITY) * across)
        most = {
            "m": 4.0 * task.lost_m,
            "m/s": speed,
            "rad/s": 2.0 * task.lost_rad_s,
            "m/s^2": STANDARD_GRAVITY,
            "rotor": fastest,
            "s": 60.0,
            **dict.fromkeys(("-", "-1..1", "quaternion xyzw", "-1 or 1"), 1.0),
        }
        if self.kind == "policy":
            terms = [(term.unit, term.size) for term in self.pipeline.table()]
        else:
            units = {name: "rotor" if name.startswith("rotor_speed") else fed(name).unit for name in self.shapes}
            terms = [(units[name], math.prod(shape)) for name, shape in self.shapes.items()]
        rows = [np.full(size, most.get(unit, _NO_BOUND)) for unit, size in terms]
        return np.concatenate(rows).astype(np.float32)
