"""arm_insert: insert a square peg, which the fingers hold, into a hole that is 1 mm wider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import frames
from rlstack.schema import value
from rlstack.tasks.manipulator.expert import toward
from rlstack.tasks.manipulator.rewards import ArmReward
from rlstack.tasks.manipulator.task import OBJECT_INPUTS, ArmTask
from rlstack.tasks.manipulator.trials import ArmNoise, ArmTrials, Motion, ObjectRange, Region, Starts, draw_objects

if TYPE_CHECKING:
    from rlstack.sim.arms.scene import Socket
    from rlstack.sim.obstacle import Obstacle
    from rlstack.tasks.core.pipeline import Term


_HALF_WIDTH, _HALF_LENGTH = 0.01, 0.03
"""m, half width and half length of the peg."""
_DEPTH = 0.03
"""m, depth of the hole."""
_HELD = 0.015
"""m from the peg's centre up to the tool."""
_OVER = _DEPTH + 0.012
"""m above the inserted position where the peg's end clears the walls."""

_SLOWLY, _PRESSED = 0.004, 0.005
"""m, descent of the target per step, and its final depth below the inserted position."""

_BESIDE = 0.0012
"""m, horizontal offset from the hole's centre at which a peg does not go in."""

_IN = 0.003
"""m from the bottom's middle within which the peg is in."""

_NEAR = 0.05
"""dm, m/s and rad: the task needs half a millimetre, centimetres per second and a degree."""


class InsertExpert:
    """Move over the hole; lower slowly once the peg hangs still; lift and shift if it stands beside the hole."""

    def act(self, seen: Mapping[str, Array], pipeline: Any) -> Array:
        """Return actions (N, actions); see :class:`rlstack.tasks.manipulator.expert.Expert`."""
        peg, goal, target, tool = (seen[f"{n}_position"] for n in ("object", "goal", "target", "tool"))
        held, height = tool - peg, (peg - goal)[:, 2]
        # align the peg's lower end, which a tilted peg displaces from its centre
        end = peg - frames.rotate(seen["object_orientation"], np.array([0.0, 0.0, _HALF_LENGTH]))
        aside = (goal - end)[:, :2]
        level = np.linalg.norm(aside, axis=1)
        still = np.linalg.norm(seen["tool_velocity"], axis=1) < 0.02
        beside = (np.abs(height - _DEPTH) < 0.004) & (level > _BESIDE) & (level < 0.008)
        inside = (height < _DEPTH - 0.002) & ~beside & (level < 0.008)
        outside = (height < _DEPTH - 0.002) & (level >= 0.008)
        # use the peg's target position, not the measured one: the arm oscillates
        place = goal + held
        place[:, :2] = tool[:, :2] + aside
        above = place[:, 2] + _OVER
        begun = (target[:, 2] < above - 0.002) & (level < 0.004) & (np.abs(held[:, 2] - _HELD) < 0.01)
        down = inside | (begun & ~beside) | ((level < 0.0015) & still)
        place[:, 2] = np.where(down, np.maximum(target[:, 2] - _SLOWLY, place[:, 2] - _PRESSED), above)
        # a peg pressed on the rim sticks: unload and push it; with an edge in the hole, lift it out
        lifted = tool[:, 2] + np.where(height < _DEPTH - 0.0007, 0.004, 0.0005)
        place[:, 2] = np.where(beside, lifted, place[:, 2])
        place[:, :2] += np.where(beside[:, None], 0.5 * aside, 0.0)
        # beside the walls: up first
        place[:, :2] = np.where(outside[:, None], tool[:, :2], place[:, :2])
        # a peg at the bottom stays there: pushed on, it tilts
        place = np.where(((height < _IN) & (level < _IN))[:, None], target, place)
        return toward(seen, pipeline, place)


@dataclass(frozen=True, kw_only=True)
class InsertReward(ArmReward):
    """Weights per second."""

    distance: float = value(-4.0)
    aside: float = value(-4.0)
    at_goal: float = value(2.0)


@dataclass(frozen=True, kw_only=True)
class InsertTask(ArmTask):
    """Put a square peg, which the fingers hold, into a hole that is 1 mm wider."""

    tolerance_m: float = value(0.006, unit="m", above=0.0)
    clearance_m: float = value(0.001, unit="m", above=0.0)
    """Clearance: the hole's width minus that of the widest peg."""
    motion: Motion = field(default_factory=lambda: Motion(speed_m_s=0.2))
    noise: ArmNoise = field(default_factory=lambda: ArmNoise(object_m=0.0003, object_rad=0.005))
    starts: Region = field(default_factory=lambda: Region(x_m=(0.42, 0.58), y_m=(-0.1, 0.1), z_m=(0.14, 0.2)))
    goals: Region = field(
        default_factory=lambda: Region(x_m=(0.42, 0.58), y_m=(-0.1, 0.1), z_m=(_HALF_LENGTH, _HALF_LENGTH))
    )
    peg: ObjectRange = field(
        default_factory=lambda: ObjectRange(
            half_m=(_HALF_WIDTH, _HALF_WIDTH), mass_kg=(0.03, 0.08), friction=(0.8, 1.2), yaw_rad=0.0
        )
    )
    reward: InsertReward = field(default_factory=InsertReward)

    inputs = OBJECT_INPUTS
    moved = "object_position"
    fits = False
    holds = True
    fixtures: ClassVar[Mapping[str, tuple[float, float, float]]] = {"socket": (0.0, 0.0, -_HALF_LENGTH)}

    def opened(self, robot: Manipulator) -> float:
        """Return the gripper's start opening, a share of its range: 2 mm to either side of the peg."""
        ranges = [drive.upper - drive.lower for drive in robot.drives[len(robot.joints) :]]
        return min(1.0, (self.peg.half_m[1] + 0.002) / min(ranges, default=1.0))

    def build(self, spec: Any) -> None:
        """Add peg and hole to the scene."""
        from rlstack.sim.arms.scene import Block

        Block(half_m=(_HALF_WIDTH, _HALF_WIDTH, _HALF_LENGTH)).add(spec)
        self._socket().add(spec)

    def fixture_obstacles(self, trials: ArmTrials, number: int) -> tuple[Obstacle, ...]:
        """Return the walls of the hole."""
        from rlstack.sim.arms.scene import socket_obstacles

        return socket_obstacles(self._socket(), trials.goal[number] + np.array(self.fixtures["socket"]))

    def _socket(self) -> Socket:
        from rlstack.sim.arms.scene import Socket

        return Socket(inner_half_m=self.peg.half_m[1] + self.clearance_m / 2.0, height_m=_DEPTH)

    def place(self, rng: np.random.Generator, starts: Starts) -> ArmTrials:
        """Draw trials for N arms at their starts."""
        trials = draw_objects(self.peg, self.goals, self.goals, 0.0, rng, starts)
        trials.half[:, 2] = _HALF_LENGTH
        trials.position[:] = starts.tool - np.array([0.0, 0.0, _HELD])
        return trials

    def terms(self, robot: Manipulator) -> list[Term]:
        """Return the terms of the observation."""
        from rlstack.tasks.manipulator import observations

        tool_position, velocity, lead = observations.tool_terms(self.workspace.middle)
        return [
            tool_position,
            observations.CloseUp(velocity, _NEAR),
            observations.CloseUp(lead, _NEAR),
            observations.object_offset(),
            observations.ObjectVelocity(self.rate_hz),
            observations.CloseUp(observations.ObjectLean(), _NEAR),
            observations.CloseUp(observations.GoalOffset(self.moved), _NEAR),
        ]

    def expert(self) -> InsertExpert:
        """Return the scripted expert."""
        return InsertExpert()


TASK = InsertTask
