"""The commands `rlstack doctor` and `rlstack bench`: options and entry points."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

_File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]


@dataclass(frozen=True)
class Doctor:
    """Check the installation: what is missing, what it is for, and how to install it.

    The exit status is 1 only if a core part is missing or does not work; with ``--graph``, if something is wrong with
    the running system.
    """

    json: _File = None
    """Write the findings to this file as well."""
    graph: bool = False
    """Check the running system of the ROS domain instead: who publishes and subscribes what, rates, qualities of
    service, clock, frames, ages of messages."""
    seconds: float = 3.0
    """How long ``--graph`` listens, s."""

    def run(self) -> int:
        """Check every part, or the running system, and print the table."""
        if self.graph:
            from rlstack.bringup.graph_check import examine

            graph = examine(self.seconds)
            print(graph.text())
            return 1 if graph.problems else 0
        from rlstack.bringup.doctor import diagnose
        from rlstack.files import write_json

        diagnosis = diagnose()
        print(diagnosis.table())
        if self.json is not None:
            write_json(self.json, diagnosis.as_data())
        return diagnosis.status


@dataclass(frozen=True)
class Bench:
    """Measure the speed of simulation, training and inference on this machine, and of installed peer projects.

    Takes a few minutes on one core. It trains `quadrotor_hover` twice, in a temporary folder; each part runs in its own
    process. docs/benchmarks.md explains the method and the columns.
    """

    seed: int = 0
    """Of training."""
    device: str = "cpu"
    """Device of simulation and training: cpu or cuda."""
    quick: bool = False
    """Smoke test in seconds; the figures mean nothing."""
    json: _File = None
    """Also write the figures to this file, after each part, so that Ctrl-C keeps the results so far."""

    def run(self) -> int:
        """Measure and print the table."""
        from rlstack.bringup.bench import bench
        from rlstack.bringup.bench_table import describe_bench
        from rlstack.progress import duration, say

        def on_progress(part: str, done: int, count: int, left_s: float) -> None:
            say(f"measuring {part} ({done + 1} of {count}), about {duration(left_s)} left")

        print(describe_bench(bench(**asdict(self), on_progress=on_progress)))
        return 0
