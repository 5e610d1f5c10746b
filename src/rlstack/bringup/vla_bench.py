"""The command `rlstack bench vla`: options and progress."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rlstack.bringup.progress_lines import StageLines
from rlstack.errors import UserError


@dataclass(frozen=True)
class BenchVla:
    """Train one vision-language-action policy for all tasks of Meta-World, and compare it with published ones.

    Demonstrations by scripted experts, supervised learning, then trials; docs/vla.md explains them. Run again with the
    same options, it goes on where it was interrupted. It leaves results.json and report.md in --out.
    """

    suite: Literal["metaworld-mt10", "metaworld-mt50"] = "metaworld-mt10"
    """MT10 is the quick one; published figures are of MT50."""
    out: Path | None = None
    """Folder of all that is kept. Default: runs/SUITE-SEED."""
    seed: int = 0
    """Of demonstrations, learning and the layouts of trials."""
    demonstrations: int = 50
    """Of each task."""
    stray: float = 0.2
    """Deviation of the noise on what experts do in half of the chunks, and not on what they show; 0: none."""
    trials: int = 10
    """Of each task."""
    updates: int | None = None
    """Supervised updates. Default: the suite's."""
    reinforce: int = 0
    """Iterations of PPO after supervised learning, and trials after them; 0: none. It may be given later."""
    episode: int = 200
    """Longest episode of PPO, steps."""
    minutes: float | None = None
    """Time for all but PPO, of which learning gets what demonstrations leave and a quarter is kept for trials. Default:
    as long as it takes."""
    workers: int = 1
    """Processes that simulate and render."""
    python: Path | None = None
    """Interpreter of an environment with Meta-World, which needs an older MuJoCo. Default: one in the user's cache,
    made if it is missing."""

    def run(self) -> int:
        """Run the stages that are left and print the report."""
        self._check()
        from rlstack.training.command import import_torch

        import_torch()
        from rlstack.training.metaworld.bench import Options, bench
        from rlstack.training.metaworld.report import REPORT
        from rlstack.training.metaworld.workers import PACKAGE

        def say(text: str) -> None:
            print(text, file=sys.stderr, flush=True)

        folder = self.out or Path("runs") / f"{self.suite}-{self.seed}"
        names = ("suite", "seed", "demonstrations", "stray", "trials", "updates", "reinforce", "episode", "minutes")
        options = Options(**{name: getattr(self, name) for name in names})
        bench(options, folder, self.python or PACKAGE.own_python(say=say), self.workers, StageLines(say))
        print((folder / REPORT).read_text(), end="")
        return 0

    def _check(self) -> None:
        """Raise ``UserError`` for a number that is not allowed."""
        for name in ("demonstrations", "trials", "updates", "episode", "minutes", "workers"):
            given = getattr(self, name)
            if given is not None and given <= 0:
                raise UserError(f"--{name} {given:g} is not allowed: give more than 0.")
        for name in ("seed", "stray", "reinforce"):
            if getattr(self, name) < 0:
                raise UserError(f"--{name} {getattr(self, name):g} is not allowed: give 0 or more.")
