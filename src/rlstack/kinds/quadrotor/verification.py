"""Verification of quadrotors by flying held-out starts under disturbances, beside classical controllers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from rlstack.interfaces.kind_signals import command_of
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.kinds.quadrotor.verification_reality import flight_axes
from rlstack.policies import family_departures
from rlstack.sim.vector import BATCH
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.verification.disagreement import disagreements
from rlstack.verification.drawing import Plot
from rlstack.verification.flight_baselines import baselines
from rlstack.verification.flight_outcome import outcome
from rlstack.verification.flight_plots import draw_flights
from rlstack.verification.flight_quality import calm_flights, is_calm, quality_figures, quiet
from rlstack.verification.flight_score import score_flights
from rlstack.verification.flight_trials import rollout, rollout_together
from rlstack.verification.reality import Axis, Conditions
from rlstack.verification.recordings import record_flights, replay_flights
from rlstack.verification.request import Request
from rlstack.verification.runner import take
from rlstack.verification.scenario_description import describe_disturbances, describe_paths, describe_starts
from rlstack.verification.schedule import Counts, Seconds
from rlstack.verification.scores import Score
from rlstack.verification.task_verification import ColumnPlan, Records, TaskVerification
from rlstack.verification.training_evaluation import Evaluation
from rlstack.verification.trial_records import FlightRecord
from rlstack.view.recording import Recording, ReplayedTrial, choose

COMPARED, COMPARED_S = 16, 1.0
"""Flights whose commands are replayed in every simulator to compare them, and for how many seconds."""

RATES = ("roll rate", "pitch rate", "yaw rate", "thrust")
"""Commands of a robot with a rate loop, in order."""

CALM = f"{BATCH}, calm"
"""Column of flights without noise and disturbances."""

HIGH_UP = np.array([0.0, 0.0, 20.0])
"""m; high enough for no ground effect, whichever simulator models it."""

ABOVE_FLOOR = np.array([0.0, 0.0, 2.5])
"""m; the task has its goal at the origin, and its worst starts fall less than this before they recover."""

_STREAM = 0x5EED
"""Separates the held-out episodes from training's draws with the same seed."""


_QUICK_S = 2.0
"""How long a quick flight is judged."""


class FlightVerification(TaskVerification):
    """See :class:`rlstack.verification.task_verification.TaskVerification`."""

    first = ("episodes", "success", "within_0_1", "lost", "error_m", "rmse_m", "recover_s")
    evaluated = ("episodes", "success", "within_0_1", "lost", "error_m")
    counts = Counts(batch=1000, engines=64, topics=40, topics_elsewhere=20, baselines_in_engines=32, reality=200)
    thorough = Counts(batch=1000, engines=300, topics=100, reality=500)
    seconds = Seconds(
        batch=0.0025,
        engines=0.04,
        topics=1.2,
        baselines=0.0025,
        baselines_in_engines=0.05,
        reality=0.9,
        reality_baselines=1.1,
    )
    # of a vehicle that was just measured, and that a load brings nearer to its largest thrust: a tenth more mass, and
    # half of what comes together
    quick_margins: ClassVar[Mapping[str, float]] = {"mass_scale": 1.1, "motor_lag_scale": 1.5, "together": 0.5}
    description = (
        "Distance is between the robot's centre of mass and the goal (of a path: the point that is due at that moment);"
        " a position that is not finite is infinitely far. Percentiles are taken from the sorted values without"
        " interpolation. The controllers that fly beside the policy use the parameters of the robot file. To compare"
        " simulators, the commands of some flights are replayed in each without any feedback: under 10 mm and 1 degree"
        " they agree. The cause is found by elimination: finer steps, then a term of the physics removed from both."
    )

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.no_drivers()
        assert isinstance(request.robot, Quadrotor)
        self.robot: Quadrotor = request.robot
        usual = [self.counts.batch if name == BATCH else self.counts.engines for name in request.names]
        most = max(request.episodes or max(usual), self.counts.topics)
        self.trials = self.task.held_out(np.random.default_rng([_STREAM, request.seed]), most, self.robot)
        asked = self.task.criteria
        short = min(asked.to_s, asked.from_s + _QUICK_S)
        self.criteria = replace(asked, to_s=short, duration_s=short) if request.quick else asked
        self._controllers = baselines(request.loaded.contract, self.robot)
        self.baselines = tuple(self._controllers)

    @staticmethod
    def draw_evaluation(task: Any, robot: Quadrotor, episodes: int, seed: int) -> Scenario:
        """Return held-out starts."""
        drawn: Scenario = task.validation(np.random.default_rng(seed), episodes, robot)
        return drawn

    @staticmethod
    def evaluate(policy: Any, trials: Scenario, task: Any, robot: Quadrotor, seed: int) -> Evaluation:
        """Return the policy's results in the batch simulator, ranked by success minus losses, then by closeness."""
        flown = rollout(policy, trials, robot, task.criteria.duration_s, noise_seed=seed)
        result = outcome(flown, task.criteria)
        success, lost, close = (float(share.mean()) for share in (result.success, result.lost, result.close))
        error_m = float(np.median(result.error_m))
        figures = {"episodes": len(flown), "success": success, "within_0_1": close, "lost": lost, "error_m": error_m}
        # all diverged: there is no error
        finite = {name: figure for name, figure in figures.items() if math.isfinite(figure)}
        return Evaluation(success, (round(success - lost, 3), round(close, 3), -error_m), finite)

    @staticmethod
    def describe_evaluation(task: Any, figures: Mapping[str, float]) -> str:
        """Summarize the policy's flights from held-out starts."""
        criteria = task.criteria
        sentence = (
            f"Of {figures['episodes']:.0f} held-out flights {100 * figures['success']:.1f}% stay within"
            f" {criteria.radius_m:g} m of {'the path' if getattr(task, 'path_window', ()) else 'the goal'}"
            f" from second {criteria.from_s:g} to second {criteria.to_s:g}, {100 * figures['within_0_1']:.1f}% within"
            f" 0.1 m, {100 * figures['lost']:.1f}% are lost"
        )
        if "error_m" in figures:
            sentence += f"; the median of their mean distances is {figures['error_m']:.3f} m"
        return sentence + "."

    def in_world(self, trials: Scenario, simulator: str) -> Scenario:
        """Return flights above the floor where there is one."""
        return trials if simulator == BATCH else trials.shifted(ABOVE_FLOOR)

    def columns(self, simulator: str) -> list[ColumnPlan]:
        """Return the flights in a simulator; in the batch simulator, without a path to follow, also calm ones."""
        plans = super().columns(simulator)
        if simulator == BATCH and self.trials.path is None:
            calm, bounds = calm_flights(self.robot), getattr(self.task, "bounds_calm", None)
            plans.append(ColumnPlan(name=CALM, simulator=BATCH, trials=calm, baseline_trials=calm, bounds=bounds))
        return plans

    def run(self, plan: ColumnPlan, baseline: str | None) -> FlightRecord:
        """Return flights in process."""
        shown = self.request.progress_of(plan.name if baseline is None else f"{plan.name}: {baseline}")
        return rollout(
            self.request.loaded if baseline is None else self._controllers[baseline],
            plan.trials,
            quiet(self.robot) if plan.name == CALM else self.robot,
            self.criteria.duration_s,
            shown,
            simulator=plan.simulator,
            noise_seed=self.request.seed,
        )

    def axes(self) -> Sequence[Axis]:
        """Return the axes of the reality grid."""
        return flight_axes(self.robot, self.request.loaded.contract.rate_hz)

    def run_under(self, conditions: Conditions, baseline: str | None) -> FlightRecord:
        """Return flights in the batch simulator under other conditions."""
        return rollout(
            self.request.loaded if baseline is None else self._controllers[baseline],
            conditions.trials,
            conditions.robot,
            self.criteria.duration_s,
            noise_seed=self.request.seed,
            departures=conditions.departures,
            **conditions.options,
        )

    def run_together(self, asked: Sequence[Conditions]) -> list[FlightRecord]:
        """Return flights under several conditions: those with the policy's own rate at the same time."""
        alike = [one for one in asked if one.trials.path is None and one.departures.period == 1 and not one.options]
        policy, seed = self.request.loaded, self.request.seed
        flown = rollout_together(policy, alike, self.criteria.duration_s, seed) if alike else []
        together = {id(one): record for one, record in zip(alike, flown)}
        return [together[id(one)] if id(one) in together else self.run_under(one, None) for one in asked]

    def topics_recorder(self) -> tuple[Any, dict[str, Any]]:
        """Return the recorder of flights through the policy and guard nodes, and its options."""
        from rlstack.kinds.quadrotor.verification_topics import LEAST, FlightRecorder

        return FlightRecorder, {"least": LEAST, "duration_s": self.criteria.duration_s}

    def score(self, record: FlightRecord, baselines: Mapping[str, FlightRecord]) -> Score:
        """Return the figures of flights, without a baseline."""
        score = score_flights(record, self.criteria)
        if not is_calm(record):
            return score
        return replace(score, figures=(*score.figures, *quality_figures(record, self.robot, self.criteria)))

    def beside(self, baseline: FlightRecord, plan: ColumnPlan) -> None:
        """Return no controllers: flights over topics are too few to compare."""

    def describe(self, plan: ColumnPlan, record: FlightRecord) -> str:
        """Describe the flights."""
        if plan.name == CALM:
            return f"{len(record)} flights of {record.time_s[-1]:g} s from rest, without noise or disturbances"
        return (
            f"{len(record):,} flights of {record.time_s[-1]:g} s at {record.rate_hz:g} Hz, starting"
            f" {describe_starts(plan.trials)}.{describe_paths(plan.trials)}"
        )

    def labels(self, plan: ColumnPlan) -> Mapping[str, str]:
        """Describe each disturbance."""
        return {} if plan.name == CALM else describe_disturbances(plan.trials, self.robot)

    def reasons(self) -> Sequence[str]:
        """Describe how the robot departs from the policy's family."""
        return family_departures(self.request.loaded.contract, self.robot)

    def findings(self, records: Records) -> tuple[list[str], dict[str, Any]]:
        """Replay the commands of some flights in every simulator and report how far these diverge."""
        names = [name for name in records if name in self.request.names]
        if len(names) < 2:
            return [], {"disagreements": []}
        flown: Any = records[names[0]][0]
        commands = flown.command[: round(COMPARED_S * flown.rate_hz), :COMPARED]
        commands = np.where(np.isfinite(commands), commands, self.robot.hover_command)
        some = take(self.trials, 0, commands.shape[1]).shifted(HIGH_UP)
        found = disagreements(names, self.robot, some, commands, flown.rate_hz)
        return [one.sentence() for one in found], {"disagreements": [one.to_json() for one in found]}

    def replay(self, records: Records, plans: Mapping[str, ColumnPlan]) -> list[ReplayedTrial]:
        """Return flights of the first column, beside the controllers'."""
        found: dict[str, Any] = dict(records)
        flown, beside = next(iter(found.values()))
        result = outcome(flown, self.criteria)
        return replay_flights(
            flown, beside, self.robot, self.criteria, choose(result.success, result.lost, result.error_m)
        )

    @staticmethod
    def record(policy: Any, trials: Scenario, task: Any, robot: Quadrotor, seed: int) -> list[Recording]:
        """Fly a policy in the batch simulator and return recordings."""
        flown = rollout(policy, trials, robot, task.criteria.duration_s, noise_seed=seed)
        return record_flights(flown, robot, task.criteria, range(len(flown)))

    def pictures(self, records: Records, plans: Mapping[str, ColumnPlan]) -> list[Plot]:
        """Return the plots of the flights."""
        command = command_of(self.robot)
        names, unit = (self.robot.rotor_names, command.unit) if self.robot.rate_loop is None else (RATES, "rad/s, m/s²")
        flights: dict[str, Any] = {name: record for name, (record, _) in records.items() if name != CALM}
        return draw_flights(flights, self.criteria, commands=names, unit=unit)


VERIFICATION = FlightVerification
