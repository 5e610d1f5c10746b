"""Verification of racing on held-out tracks, beside pure pursuit of the fastest line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.maps.generate import HELD_OUT_SEEDS
from rlstack.sim.maps.tracks import Track, draw_track
from rlstack.sim.vector import BATCH
from rlstack.verification.drawing import Plot
from rlstack.verification.race_baseline import NAME
from rlstack.verification.race_plots import draw_races
from rlstack.verification.race_score import score_races
from rlstack.verification.race_trials import race
from rlstack.verification.request import Request
from rlstack.verification.schedule import Counts
from rlstack.verification.scores import Score
from rlstack.verification.task_verification import ColumnPlan, Records, TaskVerification, supporting
from rlstack.verification.training_evaluation import Evaluation
from rlstack.verification.trial_records import RaceRecord

LAPS = 2
"""Laps of each race: the first is from rest, the other is a flying lap."""

LEAST, LEAST_IN_ENGINES = 10, 2
"""Races that justify another process, in the batch simulator and in an engine."""

VALIDATION = 100_000
"""Number of held-out seeds, the last ones, that select a run's best policy; no report uses them."""

_STREAM = 0x4ACE
"""Separates the tracks from other draws with the same seed."""


class RaceVerification(TaskVerification):
    """See :class:`rlstack.verification.task_verification.TaskVerification`."""

    first = ("episodes", "success", "contact", "lap_ratio", "lap_s", "clean_laps", "speed_m_s", "clearance_least_m")
    evaluated = ("episodes", "success", "contacts", "speed_m_s")
    counts = Counts(batch=50, engines=20, topics=20)
    description = (
        "Tracks of seeds that are used neither for training or tuning nor to choose a run's best policy. Cars have the"
        " robot file's parameters and sensor noise. The baseline drives in process and knows the whole track and its"
        " pose; the policy receives only its inputs. Over topics commands pass the guard, whose protective stop brakes"
        " for walls."
    )

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        if request.drivers not in (None, (NAME,)):
            raise UserError(f"drivers: races are compared only with {NAME} on the fastest line: leave --drivers out.")
        self.robot: WheeledBase = self.task.reference(request.robot)
        self.baselines = (NAME,)
        self.trials = tracks_of(request.episodes or self.counts.batch, request.seed)

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

    def supported(self, names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the simulators that support the robot on a track."""
        return supporting(names, self.robot, self.trials[0].title)

    def process_runner(self, plan: ColumnPlan, baseline: str | None) -> tuple[Any, dict[str, Any]]:
        """Return the function that races in process, and its options."""
        batched = plan.simulator == BATCH
        return race, {
            **({"make_driver": None, "driver": None} if baseline else {}),
            "least": LEAST if batched else LEAST_IN_ENGINES,
            "batch_size": None if batched else 1,
            "rate_hz": self.request.loaded.contract.rate_hz,
            "laps": LAPS,
        }

    def topics_recorder(self) -> tuple[Any, dict[str, Any]]:
        """Return the recorder of races through the policy and guard nodes, and its options."""
        from rlstack.kinds.wheeled_base.verification_topics import RaceRecorder

        return RaceRecorder, {"laps": LAPS}

    def score(self, record: RaceRecord, baselines: Mapping[str, RaceRecord]) -> Score:
        """Return the figures of races beside the baseline's."""
        return score_races(record, baselines.get(NAME))

    def describe(self, plan: ColumnPlan, record: RaceRecord) -> str:
        """Describe the races."""
        return f"{len(record)} races of {LAPS} laps, seeds {record.seeds.min()} to {record.seeds.max()}"

    def pictures(self, records: Records, plans: Mapping[str, ColumnPlan]) -> list[Plot]:
        """Return the plots of the races."""
        races: Any = records
        return draw_races(self.robot, races)


def tracks_of(count: int, seed: int) -> list[Track]:
    """Return tracks that no run has seen, in random order."""
    rng = np.random.default_rng([_STREAM, seed])
    known = HELD_OUT_SEEDS[:-VALIDATION]
    return [draw_track(known.start + int(number)) for number in rng.choice(len(known), count, replace=False)]


VERIFICATION = RaceVerification
