"""Drives in process, shared out over processes: each makes its driver anew from what names it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.bringup.parallel import OnProgress, in_processes, workers_for
from rlstack.control.navigation import PLANNERS
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.policies import load_policy
from rlstack.verification.courses import Course
from rlstack.verification.drive import drive
from rlstack.verification.flock import BATCH
from rlstack.verification.records import NavigationRecord

TOGETHER, TOGETHER_PLANNED = 250, 25
"""Robots in the batch simulator at once, of a policy and of a planner: they go on until the last of them has ended."""

LEAST, LEAST_IN_ENGINES = 50, 10
"""Ways that a further process is worth, in the batch simulator and in an engine."""


def drive_in_parallel(
    driver: str | Path,
    course: Course,
    robot: WheeledBase,
    simulator: str,
    *,
    name: str,
    rate_hz: float,
    arrival_m: float,
    policy: str | Path = "",
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> NavigationRecord:
    """Drive a course in process, in as many processes as are worth it; how many does not change what is driven.

    Args:
        driver: A policy file, or the name of a planner.
        course: N ways.
        robot: What drives.
        simulator: ``batch`` or a backend with an engine.
        name: Of the driver, for reports.
        rate_hz: Control rate.
        arrival_m: Nearer to the goal than this is there.
        policy: The policy file that the planner leads; empty: it drives by itself.
        options: More of the planner's.
        seed: Of the sensors' noise.
        workers: How many processes; None takes what is worth it on this machine.
        on_progress: Called with the ways driven and their total.

    Raises:
        UserError: The driver or the simulator is unknown or does not fit.
    """
    batched = simulator == BATCH
    together = 1 if not batched else TOGETHER if isinstance(driver, Path) else TOGETHER_PLANNED
    if workers is None:
        workers = workers_for(len(course), max(together, LEAST) if batched else LEAST_IN_ENGINES)
    parts = np.array_split(np.arange(-(-len(course) // together)), workers)
    common = {
        "driver": driver,
        "planned": {**({"policy": str(policy)} if policy else {}), **(options or {})},
        "robot": robot,
        "simulator": simulator,
        "name": name,
        "rate_hz": rate_hz,
        "arrival_m": arrival_m,
        "seed": seed,
        "at_once": together,
    }
    shares: list[dict[str, Any]] = []
    for part in parts:
        if len(part):
            first = int(part[0]) * together
            shares.append(
                {**common, "course": course.take(slice(first, (int(part[-1]) + 1) * together)), "first": first}
            )
    if len(shares) == 1:
        return drive_share(**shares[0], on_progress=on_progress)
    done = in_processes(drive_share, shares, len(course), on_progress)
    return NavigationRecord.joined(done, wall_s=max(part.wall_s for part in done))


def drive_share(
    driver: str | Path,
    course: Course,
    robot: WheeledBase,
    on_progress: OnProgress | None = None,
    planned: Mapping[str, Any] | None = None,
    **options: Any,
) -> NavigationRecord:
    """Drive ways with a policy file or a planner's name and the options that it is ``planned`` with.

    The other options are of :func:`rlstack.verification.drive.drive`.
    """
    if isinstance(driver, Path):
        made = load_policy(driver, robot=robot)
    else:
        made = PLANNERS.load(driver)(robot, **(planned or {}))
    return drive(made, course, robot, on_progress=on_progress, **options)
