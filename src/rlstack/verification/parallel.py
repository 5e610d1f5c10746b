"""Run trials in parallel processes: an engine, or the nodes in lock step, use only one core."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol, TypeVar

import numpy as np

from rlstack.errors import UserError
from rlstack.processes import die_with_parent
from rlstack.verification.runner import Driver, OnProgress, take
from rlstack.verification.trial_records import TrialRecord

MOST_WORKERS = 8
"""Beyond this, discovery among the processes costs more than it gains."""

LEAST_TRIALS = 5
"""Per process over topics; starting three nodes takes about as long as a few trials."""

Record = TypeVar("Record", bound=TrialRecord)


class Spread(Protocol):
    """Processes elsewhere, such as on other machines, which import rlstack and see the policy's file."""

    count: int
    """How many there are."""

    def each(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Yield the number and the result of each call of a module-level function as it is done.

        Raises:
            UserError: Raised by one, which ends all; or one is lost.
        """


def workers_for(episodes: int, least: int = LEAST_TRIALS) -> int:
    """Return the number of worker processes for this machine, with at least ``least`` episodes for each."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(processors, MOST_WORKERS, episodes // least))


def run_trials(
    run: Callable[..., Record],
    trials: Any,
    *,
    make_driver: Callable[[], Driver] | None = None,
    least: int = LEAST_TRIALS,
    multiple: int = 1,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
    spread: Spread | None = None,
    **options: Any,
) -> Record:
    """Run trials in parallel processes; the records do not depend on the number of processes.

    Args:
        run: A module-level function, so that a new process can import it. Its arguments are ``trials``, ``first`` (the
            number of the first trial), ``on_progress``, the ``options`` and the ``driver``, if one is made.
        trials: N trials: a sequence, or an object with ``take(index)``.
        make_driver: Called in each process to make the driver, such as a ``partial`` of ``load_policy``.
        least: Least number of trials per process.
        multiple: Shares begin at multiples of this.
        workers: Number of processes; None chooses it for this machine.
        on_progress: Called after every trial with the number done and N.
        spread: Runs shares elsewhere; None: in processes of this machine.
        options: Further arguments, which can be pickled.

    Raises:
        UserError: Raised by ``run``; the first process to fail ends all.
    """
    count, batches = len(trials), -(-len(trials) // multiple)
    if spread is not None:
        workers = max(1, min(spread.count, count // least))
    many = workers_for(count, least) if workers is None else min(workers, batches)
    options |= {"run": run, "make_driver": make_driver}
    if many <= 1 and spread is None:
        return _run_share(**options, trials=trials, first=0, on_progress=on_progress)
    shares = []
    for part in np.array_split(np.arange(batches), many):
        if len(part):
            start, end = int(part[0]) * multiple, (int(part[-1]) + 1) * multiple
            shares.append({**options, "trials": take(trials, start, end), "first": start})
    parts: list[Record]
    parts = _in_processes(shares, count, on_progress) if spread is None else _elsewhere(spread, shares, on_progress)
    return type(parts[0]).joined(parts, max(part.wall_s for part in parts))


def _elsewhere(spread: Spread, shares: Sequence[dict[str, Any]], on_progress: OnProgress | None) -> list[Any]:
    """Run each share elsewhere; return their results."""
    found: dict[int, Any] = {}
    for number, part in spread.each(_whole_share, [(share,) for share in shares]):
        found[number] = part
        if on_progress is not None:
            on_progress(sum(len(shares[k]["trials"]) for k in found), sum(len(share["trials"]) for share in shares))
    return [found[k] for k in range(len(shares))]


def _whole_share(share: dict[str, Any]) -> Any:
    return _run_share(**share, on_progress=None)


def _run_share(run: Callable[..., Record], make_driver: Callable[[], Driver] | None, **options: Any) -> Record:
    return run(**options) if make_driver is None else run(driver=make_driver(), **options)


def _in_processes(shares: Sequence[dict[str, Any]], total: int, on_progress: OnProgress | None) -> list[Any]:
    """Run each share in a process of its own; return their results."""
    context = multiprocessing.get_context("spawn")  # ROS's threads do not survive a fork
    running: dict[Connection, Any] = {}
    try:
        for k, share in enumerate(shares):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(theirs, share, os.getpid()), name=f"episodes {k}")
            process.start()
            theirs.close()
            running[ours] = process
        done = _collect(running, total, on_progress)
    finally:
        for process in running.values():
            if process.is_alive():
                process.terminate()
        for process in running.values():
            process.join()
    return [done[connection] for connection in running]


def _collect(running: dict[Connection, Any], total: int, on_progress: OnProgress | None) -> dict[Connection, Any]:
    finished: dict[Connection, Any] = {}
    done = dict.fromkeys(running, 0)
    while len(finished) < len(running):
        for connection in wait([c for c in running if c not in finished]):
            assert isinstance(connection, Connection)
            try:
                kind, content = connection.recv()
            except EOFError:
                running[connection].join()
                status = running[connection].exitcode
                raise UserError(f"A worker process exited unexpectedly (status {status}).") from None
            if kind == "error":
                raise UserError(content)
            if kind == "done":
                finished[connection] = content
            else:
                done[connection] = content
                if on_progress is not None:
                    on_progress(sum(done.values()), total)
    return finished


def _work(connection: Connection, share: dict[str, Any], parent: int) -> None:
    """Run a share and report to ``connection`` in pairs of kind and content."""
    die_with_parent(parent)
    _on_signals(_interrupt_once)

    def report(done: int, count: int) -> None:
        connection.send(("progress", done))

    try:
        connection.send(("done", _run_share(**share, on_progress=report)))
    except UserError as error:
        connection.send(("error", str(error)))
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # the parent is interrupted as well
    finally:
        with suppress(KeyboardInterrupt):  # an interrupt just now ends it
            _on_signals(signal.SIG_DFL)  # nothing is left to shut down


def _interrupt_once(number: int, frame: object) -> None:
    """Shut the trials and their nodes down cleanly; a second signal must not interrupt that."""
    _on_signals(signal.SIG_IGN)
    raise KeyboardInterrupt


def _on_signals(handler: Callable[[int, Any], None] | signal.Handlers) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)
