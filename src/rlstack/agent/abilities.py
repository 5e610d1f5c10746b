"""Which skills a robot has, by what its policy's contract and its robot file say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rlstack.arrays import Array
from rlstack.interfaces.instruction import TextInput
from rlstack.policies.contract import Contract
from rlstack.robots.goal_limits import GoalLimits
from rlstack.robots.spec import RobotSpec

_AXES = ("x", "y", "z")


@dataclass(frozen=True, kw_only=True)
class Abilities:
    """What a robot can be asked to do.

    Args:
        robot: Its name.
        policy: The name of its policy or planner.
        flies: Whether it takes off and lands.
        has_goal: Whether it goes to goals.
        carries: Whether its goals are those of an object that it handles; otherwise of the robot or its tool.
        fixed: Whether it stands on a fixed base, so that its goals are those of its tool or object.
        turns: Whether it takes a heading at the goal.
        text: The instructions that it understands; None: none.
        limits: Where goals may be, by the guard's limits; None: anywhere.
        trained: Where goals were in training, ``(low, high)`` m by axis; beyond it nothing is proven.
        places: Named places, (2,) or (3,) m in the goals' frame.
    """

    robot: str
    policy: str
    flies: bool = False
    has_goal: bool = False
    carries: bool = False
    fixed: bool = False
    turns: bool = False
    text: TextInput | None = None
    limits: GoalLimits | None = None
    trained: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    places: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def skills(self) -> tuple[str, ...]:
        """Names of the skills."""
        names = ["take_off", "land"] if self.flies else ["arm", "rest", "disarm"]
        if self.has_goal:
            names += ["go_to", "move", "return", "hold"]
        if self.turns:
            names.append("turn")
        if self.text is not None:
            names.append("instruct")
        return (*names, "wait", "estop")

    @property
    def axes(self) -> int:
        """How many coordinates of a goal count."""
        return 3 if self.limits is None else len(self.limits.low_m)

    @property
    def goes(self) -> str:
        """What it does on the way to a goal, as a verb."""
        if self.carries:
            return "put the object at"
        if self.fixed:
            return "move the tool to"
        return "fly to" if self.flies else "drive to"

    def untrained(self, position: Array) -> str:
        """Return why a goal (3,), m, is beyond those of training; empty if it is not."""
        for axis, (low, high) in self.trained.items():
            number = float(position[_AXES.index(axis)])
            if not low <= number <= high:
                return (
                    f"the policy {self.policy} is trained for goals with {axis} from {low:g} to {high:g} m, and this"
                    f" one has {number:g}"
                )
        return ""

    def refusal(self, position: Array) -> str:
        """Return why a position (3,), m, is no goal; empty if it is one."""
        if not np.isfinite(position).all():
            return "its coordinates must be finite numbers"
        return (self.limits.refusal(position) if self.limits is not None else "") or self.untrained(position)


def abilities_of(
    robot: RobotSpec,
    contract: Contract | None,
    planner: str = "",
    limits: GoalLimits | None = None,
    places: Mapping[str, tuple[float, ...]] | None = None,
) -> Abilities:
    """Return what a robot can do with a policy or planner.

    Args:
        robot: The robot.
        contract: The policy's contract; None: a planner drives it.
        planner: The planner's name.
        limits: Where goals may be; None: by the robot file.
        places: Named places.
    """
    inputs = () if contract is None else tuple(port.name for port in contract.inputs)
    limits = robot.goal_limits() if limits is None else limits
    flies = not robot.fixed_base and limits is not None and len(limits.low_m) == 3
    texts = [] if contract is None else [port.text for port in contract.inputs if port.name == "instruction"]
    return Abilities(
        robot=robot.name,
        policy=planner if contract is None else contract.name,
        flies=flies,
        has_goal=bool(planner) or "goal_position" in inputs,
        carries="object_position" in inputs and "goal_position" in inputs,
        fixed=robot.fixed_base,
        turns=flies and "goal_orientation" in inputs,  # on the ground, arriving is all that counts
        text=texts[0] if texts else None,
        limits=limits,
        trained={} if contract is None else _trained(contract.envelope.conditions),
        places=places or {},
    )


def _trained(conditions: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    ends = {axis: (f"goal_{axis}_min_m", f"goal_{axis}_max_m") for axis in _AXES}
    return {
        axis: (conditions[low], conditions[high])
        for axis, (low, high) in ends.items()
        if low in conditions and high in conditions
    }
