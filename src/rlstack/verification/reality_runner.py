"""Run the reality grid: every axis for the policy and its baselines, in parallel processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial
from typing import Any

from rlstack.errors import UserError, unknown_name
from rlstack.policies import load_policy
from rlstack.processes import die_with_parent
from rlstack.sim.vector import BATCH
from rlstack.verification.parallel import workers_for
from rlstack.verification.reality import Axis, AxisResult, Margin, Point, Reality, find_margin, with_margins
from rlstack.verification.request import Request
from rlstack.verification.runner import take
from rlstack.verification.task_verification import MARGINS, TaskVerification
from rlstack.verification.training_evaluation import verification_of

NO_MARGINS = ("none",)
"""The request for no margins at all."""

_HELD: dict[str, TaskVerification] = {}
"""The verification of a worker process."""


class RealityGrid:
    """The reality grid of a request: its jobs, and what has been found so far.

    Args:
        request: The request; its ``margins`` select axes.
        baselines: Whether to measure baselines, too.

    Raises:
        UserError: A margin is unknown.
    """

    def __init__(self, request: Request, baselines: bool = True) -> None:
        self._request, self._jobs = request, []
        self._found: dict[tuple[str, str | None], Margin] = {}
        self.axes: tuple[Axis, ...] = ()
        """The axes to measure."""
        if request.driver:
            return
        self._verifier = verifier = _small(request)
        self._known = with_margins(verifier.axes(), getattr(verifier.task, "margins", {}))
        chosen = _chosen([axis.key for axis in self._known], request.margins)
        self.axes = tuple(axis for axis in self._known if axis.key in chosen)
        self._drivers: list[str | None] = [None, *(verifier.reality_baselines() if baselines else ())]
        self._jobs = [(axis.key, who) for who in self._drivers for axis in self.axes]

    def run(self, on_progress: Callable[[str, int, int], None] | None = None, workers: int | None = None) -> None:
        """Measure every margin; when interrupted, :meth:`result` has those found so far.

        Args:
            on_progress: Called with :data:`MARGINS`, the margins done and their number.
            workers: Number of processes; None chooses it for this machine.

        Raises:
            UserError: The trials could not be run.
        """
        if not self._jobs:
            return
        many = workers_for(len(self._jobs), 2) if workers is None else workers
        try:
            for job, margin in _run(self._request, self._verifier, self._jobs, self._drivers, many):
                self._found[job] = margin
                if on_progress is not None:
                    on_progress(MARGINS, len(self._found), len(self._jobs))
        except BrokenProcessPool:
            raise UserError("A worker process of the reality grid exited unexpectedly.") from None

    def result(self) -> Reality | None:
        """Return the margins found so far; None if the task declares no axes."""
        if self._request.driver or not self._known:
            return None
        count, fewer = _counts(self._verifier)
        found = self._found
        measured = [axis for axis in self.axes if (axis.key, None) in found]
        theirs = {axis.key: [who for who in self._drivers if who and (axis.key, who) in found] for axis in measured}
        keys = {axis.key for axis in measured}
        return Reality(
            axes=tuple(
                AxisResult(axis, found[axis.key, None], {who: found[axis.key, who] for who in theirs[axis.key]})
                for axis in measured
            ),
            simulator=BATCH,
            trials=count,
            baseline_trials=fewer,
            enough=self._verifier.enough,
            missing=tuple(one.title for one in self._known if one.required is not None and one.key not in keys),
        )


def _chosen(known: Sequence[str], margins: Sequence[str] | None) -> list[str]:
    if margins is None:
        return list(known)
    if tuple(margins) == NO_MARGINS:
        return []
    for name in margins:
        if not known:
            raise UserError(f"The margin '{name}' cannot be measured: this task has no margins. Give --margins none.")
        if name not in known:
            raise unknown_name("margin (the task's trials cannot vary it)", name, known)
    return [name for name in known if name in margins]


def _small(request: Request) -> TaskVerification:
    """Return a verification with the trials of the grid only."""
    make = verification_of(request.task, request.robot.kind)
    count = make.counts_of(request.thorough).reality
    count = count if request.episodes is None else min(count, request.episodes)
    verifier: TaskVerification = make(replace(request, episodes=count, names=(BATCH,), report=None, on_progress=None))
    return verifier


def _counts(verifier: TaskVerification) -> tuple[int, int]:
    asked, fewer = verifier.request.episodes, verifier.counts.reality_baselines
    count = min(len(verifier.trials), asked or len(verifier.trials))
    return count, count if fewer is None else min(fewer, count)


def _run(
    request: Request,
    verifier: TaskVerification,
    jobs: Sequence[tuple[str, str | None]],
    drivers: Sequence[str | None],
    workers: int,
) -> Any:
    """Yield jobs with their margins as they are done."""
    if request.spread is not None:
        sent = request.for_another_process()
        known = {
            drivers[k]: point for k, point in request.spread.each(_nominal_elsewhere, [(sent, w) for w in drivers])
        }
        for k, margin in request.spread.each(_margin_elsewhere, [(sent, key, w, known[w]) for key, w in jobs]):
            yield jobs[k], margin
        return
    if workers <= 1:
        nominal = {who: _evaluated(verifier, None, who) for who in drivers}
        for key, who in jobs:
            yield (key, who), _margin(verifier, key, who, nominal[who])
        return
    context = multiprocessing.get_context("spawn")  # ROS's threads do not survive a fork
    held = request.for_another_process(), os.getpid()
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=held)
    try:
        waiting: dict[Future[Any], Any] = {pool.submit(_nominal, who): who for who in drivers}
        known = {waiting[done]: done.result() for done in as_completed(waiting)}
        running = {pool.submit(_margin_of, key, who, known[who]): (key, who) for key, who in jobs}
        for done in as_completed(running):
            yield running[done], done.result()
    finally:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _begin(request: Request, parent: int) -> None:
    """Prepare a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    die_with_parent(parent)
    _HELD["verifier"] = _prepared(request)


def _prepared(request: Request) -> TaskVerification:
    loaded = load_policy(request.policy or "", robot=request.robot, sha256=request.sha256)
    return _small(replace(request, loaded=loaded))


def _held(request: Request) -> TaskVerification:
    """Return the verification of a request, which this process may have prepared for an earlier call."""
    key = f"{request.sha256} {request.named} {request.command}"
    if key not in _HELD:
        _HELD.clear()
        _HELD[key] = _prepared(request)
    return _HELD[key]


def _nominal_elsewhere(request: Request, who: str | None) -> Point:
    return _evaluated(_held(request), None, who)


def _margin_elsewhere(request: Request, key: str, who: str | None, nominal: Point) -> Margin:
    return _margin(_held(request), key, who, nominal)


def _nominal(who: str | None) -> Point:
    return _evaluated(_HELD["verifier"], None, who)


def _margin_of(key: str, who: str | None, nominal: Point) -> Margin:
    return _margin(_HELD["verifier"], key, who, nominal)


def _margin(verifier: TaskVerification, key: str, who: str | None, nominal: Point) -> Margin:
    axes = with_margins(verifier.axes(), getattr(verifier.task, "margins", {}))
    axis = next(one for one in axes if one.key == key)

    def evaluate(value: float) -> Point:
        return _evaluated(verifier, partial(axis.apply, value), who, value)

    refinements = verifier.refinements
    return find_margin(axis, replace(nominal, value=axis.nominal), evaluate, verifier.enough, refinements)


def _evaluated(verifier: TaskVerification, apply: Any, who: str | None, value: float = 0.0) -> Point:
    """Return the results of a driver at one value of an axis; ``apply`` None: in the nominal trials."""
    count = _counts(verifier)[who is not None]
    conditions = verifier.conditions(take(verifier.trials, 0, count))
    record = verifier.run_under(conditions if apply is None else apply(conditions), who)
    score = verifier.score(record, {})
    shown = {key: score.by_key[key] for key in verifier.reality_figures if key in score.by_key}
    data = score.to_json()
    return Point(value, float(score["success"] or 0.0), {key: data[key] for key in shown})
