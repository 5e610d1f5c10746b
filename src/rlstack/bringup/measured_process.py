"""Run a job in a process of its own and measure its CPU time, wall time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlstack.bringup.supervisor import child_environment
from rlstack.errors import UserError

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Environment variables that limit numerical libraries to one thread."""


@dataclass(frozen=True)
class Cost:
    """Resources used by a process and its children.

    Args:
        cpu_s: User and system time of all threads, s.
        wall_s: From start to end, s.
        peak_memory_mib: Peak resident memory, MiB.
    """

    cpu_s: float
    wall_s: float
    peak_memory_mib: float


def run_measured(
    arguments: Sequence[str], what: str, variables: Mapping[str, str] | None = None, folder: str | None = None
) -> Cost:
    """Run ``python <arguments>`` on one thread, wait for it, and return its cost.

    Args:
        arguments: Command-line arguments of the interpreter.
        what: The job's name in errors.
        variables: Environment variables, in addition to this process's.
        folder: Working directory; None takes this process's.

    Raises:
        UserError: It exited with a status other than 0; the message quotes its last line.
    """
    environment = {**child_environment(os.environ), **ONE_THREAD, **(variables or {})}
    if folder is not None and environment.get("PYTHONPATH"):  # relative paths would resolve against the other folder
        paths = map(os.path.abspath, environment["PYTHONPATH"].split(os.pathsep))
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            if process.returncode is None:  # Ctrl-C here
                process.kill()
                process.wait()
        wall = time.perf_counter() - begin
        if process.returncode != 0:
            output.seek(0)
            lines = output.read().decode(errors="replace").strip().splitlines()
            last = lines[-1].removeprefix("rlstack: ") if lines else f"it ended with status {process.returncode}"
            raise UserError(f"{what} could not be measured: {last}")
    unit = 1024 if sys.platform != "darwin" else 1024 * 1024  # ru_maxrss is in KiB, on macOS in bytes
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / unit)


def measure_part(part: str, cache: Path | None = None, **options: Any) -> dict[str, Any]:
    """Run a part of :mod:`rlstack.training.benchmarks` and return its figures, with ``peak_memory_mib``.

    Args:
        part: Its name.
        cache: Folder of compiled kernels; None takes the user's.
        options: Its arguments.

    Raises:
        UserError: The measurement failed; the message says why.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        words = ["-m", "rlstack.training.benchmarks", part, json.dumps(options), str(file)]
        cost = run_measured(words, part, _cache(cache), folder)
        found: dict[str, Any] = json.loads(file.read_text())
    return {**found, "peak_memory_mib": cost.peak_memory_mib}


def measure_training(
    recipe: str, seed: int, folder: Path, options: Sequence[str] = (), cache: Path | None = None
) -> dict[str, Any]:
    """Run ``rlstack train`` and return its cost and results.

    Args:
        recipe: A recipe's name or file.
        seed: Seed of the run.
        folder: Folder of the run; it must not exist yet.
        options: Further arguments of `rlstack train`.
        cache: Folder of compiled kernels; None takes the user's.

    Returns:
        CPU-seconds ``setup_cpu_s`` (imports, kernels, environment), ``learning_cpu_s``, ``evaluation_cpu_s`` (choosing
        the best policy) and ``export_cpu_s`` (the policy file and shutdown), which add up to ``cpu_s``; ``wall_s``,
        ``peak_memory_mib``, ``steps``, the run's ``evaluations`` and its ``policy`` file.

    Raises:
        UserError: Training failed; the message says why.
    """
    figures = folder.with_name(folder.name + ".json")
    words = ["train", recipe, "--seed", str(seed), "--out", str(folder), "--json", str(figures), *options]
    cost = run_measured(["-m", "rlstack", *words], f"Training {recipe}", _cache(cache))
    trained = json.loads(figures.read_text())
    return {
        "recipe": recipe,
        "seed": seed,
        "steps": trained["steps"],
        "setup_cpu_s": trained["setup_cpu_seconds"],
        "learning_cpu_s": trained["cpu_seconds"] - trained["evaluation_cpu_seconds"],
        "evaluation_cpu_s": trained["evaluation_cpu_seconds"],
        "export_cpu_s": max(0.0, cost.cpu_s - trained["setup_cpu_seconds"] - trained["cpu_seconds"]),
        "cpu_s": cost.cpu_s,
        "wall_s": cost.wall_s,
        "peak_memory_mib": cost.peak_memory_mib,
        "evaluations": trained["evaluations"],
        "policy": trained["policy"],
    }


def _cache(folder: Path | None) -> dict[str, str]:
    return {} if folder is None else {"XDG_CACHE_HOME": str(folder)}
