"""Quadrotors are verified by flying held-out starts under disturbances, beside classical controllers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlstack.bringup.parallel import run_trials
from rlstack.bringup.verified import Verified, concluded
from rlstack.bringup.verifiers import Request, over_topics
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.kinds.quadrotor.verification_run import LEAST, fly_over_topics
from rlstack.policies import family_departures
from rlstack.sim.vector import BATCH
from rlstack.tasks import TASKS
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.verification.baselines import baselines
from rlstack.verification.disagreement import Disagreement, disagreements
from rlstack.verification.metrics import Score, score
from rlstack.verification.records import FlightRecord
from rlstack.verification.report import Verification, environment, record, write_report
from rlstack.verification.rollout import rollout
from rlstack.verification.transfer import Cell, TransferTable, cell

EPISODES = {BATCH: 1000}
"""How many episodes are flown in a simulator in process unless the caller says otherwise."""

EPISODES_IN_ENGINES = 300
"""The same in process in every other simulator."""

EPISODES_OVER_TOPICS = 100
"""The same over topics, where one takes about fifty times as long."""

COMPARED, COMPARED_S = 16, 1.0
"""Flights whose commands are replayed in every simulator to see how far these disagree, and for how many seconds."""

HIGH_UP = np.array([0.0, 0.0, 20.0])
"""m; there the floor has no effect, whichever simulator has one."""

ABOVE_FLOOR = np.array([0.0, 0.0, 2.5])
"""m; the task has its goal at the origin, and its worst starts fall less than this before they are caught."""

_STREAM = 0x5EED
"""Keeps the held-out episodes apart from what training draws with the same seed."""


_SHOWN = (
    "episodes",
    "success",
    "within_0_1",
    "lost",
    "error_m",
    "rmse_m",
    "recover_s",
    "interventions",
    "latency_p50_ms",
    "latency_p99_ms",
    "wall_s",
)


def verify_quadrotor(request: Request) -> Verified:
    """Fly a policy in every simulator, judge it, and write the report and the record that deployment asks for.

    Raises:
        UserError: The flights could not be flown to their end, or what was asked for is not for quadrotors.
    """
    if request.drivers is not None:
        raise UserError("drivers: is of wheeled bases; beside a quadrotor's policy the controllers of its task fly.")
    loaded, spec, names, seed, topics = request.loaded, request.robot, request.names, request.seed, request.topics
    assert isinstance(spec, Quadrotor)
    path, episodes = request.policy, request.episodes
    flights_of = {name: episodes or EPISODES.get(name, EPISODES_IN_ENGINES) for name in names}
    task = TASKS.load(loaded.contract.task)()
    duration_s, criteria = task.criteria.duration_s, task.criteria
    drawn = draw(task, spec, max(*flights_of.values(), EPISODES_OVER_TOPICS), seed)
    scenarios: dict[str, Scenario] = {}
    flights: dict[str, FlightRecord] = {}
    bounds: dict[str, Bounds] = {}
    beside: dict[str, dict[str, Score]] = {}
    cells: dict[str, dict[str, Cell]] = {loaded.contract.name: {}}
    classical = baselines(loaded.contract, spec)
    for name in names:
        mine = drawn.take(slice(0, flights_of[name]))
        scenarios[name] = mine if name == BATCH else mine.shifted(ABOVE_FLOOR)
        show, bounds[name] = request.shown(name), task.bounds
        flights[name] = rollout(loaded, scenarios[name], spec, duration_s, show, simulator=name, noise_seed=seed)
        beside[name] = {}
        for who, controller in classical.items():
            theirs = rollout(controller, scenarios[name], spec, duration_s, simulator=name, noise_seed=seed)
            beside[name][who] = score(theirs, criteria)
            cells.setdefault(who, {})[name] = cell(theirs, criteria)
    compared = _compared(names, spec, drawn, flights[names[0]])
    for name in (name for name in names if topics and name != BATCH):
        column = over_topics(name)
        scenarios[column] = drawn.take(slice(0, episodes or EPISODES_OVER_TOPICS)).shifted(ABOVE_FLOOR)
        show, bounds[column] = request.shown(column), task.bounds_over_topics
        flights[column] = run_trials(
            fly_over_topics,
            scenarios[column],
            least=LEAST,
            on_progress=show,
            policy=path,
            robot=spec,
            backend_name=name,
            duration_s=duration_s,
            robot_name=request.named,
            seed=seed,
        )
    cells[loaded.contract.name] = {name: cell(flight, criteria) for name, flight in flights.items()}
    verification = Verification(
        contract=loaded.contract,
        sha256=request.sha256,
        robot=spec,
        scores={name: score(flight, criteria) for name, flight in flights.items()},
        bounds=bounds,
        episodes=flights,
        scenarios=scenarios,
        baselines=beside,
        reasons=tuple(family_departures(loaded.contract, spec)),
        transfer=TransferTable(cells),
        disagreements=compared,
        provenance={"seed": seed, "training": loaded.contract.training, **environment()},
        command=request.command,
    )
    return concluded(
        request,
        verification,
        write_report,
        record(verification),
        rows=_rows(verification),
        compared=[disagreement.sentence() for disagreement in compared],
    )


def _rows(v: Verification) -> list[list[str]]:
    scores = {v.episodes[name].simulator: score for name, score in v.scores.items()}
    columns = [{f.key: f.text(number) for f, number in s.figures()} for s in scores.values()]
    titles = {f.key: f.title for s in scores.values() for f, _ in s.figures()}
    return [["", *scores], *([titles[key], *(column[key] for column in columns)] for key in _SHOWN)]


def _compared(names: Sequence[str], robot: Quadrotor, drawn: Scenario, flown: FlightRecord) -> tuple[Disagreement, ...]:
    """Replay the commands of some flights in every simulator and say how far these come apart."""
    if len(names) < 2:
        return ()
    steps = round(COMPARED_S * flown.rate_hz)
    commands = flown.command[:steps, :COMPARED]
    commands = np.where(np.isfinite(commands), commands, robot.hover_speed_rad_s)
    some = drawn.take(slice(0, commands.shape[1])).shifted(HIGH_UP)
    return tuple(disagreements(names, robot, some, commands, flown.rate_hz))


def draw(task: Any, robot: Quadrotor, count: int, seed: int) -> Scenario:
    """Return held-out episodes of a task, under its own disturbances and those that it was not trained with."""
    scenario: Scenario = task.held_out(np.random.default_rng([_STREAM, seed]), count, robot)
    return scenario


VERIFIER = verify_quadrotor
