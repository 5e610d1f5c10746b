"""Rewards of mobile-base tasks: their weights, the transition of a base, and reward terms by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.fused import clip, greater, maximum, where
from rlstack.schema import value
from rlstack.sim.batch_wheeled_base.clearance import clearance
from rlstack.sim.batch_wheeled_base.dynamics import heading
from rlstack.sim.batch_wheeled_base.layout import CIRCLE_ROWS, STATE


@dataclass(frozen=True, kw_only=True)
class BaseReward:
    """Weights of the reward terms, per second except ``lost``. Each task sets its own."""

    progress: float = value(1.0)
    """Speed along the path to the goal as a share of the greatest."""
    facing: float = value(0.0)
    """Cosine from the heading to the path: gives a stationary robot a gradient to turn."""
    near: float = value(0.0)
    """Squared share of the margin that is missing."""
    margin_m: float = value(0.1, unit="m", above=0.0)
    """Clearance below which ``near`` applies."""
    ahead: float = value(0.0)
    """The same for the robot's predicted position at constant velocity."""
    ahead_s: float = value(0.7, unit="s", above=0.0)
    """Prediction time."""
    encounter: float = value(0.0)
    """For each moving obstacle, the squared share of a margin that is missing at the closest approach at constant
    velocities, less for later ones."""
    encounter_s: float = value(2.0, unit="s", above=0.0)
    """Latest time of that approach."""
    encounter_margin_m: float = value(0.25, unit="m", above=0.0)
    turning: float = value(0.0)
    """Squared turning rate, rad/s."""
    action_change: float = value(0.0)
    """Squared change of the action."""
    rest: float = value(0.0)
    """Squared share of the greatest speed, at the goal."""
    heading: float = value(0.0)
    """1 - cos of the heading error, at the goal."""
    lost: float = value(-2.0)
    """Once, at a collision."""


@dataclass(frozen=True)
class BaseTransition:
    """One robot after a step, as rows of expressions of :mod:`rlstack.fused` (or arrays (rows, N)).

    Args:
        state: As in :data:`rlstack.sim.batch_wheeled_base.layout.STATE`.
        action: (actions,) -1..1.
        last_action: The previous action.
        goal: (4,): place, m; z and w of its heading's quaternion.
        guide: (3,): direction of the path to the goal from the robot's position before the step; its length, m.
        clearance: m from the footprint to the nearest obstacle; below 0 they overlap.
        fastest_m_s: Greatest speed.
        rows: The step's inputs by name: ``state`` before it, ``circles``, ``boxes`` and so on.
        footprint: Discs of the robot, x, y and radius in base_link, m.
    """

    state: Any
    action: Any
    last_action: Any
    goal: Any
    guide: Any
    clearance: Any
    fastest_m_s: float
    rows: Any = None
    footprint: Any = ()
    movers: int = 0
    """Number of moving obstacles, the last of the circles."""

    @property
    def velocity(self) -> tuple[Any, Any]:
        """m/s in the map's frame."""
        cos, sin = heading(self.state)
        ahead, side = self.state[STATE["velocity"]]
        return ahead * cos - side * sin, ahead * sin + side * cos

    @property
    def progress(self) -> Any:
        """Speed along the path to the goal as a share of the greatest."""
        vx, vy = self.velocity
        return (vx * self.guide[0] + vy * self.guide[1]) * (1.0 / self.fastest_m_s)

    @property
    def facing(self) -> Any:
        """Cosine of the angle from the base's heading to the path; 0 at the goal, where the path ends."""
        cos, sin = heading(self.state)
        return cos * self.guide[0] + sin * self.guide[1]

    @property
    def distance(self) -> Any:
        """m to the goal in a straight line; smoothed there."""
        x, y = self.state[STATE["position"]] - self.goal[:2]
        return np.sqrt(x * x + y * y + 1e-8)

    @property
    def heading_cos(self) -> Any:
        """Cosine of the heading error at the goal."""
        cos, sin = heading(self.state)
        z, w = self.goal[2], self.goal[3]
        return cos * (w * w - z * z) + sin * 2.0 * z * w

    @property
    def speed_share(self) -> Any:
        """Speed as a share of the greatest, squared."""
        ahead, side = self.state[STATE["velocity"]]
        return (ahead * ahead + side * side) * (1.0 / self.fastest_m_s**2)

    @property
    def yaw_rate(self) -> Any:
        """rad/s."""
        return self.state[STATE["yaw_rate"]][0]

    @property
    def action_change(self) -> Any:
        """Squared length of the action's change."""
        change = self.action - self.last_action
        return (change * change).sum()

    def too_near(self, margin_m: float) -> Any:
        """Return the squared share of the margin that is missing: 0 beyond it, 1 on contact, at most 4."""
        return _missing(self.clearance, margin_m)

    def too_near_in(self, ahead_s: float, margin_m: float) -> Any:
        """Return the same after everything has moved at constant velocity for ``ahead_s`` s."""
        vx, vy = self.velocity
        x, y = self.state[STATE["position"]]
        place = np.array([x + vx * ahead_s, y + vy * ahead_s], dtype=object)
        turn = self.state[STATE["turn"]]
        circles = self.rows["circles"].reshape(-1, CIRCLE_ROWS)
        circles = np.concatenate([circles[:, :2] + circles[:, 3:] * ahead_s, circles[:, 2:]], axis=1).ravel()
        return _missing(clearance(place, turn, self.footprint, self.rows["boxes"], circles), margin_m)

    def encounters(self, ahead_s: float, margin_m: float) -> Any:
        """Return the squared shares of the margin missing at each mover's closest approach, summed, sooner ones more.

        Circles at rest do not count.
        """
        vx, vy = self.velocity
        cos, sin = heading(self.state)
        along, aside, radius = self.footprint[0]
        x, y = self.state[STATE["position"]]
        x, y = x + cos * along - sin * aside, y + sin * along + cos * aside
        total: Any = 0.0
        for circle in self.rows["circles"].reshape(-1, CIRCLE_ROWS)[-self.movers :]:
            dx, dy, wx, wy = circle[0] - x, circle[1] - y, circle[3] - vx, circle[4] - vy
            when = clip(-(dx * wx + dy * wy) / (wx * wx + wy * wy + 1e-3), 0.0, ahead_s)
            px, py = dx + wx * when, dy + wy * when
            gap = np.sqrt(px * px + py * py + 1e-6) - circle[2] - radius
            moves = where(greater(circle[3] * circle[3] + circle[4] * circle[4], 1e-6), 1.0, 0.0)
            total = total + moves * _missing(gap, margin_m) * (1.0 - when * (0.8 / ahead_s))
        return total

    def near_goal(self, radius_m: float) -> Any:
        """Return 1 at the goal, falling to 0 at ``radius_m`` from it."""
        share = maximum(1.0 - self.distance * (1.0 / radius_m), 0.0)
        return share * share * (3.0 - 2.0 * share)


RewardTerm = Callable[[BaseTransition], Any]
"""Maps a transition to an expression."""


def reward_terms(reward: BaseReward, arrival_m: float) -> dict[str, RewardTerm]:
    """Return the terms by the names of their weights in :class:`BaseReward`; a goal is reached within ``arrival_m``."""
    return {
        "progress": lambda s: s.progress,
        "facing": lambda s: s.facing,
        "near": lambda s: s.too_near(reward.margin_m),
        "ahead": lambda s: s.too_near_in(reward.ahead_s, reward.margin_m),
        "encounter": lambda s: s.encounters(reward.encounter_s, reward.encounter_margin_m),
        "turning": lambda s: s.yaw_rate * s.yaw_rate,
        "action_change": lambda s: s.action_change,
        "rest": lambda s: s.speed_share * s.near_goal(arrival_m),
        "heading": lambda s: (1.0 - s.heading_cos) * s.near_goal(2.0 * arrival_m),
    }


def _missing(free: Any, margin_m: float) -> Any:
    short = clip(1.0 - free * (1.0 / margin_m), 0.0, 2.0)
    return short * short
