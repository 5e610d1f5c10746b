"""What settings a sweep tries next: Optuna's study, kept in one file of the sweep's folder.

Trials are told in the order of their numbers, and each is drawn by a generator seeded with its number. So what is tried
depends on neither how long trials take, nor where they run, nor how often the sweep was interrupted.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rlstack.bringup.sweep.space import Range
from rlstack.errors import UserError

if TYPE_CHECKING:
    import optuna

STUDY = "study.journal"
Search = Literal["random", "tpe", "grid", "pbt", "pb2"]
Prune = Literal["none", "asha"]

_NAME = "sweep"
_REDUCTION = 3
"""Of successive halving, as ASHA's authors suggest 3 or 4 (arXiv 1810.05934)."""


class Study:
    """The trials of a sweep: drawn, running and told.

    Args:
        file: Where it is kept; one that is there goes on. Nobody else may have it open.
        ranges: What is varied.
        search: How.
        prune: How trials that do badly end early.
        lower: Whether a lower value is better.
        seed: Of what is drawn.

    Raises:
        UserError: Optuna is not installed, or a grid has a range without points.
    """

    def __init__(
        self, file: Path, ranges: Sequence[Range], search: Search, prune: Prune, lower: bool, seed: int
    ) -> None:
        self.ranges, self._search, self._seed = tuple(ranges), search, seed
        if search == "grid" and (endless := [one.path for one in ranges if not one.values]):
            raise UserError(
                f"--search grid: {', '.join(endless)} has endless values: give points, such as log:1e-4:1e-2:5."
            )
        optuna = _optuna()
        from optuna.storages.journal import JournalFileBackend

        for stale in file.parent.glob(f"{file.name}.lock*"):  # of one that was killed: the folder is locked by us
            stale.unlink(missing_ok=True)
        pruner = (
            optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=_REDUCTION)
            if prune == "asha"
            else optuna.pruners.NopPruner()
        )
        self._study = optuna.create_study(
            storage=optuna.storages.JournalStorage(JournalFileBackend(str(file))),
            study_name=_NAME,
            load_if_exists=True,
            direction="minimize" if lower else "maximize",
            pruner=pruner,
        )
        self._points = list(itertools.product(*(one.values for one in ranges))) if search == "grid" else []
        random.Random(seed).shuffle(self._points)

    @property
    def drawn(self) -> int:
        """Number of trials that were drawn so far."""
        return len(self._study.get_trials(deepcopy=False))

    @property
    def told(self) -> int:
        """Number of trials whose outcomes are known; they are the first ones."""
        return sum(trial.state.is_finished() for trial in self._study.get_trials(deepcopy=False))

    def values(self, number: int) -> dict[str, Any]:
        """Return the values of a trial by path; it is drawn if it is the next one."""
        import optuna

        self._study.sampler = self._sampler(number)
        if number == self.drawn:
            trial = self._study.ask()
        else:  # one that was drawn in part only, when the sweep was killed, is drawn to its end
            trial = optuna.trial.Trial(self._study, self._trial(number)._trial_id)
        return {one.path: _suggested(trial, one) for one in self.ranges}

    def falls_behind(self, number: int, at: int, value: float) -> bool:
        """Take a running trial's value after ``at`` evaluations, and return whether it should end there."""
        import optuna

        trial = optuna.trial.Trial(self._study, self._trial(number)._trial_id)
        trial.report(value, at)
        return trial.should_prune()

    def tell(self, number: int, value: float | None, pruned: bool = False, over: Sequence[float] = ()) -> None:
        """Take a trial's outcome.

        Args:
            number: The trial; it is :attr:`told`, the first whose outcome is not known.
            value: Its value; None if it failed.
            pruned: Whether it ended early, with the value that it had then.
            over: By how much it is beyond each constraint; 0 or less: within.
        """
        import optuna

        state = optuna.trial.TrialState
        trial = optuna.trial.Trial(self._study, self._trial(number)._trial_id)
        for k, beyond in enumerate(over):
            trial.set_constraint(f"{k}", beyond)
        if value is None:
            self._study.tell(number, state=state.FAIL)
        elif pruned:
            self._study.tell(number, state=state.PRUNED)
        else:
            self._study.tell(number, value)

    def importances(self) -> dict[str, float]:
        """Return what share of the values' differences each setting explains (PED-ANOVA); empty if too few trials."""
        import optuna

        done = [t for t in self._study.get_trials(deepcopy=False) if t.value is not None and t.state.name == "COMPLETE"]
        if len(done) < 4 or len({t.value for t in done}) < 2:
            return {}
        judge = optuna.importance.PedAnovaImportanceEvaluator()
        return dict(optuna.importance.get_param_importances(self._study, evaluator=judge))

    def _trial(self, number: int) -> optuna.trial.FrozenTrial:
        return self._study.get_trials(deepcopy=False)[number]

    def _sampler(self, number: int) -> optuna.samplers.BaseSampler:
        import optuna

        seed = (self._seed * 1_000_003 + number) % 2**32
        if self._search == "tpe":
            return optuna.samplers.TPESampler(seed=seed, multivariate=True)
        drawn = optuna.samplers.RandomSampler(seed)
        if self._search == "random":
            return drawn
        point = {one.path: value for one, value in zip(self.ranges, self._points[number])}
        return optuna.samplers.PartialFixedSampler(point, drawn)


def _optuna() -> Any:
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise UserError("A sweep needs optuna, which is not installed: pip install 'rlstack[sweep]'.") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    return optuna


def _suggested(trial: optuna.trial.Trial, one: Range) -> Any:
    if one.values:
        return trial.suggest_categorical(one.path, one.values)
    if one.whole:
        return trial.suggest_int(one.path, int(one.low), int(one.high), log=one.log)
    value = trial.suggest_float(one.path, one.low, one.high, log=one.log)
    return min(max(float(f"{value:.4g}"), one.low), one.high)  # digits that a reader can use


def best_of(values: Mapping[int, float], lower: bool) -> int | None:
    """Return the number of the best trial, the first among equals; None if there is none."""
    if not values:
        return None
    return min(values, key=lambda number: (values[number] if lower else -values[number], number))
