"""Description of a sweep as a process, for ROS 2's launch."""

from __future__ import annotations

from collections.abc import Sequence

from rlstack.bringup.node_process import Process, System


def sweep_system(
    recipe: str = "quadrotor_hover",
    *,
    vary: Sequence[str] = (),
    set: Sequence[str] = (),
    trials: int | None = None,
    seeds: int = 1,
    tests: int = 5,
    search: str = "tpe",
    population: int = 8,
    generations: int = 10,
    prune: str = "none",
    figure: str = "success",
    lower: bool = False,
    constraint: Sequence[str] = (),
    jobs: int = 0,
    ray: str = "",
    out: str = "",
    resume: str = "",
) -> System:
    """Describe what `rlstack sweep` runs, which refuses wrong options.

    Args:
        recipe: The recipe: a name or a file.
        vary: Settings and their ranges, each ``NAME=RANGE``.
        set: Recipe fields that all trainings share, each ``NAME=VALUE``.
        trials: Number of trials; None: the usual one.
        seeds: Trainings of each trial.
        tests: Trainings in the test of the best settings.
        search: ``random``, ``tpe``, ``grid``, ``pbt`` or ``pb2``.
        population: Members of a population, with the last two.
        generations: Parts of a training after which its members go on from better ones.
        prune: ``none`` or ``asha``.
        figure: What is compared.
        lower: Whether less of it is better.
        constraint: Bounds that the best one keeps, each ``FIGURE<=NUMBER``.
        jobs: Trainings at a time; 0: as many as there are processors for.
        ray: Address of a Ray cluster; empty: processes of this machine.
        out: The sweep's folder; empty: the next free one.
        resume: Folder of a sweep to go on with, whose recipe and plan count then; empty: none.
    """
    words = ["--resume", resume] if resume else [recipe]
    if not resume:
        lists = {"vary": tuple(vary), "set": tuple(set), "constraint": tuple(constraint)}
        words += [word for name, given in lists.items() if given for word in (f"--{name}", *given)]
        single = {"seeds": seeds, "tests": tests, "search": search, "prune": prune, "out": out}
        single |= {"population": population, "generations": generations, "figure": figure}
        words += [word for name, given in single.items() if given != "" for word in (f"--{name}", str(given))]
        words += ["--lower"] if lower else []
    words += [] if trials is None else ["--trials", str(trials)]
    words += ["--jobs", str(jobs)] if jobs else []
    words += ["--ray", ray] if ray else []
    sweep = Process(name="sweep", module="rlstack", arguments=("sweep", *words), why="the sweep is over", grace_s=20.0)
    return System(name="sweep", processes=(sweep,))
