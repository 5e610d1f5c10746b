"""Verification of racing on held-out tracks, beside pure pursuit of the fastest line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.maps.tracks import HELD_OUT_SEEDS, Track, draw_track
from rlstack.verification.drawing import Plot
from rlstack.verification.evaluator import Evaluation
from rlstack.verification.race_baseline import NAME
from rlstack.verification.race_plots import draw_races
from rlstack.verification.race_score import score_races
from rlstack.verification.racing import race
from rlstack.verification.records import RaceRecord
from rlstack.verification.scores import Score
from rlstack.verification.task_verification import ColumnPlan, Counts, Records, Request, TaskVerification, held_by

LAPS = 2
"""Laps of each race: the first is from rest, the other is a flying lap."""

VALIDATION = 100_000
"""The last seeds of the held-out ones, which select a run's best policy; no report uses them."""

_STREAM = 0x4ACE
"""Separates the tracks from other draws with the same seed."""


class RaceVerification(TaskVerification):
    """See :class:`rlstack.verification.task_verification.TaskVerification`."""

    first = ("episodes", "success", "contact", "lap_ratio", "lap_s", "clean_laps", "speed_m_s", "clearance_least_m")
    counts = Counts(batch=50, engines=20, topics=20)
    description = (
        "Tracks of seeds that are never trained or tuned on, and by which no run's best policy is chosen. Cars are as"
        " the robot file says, their sensors' noise on. The baseline drives in process, with the whole track known and"
        " its own pose; the policy senses what it names. Over topics the guard, whose protective stop brakes for walls,"
        " is between."
    )

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        if request.drivers not in (None, (NAME,)):
            raise UserError(f"drivers: races are compared with {NAME} on the fastest line, and no other: leave it out.")
        self.robot: WheeledBase = self.task.reference(request.robot)
        self.baselines = (NAME,)
        self._seeds = tracks_of(request.episodes or self.counts.batch, request.seed)
        contract = request.loaded.contract
        self._options: dict[str, Any] = {"rate_hz": contract.rate_hz, "laps": LAPS, "seed": request.seed}

    @staticmethod
    def draw_evaluation(task: Any, robot: WheeledBase, episodes: int, seed: int) -> tuple[list[Track], Array]:
        """Return held-out tracks, and cars that depart from the file as in training."""
        rng = np.random.default_rng(seed)
        chosen = HELD_OUT_SEEDS[-VALIDATION:].start + rng.choice(VALIDATION, episodes, replace=False)
        return [draw_track(int(number)) for number in chosen], task.draw_parameters(robot, episodes, rng)

    @staticmethod
    def evaluate(policy: Any, trials: tuple[Any, Any], task: Any, robot: WheeledBase, seed: int) -> Evaluation:
        """Return the policy's results over one lap from rest, ranked by success, then by speed."""
        tracks, cars = trials
        driven = race(policy, tracks, robot, rate_hz=task.rate_hz, laps=1, parameters=cars, seed=seed)
        clean = np.isfinite(driven.lap_s[:, 0])
        success = float(clean.mean())
        speed = float((driven.length_m[clean] / driven.lap_s[clean, 0]).mean()) if clean.any() else 0.0
        contacts = int(driven.contact.sum())
        figures = {"episodes": len(clean), "success": success, "contacts": contacts, "speed_m_s": round(speed, 4)}
        return Evaluation(success, (round(success, 3), speed), figures)

    @property
    def trials(self) -> list[int]:
        """Seeds of tracks."""
        return self._seeds

    def hold(self, names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the simulators that support the robot on a track."""
        return held_by(names, self.robot, draw_track(self._seeds[0]).title)

    def run(self, plan: ColumnPlan, baseline: str | None) -> RaceRecord:
        """Run races in process."""
        from rlstack.kinds.wheeled_base.verification_run_racing import race_in_parallel

        request = self.request
        return race_in_parallel(
            request.policy if baseline is None else None,
            plan.trials,
            self.robot,
            plan.simulator,
            name=baseline or request.name,
            on_progress=request.shown(plan.name if baseline is None else f"{plan.name}: {baseline}"),
            **self._options,
        )

    def topics_runner(self) -> tuple[Any, dict[str, Any]]:
        """Return the runner of races through the policy and guard nodes."""
        from rlstack.kinds.wheeled_base.verification_run_racing import race_over_topics

        return race_over_topics, {"name": self.request.name, "laps": LAPS}

    def score(self, record: RaceRecord, baselines: Mapping[str, RaceRecord]) -> Score:
        """Return the figures of races beside the baseline's."""
        return score_races(record, baselines.get(NAME))

    def describe(self, plan: ColumnPlan, record: RaceRecord) -> str:
        """Describe the races."""
        return f"{len(record)} races of {LAPS} laps, seeds {record.seeds.min()} to {record.seeds.max()}"

    def pictures(self, records: Records, plans: Mapping[str, ColumnPlan]) -> list[Plot]:
        """Return the figures of the races."""
        races: Any = records
        return draw_races(self.robot, races)


def tracks_of(count: int, seed: int) -> list[int]:
    """Return seeds of tracks that no run has seen, in any order."""
    rng = np.random.default_rng([_STREAM, seed])
    known = HELD_OUT_SEEDS[:-VALIDATION]
    return (known.start + rng.choice(len(known), count, replace=False)).tolist()


VERIFICATION = RaceVerification
