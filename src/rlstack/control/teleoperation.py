"""Teleoperation of an arm: from wanted motions of tool or joints to joint targets within all limits.

Follows the operator's command as far as the limits of tool, workspace and joints allow, and reports what was clipped in
sentences. Pure and without a clock: the nodes call it once per joint reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.control.inverse_kinematics import ALL, Limits, led_step, limits_of, span_of
from rlstack.control.joint_velocity import LEAD_S, tool_velocity
from rlstack.errors import UserError
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.kinematics import ToolMotion, chain_of, tool_motion

APPROACH, NEAR_S = 0.25, 0.05
"""Share of the full joint speed at which an arm approaches its leader arm, from which it may be far at the start, and
the time at full joint speed within which the leader arm counts as reached."""

_AT_END = 0.05
"""Distance from its limit, rad or m, within which a joint that would exceed it counts as being at the limit."""

_ROUND, _ASIDE = 1.01, 0.05
"""Largest tool motion relative to the command, and lateral motion in m per rad of rotation: with joints at their limits
the tool cannot rotate without some."""

LONGEST_S = 0.1
"""Longest step, however old the last joint reading is."""


@dataclass(frozen=True)
class TeleopStep:
    """Joint targets of one step.

    Attributes:
        target: (joints,) rad or m, in the robot file's order.
        clipped: One sentence for each part of the command that was clipped.
    """

    target: Array
    clipped: tuple[str, ...] = ()


class ArmTeleoperator:
    """Turns tool or joint motions into joint targets; keeps the target between steps.

    Args:
        robot: The arm.
        speed_m_s: Largest tool speed, up to the robot file's ``tool_velocity_m_s``, which None selects.
        turn_rad_s: Largest rotation rate of the tool.

    Raises:
        UserError: The robot has several arms, its model cannot be read, or the speed is above its limit.
    """

    def __init__(
        self,
        robot: Manipulator,
        speed_m_s: float | None = None,
        turn_rad_s: float = 2.0,
    ) -> None:
        require_single_arm(robot)
        most = robot.limits.tool_velocity_m_s
        if speed_m_s is not None and not 0.0 < speed_m_s <= most:
            raise UserError(f"speed_m_s: {speed_m_s:g} is not allowed: must be above 0 and at most {most:g} m/s.")
        self.robot = robot
        self.speed_m_s, self.turn_rad_s = speed_m_s or most, turn_rad_s
        self._chain = chain_of(robot)
        self._span_m = span_of(self._chain)
        self._limits = limits_of(robot, self._chain)
        self._arm = list(self._chain.index)
        names = [drive.name for drive in robot.drives]
        self._hand = [names.index(joint.name) for joint in robot.gripper]
        self._lower, self._upper, self._velocity = limits_of(robot)
        self._low, self._high = (np.array(c) for c in (robot.limits.workspace_min_m, robot.limits.workspace_max_m))
        self._target: Array | None = None
        self._follows = False

    def release(self) -> None:
        """Drop the target: the next step begins at the joints' positions, and releases what the gripper holds."""
        self._target, self._follows = None, False

    def take_up(self, target: Array | None = None) -> None:
        """Continue from ``target`` (joints,), the arm's last command, so that a grasp is kept; None: its own.

        The next step begins there, clipped to the largest lead over the joints.
        """
        self._follows = False
        if target is not None:
            self._target = np.array(target, dtype=float)

    def give_way(self, joints: Array) -> None:
        """Yield to another controller: the targets become the joint positions (joints,); the gripper's stay."""
        if self._target is not None:
            self._target[self._arm] = np.asarray(joints, dtype=float)[self._arm]
            self._follows = False

    def step(
        self,
        joints: Array,
        period_s: float,
        linear: Array,
        angular: Array,
        gripper: float = 0.0,
        *,
        in_tool: bool = False,
    ) -> TeleopStep:
        """Return the joint targets for a tool twist.

        Args:
            joints: (joints,) measured positions, rad or m.
            period_s: Time since the last step.
            linear: (3,) m/s in ``base_link``.
            angular: (3,) rad/s about its axes.
            gripper: 1 opens at the joints' speed, -1 closes, 0 leaves it.
            in_tool: Both are in the tool's own frame instead.
        """
        target, period = self._begin(joints), min(period_s, LONGEST_S)
        clipped: list[str] = []
        tool = tool_motion(self._chain.screws, target[None, self._arm])
        linear, angular = np.asarray(linear, dtype=float), np.asarray(angular, dtype=float)
        if in_tool:
            linear, angular = tool.rotation[0] @ linear, tool.rotation[0] @ angular
        linear = _shortened(linear, self.speed_m_s, "The tool is slowed to {:g} m/s.", clipped)
        angular = _shortened(angular, self.turn_rad_s, "The tool's turn is slowed to {:g} rad/s.", clipped)
        linear = self._inside(tool.position[0], linear, period, clipped)
        motion = period * np.concatenate([linear, angular])
        if motion.any():
            self._move(target, tool, motion, period, clipped)
        hand = target[self._hand] + np.clip(gripper, -1.0, 1.0) * period * self._velocity[self._hand]
        target[self._hand] = np.clip(hand, self._lower[self._hand], self._upper[self._hand])
        return self._keep(target, clipped)

    def follow(self, joints: Array, period_s: float, wanted: Mapping[str, float]) -> TeleopStep:
        """Return the joint targets on the way to a leader arm's positions.

        Args:
            joints: (joints,) measured positions, rad or m.
            period_s: Time since the last step.
            wanted: The leader arm's positions, by joint name.

        Raises:
            ValueError: A joint is unknown, or its position is not finite.
        """
        target, period = self._begin(joints), min(period_s, LONGEST_S)
        inside, clipped = placed(self.robot, target, wanted)
        self._follows |= bool((np.abs(inside - target) <= NEAR_S * self._velocity).all())
        step = (1.0 if self._follows else APPROACH) * period * self._velocity
        if not self._follows:
            clipped.insert(0, "The joints approach the leader arm's position slowly.")
        elif (np.abs(inside - target) > 2.0 * step).any():
            clipped.insert(0, "The joints follow at their largest speed.")
        after = target + np.clip(inside - target, -step, step)
        most, slowed = self.speed_m_s * period, f"The tool is slowed to {self.speed_m_s:g} m/s."
        after[self._arm] = self._no_further(target[self._arm], after[self._arm], most, slowed, clipped)
        return self._keep(after, clipped)

    def _begin(self, joints: Array) -> Array:
        joints = np.asarray(joints, dtype=float)
        if self._target is None:
            return np.clip(joints, self._lower, self._upper)
        lead = LEAD_S * self._velocity
        return np.clip(np.clip(self._target, joints - lead, joints + lead), self._lower, self._upper)

    def _keep(self, target: Array, clipped: list[str]) -> TeleopStep:
        self._target = target
        return TeleopStep(target.copy(), tuple(clipped))

    def _inside(self, place: Array, linear: Array, period: float, clipped: list[str]) -> Array:
        """Return a velocity that does not leave the workspace; one that leads back in stays unchanged."""
        after = place + period * linear
        kept = linear.copy()
        for k, axis in enumerate("xyz"):
            low, high = self._low[k], self._high[k]
            if (after[k] < low and linear[k] < 0.0) or (after[k] > high and linear[k] > 0.0):
                bound = f"{axis} >= {low:g}" if linear[k] < 0.0 else f"{axis} <= {high:g}"
                clipped.append(f"The tool is kept in the workspace, {bound} m.")
                edge = (low if linear[k] < 0.0 else high) - place[k]
                kept[k] = 0.0 if edge * linear[k] <= 0.0 else edge / period
        return kept

    def _move(self, target: Array, tool: ToolMotion, motion: Array, period: float, clipped: list[str]) -> None:
        """Move the arm's joints of ``target`` for a motion (6,) of the tool."""
        before = target[self._arm]
        endless = Limits(*(np.full(len(self._arm), end) for end in (-np.inf, np.inf, np.inf)))
        # the second without speed and range limits, to find what was clipped
        after, free = (self._joints_for(tool, motion, before, limits, period) for limits in (self._limits, endless))
        speeds = np.abs(free - before) / period
        if (over := speeds / self._limits.velocity).max() > 1.0 + 1e-9:
            k = int(over.argmax())
            clipped.append(
                f"The tool is slowed to {100.0 / over[k]:.0f}%: {self._chain.joints[k]} can turn at"
                f" {self._limits.velocity[k]:g} rad/s only."
            )
        ends = np.clip(free, self._limits.lower, self._limits.upper)
        for end in np.flatnonzero((ends != free) & (np.abs(after - ends) <= _AT_END)):
            clipped.append(f"{self._chain.joints[end]} is at its limit, {ends[end]:.4g}.")
        most = float(np.linalg.norm(motion[:3]) + _ASIDE * np.linalg.norm(motion[3:]))
        slowed = "The tool is slowed: the joints cannot move it there without moving it elsewhere."
        target[self._arm] = self._no_further(before, after, most, slowed, clipped)

    def _joints_for(self, tool: ToolMotion, motion: Array, before: Array, limits: Limits, period: float) -> Array:
        if len(before) >= ALL:
            # leave out joints at their limits: otherwise a Panda retracting from a stretched pose would move as if its
            # elbow had bent, and drop
            found = tool_velocity(tool.jacobian, motion[None] / period, before[None], limits, period)
            return np.asarray(before + period * found[0])
        aside = np.zeros((1, len(before)))
        return np.asarray(
            led_step(tool.jacobian, tool.rotation, motion[None], aside, before[None], limits, period, self._span_m)[0]
        )

    def _no_further(self, before: Array, after: Array, most_m: float, slowed: str, clipped: list[str]) -> Array:
        """Return joint positions (J,) between two configurations, as far as the tool may move."""
        start, end = tool_motion(self._chain.screws, np.stack([before, after])).position
        far = float(np.linalg.norm(end - start))
        if far <= most_m * _ROUND:
            return after
        clipped.append(slowed)
        return before + (after - before) * (most_m / far)


def require_single_arm(robot: Manipulator) -> None:
    """Refuse a robot with several arms: a device moves one tool."""
    if robot.arms:
        raise UserError(f"{robot.name} has {len(robot.arms)} arms, and teleoperation moves one: use panda.")


def placed(robot: Manipulator, joints: Array, wanted: Mapping[str, float]) -> tuple[Array, list[str]]:
    """Return joint positions (joints,) rad or m that follow a leader arm within their limits, and what was clipped.

    Args:
        robot: The arm.
        joints: (joints,) positions of the joints that the leader arm lacks, rad or m.
        wanted: The leader arm's positions, by joint name.

    Raises:
        ValueError: A joint is unknown, or its position is not finite.
    """
    names = [drive.name for drive in robot.drives]
    if unknown := [name for name in wanted if name not in names]:
        raise ValueError(f"{robot.name} has no joint {', '.join(unknown)}; it has: {', '.join(names)}")
    if bad := [name for name, place in wanted.items() if not np.isfinite(place)]:
        raise ValueError(f"the position of {', '.join(bad)} is not finite")
    found, clipped = np.array(joints, dtype=float), []
    for name, place in wanted.items():
        drive = robot.drives[k := names.index(name)]
        found[k] = min(max(place, drive.lower), drive.upper)
        if abs(place - found[k]) > 1e-9:
            clipped.append(f"{name} is kept at its limit, {found[k]:.4g}: {place:.4g} was requested.")
    return found, clipped


def _shortened(vector: Array, most: float, sentence: str, clipped: list[str]) -> Array:
    length = float(np.linalg.norm(vector))
    if length <= most * (1.0 + 1e-9):
        return vector
    clipped.append(sentence.format(most))
    return vector * (most / length)
