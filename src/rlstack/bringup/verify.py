"""Proof before flight: fly a policy where nothing can break, from starts it was not trained on, and report."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.bringup.parallel import fly_in_parallel
from rlstack.bringup.proof import file_sha256, record_path, write_json
from rlstack.errors import UserError, unknown_name
from rlstack.evaluation.baselines import baselines
from rlstack.evaluation.disagreement import Disagreement, disagreements
from rlstack.evaluation.episodes import Episodes
from rlstack.evaluation.flock import BATCH, engine_of
from rlstack.evaluation.metrics import Score, score
from rlstack.evaluation.report import OVER_TOPICS, Verification, environment, record, write_report
from rlstack.evaluation.rollout import rollout
from rlstack.evaluation.transfer import Cell, TransferTable, cell
from rlstack.interfaces.backend import BACKENDS
from rlstack.policies import family_departures, load_policy, robot_name
from rlstack.robots import Quadrotor, load_quadrotor
from rlstack.tasks import TASKS
from rlstack.tasks.criteria import Thresholds
from rlstack.tasks.scenario import Scenario

OnProgress = Callable[[str, int, int], None]

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


@dataclass(frozen=True)
class Verified:
    """A verification and where its report lies."""

    verification: Verification
    report: Path
    record: Path

    @property
    def passed(self) -> bool:
        """The verdict."""
        return self.verification.passed

    def as_data(self) -> dict[str, Any]:
        """Return what verify.json holds."""
        return record(self.verification)

    def table(self) -> str:
        """Return figures, transfer table, disagreements and verdict for reading."""
        v = self.verification
        scores = {v.episodes[name].backend: score for name, score in v.scores.items()}
        columns = [{f.key: f.text(number) for f, number in s.figures()} for s in scores.values()]
        titles = {f.key: f.title for s in scores.values() for f, _ in s.figures()}
        rows = [["", *scores], *([titles[key], *(column[key] for column in columns)] for key in _SHOWN)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        lines += ["", v.transfer.text(), *(d.sentence() for d in v.disagreements)]
        lines += ["", *(f"Not passed: {reason}" for reason in self.verification.failures)]
        lines += [f"{'PASSED' if self.passed else 'FAILED'}. Report: {self.report}"]
        return "\n".join(lines)


@dataclass(frozen=True)
class AllVerified:
    """Several policies' verifications, by policy file."""

    by_policy: dict[str, Verified]

    @property
    def passed(self) -> bool:
        """Whether all have passed."""
        return all(one.passed for one in self.by_policy.values())

    def as_data(self) -> dict[str, Any]:
        """Return what verify.json holds, for several policies by file."""
        if len(self.by_policy) == 1:
            return next(iter(self.by_policy.values())).as_data()
        data = {policy: one.as_data() for policy, one in self.by_policy.items()}
        return {"passed": self.passed, "policies": data, "transfer": self._transfer().to_json()}

    def table(self) -> str:
        """Return each one's table, and for several the one that compares them."""
        tables = [one.table() for one in self.by_policy.values()]
        if len(tables) > 1:
            tables = [f"{policy}\n{table}" for policy, table in zip(self.by_policy, tables)]
            tables.append(f"Beside each other\n{self._transfer().text()}")
        return "\n\n".join(tables)

    def _transfer(self) -> TransferTable:
        rows = {p: one.verification.transfer.cells[one.verification.contract.name] for p, one in self.by_policy.items()}
        return TransferTable(rows)


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


def simulators_at_hand() -> tuple[str, ...]:
    """Return the batch simulator and every simulator that is installed here."""
    found = [BATCH]
    for name in BACKENDS.names():
        engine = engine_of(name)
        if engine is None:
            continue
        try:
            engine.require()
        except UserError:
            continue
        found.append(name)
    return tuple(found)


def over_topics(simulator: str) -> str:
    """Return what reports and records call the flights over topics in a simulator."""
    return f"{simulator} {OVER_TOPICS}"


def verify(
    policy: str | Path,
    *,
    backends: Sequence[str] | None = None,
    topics: bool = True,
    episodes: int | None = None,
    seed: int = 1,
    robot: str = "",
    out: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> Verified:
    """Fly ``policy`` in every backend, judge it, and write the report and the record that deployment asks for.

    Args:
        policy: The policy file.
        backends: ``batch`` and other simulators; None takes those that are installed.
        topics: Fly in every simulator but ``batch`` over topics as well, through the nodes that are deployed.
        episodes: In every simulator; None takes :data:`EPISODES`, :data:`EPISODES_IN_ENGINES` and
            :data:`EPISODES_OVER_TOPICS`.
        seed: Of the starts, disturbances and sensor noise.
        robot: A robot's name or file; empty takes the policy's, which one for a family does not have.
        out: The report's folder; None takes the policy's. The record always lies beside the policy.
        on_progress: Called with a backend's name, what is done, and the total.

    Raises:
        UserError: Anything is unknown, missing or unreadable, or the flights could not be flown to their end.
    """
    if episodes is not None and episodes < 1:
        raise UserError(f"{episodes} episodes are not allowed: fly at least 1.")
    names = list(dict.fromkeys(simulators_at_hand() if backends is None else backends))
    if not names:
        raise UserError("No backend was given: give at least one, such as batch.")
    _check_simulators(names)
    path = Path(policy).expanduser()
    loaded = load_policy(path)
    flown = robot or robot_name(loaded.contract, str(policy))
    spec = load_quadrotor(flown)
    loaded = load_policy(path, robot=spec)
    digest = file_sha256(path)
    flights_of = {name: episodes or EPISODES.get(name, EPISODES_IN_ENGINES) for name in names}
    task = TASKS.load(loaded.contract.task)()
    duration_s, criteria = task.criteria.duration_s, task.criteria
    drawn = draw(task, spec, max(*flights_of.values(), EPISODES_OVER_TOPICS), seed)
    scenarios: dict[str, Scenario] = {}
    flights: dict[str, Episodes] = {}
    thresholds: dict[str, Thresholds] = {}
    beside: dict[str, dict[str, Score]] = {}
    cells: dict[str, dict[str, Cell]] = {loaded.contract.name: {}}
    classical = baselines(loaded.contract, spec)
    for name in names:
        mine = drawn.take(slice(0, flights_of[name]))
        scenarios[name] = mine if name == BATCH else mine.shifted(ABOVE_FLOOR)
        show, thresholds[name] = _shown(on_progress, name), task.thresholds
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
        show, thresholds[column] = _shown(on_progress, column), task.thresholds_over_topics
        flights[column] = fly_in_parallel(
            path, scenarios[column], spec, name, duration_s, robot_name=flown, seed=seed, on_progress=show
        )
    cells[loaded.contract.name] = {name: cell(flight, criteria) for name, flight in flights.items()}
    typed = ["rlstack", "verify", str(policy), "--backends", ",".join(names), "--seed", str(seed)]
    typed += ["--episodes", str(episodes)] if episodes is not None else []
    typed += ["--robot", robot] if robot else []
    typed += [] if topics else ["--no-topics"]
    verification = Verification(
        contract=loaded.contract,
        sha256=digest,
        robot=spec,
        scores={name: score(flight, criteria) for name, flight in flights.items()},
        thresholds=thresholds,
        episodes=flights,
        scenarios=scenarios,
        baselines=beside,
        reasons=tuple(family_departures(loaded.contract, spec)),
        transfer=TransferTable(cells),
        disagreements=compared,
        provenance={"seed": seed, "training": loaded.contract.training, **environment()},
        command=shlex.join(typed),
    )
    report = write_report(path.parent if out is None else Path(out).expanduser(), verification)
    proof = record_path(path).with_name(verification.record_name)
    write_json(proof, record(verification))
    return Verified(verification, report, proof)


def verify_all(policies: Sequence[str | Path], *, out: str | Path | None = None, **options: Any) -> AllVerified:
    """Do what :func:`verify` does for each policy; with several, each report goes to a folder of its own in ``out``.

    Raises:
        UserError: As there.
    """
    paths = [str(policy) for policy in dict.fromkeys(policies)]
    done = {}
    for number, path in enumerate(paths):
        folder = out if out is None or len(paths) == 1 else Path(out) / f"{number:02d}-{Path(path).parent.name}"
        done[path] = verify(path, out=folder, **options)
    return AllVerified(done)


def _check_simulators(names: Sequence[str]) -> None:
    """Refuse unknown simulators, and those that are not installed, before anything is flown."""
    known = [BATCH, *BACKENDS.names()]
    for name in names:
        if name not in known:
            raise unknown_name("backend", name, known)
        if name == BATCH:
            continue
        engine = engine_of(name)
        if engine is None:
            raise UserError(f"The backend '{name}' is not a simulator: a policy is verified in simulators.")
        engine.require()


def _compared(names: Sequence[str], robot: Quadrotor, drawn: Scenario, flown: Episodes) -> tuple[Disagreement, ...]:
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


def _shown(on_progress: OnProgress | None, name: str) -> Callable[[int, int], None] | None:
    if on_progress is None:
        return None
    return lambda done, count: on_progress(name, done, count)
