"""CPU-seconds (user and system) of a whole training command by stage: `python benchmarks/startup.py [RECIPE]`.

Each repetition is a process of its own, as on the command line; the first may still compile kernels, the median tells
what it takes with them cached.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

STAGES = ("import", "build", "learn", "evaluate", "export", "all")


def stages(recipe: str, folder: Path) -> dict[str, float]:
    """Train ``recipe`` in this process and return CPU-seconds by stage."""
    from rlstack.training.command import import_torch, parse_recipe, report, train

    options = parse_recipe(recipe)
    import_torch()
    from rlstack.training import progress, run  # noqa: F401

    imported = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        result = train(options.recipe, folder)
        report(result, None)
    end = time.process_time()
    return {
        "import": imported,
        "build": result.setup_cpu_seconds - imported,
        "learn": result.cpu_seconds - result.evaluation_cpu_seconds,
        "evaluate": result.evaluation_cpu_seconds,
        "export": end - result.setup_cpu_seconds - result.cpu_seconds,
        "all": end,
    }


def main() -> None:
    """Print the median over the repetitions, with least and most."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", nargs="?", default="quadrotor_hover")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--once", action="store_true", help="print one repetition's stages as JSON")
    given = parser.parse_args()
    if given.once:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(stages(given.recipe, Path(folder) / "run")))
        return
    command = [sys.executable, __file__, given.recipe, "--once"]
    found = [json.loads(subprocess.check_output(command)) for _ in range(given.repetitions)]
    print(f"{'stage':<10}{'median':>8}{'least':>8}{'most':>8}   CPU-seconds of `rlstack train {given.recipe}`")
    for stage in STAGES:
        taken = [one[stage] for one in found]
        print(f"{stage:<10}{median(taken):>8.2f}{min(taken):>8.2f}{max(taken):>8.2f}")


if __name__ == "__main__":
    main()
