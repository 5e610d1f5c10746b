"""What a turn of the loop consists of, each by the function of its own command."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rlstack.bringup.loop.flight import Flown, fly
from rlstack.bringup.verification_check import file_sha256
from rlstack.errors import UserError
from rlstack.policies.released import find_policy, is_name, released_policies


@dataclass(frozen=True)
class Identified:
    """What an identification found, as plain data.

    Args:
        figures: As `rlstack identify --json` writes them.
        robot: The new robot file.
    """

    figures: dict[str, Any]
    robot: Path


@dataclass(frozen=True)
class Trained:
    """A fine-tuned policy.

    Args:
        policy: Its file.
        before: Figures of the policy that it started from, on the new robot file in held-out episodes.
        after: Its own.
        steps: Steps of the run.
        cpu_seconds: Of learning and evaluating.
    """

    policy: Path
    before: dict[str, float]
    after: dict[str, float]
    steps: int
    cpu_seconds: float


@dataclass(frozen=True)
class Proof:
    """The verdict of a verification.

    Args:
        passed: Whether it passed.
        sha256: Of the policy file.
        reasons: Why it did not.
        report: Its page.
    """

    passed: bool
    sha256: str
    reasons: tuple[str, ...]
    report: Path


class Stages(Protocol):
    """The stages of a turn; each raises ``UserError``, or ``KeyboardInterrupt`` for Ctrl-C."""

    def fly(self, policy: str, robot: str, bag: Path, turn: int) -> Flown:
        """Fly a proven policy and record it into a new folder."""

    def identify(self, robot: str, bags: Sequence[Path], out: Path) -> Identified:
        """Find the robot's parameters and write a new robot file and its report."""

    def train(self, origin: str, robot: Path, folder: Path) -> Trained:
        """Fine-tune for a robot file, or go on with it."""

    def prove(self, policy: Path, robot: Path) -> Proof:
        """Verify a policy, and write its record beside it."""


@dataclass(frozen=True)
class RealStages:
    """The stages as commands do them.

    Args:
        recipe: The recipe, a name or file.
        flight: Arguments of :func:`rlstack.bringup.loop.flight.fly`.
        known: Parameters that were measured otherwise, by name.
        words: More words of `rlstack train`.
        proof: Arguments of :func:`rlstack.bringup.verify.verify`.
        seed: Of the first flight; each later one has the next.
    """

    recipe: str
    flight: dict[str, Any]
    known: dict[str, float]
    words: tuple[str, ...] = ()
    proof: dict[str, Any] = field(default_factory=dict)
    seed: int = 0

    def fly(self, policy: str, robot: str, bag: Path, turn: int) -> Flown:
        """See :class:`Stages`."""
        return fly(policy, robot, bag, seed=self.seed + turn, **self.flight)

    def identify(self, robot: str, bags: Sequence[Path], out: Path) -> Identified:
        """See :class:`Stages`."""
        from rlstack.bringup.identify_command import as_data, described
        from rlstack.identification.identify import identify, read_all
        from rlstack.identification.page import gap_table, write_identification
        from rlstack.identification.robot_file import checked_out, write_robot
        from rlstack.progress import AFTER_S, StageLines
        from rlstack.robots import load_robot

        out.unlink(missing_ok=True)  # of a turn that was killed between the file and its figures
        new, spec = checked_out(out), load_robot(robot)
        found = identify(
            spec,
            read_all(spec, bags),
            self.known,
            lambda stage: print(f"  fitting {stage}", flush=True),
            on_stage=StageLines(after_s=AFTER_S),
        )
        report = new.with_suffix(".html")
        write_identification(report, new.stem, found)
        write_robot(new, robot, found, report.name)
        print(f"{described(found)}\n\n{gap_table(found.gaps)}", flush=True)
        return Identified(as_data(found), new)

    def train(self, origin: str, robot: Path, folder: Path) -> Trained:
        """See :class:`Stages`."""
        from rlstack.training import run
        from rlstack.training.command import import_torch, parse_recipe, train
        from rlstack.training.progress import ProgressDisplay
        from rlstack.training.run_files import RECIPE

        import_torch()
        if (folder / RECIPE).is_file():
            with ProgressDisplay() as shown:
                result = run.resume(folder, shown)
        else:
            shutil.rmtree(folder, ignore_errors=True)
            words = ["--from", origin, "--robot", str(robot), *self.words]
            result = train(parse_recipe(self.recipe, words, "rlstack loop").recipe, folder)
        if not result.finished:
            raise KeyboardInterrupt
        before = {name: figure for name, figure in result.evaluations[0].items() if name not in ("step", "cpu_seconds")}
        return Trained(result.policy, before, result.evaluation, result.steps, result.cpu_seconds)

    def prove(self, policy: Path, robot: Path) -> Proof:
        """See :class:`Stages`."""
        from rlstack.bringup.verification_watch import watched
        from rlstack.bringup.verify import verify

        with watched(False) as shown:
            verified = verify(policy, robot=str(robot), **self.proof, **shown)
        if verified.incomplete:
            raise KeyboardInterrupt
        print("\n" + verified.table(), flush=True)
        reasons = tuple(map(str, verified.verification.failures))
        return Proof(verified.passed, file_sha256(policy), reasons, verified.report)


def absolute_policy(policy: str) -> str:
    """Return the name of a released policy, or the whole path of a file, which is found from any folder.

    Raises:
        UserError: There is no released policy of that name.
    """
    return policy if is_name(policy) and find_policy(policy) else str(find_policy(policy).absolute())


def first_policy(recipe: str) -> str:
    """Return the released policy that a recipe made, to begin with.

    Raises:
        UserError: There is none.
    """
    if (name := Path(recipe).stem) in released_policies():
        return name
    raise UserError(
        f"Nothing is flown that is not proven, and no released policy is called {name}: train and verify one with"
        f" `rlstack fly {recipe}`, and name it with --policy."
    )
