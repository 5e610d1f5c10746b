"""The command `rlstack bench vla`: options and progress."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlstack.errors import UserError
from rlstack.progress import StageLines, say
from rlstack.training.libero.suite import PACKAGE as LIBERO
from rlstack.training.libero.suite import STEPS, LiberoName
from rlstack.training.metaworld.suite import SuiteName


@dataclass(frozen=True)
class BenchVla:
    """Train a vision-language-action policy on Meta-World beside published ones, or try a checkpoint on LIBERO.

    On Meta-World: demonstrations by scripted experts, supervised learning, then trials. On LIBERO: trials of --policy.
    docs/vla.md explains them. Run again with the same options, it goes on where it was interrupted. It leaves
    results.json and report.md in --out.
    """

    suite: SuiteName | LiberoName = "metaworld-mt10"
    """MT10 is the quick one of Meta-World's; published figures are of MT50."""
    policy: str = ""
    """LIBERO: folder of a SmolVLA or OpenVLA checkpoint, fine-tuned on LIBERO's demonstrations elsewhere."""
    chunk: int = 8
    """LIBERO: actions that are executed of each plan; OpenVLA was trained for 1."""
    out: Path | None = None
    """Folder of all that is kept. Default: runs/SUITE-SEED."""
    seed: int = 0
    """Meta-World: of demonstrations, learning and the layouts of trials."""
    demonstrations: int = 50
    """Meta-World: of each task."""
    stray: float = 0.2
    """Meta-World: deviation of the noise on what experts do in half of the chunks, and not on what they show; 0:
    none."""
    trials: int = 10
    """Of each task."""
    updates: int | None = None
    """Meta-World: supervised updates. Default: the suite's."""
    reinforce: int = 0
    """Meta-World: iterations of PPO after supervised learning, and trials after them; 0: none. May be given later."""
    episode: int = 200
    """Meta-World: longest episode of PPO, steps."""
    validation: int = 5
    """Meta-World: layouts of each task, none of them of the trials, by which the best policy of PPO is kept."""
    minutes: float | None = None
    """Meta-World: time for all but PPO, of which learning gets what demonstrations leave and a quarter is kept for
    trials. Default: as long as it takes."""
    workers: int = 1
    """Processes that simulate and render."""
    python: Path | None = None
    """Interpreter of an environment with the simulator, which needs an older MuJoCo. Default: one in the user's cache,
    made if it is missing."""

    def run(self) -> int:
        """Run the stages that are left and print the report."""
        self._check()
        from rlstack.training.command import import_torch

        import_torch()
        folder = self.out or Path("runs") / (f"{self.suite}-{self.seed}" if not self.policy else self.suite)
        report = self._libero(folder) if self.suite in STEPS else self._metaworld(folder)
        print(report.read_text(), end="")
        return 0

    def _metaworld(self, folder: Path) -> Path:
        from rlstack.training.metaworld.bench import Options, bench
        from rlstack.training.metaworld.report import REPORT
        from rlstack.training.metaworld.workers import PACKAGE

        names = ("suite", "seed", "demonstrations", "stray", "trials", "updates", "minutes")
        further = ("reinforce", "episode", "validation")
        options = Options(**{name: getattr(self, name) for name in (*names, *further)})
        bench(options, folder, self.python or PACKAGE.own_python(say=say), self.workers, StageLines())
        return folder / REPORT

    def _libero(self, folder: Path) -> Path:
        from rlstack.training.libero.bench import REPORT, Options, bench

        options = Options(**{name: getattr(self, name) for name in ("suite", "policy", "trials", "chunk")})
        bench(options, folder, self.python or LIBERO.own_python(say=say), self.workers, StageLines())
        return folder / REPORT

    def _check(self) -> None:
        """Raise ``UserError`` for a number that is not allowed."""
        if bool(self.policy) != (self.suite in STEPS):
            needs = "needs --policy, a checkpoint's folder" if self.suite in STEPS else "takes no --policy"
            raise UserError(f"--suite {self.suite} {needs}.")
        for name in ("demonstrations", "trials", "updates", "episode", "validation", "minutes", "workers", "chunk"):
            given = getattr(self, name)
            if given is not None and given <= 0:
                raise UserError(f"--{name} {given:g} is not allowed: give more than 0.")
        for name in ("seed", "stray", "reinforce"):
            if getattr(self, name) < 0:
                raise UserError(f"--{name} {getattr(self, name):g} is not allowed: give 0 or more.")
