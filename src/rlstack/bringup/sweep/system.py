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
    prune: str = "none",
    jobs: int = 0,
    out: str = "",
    resume: str = "",
) -> System:
    """Describe what `rlstack sweep` runs; the arguments are its options (:class:`.Sweep`), which refuses wrong ones."""
    words = ["--resume", resume] if resume else [recipe]
    if not resume:
        lists = {"vary": tuple(vary), "set": tuple(set)}
        words += [word for name, given in lists.items() if given for word in (f"--{name}", *given)]
        single = {"seeds": seeds, "tests": tests, "search": search, "prune": prune, "out": out}
        words += [word for name, given in single.items() if given != "" for word in (f"--{name}", str(given))]
    words += [] if trials is None else ["--trials", str(trials)]
    words += ["--jobs", str(jobs)] if jobs else []
    sweep = Process(name="sweep", module="rlstack", arguments=("sweep", *words), why="the sweep is over", grace_s=20.0)
    return System(name="sweep", processes=(sweep,))
