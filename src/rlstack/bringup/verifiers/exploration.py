"""Explorers are verified on unknown ground: on grids as they were trained, and by a lidar robot that they lead.

A policy for exploration says which cell to go to, on a grid. What it is worth on a robot shows only where the planner
``explorer_policy`` drives one as it says, over floors of the same kind: that is what is deployed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlstack import schema
from rlstack.bringup.parallel import run_trials
from rlstack.bringup.trials import concluded
from rlstack.bringup.verified import Verified
from rlstack.bringup.verifiers import Request, held_by, over_topics, planners_of
from rlstack.control.navigation import EXPLORER
from rlstack.control.navigation.grid_frontier import GridFrontier, GridFrontierSettings
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.kinds.wheeled_base.verification_run_exploration import explore_in_parallel, explore_over_topics
from rlstack.policies import Contract
from rlstack.sim.grids.sites import Sites
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.maps.world import world_of
from rlstack.sim.vector import BATCH
from rlstack.tasks.catalog.base_exploration import ExplorationTask
from rlstack.tasks.core.settings import within
from rlstack.tasks.wheeled_base.exploration.setting import ExplorationSetting
from rlstack.verification.exploration import explore
from rlstack.verification.exploration_plots import draw_exploration
from rlstack.verification.exploration_score import score_exploration
from rlstack.verification.records import ExplorationRecord
from rlstack.verification.report import environment
from rlstack.verification.runner import Driver
from rlstack.verification.trials import TrialColumn, TrialVerification

SITES = 300
"""Grids, in the batch simulator."""

FLOORS, FLOORS_IN_ENGINES, FLOORS_OVER_TOPICS = 24, 20, 20
"""Floors that a robot drives over, in the batch simulator, in every other simulator in process, and over topics."""

FLOORS_PLANNED_IN_ENGINES = 6
"""In engines planners drive over the first so many of them."""

DRIVEN = f"{BATCH}, driven"
"""What the column of the lidar robot in the batch simulator is called."""

SECONDS_PER_M = 15
"""How long a robot may explore, for each metre of the ground's side."""

ON_GRIDS: Mapping[str, GridFrontierSettings] = {
    "frontier_greedy": GridFrontierSettings(choice="greedy"),
    "frontier_utility": GridFrontierSettings(choice="utility"),
}
"""Planners that there are both on grids and on robots, by their names on robots."""

FIRST = ("episodes", "success", "crashed", "to_90", "steps_ratio", "least_lead")
"""Figures that a reader wants first."""

_STREAM = 0xE4
"""Keeps the seeds of grounds apart from those that runs choose their best policy by."""

_WALL_M = 0.1

_TOLD = (
    "Grounds that are never trained on. On grids a move leads to the next cell, and the known share is that of what"
    " ends an episode. Driven, the planner explorer_policy leads a robot with a lidar over floors of the same kind by"
    " the policy, and the known share is of the places that the robot can get to, as an occupancy grid of its scans"
    " knows them; frontier planners drive the same robot over the same floors. Over topics the planner node and the"
    " guard of a deployment do."
)


def verify_exploration(request: Request) -> Verified:
    """Explore in every simulator, judge it, and write report and record.

    Raises:
        UserError: It could not be explored to the end, or the robot is no wheeled base with a lidar.
    """
    task, contract, robot = ExplorationTask(), request.loaded.contract, request.robot
    if not isinstance(robot, WheeledBase) or "scan" not in robot.lidars:
        raise UserError(
            f"{robot.name} cannot be led by an explorer, which takes a wheeled base with a lidar called scan: give"
            " --robot turtlebot3_burger."
        )
    planners = planners_of(task.planners if request.drivers is None else request.drivers, task.bounds)
    if strange := [name for name in planners if name not in ON_GRIDS]:
        raise UserError(f"drivers: {strange[0]} does not explore: one or more of {', '.join(ON_GRIDS)}.")
    expedition = expedition_of(contract)
    floors = floors_of(expedition, max(request.episodes or 0, FLOORS), request.seed)
    seconds = round(SECONDS_PER_M * expedition.terrain.side * expedition.cell_m)
    held, left_out = held_by(request.names, robot, world_of(floors[0]))
    if not held:
        raise UserError(f"None of these simulators can hold the task: {' '.join(left_out.values())}")
    columns: dict[str, tuple[ExplorationRecord, dict[str, ExplorationRecord]]] = {}
    asked: dict[str, Any] = {}
    told: dict[str, str] = {}
    if BATCH in held:
        sites = expedition.held_out(_STREAM + request.seed, request.episodes or SITES)
        columns[BATCH] = _on_grids(request, expedition, sites, planners)
        asked[BATCH] = task.bounds
        told[BATCH] = f"{len(sites)} grids of {expedition.terrain.side} cells of {expedition.cell_m:g} m a side"
    for name in held:
        label, many = (DRIVEN, FLOORS) if name == BATCH else (name, FLOORS_IN_ENGINES)
        some = floors[: request.episodes or many]
        fewer = some if name == BATCH else some[:FLOORS_PLANNED_IN_ENGINES]
        common: dict[str, Any] = {"simulator": name, "duration_s": seconds, "seed": request.seed, "robot": robot}
        mine = explore_in_parallel(
            EXPLORER,
            some,
            name=contract.name,
            options={"policy": str(request.policy)},
            on_progress=request.shown(label),
            **common,
        )
        theirs = {
            who: explore_in_parallel(who, fewer, name=who, on_progress=request.shown(f"{label}: {who}"), **common)
            for who in planners
        }
        columns[label], asked[label] = (mine, theirs), task.bounds_driven
        told[label] = f"{len(some)} floors, {seconds} s each"
    for name in (name for name in held if request.topics and name != BATCH):
        label, some = over_topics(name), floors[: request.episodes or FLOORS_OVER_TOPICS]
        mine = run_trials(
            explore_over_topics,
            some,
            on_progress=request.shown(label),
            policy=request.policy,
            robot=robot,
            backend_name=name,
            duration_s=seconds,
            name=contract.name,
            robot_name=request.named,
            seed=request.seed,
        )
        columns[label], asked[label] = (mine, columns[name][1]), task.bounds_over_topics
        told[label] = f"{len(some)} floors, {seconds} s each"
    verification = TrialVerification(
        contract=contract,
        sha256=request.sha256,
        robot=robot,
        columns={
            name: TrialColumn(
                simulator=mine.simulator,
                score=score_exploration(mine, beside),
                theirs={who: score_exploration(one) for who, one in beside.items()},
                bounds=asked[name],
                told=told[name],
            )
            for name, (mine, beside) in columns.items()
        },
        first=FIRST,
        left_out=left_out,
        told=_TOLD,
        pictures=draw_exploration(robot, columns, floors),
        provenance={
            "seed": request.seed,
            "expedition": schema.to_data(expedition),
            "training": contract.training,
            **environment(),
        },
        command=request.command,
    )
    return concluded(request, verification)


def expedition_of(contract: Contract) -> ExplorationSetting:
    """Return the ground that a policy was trained on, with MarsExplorer's end and length of an episode.

    A policy that does not say so is tried on MarsExplorer's.
    """
    data = within(contract.training, "recipe", "task_settings", "expedition")
    if data is None:
        return ExplorationSetting()
    told = {name: value for name, value in data.items() if name not in ("steps", "enough")}
    return schema.load(ExplorationSetting, told, f"the training of {contract.name}: expedition")


def floors_of(expedition: ExplorationSetting, count: int, seed: int) -> list[FloorMap]:
    """Return floors of an expedition's kind for a robot to drive over, none of them trained on."""
    if expedition.floors is not None:
        rng = np.random.default_rng([_STREAM, seed])
        return expedition.floors.maps(rng, count, held_out=True)
    sites = expedition.held_out(_STREAM + seed, count)
    return [_floor(expedition, sites, number) for number in range(count)]


def _floor(expedition: ExplorationSetting, sites: Sites, number: int) -> FloorMap:
    """Return a grid as a floor: a box for each run of occupied cells in a row, and walls around."""
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


def _on_grids(
    request: Request, expedition: ExplorationSetting, sites: Sites, planners: list[str]
) -> tuple[ExplorationRecord, dict[str, ExplorationRecord]]:
    def seen(name: str, explorer: Driver) -> ExplorationRecord:
        explored = explore(explorer, expedition, sites, name=name)
        if (told := request.shown(BATCH if name == request.loaded.contract.name else f"{BATCH}: {name}")) is not None:
            told(len(sites), len(sites))
        return explored.normalized()

    mine = seen(request.loaded.contract.name, request.loaded)
    return mine, {who: seen(who, GridFrontier(ON_GRIDS[who])) for who in planners}


VERIFIER = verify_exploration
