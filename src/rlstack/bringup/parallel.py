"""Episodes in several processes at once: in lock step over topics, one of them keeps only one processor busy."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.bringup.flight import OnProgress, fly_over_topics
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.processes import die_with_parent
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.verification.records import FlightRecord

MOST_WORKERS = 8
"""Beyond this, discovery among all the processes costs more than it brings."""

LEAST_EPISODES = 10
"""Per worker; starting three nodes takes about as long as flying a few episodes."""


Work = Callable[..., Any]
"""A function at the top of a module, which a new process can find; ``on_progress`` is among its arguments."""


def workers_for(episodes: int, least: int = LEAST_EPISODES) -> int:
    """Return how many processes are worth it on this machine, with at least so many episodes for each."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(processors, MOST_WORKERS, episodes // least))


def fly_in_parallel(
    policy: str | Path,
    scenario: Scenario,
    robot: Quadrotor,
    backend_name: str = "mujoco",
    duration_s: float = 8.0,
    *,
    robot_name: str = "",
    seed: int | None = 0,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> FlightRecord:
    """Do what :func:`fly_over_topics` does, in ``workers`` processes that each fly a share of the episodes.

    Args:
        policy: As there, like all the others.
        scenario: As there.
        robot: As there.
        backend_name: As there.
        duration_s: As there.
        robot_name: As there.
        seed: As there; the noise does not depend on the number of workers.
        workers: How many processes; None takes what is worth it on this machine.
        on_progress: As there.

    Raises:
        UserError: As there; the first worker to fail ends all.
    """
    count = workers_for(len(scenario)) if workers is None else min(workers, len(scenario))
    if count <= 1:
        return fly_over_topics(
            policy,
            scenario,
            robot,
            backend_name,
            duration_s,
            robot_name=robot_name,
            seed=seed,
            on_progress=on_progress,
        )
    shares = [
        {
            "policy": str(policy),
            "scenario": scenario.take(index),
            "robot": robot,
            "backend_name": backend_name,
            "duration_s": duration_s,
            "robot_name": robot_name,
            "seed": seed,
            "first": int(index[0]),
        }
        for index in np.array_split(np.arange(len(scenario)), count)
    ]
    parts = in_processes(fly_over_topics, shares, len(scenario), on_progress)
    return FlightRecord.joined(parts, wall_s=max(part.wall_s for part in parts))


def in_processes(
    work: Work, shares: Sequence[dict[str, Any]], total: int, on_progress: OnProgress | None = None
) -> list[Any]:
    """Return what ``work`` makes of each share, all at once, each in a process of its own.

    Args:
        work: Is called with a share's arguments and ``on_progress``.
        shares: Of the work.
        total: How many episodes there are in all.
        on_progress: Called after every episode with those done and ``total``.

    Raises:
        UserError: As ``work`` does; the first to fail ends all.
    """
    context = multiprocessing.get_context("spawn")  # ROS's threads do not survive a fork
    running: dict[Connection, Any] = {}
    try:
        for k, share in enumerate(shares):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(theirs, work, share, os.getpid()), name=f"episodes {k}")
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
    flown: dict[Connection, Any] = {}
    done = dict.fromkeys(running, 0)
    while len(flown) < len(running):
        for connection in wait([c for c in running if c not in flown]):
            assert isinstance(connection, Connection)
            try:
                kind, content = connection.recv()
            except EOFError:
                running[connection].join()
                status = running[connection].exitcode
                raise UserError(f"A process that flew episodes ended without a word (status {status}).") from None
            if kind == "error":
                raise UserError(content)
            if kind == "flown":
                flown[connection] = content
            else:
                done[connection] = content
                if on_progress is not None:
                    on_progress(sum(done.values()), total)
    return flown


def _work(connection: Connection, work: Work, share: dict[str, Any], parent: int) -> None:
    """Do a share and tell ``connection``; the pairs are kind and content."""
    die_with_parent(parent)
    _on_signals(_interrupt_once)

    def tell(done: int, count: int) -> None:
        connection.send(("progress", done))

    try:
        connection.send(("flown", work(**share, on_progress=tell)))
    except UserError as error:
        connection.send(("error", str(error)))
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # the parent has been interrupted as well
    finally:
        with suppress(KeyboardInterrupt):  # who asks for its end just now gets it
            _on_signals(signal.SIG_DFL)  # nothing is left that could be ended in better order


def _interrupt_once(number: int, frame: object) -> None:
    """End the flights and their nodes in good order; a second signal must not cut that short."""
    _on_signals(signal.SIG_IGN)
    raise KeyboardInterrupt


def _on_signals(handler: Callable[[int, Any], None] | signal.Handlers) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)
