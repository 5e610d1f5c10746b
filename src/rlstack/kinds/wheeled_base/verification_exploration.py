"""Verification of exploration on held-out terrain: on grids as in training, and by a lidar robot that it leads.

A policy for exploration selects the next cell of a grid. Its performance on a robot is measured with the planner
``explorer_policy``, which drives one to these cells on floors of the same kind, as in a deployment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from rlstack import schema
from rlstack.control.navigation import EXPLORER, PLANNERS
from rlstack.control.navigation.grid_frontier import GridFrontier, GridFrontierSettings
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.policies import Contract
from rlstack.sim.grids.simulator import Sites
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.vector import BATCH
from rlstack.sim.world_generators.floor_map import world_of
from rlstack.tasks.core.trained_task import within
from rlstack.tasks.wheeled_base.exploration.setting import ExplorationSetting
from rlstack.verification.drawing import Plot
from rlstack.verification.exploration_plots import draw_exploration
from rlstack.verification.exploration_score import score_exploration
from rlstack.verification.exploration_trials import explore_floors, explore_grids
from rlstack.verification.request import Request
from rlstack.verification.schedule import Counts
from rlstack.verification.scores import Score
from rlstack.verification.task_verification import ColumnPlan, Records, TaskVerification, known_planners, supporting
from rlstack.verification.training_evaluation import Evaluation
from rlstack.verification.trial_records import ExplorationRecord

SITES = 300
"""Grids, in the batch simulator."""

BATCH_SIZE = 6
"""Robots that explore together in the batch simulator."""

DRIVEN = f"{BATCH}, driven"
"""Column of the lidar robot in the batch simulator."""

SECONDS_PER_M = 15
"""Time limit of a robot per metre of the terrain's side."""

ON_GRIDS: Mapping[str, GridFrontierSettings] = {
    "frontier_greedy": GridFrontierSettings(choice="greedy"),
    "frontier_utility": GridFrontierSettings(choice="utility"),
}
"""Planners that exist both on grids and on robots, by their names on robots."""

_STREAM = 0xE4
"""Separates the seeds of terrains from those that select a run's best policy."""

_WALL_M = 0.1


class ExplorationVerification(TaskVerification):
    """See :class:`rlstack.verification.task_verification.TaskVerification`; the trials are floors to explore."""

    first = ("episodes", "success", "crashed", "to_90", "steps_ratio", "least_lead")
    evaluated = ("episodes", "success", "crashed", "steps_to_90", "steps_to_95", "mean_coverage")
    counts = Counts(batch=24, engines=20, topics=20, baselines_in_engines=6)
    description = (
        "Sites that are never used for training. On grids a move leads to the next cell, and coverage is relative to"
        " that which ends an episode. Driven, the planner explorer_policy leads a robot with a lidar over floors of the"
        " same kind by the policy; coverage is the share of reachable points that an occupancy grid of its scans knows."
        " Frontier planners drive the same robot over the same floors. Over topics the planner node and the guard of a"
        " deployment run."
    )

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        if not isinstance(request.robot, WheeledBase) or "scan" not in request.robot.lidars:
            raise UserError(
                f"{request.robot.name} cannot explore: that needs a wheeled base with a lidar called scan, such as"
                " --robot turtlebot3_burger."
            )
        self.robot: WheeledBase = request.robot
        self.baselines = known_planners(
            self.task.planners if request.drivers is None else request.drivers, self.task.bounds
        )
        if unknown := [name for name in self.baselines if name not in ON_GRIDS]:
            raise UserError(f"drivers: {unknown[0]} does not explore: give one or more of {', '.join(ON_GRIDS)}.")
        self._setting = expedition_of(request.loaded.contract)
        self.trials = floors_of(self._setting, max(request.episodes or 0, self.counts.batch), request.seed)
        self._seconds = round(SECONDS_PER_M * self._setting.terrain.side * self._setting.cell_m)

    @staticmethod
    def draw_evaluation(task: Any, robot: Any, episodes: int, seed: int) -> Sites:
        """Return held-out grids."""
        sites: Sites = task.expedition.held_out(seed, episodes)
        return sites

    @staticmethod
    def evaluate(policy: Any, trials: Sites, task: Any, robot: Any, seed: int) -> Evaluation:
        """Return how fast ``policy`` covered the grids, ranked by the mean of the coverage over half of the time."""
        explored = explore_grids(policy, task.expedition, trials)
        half = explored.normalized().coverage[:, : task.expedition.steps // 2]
        figures = {
            "episodes": float(len(trials)),
            "success": float(explored.done.mean()),
            "crashed": float(explored.crashed.mean()),
            "steps_to_90": float(explored.time_beyond(0.9).mean()),
            "steps_to_95": float(explored.time_beyond(0.95).mean()),
            "mean_coverage": float(half.mean()),
        }
        return Evaluation(figures["success"], (figures["mean_coverage"],), figures)

    def supported(self, names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the simulators that support the robot on a floor."""
        return supporting(names, self.robot, world_of(self.trials[0]))

    def columns(self, simulator: str) -> list[ColumnPlan]:
        """Return the trials in a simulator; in the batch simulator on grids as well."""
        driven = DRIVEN if simulator == BATCH else simulator
        plans = [self.column(driven, simulator, self.trials, self.task.bounds_driven)]
        if simulator == BATCH:
            grids = self._setting.held_out(_STREAM + self.request.seed, self.request.episodes or SITES)
            grid = ColumnPlan(name=BATCH, simulator=BATCH, trials=grids, baseline_trials=grids, bounds=self.task.bounds)
            plans.insert(0, grid)
        return plans

    def run(self, plan: ColumnPlan, baseline: str | None) -> ExplorationRecord:
        """Run explorations in process: on grids, or by a robot that a planner drives."""
        if plan.name != BATCH:
            driven: ExplorationRecord = super().run(plan, baseline)
            return driven
        explorer = self.request.loaded if baseline is None else GridFrontier(ON_GRIDS[baseline])
        explored = explore_grids(explorer, self._setting, plan.trials, name=baseline or self.request.name)
        if shown := self.request.progress_of(plan.name if baseline is None else f"{plan.name}: {baseline}"):
            shown(len(explored), len(explored))
        return explored.normalized()

    def process_runner(self, plan: ColumnPlan, baseline: str | None) -> tuple[Any, dict[str, Any]]:
        """Return the function that explores floors in process, and its options."""
        led = {"policy": str(self.request.policy)} if baseline is None else {}
        batch_size = BATCH_SIZE if plan.simulator == BATCH else 1
        return explore_floors, {
            "make_driver": partial(PLANNERS.load(baseline or EXPLORER), self.robot, **led),
            "least": batch_size,
            "batch_size": batch_size,
            "duration_s": self._seconds,
        }

    def topics_recorder(self) -> tuple[Any, dict[str, Any]]:
        """Return the recorder of explorations through the planner node and the guard node, and its options."""
        from rlstack.kinds.wheeled_base.verification_topics import ExplorationRecorder

        explorer = PLANNERS.load(EXPLORER)(self.robot, policy=str(self.request.policy))
        grids = explorer.global_planner.grids.settings  # those of the planner that drives
        return ExplorationRecorder, {"driver": EXPLORER, "duration_s": self._seconds, "grids": grids}

    def score(self, record: ExplorationRecord, baselines: Mapping[str, ExplorationRecord]) -> Score:
        """Return the figures of explorations beside those of planners."""
        return score_exploration(record, baselines)

    def describe(self, plan: ColumnPlan, record: ExplorationRecord) -> str:
        """Describe the explorations."""
        if plan.name == BATCH:
            return f"{len(record)} grids of {self._setting.terrain.side} cells of {self._setting.cell_m:g} m a side"
        return f"{len(record)} floors, {self._seconds} s each"

    def settings(self) -> tuple[str, dict[str, Any]]:
        """Return the terrain, for the provenance."""
        return "", {"expedition": schema.to_data(self._setting)}

    def pictures(self, records: Records, plans: Mapping[str, ColumnPlan]) -> list[Plot]:
        """Return the plots of the explorations."""
        explored: Any = records
        return draw_exploration(self.robot, explored, self.trials)


def expedition_of(contract: Contract) -> ExplorationSetting:
    """Return the terrain that a policy was trained on, with MarsExplorer's end and length of an episode.

    A policy without that record is tested on MarsExplorer's terrain.
    """
    data = within(contract.training, "recipe", "task_settings", "expedition")
    if data is None:
        return ExplorationSetting()
    told = {name: value for name, value in data.items() if name not in ("steps", "enough")}
    return schema.load(ExplorationSetting, told, f"the training of {contract.name}: expedition")


def floors_of(expedition: ExplorationSetting, count: int, seed: int) -> list[FloorMap]:
    """Return floors of an exploration setting for a robot, none of them used for training."""
    if expedition.floors is not None:
        rng = np.random.default_rng([_STREAM, seed])
        return expedition.floors.maps(rng, count, held_out=True)
    sites = expedition.held_out(_STREAM + seed, count)
    return [_floor(expedition, sites, number) for number in range(count)]


def _floor(expedition: ExplorationSetting, sites: Sites, number: int) -> FloorMap:
    """Return a grid as a floor: a box for each run of occupied cells in a row, and walls around it."""
    size, occupied = expedition.cell_m, sites.occupied[number]
    side = len(occupied) * size
    half = 0.5 * side
    reach, thick = half + _WALL_M, 0.5 * _WALL_M
    out = half + thick
    boxes = [[0.0, out, reach, thick, 0.0], [0.0, -out, reach, thick, 0.0]]
    boxes += [[out, 0.0, thick, reach, 0.0], [-out, 0.0, thick, reach, 0.0]]
    for row, cells in enumerate(occupied):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], cells.astype(int), [0]])))
        for first, end in edges.reshape(-1, 2).tolist():
            x, y = 0.5 * (first + end) * size - half, (row + 0.5) * size - half
            boxes.append([x, y, 0.5 * (end - first) * size, 0.5 * size, 0.0])
    row, column = divmod(int(sites.start[number]), len(occupied))
    start = np.array([(column + 0.5) * size - half, (row + 0.5) * size - half, 0.25 * np.pi])
    return FloorMap(
        kind="terrain",
        seed=number,
        difficulty=0.0,
        radius_m=0.25 * size,
        size_m=(side + 2.0 * _WALL_M, side + 2.0 * _WALL_M),
        boxes=np.array(boxes),
        circles=np.zeros((0, 3)),
        start=start,
        goal=start.copy(),
        shortest_m=1.0,
    )


VERIFICATION = ExplorationVerification
