"""Fused step of quadrotors: batch simulator dynamics, odometry noise, task rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlstack.fused import where
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.batch_quadrotor.dynamics import QuadrotorModel, advance
from rlstack.sim.batch_quadrotor.layout import PARAMETER_WIDTH, STATE, STATE_WIDTH
from rlstack.tasks.core.pipeline import Pipeline, rotation_matrix, to_body
from rlstack.tasks.core.step import FusedStep, Rows, as_objects
from rlstack.tasks.core.torch_tracing import trace_call
from rlstack.tasks.quadrotor.privileged import Privileged
from rlstack.tasks.quadrotor.rewards import QuadrotorTransition

NOISE_WIDTH = 13
"""Rows of unit normal noise: position, orientation, linear and angular velocity."""


class QuadrotorStep(FusedStep):
    """The step of one quadrotor.

    For a task with a path, its input ``goal`` holds x of the path points in the observation, of the reference after the
    step and of that reference's velocity, then y, then z.

    Args as for :class:`FusedStep`; ``privileged`` are the critic's terms.
    """

    state_width, parameter_width, noise_width = STATE_WIDTH, PARAMETER_WIDTH, NOISE_WIDTH
    advance = advance
    parks_lost = False

    def __init__(
        self,
        task: Any,
        robot: Quadrotor,
        pipeline: Pipeline,
        privileged: Privileged,
        model: QuadrotorModel,
        device: str = "cpu",
    ) -> None:
        self.privileged = privileged
        self.window: tuple[int, ...] = getattr(task, "path_window", ())
        """Steps ahead of the observed path points; empty for a task without a path."""
        self.privileged_terms = privileged.terms(robot, bool(self.window))
        self.goal_width = 3 * (len(self.window) + 2) if self.window else 0
        inputs = {"goal": self.goal_width} if self.window else {}
        self.varies_rate = bool(task.half_rate_share)
        held = {"hold": 1} if self.varies_rate else {}
        super().__init__(
            task,
            robot,
            pipeline,
            model,
            command=len(robot.rotors),
            noise=NOISE_WIDTH,
            inputs={**inputs, **held},
            following={"noise": NOISE_WIDTH, **inputs},
            device=device,
        )
        self.terms = task.reward_terms()

    def _taken(self, action: Rows, memory: Mapping[str, Rows], rows: Mapping[str, Rows]) -> Rows:
        if not self.varies_rate:
            return action
        acts = self._acts(rows)
        return as_objects([where(acts, new, old) for new, old in zip(action, memory["last_action"])])

    def _remembered(
        self, after: Mapping[str, Rows], memory: Mapping[str, Rows], rows: Mapping[str, Rows]
    ) -> Mapping[str, Rows]:
        if not self.varies_rate:
            return after
        acts = self._acts(rows)
        return {name: where(acts, values, memory[name]) for name, values in after.items()}

    def _acts(self, rows: Mapping[str, Rows]) -> Any:
        """Return whether the policy is called in this period: in every one, or in every second one."""
        half = (rows["state"][STATE["elapsed"]][0] * self.task.rate_hz + 0.5).floor() * 0.5
        return (rows["hold"][0] < 1.5) | (half - half.floor() < 0.25)

    def _parked(self, rows: Mapping[str, Rows]) -> Rows:
        rest = np.zeros(STATE_WIDTH)
        rest[STATE["orientation"].stop - 1] = 1.0
        rest[STATE["rotor_speed"]] = self.robot.hover_speed_rad_s
        return as_objects(rest)

    def _privileged(self, rows: Mapping[str, Rows]) -> Rows:
        slowest, fastest = self.robot.rotor_model.speed_min_rad_s, self.robot.rotor_model.speed_max_rad_s
        speeds = (rows["state"][STATE["rotor_speed"]] - slowest) * (2.0 / (fastest - slowest)) - 1.0
        columns, offset = list(self.privileged.columns), self.privileged.offset.astype(float)
        departures = (rows["parameters"][columns] - offset) * self.privileged.scale.astype(float)
        extra = [self._points(rows["goal"])[1]] if self.window else []
        return np.concatenate([speeds, departures, *extra])

    def _rewarded(
        self, moved: Rows, action: Rows, memory: Mapping[str, Rows], after: Mapping[str, Rows], rows: Mapping[str, Rows]
    ) -> tuple[list[Any], Any]:
        goal = rows.get("goal")
        reference, velocity = (np.zeros(3), np.zeros(3)) if goal is None else self._points(goal)[1:]
        goals = as_objects(reference), as_objects(velocity)
        terms, lost = trace_call(self._reward_terms, moved, action, memory["last_action"], *goals, rows["parameters"])
        values = [np.asarray(value).reshape(-1)[0] for value in terms.values()]
        return values, np.asarray(lost, dtype=object).reshape(-1)[0]

    def _sensed(self, rows: Mapping[str, Rows]) -> dict[str, Rows]:
        state, noise, sigma = rows["state"], rows["noise"], self.task.noise
        orientation = state[STATE["orientation"]]
        # a quaternion changes by half the rotation vector
        turned = orientation + noise[3:7] * (0.5 * sigma.orientation_rad)
        velocity = trace_call(lambda q, v: to_body(rotation_matrix(q), v), orientation, state[STATE["linear_velocity"]])
        signals = {
            "position": state[STATE["position"]] + noise[0:3] * sigma.position_m,
            "orientation": turned * (1.0 / np.sqrt((turned * turned).sum())),
            "linear_velocity": velocity + noise[7:10] * sigma.linear_velocity_m_s,
            "angular_velocity": state[STATE["angular_velocity"]] + noise[10:13] * sigma.angular_velocity_rad_s,
            "goal_position": as_objects(np.zeros(3)),
            "goal_orientation": as_objects(np.array([0.0, 0.0, 0.0, 1.0])),
            **self._robot_signals(),
        }
        if self.window:
            points = self._points(rows["goal"])[0]
            signals["path_position"] = points
            signals["path_time"] = as_objects(np.array(self.window) / self.task.rate_hz)
            signals["path_orientation"] = as_objects(np.tile([0.0, 0.0, 0.0, 1.0], (len(points), 1)))
        return {name: signals[name] for name in self.task.inputs}

    def _robot_signals(self) -> dict[str, Rows]:
        """Return the robot file's inputs, for policies of more than one robot."""
        model = self.robot.rotor_model
        return {
            "rotor_position": as_objects(self.robot.rotor_positions),
            "rotor_yaw_sign": as_objects(self.robot.yaw_torque_signs),
            "rotor_speed_min": as_objects(np.array([model.speed_min_rad_s])),
            "rotor_speed_max": as_objects(np.array([model.speed_max_rad_s])),
            "rotor_thrust_coefficients": as_objects(np.array(model.thrust_coefficients)),
        }

    def _points(self, goal: Rows) -> tuple[Rows, Rows, Rows]:
        """Return the path points (K, 3) m, the reference after the step, m, and its velocity, m/s."""
        columns = goal.reshape(3, len(self.window) + 2)
        return columns[:, :-2].T, columns[:, -2], columns[:, -1]

    def _reward_terms(self, state: Any, action: Any, last: Any, position: Any, velocity: Any, parameters: Any) -> Any:
        transition = QuadrotorTransition(state, action, last, position, velocity, parameters, self.robot.limits)
        weighted = {n: weight / self.task.rate_hz * term(transition) for n, (weight, term) in self.terms.items()}
        return weighted, self.task.lost(transition)
