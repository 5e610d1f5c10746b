"""Fused step of mobile bases: batch simulator dynamics, odometry noise, clearance to obstacles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.batch_wheeled_base.clearance import clearance
from rlstack.sim.batch_wheeled_base.dynamics import advance, heading
from rlstack.sim.batch_wheeled_base.layout import BOX_ROWS, CIRCLE_ROWS, PARAMETER_WIDTH, STATE, STATE_WIDTH
from rlstack.sim.batch_wheeled_base.parameters import base_model
from rlstack.tasks.core.pipeline import Pipeline
from rlstack.tasks.core.step import FusedStep, Rows
from rlstack.tasks.wheeled_base.departures import ODOMETRY_WIDTH
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
        scan = sum(term.size for term in pipeline.table() if term.name == "closeness")
        people = CIRCLE_ROWS * task.people_slots if task.departures.people else 0
        self.measured = {"guide": GUIDE_WIDTH, **_present(scan=scan, people=people)}
        """Number of rows of the values measured between steps."""
        super().__init__(
            task,
            robot,
            pipeline,
            model,
            command=model.command_width,
            noise=NOISE_WIDTH,
            inputs={
                "goal": GOAL_WIDTH,
                "boxes": self.box_rows,
                "circles": self.circle_rows,
                **_present(odometry=ODOMETRY_WIDTH if task.departures.odometry else 0),
                **self.measured,
            },
            following={"noise": NOISE_WIDTH, "circles": self.circle_rows, **self.measured},
            device=device,
        )
        self.terms = task.reward_terms()
        wider = task.departures.footprint_m
        self._footprint = tuple((x, y, radius + wider) for x, y, radius in robot.footprint)

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
            self._footprint,
            self.task.people_slots,
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
        return clearance(position, turn, self._footprint, rows["boxes"], rows["circles"])

    def _sensed(self, rows: Mapping[str, Rows]) -> dict[str, Rows]:
        state, noise, sigma = rows["state"], rows["noise"], self.task.noise
        x, y = state[STATE["position"]]
        z, w = state[STATE["turn"]]
        tilt = noise[2] * (0.5 * sigma.heading_rad)
        scale = 1.0 / np.sqrt(1.0 + tilt * tilt)
        z, w = (z + w * tilt) * scale, (w - z * tilt) * scale
        ahead, side = state[STATE["velocity"]]
        rate, goal = state[STATE["yaw_rate"]][0], rows["goal"]
        if "odometry" in rows:
            delay, scale, turning = rows["odometry"]
            cos, sin = heading(state)
            x, y = x - delay * (ahead * cos - side * sin), y - delay * (ahead * sin + side * cos)
            z, w = z - 0.5 * delay * rate * w, w + 0.5 * delay * rate * z
            shorter = 1.0 / np.sqrt(z * z + w * w)
            z, w = z * shorter, w * shorter
            # a base without a map cannot tell a scaled place from a goal that lies elsewhere: it scales about the goal
            x, y = goal[0] + scale * (x - goal[0]), goal[1] + scale * (y - goal[1])
            ahead, side, rate = scale * ahead, scale * side, turning * rate
        signals: dict[str, list[Any]] = {
            "position": [x + noise[0] * sigma.position_m, y + noise[1] * sigma.position_m, 0.0],
            "orientation": [0.0, 0.0, z, w],
            "linear_velocity": [
                ahead + noise[3] * sigma.linear_velocity_m_s,
                side + (noise[4] * sigma.linear_velocity_m_s if self.model.drive == "holonomic" else 0.0),
                0.0,
            ],
            "angular_velocity": [0.0, 0.0, rate + noise[5] * sigma.angular_velocity_rad_s],
            "goal_position": [goal[0], goal[1], 0.0],
            "goal_orientation": [0.0, 0.0, goal[2], goal[3]],
        }
        if self.task.observation.change_periods and "scan" in rows:
            signals["scan"] = list(rows["scan"])
        elif self.rays:
            scan: list[Any] = [0.0] * self.robot.lidars["scan"].rays  # unused rays are not measured
            for ray, measured in zip(self.rays, rows["scan"]):
                scan[ray] = measured
            signals["scan"] = scan
        signals.update(self.task.more_signals(rows))
        return {name: np.array(signals[name], dtype=object) for name in self.task.inputs}


def _present(**widths: int) -> dict[str, int]:
    """Return the widths that are not 0."""
    return {name: width for name, width in widths.items() if width}
