"""Rewards of quadruped_stand: their weights, the transition of N quadrupeds, and reward terms by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class StandReward:
    """Weights of the reward terms, per second except ``lost``."""

    height: float = value(1.0)
    """exp(-(error / tolerance_m)^2)"""
    level: float = value(1.0)
    """exp(-(tilt / tolerance_rad)^2)"""
    still: float = value(2.0)
    """exp(-(v / still_m_s)^2 - (r / still_rad_s)^2) of the trunk's horizontal speed v and yaw rate r."""
    speed: float = value(-0.5)
    """Squared speed of the trunk, m^2/s^2."""
    turning: float = value(-0.02)
    """Squared angular velocity of the trunk, rad^2/s^2."""
    posture: float = value(-0.2)
    """Sum over the joints of squared offsets from the standing posture, rad^2."""
    action_change: float = value(-0.1)
    """Sum of squared changes of the action."""
    lost: float = value(-4.0)
    """Once, at a fall."""
    still_m_s: float = value(0.1, unit="m/s", above=0.0)
    still_rad_s: float = value(0.3, unit="rad/s", above=0.0)


@dataclass(frozen=True)
class QuadrupedTransition:
    """N quadrupeds after a step.

    Args:
        height_error: (N,) m, height of the trunk minus the standing height.
        tilt: (N,) rad of the trunk.
        linear_velocity: (N, 3) m/s of the trunk in base_link.
        angular_velocity: (N, 3) rad/s of the trunk in base_link.
        joint_offset: (N, joints) rad from the standing posture.
        action: (N, actions) -1..1.
        last_action: (N, actions), the previous action.
    """

    height_error: Array
    tilt: Array
    linear_velocity: Array
    angular_velocity: Array
    joint_offset: Array
    action: Array
    last_action: Array

    def still(self, speed_m_s: float, yaw_rate_rad_s: float) -> Array:
        """Return (N,) 1 for a trunk that neither moves over the floor nor turns; it falls with both as a Gaussian."""
        square = np.square(self.linear_velocity[:, :2] / speed_m_s).sum(axis=1)
        return np.asarray(np.exp(-square - np.square(self.angular_velocity[:, 2] / yaw_rate_rad_s)))


RewardTerm = Callable[[QuadrupedTransition], Array]
"""Maps a transition of N quadrupeds to (N,)."""


def reward_terms(reward: StandReward, tolerance_m: float, tolerance_rad: float) -> dict[str, RewardTerm]:
    """Return the terms by the names of their weights in :class:`StandReward`."""
    return {
        "height": lambda s: np.exp(-((s.height_error / tolerance_m) ** 2)),
        "level": lambda s: np.exp(-((s.tilt / tolerance_rad) ** 2)),
        "still": lambda s: s.still(reward.still_m_s, reward.still_rad_s),
        "speed": lambda s: np.square(s.linear_velocity).sum(axis=1),
        "turning": lambda s: np.square(s.angular_velocity).sum(axis=1),
        "posture": lambda s: np.square(s.joint_offset).sum(axis=1),
        "action_change": lambda s: np.square(s.action - s.last_action).sum(axis=1),
    }
