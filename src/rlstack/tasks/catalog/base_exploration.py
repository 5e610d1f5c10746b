"""base_exploration: explore unknown ground in as few moves as possible, from the growing map.

The setting is MarsExplorer's (Koutras et al., arXiv 2107.09996, and its public code): terrain, lidar, moves, end and
length of an episode. docs/exploration.md lists and explains the differences.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from rlstack.interfaces.kind_signals import command_range
from rlstack.robots import RobotSpec
from rlstack.schema import value
from rlstack.tasks.bounds import ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.core.task import Task
from rlstack.tasks.wheeled_base.exploration.setting import ExplorationSetting

if TYPE_CHECKING:
    from rlstack.tasks.core.task_card import TaskCard
    from rlstack.tasks.wheeled_base.exploration.pipeline import ExplorationPipeline


@dataclass(frozen=True, kw_only=True)
class ExplorationObservation:
    """Settings of the observation."""

    near: int = value(7, unit="cells", at_least=1)
    """Cells on each side that are observed individually."""
    sight: int = value(20, unit="cells", at_least=1)
    """Cells on each side that are observed in blocks of three by three."""
    way_cells: int = value(32, unit="cells", at_least=1, at_most=255)
    """Longest resolved path to the unknown."""
    patience: int = value(3, unit="moves", at_least=1)
    """Moves without a new cell after which the policy goes to the nearest unknown ground; unused in training."""
    last: float = value(0.9, above=0.0, at_most=1.0)
    """Share of known cells above which the policy does so, too."""
    worth: bool = False
    """Whether the worth of the frontiers that moves lead to is observed, which takes a search in each step."""

    def __post_init__(self) -> None:
        if self.near > self.sight:
            raise ValueError(f"near: {self.near} is not allowed: must be at most sight ({self.sight}).")


@dataclass(frozen=True, kw_only=True)
class ExplorationReward:
    """Rewards per move.

    MarsExplorer's are 1 for a cell, -0.2, 400 and -400. A discount already rewards early discoveries, so the final
    reward can be small, and smaller values suit the learner.
    """

    new_cells: float = value(0.02)
    """For each newly known cell, times ``1 + early * (1 - share)^4``, where ``share`` was known before."""
    early: float = value(12.0, at_least=0.0)
    """Extra weight of the first cells over the last, so that fast explorers lead all along."""
    move: float = value(-0.05, at_most=0.0)
    complete: float = value(1.0, at_least=0.0)
    """Once, on completion."""
    lost: float = value(-5.0, at_most=0.0)
    """Once, for a crash, which ends the episode."""


@dataclass(frozen=True, kw_only=True)
class ExplorationTask(Task):
    """Explore unknown ground; the command is the next cell to go to."""

    rate_hz: float = value(1.0, unit="Hz", above=0.0)
    """Decision rate on a robot; on the grid there is one per move."""
    expedition: ExplorationSetting = field(default_factory=ExplorationSetting)
    observation: ExplorationObservation = field(default_factory=ExplorationObservation)
    reward: ExplorationReward = field(default_factory=ExplorationReward)
    longest: int = value(120, unit="moves", at_least=1)
    """Longest training episode: later moves teach nothing new."""
    short: int = value(12, unit="moves", at_least=1)
    """Length of the short training episodes, which give more experience of the beginning."""
    short_share: float = value(0.5, at_least=0.0, at_most=1.0)
    """Share of short episodes."""
    wander: int = value(8, unit="moves", at_least=0)
    """Largest number of random moves before short episodes: starts in the corner vary too little."""

    kind = "wheeled_base"
    environment_class = "rlstack.tasks.wheeled_base.exploration.environment:ExplorationEnvironment"
    inputs = ("map", "map_resolution", "map_origin", "position")
    outputs = ("waypoint",)
    differentiable = False
    verification = "rlstack.kinds.wheeled_base.verification_exploration:VERIFICATION"
    planners = ("frontier_greedy", "frontier_utility")
    # on grids; not slower than the fastest planner
    bounds: ClassVar[Bounds] = Bounds(at_least={"success": 0.98}, at_most={"crashed": 0.0, "steps_ratio": 1.0})
    bounds_driven: ClassVar[Bounds] = Bounds(
        at_least={"success": 0.85}, at_most={"crashed": 0.05, "steps_ratio": 1.1}, episodes=ENOUGH_OVER_TOPICS
    )
    """Pass bounds of a robot that drives over floors."""
    bounds_over_topics: ClassVar[Bounds] = Bounds(
        at_least={"success": 0.8}, at_most={"crashed": 0.05, "intervened": 0.1}, episodes=ENOUGH_OVER_TOPICS
    )
    """Pass bounds over topics."""

    def pipeline(self, robot: RobotSpec) -> ExplorationPipeline:
        """Return the observation pipeline; waypoints stay inside the robot's geofence."""
        from rlstack.tasks.wheeled_base.exploration.pipeline import ExplorationPipeline

        low, high = command_range(robot, "waypoint")
        settings = self.observation
        return ExplorationPipeline(
            settings.near,
            settings.sight,
            settings.way_cells,
            settings.patience,
            settings.last,
            settings.worth,
            low,
            high,
        )

    def card(self, robot: RobotSpec, pipeline: ExplorationPipeline) -> TaskCard:
        """Return the task card."""
        from rlstack.sim.grids.simulator import MOVES
        from rlstack.tasks.core.task_card import TaskCard

        moves = min(self.longest, self.expedition.steps)
        enough = f"more than {100 * self.expedition.enough:g}% is known"
        units = {"new_cells": "a cell", "move": "a move", "complete": "once", "lost": "once"}
        return TaskCard(
            length=f"episodes of {moves} moves at most in training",
            actions=tuple((f"next cell at {move}", "-", "-", "the highest is chosen") for move in MOVES),
            rewards=tuple((name, f"{getattr(self.reward, name):g}", unit) for name, unit in units.items()),
            endings=(
                ("lost", "a crash: into an obstacle, or off the grid"),
                ("complete", enough),
                ("timed out", f"after {moves} moves; the value is bootstrapped"),
            ),
            episode="world",
            scale="actions: scores",
            criteria=(
                ("succeeds", f"{enough} within {self.expedition.steps} moves, without a crash"),
                ("better", "the mean share known, over the first half of those moves"),
            ),
        )

    def envelope(self) -> dict[str, float]:
        """Return the conditions that the policy was trained for, with SI units in the keys."""
        setting = self.expedition
        return {
            "cell_m": setting.cell_m,
            "range_m": setting.range_cells * setting.cell_m,
            "side_m": setting.terrain.side * setting.cell_m,
        }


TASK = ExplorationTask
