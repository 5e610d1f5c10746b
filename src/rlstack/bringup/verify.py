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
from rlstack.evaluation.episodes import Episodes
from rlstack.evaluation.metrics import Score, score
from rlstack.evaluation.report import Verification, environment, record, write_report
from rlstack.interfaces.backend import BACKENDS
from rlstack.policies import family_departures, load_policy, robot_name
from rlstack.robots import Quadrotor, load_quadrotor
from rlstack.tasks import TASKS
from rlstack.tasks.scenario import Scenario

OnProgress = Callable[[str, int, int], None]

BATCH = "batch"
"""The batch simulator, flown in process; every other name is a backend that is flown over topics."""

EPISODES = {BATCH: 1000}
"""How many episodes are flown in a backend unless the caller says otherwise."""

EPISODES_OVER_TOPICS = 100
"""The same for every backend over topics, where one takes about ten times as long."""

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
        """Return figures and verdict for reading."""
        v = self.verification
        scores = {v.episodes[name].backend: score for name, score in v.scores.items()}
        for backend, theirs in v.baselines.items():
            scores |= {f"{who} ({backend}, baseline)": score for who, score in theirs.items()}
        columns = [{f.key: f.text(number) for f, number in s.figures()} for s in scores.values()]
        titles = {f.key: f.title for s in scores.values() for f, _ in s.figures()}
        rows = [["", *scores], *([titles[key], *(column[key] for column in columns)] for key in _SHOWN)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        lines += ["", *(f"Not passed: {reason}" for reason in self.verification.failures)]
        lines += [f"{'PASSED' if self.passed else 'FAILED'}. Report: {self.report}"]
        return "\n".join(lines)


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


def verify(
    policy: str | Path,
    *,
    backends: Sequence[str] = (BATCH, "mujoco"),
    episodes: int | None = None,
    seed: int = 1,
    robot: str = "",
    out: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> Verified:
    """Fly ``policy`` in every backend, judge it, and write the report and the record that deployment asks for.

    Args:
        policy: The policy file.
        backends: ``batch``, and simulators that are flown over topics.
        episodes: In every backend; None takes :data:`EPISODES` and :data:`EPISODES_OVER_TOPICS`.
        seed: Of the starts, disturbances and sensor noise.
        robot: A robot's name or file; empty takes the policy's, which one for a family does not have.
        out: The report's folder; None takes the policy's. The record always lies beside the policy.
        on_progress: Called with a backend's name, what is done, and the total.

    Raises:
        UserError: Anything is unknown, missing or unreadable, or the flights could not be flown to their end.
    """
    if episodes is not None and episodes < 1:
        raise UserError(f"{episodes} episodes are not allowed: fly at least 1.")
    names = list(dict.fromkeys(backends))
    if not names:
        raise UserError("No backend was given: give at least one, such as batch.")
    known = [BATCH, *BACKENDS.names()]
    for name in names:
        if name not in known:
            raise unknown_name("backend", name, known)
    path = Path(policy).expanduser()
    loaded = load_policy(path)
    flown = robot or robot_name(loaded.contract, str(policy))
    spec = load_quadrotor(flown)
    loaded = load_policy(path, robot=spec)
    digest = file_sha256(path)
    counts = {name: episodes or EPISODES.get(name, EPISODES_OVER_TOPICS) for name in names}
    task = TASKS.load(loaded.contract.task)()
    duration_s = task.criteria.duration_s
    drawn = draw(task, spec, max(counts.values()), seed)
    scenarios: dict[str, Scenario] = {}
    flights: dict[str, Episodes] = {}
    beside: dict[str, dict[str, Score]] = {}
    for name in names:
        show = _shown(on_progress, name)
        if name == BATCH:
            from rlstack.evaluation.rollout import rollout

            scenarios[name] = drawn.take(slice(0, counts[name]))
            flights[name] = rollout(loaded, scenarios[name], spec, duration_s, show, noise_seed=seed)
            classical = baselines(loaded.contract, spec)
            theirs = {n: rollout(b, scenarios[name], spec, duration_s, noise_seed=seed) for n, b in classical.items()}
            beside[name] = {who: score(flown_by, task.criteria) for who, flown_by in theirs.items()}
        else:
            scenarios[name] = drawn.take(slice(0, counts[name])).shifted(ABOVE_FLOOR)
            flights[name] = fly_in_parallel(
                path, scenarios[name], spec, name, duration_s, robot_name=flown, seed=seed, on_progress=show
            )
    typed = ["rlstack", "verify", str(policy), "--backends", ",".join(names), "--seed", str(seed)]
    typed += ["--episodes", str(episodes)] if episodes is not None else []
    typed += ["--robot", robot] if robot else []
    verification = Verification(
        contract=loaded.contract,
        sha256=digest,
        robot=spec,
        scores={name: score(flight, task.criteria) for name, flight in flights.items()},
        thresholds={name: task.thresholds if name == BATCH else task.thresholds_over_topics for name in names},
        episodes=flights,
        scenarios=scenarios,
        baselines=beside,
        reasons=tuple(family_departures(loaded.contract, spec)),
        provenance={"seed": seed, "training": loaded.contract.training, **environment()},
        command=shlex.join(typed),
    )
    report = write_report(path.parent if out is None else Path(out).expanduser(), verification)
    proof = record_path(path)
    write_json(proof, record(verification))
    return Verified(verification, report, proof)


def draw(task: Any, robot: Quadrotor, count: int, seed: int) -> Scenario:
    """Return held-out episodes of a task, under its own disturbances and those that it was not trained with."""
    scenario: Scenario = task.held_out(np.random.default_rng([_STREAM, seed]), count, robot)
    return scenario


def _shown(on_progress: OnProgress | None, name: str) -> Callable[[int, int], None] | None:
    if on_progress is None:
        return None
    return lambda done, count: on_progress(name, done, count)
