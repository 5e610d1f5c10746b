"""Fused step of mobile bases: batch simulator dynamics, odometry noise, clearance to obstacles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.batch_wheeled_base.clearance import clearance
from rlstack.sim.batch_wheeled_base.dynamics import advance
from rlstack.sim.batch_wheeled_base.layout import BOX_ROWS, CIRCLE_ROWS, PARAMETER_WIDTH, STATE, STATE_WIDTH
from rlstack.sim.batch_wheeled_base.parameters import base_model
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.tasks.core.step import FusedStep, Rows
from rlstack.tasks.wheeled_base.rewards import BaseTransition

NOISE_WIDTH = 6
"""Rows of unit normal noise: position 2, heading 1, velocity 2, yaw rate 1."""

GUIDE_WIDTH = 3
"""Rows of the path to the goal: its direction in the map's frame, and its length, m."""

GOAL_WIDTH = 4
"""Rows of a goal: place, m; z and w of its heading's quaternion."""


class BaseStep(FusedStep):
    """The step of one base.

    Its inputs are ``boxes`` and ``circles`` as in :mod:`rlstack.sim.batch_wheeled_base.layout`, ``goal`` and ``guide``
    (:data:`GOAL_WIDTH`, :data:`GUIDE_WIDTH`), and ``scan``, m, of the rays that the policy uses. Gradients stop at
    guide and scan: a scan is discontinuous at edges, and the path to the goal is a fixed guide.

    Args as for :class:`FusedStep`; ``boxes`` and ``circles`` are their numbers around each robot, with pedestrians.
    """

    state_width, parameter_width = STATE_WIDTH, PARAMETER_WIDTH
    advance = advance
    inputs_after_step = ("circles",)
    privileged_terms = (
        ("guide", GUIDE_WIDTH, "-, -, m", "the way to the goal, map"),
        ("clearance", 1, "m", "to the nearest obstacle"),
    )

    def __init__(
        self, task: Any, robot: WheeledBase, pipeline: Pipeline, boxes: int, circles: int, device: str = "cpu"
    ) -> None:
        model = base_model(robot, task.rate_hz)
        self.rays: tuple[int, ...] = task.rays(robot)
        """Indices of the scan's rays that the policy uses."""
        self.box_rows, self.circle_rows = BOX_ROWS * boxes, CIRCLE_ROWS * circles
        self.measured = {"guide": GUIDE_WIDTH, **({"scan": len(self.rays)} if self.rays else {})}
        """Number of rows of the values measured between steps."""
        super().__init__(
            task,
            robot,
            pipeline,
            model,
            command=model.command_width,
            noise=NOISE_WIDTH,
            inputs={"goal": GOAL_WIDTH, "boxes": self.box_rows, "circles": self.circle_rows, **self.measured},
            following={"noise": NOISE_WIDTH, "circles": self.circle_rows, **self.measured},
            device=device,
        )
        self.terms = task.reward_terms()

    def _privileged(self, rows: Mapping[str, Rows]) -> Rows:
        return np.concatenate([rows["guide"], [self._clearance(rows["state"], rows)]])

    def _rewarded(
        self, moved: Rows, action: Rows, memory: Mapping[str, Rows], after: Mapping[str, Rows], rows: Mapping[str, Rows]
    ) -> tuple[list[Any], Any]:
        view = BaseTransition(
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
        return values, self.task.lost(view)

    def _parked(self, rows: Mapping[str, Rows]) -> Rows:
        still = np.zeros(STATE_WIDTH, dtype=object)
        for name in ("position", "turn"):
            still[STATE[name]] = rows["state"][STATE[name]]
        return still

    def _clearance(self, state: Rows, rows: Mapping[str, Rows]) -> Any:
        position, turn = state[STATE["position"]], state[STATE["turn"]]
        return clearance(position, turn, self.robot.footprint, rows["boxes"], rows["circles"])

    def _sensed(self, rows: Mapping[str, Rows]) -> dict[str, Rows]:
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
            scan: list[Any] = [0.0] * self.robot.lidars["scan"].rays  # unused rays are not measured
            for ray, measured in zip(self.rays, rows["scan"]):
                scan[ray] = measured
            signals["scan"] = scan
        signals.update(self.task.more_signals(rows))
        return {name: np.array(signals[name], dtype=object) for name in self.task.inputs}
